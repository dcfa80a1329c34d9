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
refuse '--arg 1=2: there is more than one buffer of that name: expected buffer1, param1 (in), buffer2' \
    "$jit" run two.uop --arg 1=2 --set n=3

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

# run alone: as a kernel in a file of its own
for device in CPU interp; do
    expect 0 "$jit" run graph.uop --kernel negate --arg x=3 --device $device
    has 'y = f32[16] -3 -3 -3'
    expect 0 "$jit" run graph.uop --kernel scale --arg x=3 --set n=4 --device $device
    has 'y = f32[16] 12 12'
done
has 'kernel scale on '
refuse "has no kernel 'sum': expected scale, negate" "$jit" run graph.uop --kernel sum --arg x=3
refuse '--arg buffer0=3: kernel negate has no parameter of that name' "$jit" run graph.uop --kernel negate --arg buffer0=3

# variable sizes: arrays have the shape that the variables say; the largest does, too, where what is
# used stands at its start
linear variable.uop <<'END'
%17 = cast index (%4)
%22 = param f32 (%17) {slot=0, name="y"}
%23 = param f32 (%17) {slot=1, name="x"}
%24 = range index (%17) {axis=0, kind=global}
%25 = index f32 (%22, %24)
%26 = index f32 (%23, %24)
%27 = load f32 (%26)
%28 = mul f32 (%27, %9)
%29 = store void (%25, %28)
%60 = end void (%29, %24)
%61 = sink void (%60) {name="times_n"}
%30 = param f32 (%17) {slot=0, name="in"}
%31 = buffer f32 (%17) {slot=1}
%32 = buffer f32 (%17) {slot=2, device="CPU:1"}
%33 = copy f32 (%31) {device="CPU:1"}
%40 = call void (%61, %31, %30)
%41 = call void (%33, %32, %31)
%42 = linear void (%40, %41)
END
sed -i -E '/^%(1|2|3|5|6|7|8|10|11|12|20) = /d' variable.uop
words() { # WORD...: their bytes, the lowest first
    local w
    for w; do
        # shellcheck disable=SC2059
        printf "$(printf '\\x%02x' $((w & 255)) $((w >> 8 & 255)) $((w >> 16 & 255)) $((w >> 24)))"
    done
}
floats() { # N: 0, 1, ... N-1
    words "${f32[@]:0:$1}"
}
data() { # FILE BYTES WORD...: so many bytes of data, and these
    local file=$1 bytes=$2
    shift 2
    words "$@" >want.bin
    tail -c "$bytes" "$file" >got.bin
    [ "$(($(wc -c <"$file") % 64))" = "$bytes" ] || problem "$file has other than $bytes bytes of data"
    same want.bin got.bin
}
f32=(0 0x3f800000 0x40000000 0x40400000 0x40800000 0x40a00000 0x40c00000 0x40e00000 0x41000000 0x41100000)
for n in 3 10; do
    npy size$n.npy '<f4' "($n,)" < <(floats $n)
done
expect 0 "$jit" run variable.uop --arg in=size3.npy --set n=3 --out 1=first.npy --out 2=second.npy
same first.npy second.npy
data first.npy 12 0 0x40400000 0x40c00000
grep -aq "'shape': (3,)" first.npy || problem "the shape of an array of 3 elements: $(head -c 100 first.npy)"
expect 0 "$jit" run variable.uop --arg in=size3.npy --set n=3
has 'buffer2 = f32[3] 0 3 6'
expect 0 "$jit" run variable.uop --arg in=size10.npy --set n=3
has 'buffer2 = f32[3] 0 3 6'
expect 0 "$jit" run variable.uop --arg in=size10.npy --set n=10
has 'buffer2 = f32[10] 0 10 20 30 40 50 60 70 ...'
expect 0 "$jit" run variable.uop --arg in=2 --set n=4
has 'buffer2 = f32[4] 8 8 8 8'
refuse '--arg in=size3.npy: expected 4 elements, or the largest 10, the file has 3' \
    "$jit" run variable.uop --arg in=size3.npy --set n=4
refuse '--arg in=size3.npy: expected 10 elements, the file has 3' "$jit" run variable.uop --arg in=size3.npy --set n=10
# a variable that a call binds: the largest
sed -E 's/^%40 = .*/%43 = const i32 3\n%44 = bind i32 (%4, %43)\n%40 = call void (%61, %31, %30, %44)/' variable.uop >bound.uop
expect 0 "$jit" run bound.uop --arg in=size10.npy
has 'buffer2 = f32[10] 0 3 6 '
# rows of variable length: a largest array has other rows
linear rows.uop <<'END'
%17 = cast index (%4)
%18 = const index 2
%19 = stack index (%18, %17)
%22 = param f32 (%19) {slot=0, name="y"}
%24 = range index (%17) {axis=0, kind=global}
%21 = range index (%18) {axis=1, kind=global}
%25 = index f32 (%22, %21, %24)
%27 = load f32 (%25)
%28 = add f32 (%27, %9)
%29 = store void (%25, %28)
%60 = end void (%29, %24, %21)
%61 = sink void (%60) {name="add_n"}
%30 = buffer f32 (%19) {slot=0}
%40 = call void (%61, %30)
%42 = linear void (%40)
END
sed -i -E '/^%(1|2|3|5|6|7|8|10|11|12|20) = /d' rows.uop
npy size6.npy '<f4' '(2, 3)' < <(floats 6)
npy size20.npy '<f4' '(2, 10)' < <(floats 10; floats 10)
expect 0 "$jit" run rows.uop --arg y=size6.npy --set n=3 --out y=rows.npy
grep -aq "'shape': (2, 3)" rows.npy || problem "the shape of 2 rows of 3: $(head -c 100 rows.npy)"
data rows.npy 24 "${f32[@]:3:6}"
refuse '--arg y=size20.npy: expected 6 elements, the file has 20' "$jit" run rows.uop --arg y=size20.npy --set n=3

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
refuse '--arg y5=1: there is no buffer of that name: expected buffer1, param1 (in), buffer2' \
    "$jit" run two.uop --arg y5=1 --set n=1
refuse '--arg z=1: there is no buffer of that name: expected buffer0 (x), buffer1, buffer2 (y)' "$jit" run one.uop --arg z=1
refuse '--arg n=1: it is a variable of the calls: expected --set n=1' "$jit" run two.uop --arg in=1 --set n=2 --arg n=1
refuse '--arg n=1: it is a variable of the calls: expected --set n=1' "$jit" run two.uop --arg in=1 --arg n=1
refuse '--arg y5=1: there is no buffer of that name' "$jit" run two.uop --arg y5=1
refuse '--set in=1: it is a buffer: expected --arg in=1' "$jit" run two.uop --arg in=1 --set n=2 --set in=1
refuse '--arg param1=2: in is given twice' "$jit" run two.uop --arg in=1 --arg param1=2 --set n=1
refuse 'no call stores to it' "$jit" run two.uop --arg in=1 --set n=1 --out in=a.npy
refuse 'goes there, too' "$jit" run two.uop --arg in=1 --set n=1 --out 2=a.npy --out buffer1=a.npy
refuse '--arg param1=both.npy: expected 16 elements, the file has 32' "$jit" run two.uop --arg param1=both.npy --set n=1
refuse '--device interp is of one kernel' "$jit" run two.uop --arg in=1 --set n=1 --device interp
refuse '--global is of one kernel' "$jit" run two.uop --arg in=1 --set n=1 --global 1
refuse '--shared-bytes is of one kernel' "$jit" run two.uop --arg in=1 --set n=1 --shared-bytes 4
# one name for the list: it is cut, and says so
{
    for i in $(seq 30 129); do
        echo "%$i = buffer f32 (%1) {slot=$i}"
    done
    for i in $(seq 30 128); do
        echo "%$((i + 100)) = call void (%20, %$((i + 1)), %$i)"
    done
    echo "%300 = linear void ($(seq -s ', ' -f '%%%g' 130 228))"
} | linear many.uop
refuse 'expected buffer30 (x), buffer31, ' "$jit" run many.uop --arg z=1 --set n=1
grep -q ', \.\.\.$' err || problem "a list that is cut: $(cat err)"
linear wrong.uop <<'END'
%30 = buffer f32 (%1) {slot=0}
%40 = call void (%20, %30)
%41 = linear void (%40)
END
refuse '%40 call: 1 buffer, but its kernel takes 2' "$jit" run wrong.uop --arg x=1

# graphs called twice each, 2^40 calls in all: the tool looks at each once, to run it is refused
nested() { # LEVELS CALLS
    printf '%s\n' '%30 = buffer f32 (%1) {slot=0}' '%31 = buffer f32 (%1) {slot=1}' \
        '%90 = const i32 2' '%91 = bind i32 (%4, %90)' '%92 = call void (%20, %31, %30, %91)' \
        '%100 = linear void (%92)'
    local i at=100 calls
    for ((i = 0; i < $1; i++)); do
        echo "%$((at + 1)) = custom_function void (%$at) {name=\"graph\"}"
        echo "%$((at + 2)) = call void (%$((at + 1)))"
        calls="%$((at + 2))"
        [ "$2" = 1 ] || calls="$calls, %$((at + 2))"
        echo "%$((at + 3)) = linear void ($calls)"
        at=$((at + 3))
    done
}
nested 40 2 | linear expo.uop
for command in fmt verify 'emit --emit=linear' 'emit --emit=llvm'; do
    # shellcheck disable=SC2086
    expect 0 timeout 60 "$jit" $command expo.uop
done
refuse 'the linear makes more than 1048576 calls' timeout 60 "$jit" run expo.uop --arg x=3
nested 10 2 | linear expo.uop
expect 0 "$jit" run expo.uop --arg x=3
has 'y = f32[16] 6 6 6'
nested 3000 1 | linear nest.uop
expect 0 timeout 60 "$jit" run nest.uop --arg x=4
has 'y = f32[16] 8 8 8'

# position 0 of twice the same, 40 deep: each is looked at once
{
    printf '%s\n' '%30 = buffer f32 (%1) {slot=0}' '%31 = buffer f32 (%1) {slot=1}'
    at=31
    for ((i = 0; i < 40; i++)); do
        echo "%$((at + 1)) = mstack f32 (%$at, %$at)"
        echo "%$((at + 2)) = mselect f32 (%$((at + 1))) {index=0}"
        at=$((at + 2))
    done
    printf '%s\n' '%900 = const i32 2' '%901 = bind i32 (%4, %900)' \
        "%902 = call void (%20, %30, %$at, %901)" '%903 = linear void (%902)'
} | linear stacks.uop
expect 0 timeout 60 "$jit" run stacks.uop --arg 1=5
has 'y = f32[16] 10 10 10'
finish
