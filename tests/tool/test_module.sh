# SPDX-License-Identifier: MIT
#
# libtolk-llvm.so: opened by the first compilation that no cache answers and by nothing else; one that
# is missing or belongs to another build is an error that says so.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache
unset TOLK_CPU

lib=$(ldd "$jit" | awk '$1 ~ /^libtolk\.so/ {print $3}')
module=$(dirname "$(readlink -f "$lib")")/libtolk-llvm.so
[ -f "$module" ] || problem "no $module"
mkdir lib
cp -L "$lib" "lib/$(basename "$lib")"
export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run() { # TEXT: of the output
    expect 0 "$jit" run "$examples/scale.uop" --arg x=2
    has "$1"
    has "y = f32[1024] 6 6"
}

# No module: what needs none works, a compilation says what is missing.
expect 0 "$jit" version
expect 0 "$jit" run "$examples/scale.uop" --arg x=2 --device interp
fail "libtolk-llvm.so" "$jit" run "$examples/scale.uop" --arg x=2

# One that is no module, and one of another build: its hash is another one.
cp -L "$lib" lib/libtolk-llvm.so
fail "belongs to another build" "$jit" run "$examples/scale.uop" --arg x=2
echo "no library" >lib/libtolk-llvm.so
fail "libtolk-llvm.so" "$jit" run "$examples/scale.uop" --arg x=2
hash=$(sed -nE 's/.*tk_code_hash\[\] = "([0-9a-f]{64})";/\1/p' "$TOLK_TEST_BUILD/generated/code_hash.c")
[ ${#hash} = 64 ] || problem 'no hash in generated/code_hash.c'
case $hash in f*) other=e${hash:1} ;; *) other=f${hash:1} ;; esac
LC_ALL=C sed "s/$hash/$other/" "$module" >lib/libtolk-llvm.so
fail "belongs to another build" "$jit" run "$examples/scale.uop" --arg x=2

# The right one, beside the library: the kernel is compiled; then it comes from disk, without it.
cp "$module" lib/libtolk-llvm.so
run "cache: none"
rm lib/libtolk-llvm.so
run "cache: disk"

# And then LLVM is not even looked for.
if command -v strace >/dev/null; then
    cp "$module" lib/libtolk-llvm.so
    ASAN_OPTIONS=detect_leaks=0 expect 0 strace -f -e trace=open,openat -o trace "$jit" run "$examples/scale.uop" --arg x=2
    has "cache: disk"
    ! grep -qE 'libLLVM|libtolk-llvm' trace ||
        problem "a warm start looks for LLVM: $(grep -E 'libLLVM|libtolk-llvm' trace | head -n 1)"
fi
finish
