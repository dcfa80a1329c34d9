# SPDX-License-Identifier: MIT
#
# run of linears: which array goes with which buffer, what comes out, what is refused.
. "$(dirname "$0")/lib.sh"
export TOLK_CPU_DEVICES=2

cat >kernel.txt <<'END'
tolk.uop 1
%1 = const index 16
%2 = param f32 (%1) {slot=0, name="y"}
%3 = param f32 (%1) {slot=1, name="x"}
%4 = param i32 {slot=2, name="n", space=alu, min=1, max=10}
%5 = range index (%1) {axis=0, kind=global}
%6 = index f32 (%2, %5)
%7 = index f32 (%3, %5)
%8 = load f32 (%7)
%9 = cast f32 (%4)
%10 = mul f32 (%8, %9)
%11 = store void (%6, %10)
%12 = end void (%11, %5)
%20 = sink void (%12) {name="scale"}
END
linear() { # FILE: the kernel and what is on standard input
    cat kernel.txt - >"$1"
}
linear two.uop <<'END'
%30 = param f32 (%1) {slot=1, name="in"}
%31 = buffer f32 (%1) {slot=1}
%32 = buffer f32 (%1) {slot=2}
%40 = call void (%20, %31, %30)
%41 = call void (%20, %32, %31)
%42 = linear void (%40, %41)
END

# names: of the param, its number where it is no other's, in full
for name in in param1; do
    expect 0 "$jit" run two.uop --arg $name=2 --set n=3 --out buffer1=six.npy
    has '2 calls on CPU'
    has 'buffer2 = f32[16] 18 18 18'
    grep -q 'buffer1 =' out && problem 'what goes to a file, or is read again, is shown'
done
expect 0 "$jit" run two.uop --arg in=six.npy --set n=2 --out 2=end.npy
expect 0 "$jit" run two.uop --arg in=end.npy --set n=1
has 'buffer2 = f32[16] 24 24 24'
refuse 'there is more than one buffer of that name' "$jit" run two.uop --arg 1=2 --set n=3

# names of the kernel's params, where each is one buffer's
linear one.uop <<'END'
%30 = buffer f32 (%1) {slot=0}
%31 = buffer f32 (%1) {slot=1, device="CPU:1"}
%32 = buffer f32 (%1) {slot=2}
%33 = copy f32 (%32) {device="CPU:1"}
%34 = const i32 7
%35 = bind i32 (%4, %34)
%40 = call void (%20, %32, %30, %35)
%41 = call void (%33, %31, %32)
%42 = linear void (%40, %41)
END
for name in x 0 buffer0; do
    expect 0 "$jit" run one.uop --arg $name=2 --repeat 3
    has 'buffer1 = f32[16] 14 14 14'
    has 'median of 3'
done
expect 0 "$jit" run one.uop --arg x=1 --out y=y.npy --json
[ "$(wc -l <out)" = 1 ] || problem 'JSON is one line'
for key in calls compiles compile_hits compile_ms repeat; do
    has "\"$key\": "
done
[ "$(number launches)" = 1 ] || problem "launches $(number launches), expected 1"
[ "$(number copies)" = 1 ] || problem "copies $(number copies), expected 1"
expect 0 "$jit" run one.uop --arg x=y.npy
has 'buffer1 = f32[16] 49'

# several devices: part by part
linear multi.uop <<'END'
%30 = buffer f32 (%1) {slot=0, device="CPU,CPU:1"}
%31 = buffer f32 (%1) {slot=1, device="CPU,CPU:1"}
%40 = call void (%20, %31, %30)
%41 = linear void (%40)
END
expect 0 "$jit" run multi.uop --arg x=1 --set n=4 --out y=both.npy
expect 0 "$jit" run multi.uop --arg x=both.npy --set n=1
has 'y = f32[2, 16] 4 4 4'

# graphs and slices
cat >parts.uop <<'END'
tolk.uop 1
%0 = const index 32
END
sed 1d kernel.txt >>parts.uop
cat >>parts.uop <<'END'
%30 = param f32 (%0) {slot=0, name="all"}
%31 = slice f32 (%30, %1) {count=16}
%32 = buffer f32 (%1) {slot=2}
%33 = buffer f32 (%1) {slot=3}
%40 = call void (%31, %32, %30)
%41 = call void (%20, %33, %32)
%42 = linear void (%40, %41)
END
expect 0 "$jit" run parts.uop --arg all=5 --set n=2
has 'y = f32[16] 10 10'

# its kernels, one by one
cat >two_kernels.txt <<'END'
%13 = neg f32 (%8)
%14 = store void (%6, %13)
%15 = end void (%14, %5)
%21 = sink void (%15) {name="negate"}
%30 = buffer f32 (%1) {slot=0}
%31 = buffer f32 (%1) {slot=1}
%32 = buffer f32 (%1) {slot=2}
%40 = call void (%20, %31, %30)
%41 = call void (%21, %32, %31)
%42 = linear void (%40)
%43 = custom_function void (%42) {name="graph"}
%44 = call void (%43)
%45 = linear void (%44, %41)
END
linear graph.uop <two_kernels.txt
expect 0 "$jit" verify graph.uop
has 'kernel scale: '
has 'kernel negate: '
expect 0 "$jit" verify graph.uop --kernel negate
grep -q 'kernel scale: ' out && problem 'a kernel that was not asked for is verified'
expect 0 "$jit" emit graph.uop --kernel negate --emit=asm
has 'tolk_kernel_negate'
refuse 'which kernel? expected --kernel with one of scale, negate' "$jit" emit graph.uop --emit=asm
refuse "has no kernel 'sum': expected scale, negate" "$jit" emit graph.uop --emit=asm --kernel sum
expect 0 "$jit" emit graph.uop --emit=uop
"$jit" fmt graph.uop >want.txt
same want.txt out

# compiled: a file with machine code, which has to be trusted
expect 0 "$jit" emit graph.uop --emit=linear -o compiled.uop
expect 0 "$jit" run graph.uop --arg 0=1.5 --set n=4
grep ' = f32' out >want.txt
expect 0 "$jit" run compiled.uop --trusted --arg 0=1.5 --set n=4
has '0 compiled'
has '= f32[16] -6 -6 -6'
grep ' = f32' out >got.txt
same want.txt got.txt
expect 0 "$jit" fmt --trusted compiled.uop
same compiled.uop out
expect 0 "$jit" verify --trusted compiled.uop --kernel scale
for command in run fmt verify; do
    refuse 'machine code is accepted from trusted texts only' "$jit" $command compiled.uop
done
refuse 'scale.uop is sink: expected a linear of calls' "$jit" emit "$examples/scale.uop" --emit=linear
refuse 'expected no --kernel' "$jit" emit graph.uop --emit=linear --kernel scale
# damaged: never run
sed -E 's/bytes="([0-9a-f]{400})[0-9a-f]{2}/bytes="\100/' compiled.uop >damaged.uop
cmp -s compiled.uop damaged.uop && sed -E 's/bytes="([0-9a-f]{400})[0-9a-f]{2}/bytes="\111/' compiled.uop >damaged.uop
refuse 'program' "$jit" run damaged.uop --trusted --arg 0=1.5 --set n=4

# what is missing or wrong
refuse 'in is read before anything is stored to it: expected --arg in=FILE.npy' "$jit" run two.uop --set n=3
refuse 'variable n of kernel scale has no value: expected --set n=N, 1 to 10' "$jit" run two.uop --arg in=1
refuse '--set n=11: expected 1 to 10' "$jit" run two.uop --arg in=1 --set n=11
refuse '--set n=x: expected a number of dtype i32' "$jit" run two.uop --arg in=1 --set n=x
refuse 'the variable has a value already' "$jit" run two.uop --arg in=1 --set n=1 --set n=2
refuse 'no kernel has a variable of that name' "$jit" run two.uop --arg in=1 --set n=1 --set m=2
refuse 'there is no buffer of that name: expected buffer1, param1, buffer2' "$jit" run two.uop --arg y5=1 --set n=1
refuse 'is given twice' "$jit" run two.uop --arg in=1 --arg param1=2 --set n=1
refuse 'no call stores to it' "$jit" run two.uop --arg in=1 --set n=1 --out in=a.npy
refuse 'goes there, too' "$jit" run two.uop --arg in=1 --set n=1 --out 2=a.npy --out buffer1=a.npy
refuse 'expected 16 elements, the file has 32' "$jit" run two.uop --arg in=both.npy --set n=1
refuse '--device interp is of one kernel' "$jit" run two.uop --arg in=1 --set n=1 --device interp
refuse '--kernel is of one kernel' "$jit" run two.uop --arg in=1 --set n=1 --kernel scale
refuse '--shared-bytes is of one kernel' "$jit" run two.uop --arg in=1 --set n=1 --shared-bytes 4
linear wrong.uop <<'END'
%30 = buffer f32 (%1) {slot=0}
%40 = call void (%20, %30)
%41 = linear void (%40)
END
refuse '%40 call: 1 buffer, but its kernel takes 2' "$jit" run wrong.uop --arg x=1
finish
