#!/bin/bash
# SPDX-License-Identifier: MIT
#
#   check_code_hash.sh C_COMPILER CMAKE GENERATOR
#
# The hash in the keys of cached kernels follows every source that shapes code, and nothing else: a
# copy of the sources without git is configured once, then files are changed and the hash is built.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd -P)
cc=$1 cmake=$2 generator=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
say() {
    echo "$*" >&2
    bad=1
}

mkdir "$work/tree"
cd "$work/tree"
cp -r "$source"/{CMakeLists.txt,LICENSE,cmake,include,src,tools} .
quiet() { "$@" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}; }
quiet "$cmake" -S . -B "$work/build" -G "$generator" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_BUILD_TYPE=Release -DTOLK_TESTS=OFF -DTOLK_EXAMPLES=OFF
hash() {
    quiet "$cmake" --build "$work/build" --target tolk_code_hash
    sed -nE 's/.*tk_code_hash\[\] = "([0-9a-f]{64})";/\1/p' "$work/build/generated/code_hash.c"
}

first=$(hash)
[ ${#first} = 64 ] || say "no hash: \"$first\""
[ "$(hash)" = "$first" ] || say 'the hash changes though nothing has changed'
last=$first
changed() { # WHAT: the hash is a new one
    local now
    now=$(hash)
    [ "$now" != "$last" ] || say "$1: the hash stays"
    last=$now
}
for file in src/jit/llvm_emit.c src/ir/math.def src/jit/llvm_legal.def src/ir/bounds.h src/base/vec.h \
    src/cpu/cpu_detect.c include/tolk/dtype.h; do
    [ -f $file ] || say "no $file"
    cp -p $file "$work/saved"
    echo '/* another line */' >>$file
    changed "$file changed"
    cp "$work/saved" $file
    changed "$file restored"
done
[ "$last" = "$first" ] || say 'the same sources have another hash'
echo '/* a new pass */' >src/jit/pass_new.c
changed 'a new file'
mv src/jit/pass_new.c src/jit/pass_newer.c
changed 'a renamed file'
rm src/jit/pass_newer.c
changed 'a removed file'
[ "$last" = "$first" ] || say 'the same sources have another hash'
echo '/* another line */' >>tools/main.c
[ "$(hash)" = "$first" ] || say 'a source of the tool changes the hash'

# Another folder and another kind of build: the same code.
mv "$work/tree" "$work/elsewhere"
cd "$work/elsewhere"
rm -rf "$work/build"
quiet "$cmake" -S . -B "$work/build" -G "$generator" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_BUILD_TYPE=Debug -DTOLK_TESTS=OFF -DTOLK_EXAMPLES=OFF
[ "$(hash)" = "$first" ] || say 'a debug build in another folder has another hash'
exit $bad
