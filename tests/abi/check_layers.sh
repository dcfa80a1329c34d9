#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Who may include whom (docs/architecture.md), who may see LLVM and OpenMP, and what the library
# never calls. Prints every breach as file:line.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0
say() {
    echo "$*" >&2
    bad=1
}

# allowed FOLDER: the folders of src/ that it may include.
allowed() {
    case $1 in
    base) echo "base" ;;
    ir) echo "base ir" ;;
    schedule) echo "base ir schedule" ;;
    jit) echo "base ir jit" ;;
    cpu) echo "base ir jit cpu" ;;
    gpu) echo "base ir jit gpu" ;;
    realize) echo "base ir jit schedule realize" ;;
    *) return 1 ;;
    esac
}

# includes PATH...: file:line:target of every #include "target".
includes() {
    grep -rnoE '^ *# *include *"[^"]+"' "$@" --include='*.[ch]' --include='*.def' |
        sed -E 's/^([^:]+:[0-9]+):.*"([^"]+)"$/\1 \2/'
}

for dir in src/*/; do
    layer=$(basename "$dir")
    if ! may=$(allowed "$layer"); then
        say "src/$layer is no layer that tests/abi/check_layers.sh knows"
        continue
    fi
    while read -r place target; do
        case " $may " in
        *" ${target%%/*} "*) [ -f "src/$target" ] || say "$place: no file src/$target" ;;
        *) say "$place: $layer may not include \"$target\"" ;;
        esac
    done < <(includes "$dir" || true)
done

# Programs and the tests of the API see <tolk/...> and their own folder only.
for dir in tools bench examples tests/api tests/tool; do
    [ -d "$dir" ] || continue
    while read -r place target; do
        file=${place%%:*}
        case $(basename "$file") in standalone_*) continue ;; esac
        case $target in
        support/* | ../support/*) [[ $dir == tests/* ]] || say "$place: \"$target\" is for tests" ;;
        *) [ -f "$(dirname "$file")/$target" ] && [[ $target != *..* ]] ||
            say "$place: $dir may include <tolk/...> and its own files only, not \"$target\"" ;;
        esac
    done < <(includes "$dir" || true)
done

# Public headers stand on themselves and the C library.
grep -rnE '^ *# *include' include | grep -vE '<tolk/[a-z_]+\.h>|<(stddef|stdint|stdbool)\.h>' >&2 &&
    say "include/: only <tolk/...>, stddef, stdint and stdbool"

# in_src PATTERN MESSAGE EXCEPT: no line of src/ may match, but in files that match EXCEPT; comment
# lines do not count.
in_src() {
    local hits
    hits=$(grep -rnE "$1" src --include='*.[ch]' --include='*.def' |
        grep -vE "^($3):" | grep -vE '^[^:]+:[0-9]+: *(/?\*|//)' || true)
    [ -z "$hits" ] || say "$hits"$'\n'"  $2"
}
in_src '# *include *<llvm' 'LLVM is seen by files named llvm_* only' 'src/[a-z]+/llvm_[a-z0-9_]+\.[ch]'
in_src '<omp\.h>|# *pragma +omp' 'OpenMP is seen by src/cpu only' 'src/cpu/[a-z0-9_]+\.[ch]'
in_src '\b(secure_)?getenv *\(' 'the environment is read by base/env.c only' 'src/base/env\.c'
in_src '\b(_?exit|_Exit|quick_exit|abort|longjmp|siglongjmp|setjmp|sigsetjmp)\b *\(' \
    'the library never ends the process and never jumps' 'none'
in_src '\b(setlocale|strtod|strtof|strtold|atof|localeconv)\b *\(' \
    'numbers are read and written without the locale' 'none'
in_src '\b(malloc|calloc|realloc|strdup|strndup|asprintf)\b *\(' \
    'memory comes from the allocator of the context' 'src/base/alloc\.c'

exit $bad
