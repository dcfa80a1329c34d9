# SPDX-License-Identifier: MIT
#
# run and fmt on real arrays: what comes out, on the interpreter and on the CPU.
. "$(dirname "$0")/lib.sh"
scale=$examples/scale.uop
axpy=$examples/axpy.uop

for device in interp CPU; do
    # a number fills a buffer; the first elements are shown
    expect 0 "$jit" run "$scale" --device $device --arg x=0x1.8p+0
    has 'y = f32[1024] 4.5 4.5 4.5 4.5 4.5 4.5 4.5 4.5 ...'

    # a chain through files
    expect 0 "$jit" run "$scale" --device $device --arg x=1 --out y=three.npy
    grep -q '^y = ' out && problem 'an output that went to a file is shown, too'
    expect 0 "$jit" run "$scale" --device $device --arg x=three.npy
    has 'y = f32[1024] 9 9 9'

    # scalars; in place; repeated runs start from the same input
    expect 0 "$jit" run "$axpy" --device $device --arg x=10 --arg y=1 --set n=5 --set a=0.5 --repeat 3
    has 'y = f32[5] 6 6 6 6 6'
    # an array may be larger than the kernel needs: the rest stays
    expect 0 "$jit" run "$axpy" --device $device --arg x=10 --arg y=three.npy --set n=2 --arg a=1
    has 'y = f32[1024] 13 13 3 3'

    # JSON
    expect 0 "$jit" run "$scale" --device $device --arg x=1 --json --repeat 4
    for key in compile_ms bytes flops gflops gbps; do
        has "\"$key\": "
    done
    has '"run_us": {"min": '
    has '"median": '
    has '"kernel": "scale"'
    [ "$(wc -l <out)" = 1 ] || problem 'JSON is one line'
    if [ $device = CPU ]; then
        [ "$(number bytes)" = 8192 ] || problem "bytes $(number bytes), expected 8192"
        [ "$(number flops)" = 1024 ] || problem "flops $(number flops), expected 1024"
    else
        has '"bytes": null'
    fi
done

# an array in a file has the shape of the param, or one dimension
shaped() { # DIMENSIONS: a kernel that adds 1 to each element of f32 x
    awk -v dims="$1" 'BEGIN {
        n = split(dims, dim, "x"); print "tolk.uop 1"
        for (i = 1; i <= n; i++) { printf "%%%d = const index %d\n", i, dim[i]; stack = stack (i > 1 ? ", %" : "%") i }
        for (i = 1; i <= n; i++) printf "%%%d = range index (%%%d) {axis=%d, kind=global}\n", 10 + i, i, i
        for (i = 1; i <= n; i++) { at = at ", %" (10 + i) }
        print "%20 = " (n == 1 ? "const index " dim[1] : "stack index (" stack ")")
        print "%21 = param f32 (%20) {slot=0, name=\"y\"}\n%22 = param f32 (%20) {slot=1, name=\"x\"}"
        print "%23 = index f32 (%21" at ")\n%24 = index f32 (%22" at ")\n%25 = load f32 (%24)\n%26 = const f32 1"
        print "%27 = add f32 (%25, %26)\n%28 = store void (%23, %27)\n%29 = end void (%28" at ")"
        print "%30 = sink void (%29) {name=\"plus\"}" }'
}
zeros() { # SHAPE COUNT
    head -c $((4 * $2)) /dev/zero | npy x.npy '<f4' "$1"
}
shaped 33x77 >shaped.uop
for shape in '(33, 77)' '(2541,)' '(33, 1, 77)' '(1, 33, 77)'; do
    zeros "$shape" 2541
    expect 0 "$jit" run shaped.uop --arg x=x.npy
    has 'y = f32[33, 77] 1 1 1'
done
zeros '(40, 77)' 3080 # more rows
expect 0 "$jit" run shaped.uop --arg x=x.npy
for shape in 77,33 33,77,2 3,11,77 40,78 2,33,77 5082,1; do
    zeros "(${shape//,/, })" $((${shape//,/*}))
    for command in run verify; do
        refuse "--arg x=x.npy: expected f32[33, 77], or one dimension of 2541 elements, the file has f32[${shape//,/, }]" \
            "$jit" $command shaped.uop --arg x=x.npy
    done
done
shaped 2541 >shaped.uop
zeros '(77, 33)' 2541 # one dimension takes any
expect 0 "$jit" run shaped.uop --arg x=x.npy
shaped 1x1 >shaped.uop
zeros '(1, 1, 1)' 1
expect 0 "$jit" run shaped.uop --arg x=x.npy

# standard input, and a name that looks like a flag
expect 0 bash -c '"$1" run - --device interp --arg x=2 <"$2"' _ "$jit" "$scale"
has 'y = f32[1024] 6'
cp "$scale" ./--odd.uop
expect 0 "$jit" run --device interp --arg x=2 -- --odd.uop

# every dtype: number in, file out, file in; sizes 0 and 1; rank 0 and 2
copy() { # DTYPE COUNT
    cat <<END
tolk.uop 1
%0 = const index $2
%1 = param $1 (%0) {slot=0, name="y"}
%2 = param $1 (%0) {slot=1, name="x"}
%3 = range index (%0) {axis=0, kind=global}
%4 = index $1 (%2, %3)
%5 = load $1 (%4)
%6 = index $1 (%1, %3)
%7 = store void (%6, %5)
%8 = end void (%7, %3)
%9 = sink void (%8) {name="copy"}
END
}
for row in bool:true:true i8:-128:-128 i16:-32768:-32768 i32:-2147483648:-2147483648 \
    i64:-9223372036854775808:-9223372036854775808 u8:255:255 u16:65535:65535 u32:4294967295:4294967295 \
    u64:18446744073709551615:18446744073709551615 f16:0.1:0.0999756 f32:0.1:0.100000001 \
    f64:0.1:0.10000000000000001 bf16:0.1:0.100098 fp8e4m3:0.1:0.101562 fp8e5m2:0.1:0.09375 \
    f32:nan:nan f32:-inf:-inf f64:1e-320:9.9998886718268301e-321; do
    IFS=: read -r dtype in text <<<"$row"
    copy $dtype 3 >copy.uop
    expect 0 "$jit" run copy.uop --device interp --arg x=$in --out y=y.npy
    expect 0 "$jit" run copy.uop --device interp --arg x=y.npy
    has "y = $dtype[3] $text $text $text"
    expect 0 "$jit" run copy.uop --arg x=y.npy --out y=z.npy
    same y.npy z.npy
done
# -nan is a NaN with the sign bit
for dtype in f16 bf16 f32 f64 fp8e4m3 fp8e5m2; do
    copy $dtype 1 >copy.uop
    expect 0 "$jit" run copy.uop --device interp --arg x=-nan --out y=minus.npy
    expect 0 "$jit" run copy.uop --device interp --arg x=nan --out y=plus.npy
    plus=$(tail -c 1 plus.npy | od -An -tu1) minus=$(tail -c 1 minus.npy | od -An -tu1)
    [ $((plus >> 7)) = 0 ] && [ $((minus)) = $((plus | 128)) ] || problem "$dtype: -nan is $minus, nan $plus"
    expect 0 "$jit" run copy.uop --device interp --arg x=minus.npy
    has "y = $dtype[1] nan"
done
copy f32 0 >empty.uop
for device in interp CPU; do
    expect 0 "$jit" run empty.uop --device $device --arg x=1 --out y=empty.npy
    expect 0 "$jit" run empty.uop --device $device --arg x=empty.npy
    has 'y = f32[0]'
done
cat >scalar.uop <<'END'
tolk.uop 1
%0 = param f32 {slot=0, name="y"}
%1 = index f32 (%0)
%2 = const f32 7
%3 = store void (%1, %2)
%4 = sink void (%3) {name="seven"}
END
for device in interp CPU; do
    expect 0 "$jit" run scalar.uop --device $device --out y=seven.npy
    grep -q "'shape': ()" seven.npy || problem 'rank 0 is written as rank 0'
    expect 0 "$jit" run scalar.uop --device $device --arg y=seven.npy
    has 'y = f32[] 7'
done

# a size that the call gives
cat >grid.uop <<'END'
tolk.uop 1
%0 = param i32 {slot=1, name="_grid_x", space=alu, min=1, max=1024}
%1 = cast index (%0)
%2 = param f32 (%1) {slot=0, name="y"}
%3 = range index (%1) {axis=0, kind=global}
%4 = cast f32 (%3)
%5 = index f32 (%2, %3)
%6 = store void (%5, %4)
%7 = end void (%6, %3)
%8 = sink void (%7) {name="count"}
END
for device in interp CPU; do
    expect 0 "$jit" run grid.uop --device $device --global 3
    has 'y = f32[3] 0 1 2'
done
refuse '_grid_x=0: expected 1 to 1024' "$jit" run grid.uop --global 0
refuse '_grid_x=2000: expected 1 to 1024' "$jit" run grid.uop --global 2000
refuse 'it has no variable _grid_y' "$jit" run grid.uop --global 3,3

# several kernels in one file
cat >two.uop <<'END'
tolk.uop 1
%0 = const index 2
%1 = param f32 (%0) {slot=0, name="y"}
%2 = const index 0
%3 = index f32 (%1, %2)
%4 = const f32 1
%5 = store void (%3, %4)
%6 = sink void (%5) {name="one"}
%7 = const f32 2
%8 = store void (%3, %7)
%9 = sink void (%8) {name="two"}
%10 = group void (%6, %9)
END
expect 0 "$jit" run two.uop --device interp --kernel two
has 'y = f32[2] 2 0'
expect 0 "$jit" run two.uop --kernel one
has 'y = f32[2] 1 0'
refuse 'which kernel? expected --kernel with one of one, two' "$jit" run two.uop
refuse "no kernel 'three': expected one, two" "$jit" run two.uop --kernel three

# an access out of range is a failure of the work, and says where
npy ids.npy '<i4' '(1048576,)' < <(head -c 4194304 /dev/zero | tr '\0' '\177')
for device in interp CPU; do
    fail '"table"' "$jit" run "$examples/gather.uop" --device $device --arg table=1 --arg ids=ids.npy
done
expect 0 "$jit" run "$examples/gather.uop" --arg table=1.5 --arg ids=4095
has 'y = f32[1048576] 1.5 1.5'

# fmt: a fixed point; -i, --check
for file in "$examples"/*.uop; do
    expect 0 "$jit" fmt "$file"
    cp out once.uop
    expect 0 "$jit" fmt once.uop
    same out once.uop
    expect 0 "$jit" fmt --check once.uop
done
cp "$scale" mine.uop
chmod 640 mine.uop
expect 1 "$jit" fmt --check mine.uop
cp mine.uop before.uop
refuse 'mine.uop:2: fmt -i would delete the comments' "$jit" fmt -i mine.uop
same mine.uop before.uop
refuse '--drop-comments without -i' "$jit" fmt --drop-comments mine.uop
expect 0 "$jit" fmt -i --drop-comments mine.uop
expect 0 "$jit" fmt --check mine.uop
[ "$(stat -c %a mine.uop)" = 640 ] || problem 'fmt -i keeps the mode of the file'
# a ";" in a string begins no comment; one in the header does
semicolons() { # HEADER
    printf '%s\n\n%%7 = param f32 {slot=0, name="a\\";b"}\n%%8 = index f32 (%%7)\n' "$1"
    printf '%%9 = store void (%%8, %%5)\n%%6 = sink void (%%9) {name="; k"}\n'
}
semicolons 'tolk.uop 1' | sed '2s/.*/%5 = const f32 1/' >string.uop
expect 0 "$jit" fmt -i string.uop
expect 0 "$jit" fmt --check string.uop
semicolons 'tolk.uop 1; why' | sed '2s/.*/%5 = const f32 1/' >string.uop
refuse 'string.uop:1: fmt -i would delete' "$jit" fmt -i string.uop
# of several files, those that can be formatted are
cp "$scale" mine.uop
semicolons 'tolk.uop 1' | sed '2s/.*/%5 = const f32 1/' >string.uop
expect 2 "$jit" fmt -i mine.uop string.uop
same mine.uop "$scale"
expect 0 "$jit" fmt --check string.uop
echo broken >broken.uop
cp broken.uop before.uop
refuse 'broken.uop:1:' "$jit" fmt -i broken.uop
same broken.uop before.uop

# emit: uop is the canonical text; every form has something in it; an object is an ELF file
expect 0 "$jit" emit "$scale" --emit=uop
cp out a.uop
expect 0 "$jit" fmt "$scale"
same out a.uop
for kind in opt program llvm asm; do
    expect 0 "$jit" emit "$scale" --emit=$kind -o form.txt
    [ -s form.txt ] || problem "--emit=$kind is empty"
done
expect 0 "$jit" emit "$scale" --emit=obj -o scale.o
[ "$(head -c 4 scale.o | tail -c 3)" = ELF ] || problem 'an object is an ELF file'
expect 0 "$jit" emit "$scale" --emit=obj --target aarch64 -o arm.o
expect 0 "$jit" emit "$scale" --emit=opt
cp out opt.uop
expect 0 "$jit" run opt.uop --device interp --arg x=2
has 'y = f32[1024] 6 6'

# the dynamic local buffer: y[i] = x[7 - i] through it
cat >turned.uop <<'K'
tolk.uop 1
%0 = const index 8
%1 = param i32 (%0) {slot=0, name="y"}
%2 = param i32 (%0) {slot=1, name="x"}
%3 = special index (%0) {name="lidx0"}
%4 = buffer i32 {slot=0, space=local, dynamic=true}
%5 = index i32 (%2, %3)
%6 = load i32 (%5)
%7 = index i32 (%4, %3)
%8 = store void (%7, %6)
%9 = barrier void (%8)
%10 = after i32 (%4, %9)
%11 = const index 7
%12 = sub index (%11, %3)
%13 = index i32 (%10, %12)
%14 = load i32 (%13)
%15 = index i32 (%1, %3)
%16 = store void (%15, %14)
%17 = sink void (%16) {name="turned"}
K
printf '\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\6\0\0\0\7\0\0\0\10\0\0\0' | npy count.npy '<i4' '(8,)'
for device in interp CPU; do
    expect 0 "$jit" run turned.uop --device $device --arg x=count.npy --shared-bytes 32
    has 'y = i32[8] 8 7 6 5 4 3 2 1'
    expect 0 "$jit" run turned.uop --device $device --arg x=count.npy --shared-bytes=35
    has 'y = i32[8] 8 7 6 5 4 3 2 1'
    for bytes in 31 28 0; do # 31 bytes: 7 elements
        expect 1 "$jit" run turned.uop --device $device --arg x=count.npy --shared-bytes $bytes
        grep -q 'index [0-7]' err || problem "$bytes bytes on $device: $(cat err)"
    done
    expect 1 "$jit" run turned.uop --device $device --arg x=count.npy
    expect 1 "$jit" run turned.uop --device $device --arg x=count.npy --shared-bytes 9223372036854775807
    grep -q 'there is no memory for the 9223372036854775807 bytes' err || problem "too many bytes: $(cat err)"
done
expect 2 "$jit" run turned.uop --arg x=1 --shared-bytes -4
grep -qF -- '--shared-bytes -4: expected a whole number from 0 up' err || problem "negative: $(cat err)"
expect 2 "$jit" run turned.uop --arg x=1 --shared-bytes 9223372036854775808
grep -qF 'expected a whole number up to 9223372036854775807' err || problem "more than 63 bits: $(cat err)"
expect 2 "$jit" run turned.uop --arg x=1 --shared-bytes 4k
for bytes in 32 30 0; do
    expect 0 "$jit" verify turned.uop --shared-bytes $bytes
    has 'differ (seed'
done

# two results in one file: one would be lost
cat >two.uop <<'END'
tolk.uop 1
%0 = param f32 {slot=0, name="y"}
%1 = param f32 {slot=1, name="z"}
%2 = const f32 1
%3 = index f32 (%0)
%4 = store void (%3, %2)
%5 = index f32 (%1)
%6 = store void (%5, %2)
%7 = sink void (%4, %6) {name="two"}
END
mkdir folder
touch there.npy
ln there.npy link.npy
for pair in 'new.npy new.npy' 'new.npy ./new.npy' 'folder/a.npy folder/../folder/a.npy' 'there.npy link.npy'; do
    refuse "--out z=${pair#* }: y goes there, too: expected another file" \
        "$jit" run two.uop --out y=${pair% *} --out z=${pair#* }
done
[ -e new.npy ] && problem 'a refused run wrote a file'
expect 0 "$jit" run two.uop --out y=new.npy --out z=folder/new.npy
expect 0 "$jit" run two.uop --out y=/dev/null --out z=/dev/null
printf 'run two.uop --out y=a --out z=a\nrun two.uop --out y=a --out z=b\n' | "$jit" >out 2>err
[ $? = 2 ] || problem "two arrays of one name: $(cat err)"
one_line '--out z=a: y goes there, too: expected another name' 'two arrays of one name'

# a file that may not grow is an error, not a signal
checks=$((checks + 1))
(
    ulimit -f 0
    exec "$jit" run two.uop --out y=large.npy
) 2>&1 >/dev/null | cat >err
code=${PIPESTATUS[0]}
[ "$code" = 1 ] || problem "ulimit -f 0: exit $code"
one_line '--out y=large.npy: cannot write: File too large' 'ulimit -f 0'
finish
