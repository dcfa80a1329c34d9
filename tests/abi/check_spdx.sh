#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Every source file names its licence in its first two lines.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0 n=0
while IFS= read -r -d '' file; do
    n=$((n + 1))
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT' || {
        echo "$file: no line 'SPDX-License-Identifier: MIT' at its top" >&2
        bad=1
    }
done < <(find CMakeLists.txt build.sh .ci cmake src include tools tests bench examples \
    -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' \
    -o -name '*.in' -o -name CMakeLists.txt -o -path '.ci/*' \) ! -path '*/corpus/*' \
    ! -name 'tolk.pc.in' -print0)
echo "$n files"
exit $bad
