#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Every C file is as clang-format 19 writes it. `check_format.sh --fix [FILE...]` makes it so.
# Tables (.def) are aligned by hand.
set -euo pipefail
cd "$(dirname "$0")/../.."
format=$(command -v clang-format-19) || {
    echo "clang-format-19 is not installed" >&2
    exit 77
}
if [ "${1:-}" = --fix ]; then
    shift
    if [ $# -gt 0 ]; then
        exec "$format" -i "$@"
    fi
    find src include tools tests bench examples -name '*.[ch]' -type f -print0 |
        xargs -0 -r "$format" -i
    exit
fi
find src include tools tests bench examples -name '*.[ch]' -type f -print0 |
    xargs -0 -r "$format" --dry-run 2>&1 | sed -nE 's/^([^: ]+):[0-9]+:[0-9]+: .*/\1/p' | sort -u |
    {
        bad=0
        while read -r file; do
            echo "$file: not as clang-format 19 writes it; tests/abi/check_format.sh --fix" >&2
            bad=1
        done
        exit $bad
    }
