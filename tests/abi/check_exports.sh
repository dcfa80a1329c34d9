#!/bin/bash
# SPDX-License-Identifier: MIT
#
#   check_exports.sh [--bless] LIBTOLK.SO LIBTOLK-LLVM.SO
#
# The symbols of libtolk.so are those of exports.txt, and those are what include/tolk declares.
# libtolk-llvm.so has two, and libtolk.so does not need LLVM.
# --bless writes exports.txt anew: do that when the API is meant to change.
set -euo pipefail
export LC_ALL=C
list=$(cd "$(dirname "$0")" && pwd)/exports.txt
include=$(cd "$(dirname "$0")/../../include/tolk" && pwd)
bless=no
if [ "$1" = --bless ]; then
    bless=yes
    shift
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "$1" | awk '{print $NF}' | sort -u >"$work/have"

# Declared functions: what the preprocessor leaves with default visibility, one declaration a line.
echo '#include <tolk/tolk.h>' | "${CC:-clang-19}" -E -P -x c -std=c11 -I"$include/.." - |
    tr '\n' ' ' | tr ';{}' '\n\n\n' | grep -F 'visibility("default")' |
    sed 's/__attribute__((visibility("default")))//g' |
    grep -oE '\btolk_[a-z0-9_]+ *\(' | sed -E 's/ *\(//' | sort -u >"$work/decl"

[ $bless = no ] || cp "$work/have" "$list"
bad=0
compare() { # file file text
    local d
    d=$(comm -23 "$1" "$2")
    [ -z "$d" ] || {
        printf '%s:\n%s\n' "$3" "$d" >&2
        bad=1
    }
}
compare "$work/have" "$list" "exported, but not in tests/abi/exports.txt"
compare "$list" "$work/have" "in tests/abi/exports.txt, but not exported"
compare "$work/decl" "$work/have" "declared in include/tolk, but not exported"
compare "$work/have" "$work/decl" "exported, but not declared in include/tolk"
nm -D --defined-only "$2" | awk '{print $NF}' | sort >"$work/module"
[ "$(cat "$work/module")" = "$(printf 'tolk_llvm_module\ntolk_llvm_opened')" ] || {
    printf 'symbols of libtolk-llvm.so, expected tolk_llvm_module, tolk_llvm_opened:\n%s\n' "$(cat "$work/module")" >&2
    bad=1
}
needed() { objdump -p "$1" | awk '$1 == "NEEDED" {print $2}'; }
if needed "$1" | grep -q LLVM; then
    echo 'LLVM is needed by libtolk.so' >&2
    bad=1
fi
echo "$(wc -l <"$work/have") symbols"
exit $bad
