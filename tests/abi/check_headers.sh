#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Every public header compiles alone, and twice, as C11, C17 and C++17, with every compiler at hand.
# CC names the C compiler of the build.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0 done=0
check() { # compiler language standard header
    printf '#include <tolk/%s>\n#include <tolk/%s>\n' "$4" "$4" |
        "$1" -x "$2" -std="$3" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude - || {
        echo "<tolk/$4> does not compile alone: $1 -std=$3" >&2
        bad=1
    }
    done=$((done + 1))
}
for path in include/tolk/*.h; do
    header=$(basename "$path")
    for cc in $(printf '%s\n' "${CC:-clang-19}" clang-19 gcc | sort -u); do
        command -v "$cc" >/dev/null || continue
        check "$cc" c c11 "$header"
        check "$cc" c c17 "$header"
    done
    for cxx in clang++-19 g++; do
        command -v "$cxx" >/dev/null || continue
        check "$cxx" c++ c++17 "$header"
    done
done
echo "$done compilations"
[ "$done" -gt 0 ]
exit $bad
