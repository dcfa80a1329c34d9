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
has '{"kernel": "scale", "device": "CPU", "target": "x86-64", "mode": "optimized kernel", "round": 1, "ok": true'

# targets by features: those without FMA have another form of the math functions
for target in native,-avx512f native,-fma native,-avx haswell,-fma; do
    shrink 37 gelu
    "$jit" verify small.uop --target $target >out 2>err
    case $? in
    0) has ' 0 differ' ;;
    1) one_line 'this machine does not have' "$target" ;;
    *) problem "$target: $(cat err)" ;;
    esac
done
refuse 'unknown CPU feature' "$jit" verify small.uop --target native,-frob
refuse 'unknown CPU name' "$jit" verify small.uop --target frob

# other inputs, other loop options, accesses out of range
shrink 100 sgemm
expect 0 "$jit" verify small.uop --seed 7 --rounds 5 --opts ''
expect 0 "$jit" verify small.uop --seed 7 --opts 'LANE:1:4'
expect 0 "$jit" verify "$examples/axpy.uop" --set n=77 --arg a=nan
expect 0 "$jit" verify "$examples/axpy.uop" --rounds 6
shrink 100 gather
expect 0 "$jit" verify small.uop
has 'accesses out of range included'

# of several kernels, each is verified; arguments go to those that have the param
cat >two.uop <<'end'
tolk.uop 1
%0 = const index 9
%1 = param f32 (%0) {slot=0, name="y"}
%2 = param f32 (%0) {slot=1, name="x"}
%3 = range index (%0) {axis=0, kind=global}
%4 = index f32 (%1, %3)
%5 = index f32 (%2, %3)
%6 = load f32 (%5)
%7 = store void (%4, %6)
%8 = end void (%7, %3)
%9 = sink void (%8) {name="copy"}
%10 = const f32 2
%11 = store void (%4, %10)
%12 = end void (%11, %3)
%13 = sink void (%12) {name="two"}
%14 = group void (%9, %13)
end
expect 0 "$jit" verify two.uop
for kernel in copy two; do
    grep -qE "^kernel $kernel: [1-9][0-9]* comparisons, 0 differ" out || problem "kernel $kernel: $(cat out)"
done
expect 0 "$jit" verify two.uop --arg x=3 --json
for kernel in copy two; do
    has "{\"kernel\": \"$kernel\", "
done
refuse '--arg z=3: none of the kernels has a parameter of that name' "$jit" verify two.uop --arg z=3
expect 0 "$jit" verify two.uop --kernel two
grep -q 'kernel copy' out && problem '--kernel: the other one is verified, too'

# what will take long is said before it begins, and lines come as they are found
[ -s err ] && problem "words about small kernels: $(cat err)"
timeout 5 "$jit" verify "$examples/mandelbrot.uop" --target x86-64 >out 2>err
[ $? = 124 ] || problem 'mandelbrot of full size took less than five seconds'
one_line 'kernel mandelbrot: the interpreter needs about' mandelbrot
grep -qE 'about [0-9]+ (minutes|hours) \(4 runs of [0-9.]+e\+09 steps\); faster: --rounds 1' err || problem "$(cat err)"
shrink 4194304 sum
"$jit" verify small.uop --target x86-64 --rounds 30 >lines 2>err &
for ((i = 0; i < 300; i++)); do
    [ -s lines ] && break
    sleep 0.1
done
kill $! 2>/dev/null || problem 'the lines of verify come at its end'
wait $! 2>/dev/null
grep -q '^same ' lines || problem 'no line of verify came before its end'

# params that the loop options' form has lost: it takes the others by their slots
cat >small.uop <<'end'
tolk.uop 1
%0 = param i32 {slot=0, name="z", space=alu}
%1 = const index 16
%2 = param i32 (%1) {slot=1, name="x"}
%3 = param i32 {slot=2, name="n", space=alu, min=7, max=7}
%4 = cast index (%3)
%5 = param i32 (%4) {slot=3, name="y"}
%6 = param i32 {slot=4, name="a", space=alu}
%7 = range index (%4) {axis=0, kind=global}
%8 = index i32 (%2, %7)
%9 = load i32 (%8)
%10 = const i32 0
%11 = mul i32 (%9, %10)
%12 = mul i32 (%0, %10)
%13 = add i32 (%11, %12)
%14 = add i32 (%13, %6)
%15 = index i32 (%5, %7)
%16 = store void (%15, %14)
%17 = end void (%16, %7)
%18 = sink void (%17) {name="k"}
end
expect 0 "$jit" verify small.uop
has ' 0 differ'
finish
