# SPDX-License-Identifier: MIT
#
# The examples, in small sizes for the interpreter, on every target that this machine runs; and a
# `verify` that can fail: NAN-09 and others are in tests/tools/test_compare.c.
. "$(dirname "$0")/lib.sh"

# sizes that are no multiple of a vector, and those of the files' own where they are small
shrink() {
    sed -e "s/const index 4194304/const index $1/; s/const index 1048576/const index $1/" \
        -e "s/const index 65536/const index $1/; s/const index 768/const index 13/" \
        -e "s/const index 1024/const index $1/; s/const index 512/const index 5/" \
        -e "s/const index 256/const index 17/; s/const index 200/const index 20/" \
        "$examples/$2.uop" >small.uop
}
for name in scale axpy gelu sum softmax sgemm gather histogram mandelbrot blur; do
    for n in 1 31 129; do
        shrink $n $name
        expect 0 "$jit" verify small.uop --rounds 1
        has ' 0 differ'
        has "kernel $name: "
    done
done
expect 0 "$jit" verify "$examples/scale.uop" --target x86-64 --json
has '"target": "x86-64", "mode": "optimized kernel", "round": 1, "ok": true'
finish
