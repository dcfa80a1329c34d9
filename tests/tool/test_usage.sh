# SPDX-License-Identifier: MIT
#
# Every way to use the tool wrongly gives one line that says what was expected, and exit 2.
. "$(dirname "$0")/lib.sh"
scale=$examples/scale.uop
axpy=$examples/axpy.uop

# commands and flags
expect 0 "$jit" # the prompt, and no input
refuse "unknown command 'frobnicate'" "$jit" frobnicate
refuse "unknown command ''" "$jit" ''
for command in run emit verify fmt; do
    refuse "$command: expected a file" "$jit" $command
    refuse "$command: unknown option --frob: expected -" "$jit" $command "$scale" --frob
done
refuse "No such file" "$jit" emit nothing.uop --emit=uop
refuse "No such file" "$jit" fmt nothing.uop
for command in run verify; do
    refuse 'No such file' "$jit" $command nothing.uop
    refuse 'Is a directory' "$jit" $command /
    refuse "$command: unexpected argument 'b' after 'a'" "$jit" $command a b
done
for command in devices doctor version; do
    refuse "unexpected argument 'x': expected none" "$jit" $command x
    refuse "unknown option -x: expected --json" "$jit" $command -x
done
refuse 'expected stats or clear' "$jit" cache
refuse "'burn': expected stats or clear" "$jit" cache burn
refuse '--repeat 0: expected a whole number from 1' "$jit" run "$scale" --repeat 0
refuse '--repeat -3: expected a whole number' "$jit" run "$scale" --repeat=-3
refuse '--repeat 1x: expected a whole number' "$jit" run "$scale" --repeat 1x
refuse 'expected a whole number' "$jit" run "$scale" --repeat 99999999999999999999
refuse 'expected at most' "$jit" run "$scale" --arg x=1 --repeat 9000000000000000000
refuse '--repeat needs a value' "$jit" run "$scale" --repeat
refuse '--json takes no value' "$jit" run "$scale" --json=yes
refuse '--device is given twice' "$jit" run "$scale" --device CPU --device CPU
refuse '--bounds loose: expected check or trust' "$jit" run "$scale" --bounds loose
refuse 'expected no --opts' "$jit" run "$scale" --device interp --opts 'LANE:0:4'
refuse '-i and --check' "$jit" fmt -i --check "$scale"
refuse 'several files' "$jit" fmt "$scale" "$axpy"
refuse 'expected --emit=KIND' "$jit" emit "$scale"
refuse '--emit=frob: expected uop, opt' "$jit" emit "$scale" --emit=frob
refuse 'interp: expected a device' "$jit" verify "$scale" --device interp

# arguments
refuse 'parameter x (f32[1024]) is read by the kernel: expected --arg x=FILE.npy' "$jit" run "$scale"
refuse 'expected NAME=VALUE' "$jit" run "$scale" --arg x
refuse 'expected NAME=VALUE' "$jit" run "$scale" --arg =3
refuse 'expected NAME=VALUE' "$jit" run "$scale" --arg x=
refuse 'no parameter of that name: expected y, x' "$jit" run "$scale" --arg z=3
refuse 'no parameter of that name' "$jit" run "$scale" --arg x=3 --set n=4
refuse '--arg x is given twice' "$jit" run "$scale" --arg x=3 --arg x=4
refuse 'it is a buffer: expected --arg' "$jit" run "$scale" --set x=4
refuse '--out x: kernel scale never stores to it' "$jit" run "$scale" --arg x=3 --out x=a.npy
refuse '--out y is given twice' "$jit" run "$scale" --arg x=3 --out y=a.npy --out y=b.npy
refuse 'cannot open: No such file' "$jit" run "$scale" --arg x=nothing.npy
refuse 'cannot read: it is a directory' "$jit" run "$scale" --arg x=/
refuse 'variable n of kernel axpy has no value: expected --set n=N, 1 to 67108864' \
    "$jit" run "$axpy" --arg x=1 --arg y=1 --set a=1
refuse 'variable a of kernel axpy has no value: expected --set a=NUMBER of dtype f32' \
    "$jit" run "$axpy" --arg x=1 --arg y=1 --set n=1
refuse '--set n=0: expected 1 to 67108864' "$jit" run "$axpy" --arg x=1 --arg y=1 --set a=1 --set n=0
refuse '--set n=99999999: expected 1 to 67108864' "$jit" run "$axpy" --set n=99999999
refuse '--set n=99999999999: out of the range of dtype i32' "$jit" run "$axpy" --set n=99999999999
refuse '--set n=0x8000000000: out of the range of dtype i32' "$jit" run "$axpy" --set n=0x8000000000
for flag in --set --arg; do
    refuse "$flag a=1e39: out of the range of dtype f32" "$jit" run "$axpy" $flag a=1e39
done
refuse '--arg x=-1e39: out of the range of dtype f32' "$jit" run "$scale" --arg x=-1e39
for row in f16:65520 bf16:1e39 fp8e4m3:1000 fp8e5m2:70000 f64:1e400 u8:256 u8:-1 i8:-129 u64:18446744073709551616; do
    sed "s/f32 \((%[0-9]*)\|0x\)/${row%:*} \1/; s/f32 (/${row%:*} (/g; s/0x1.8p+1/1/" "$scale" >narrow.uop
    refuse "x=${row#*:}: out of the range of dtype ${row%:*}" "$jit" run narrow.uop --arg "x=${row#*:}"
done
sed 's/f32/bool/; s/f32/bool/g; s/0x1.8p+1/true/; s/mul/and/' "$scale" >narrow.uop
refuse 'x=2: expected true, false or a file' "$jit" run narrow.uop --arg x=2
refuse 'x=true: expected a number of dtype f32 or a file' "$jit" run "$scale" --arg x=true
refuse 'expected a number of dtype i32' "$jit" run "$axpy" --set n=1.5
refuse 'expected a number of dtype i32' "$jit" run "$axpy" --set n=four
for word in infinity INF -infinity NAN -NaN 'nan(1)'; do # no literals, and not out of any range
    refuse "a=$word: expected a number of dtype f32" "$jit" run "$axpy" --set "a=$word"
done
cat >flag.uop <<'END'
tolk.uop 1
%0 = param bool {slot=0, name="y"}
%1 = param bool {slot=1, name="b", space=alu}
%2 = index bool (%0)
%3 = store void (%2, %1)
%4 = sink void (%3) {name="flag"}
END
refuse '--set b=1: expected true or false' "$jit" run flag.uop --set b=1
refuse 'variable b of kernel flag has no value: expected --set b=true or false' "$jit" run flag.uop
refuse 'expected a number of dtype f32' "$jit" run "$axpy" --set 'a=1 (%0)'
refuse 'has a value already' "$jit" run "$axpy" --set n=4 --arg n=4
refuse '--global: kernel scale takes no size from the call' "$jit" run "$scale" --arg x=1 --global 4
refuse '--global 4,a: expected one to three whole numbers' "$jit" run "$scale" --arg x=1 --global 4,a
for dims in '' , 4, ,4 1,2,3,4 1,,2 4.5; do
    refuse 'expected one to three whole numbers' "$jit" run "$scale" --arg x=1 "--global=$dims"
done
refuse '--local -4: expected one to three whole numbers' "$jit" run "$scale" --arg x=1 --local -4

# files of arrays
head -c 4096 /dev/zero | npy good.npy '<f4' '(1024,)'
expect 0 "$jit" run "$scale" --device interp --arg x=good.npy
head -c 4092 /dev/zero | npy small.npy '<f4' '(1023,)'
refuse 'expected f32[1024], 1024 elements, the file has 1023' "$jit" run "$scale" --arg x=small.npy
head -c 8192 /dev/zero | npy wrong.npy '<f8' '(1024,)'
refuse 'expected f32[1024], the file has f64' "$jit" run "$scale" --arg x=wrong.npy
head -c 4096 /dev/zero | npy big.npy '>f4' '(1024,)'
refuse 'big-endian arrays are not supported' "$jit" run "$scale" --arg x=big.npy
head -c 4096 /dev/zero | npy fortran.npy '<f4' '(32, 32)' True
refuse 'Fortran-order arrays are not supported' "$jit" run "$scale" --arg x=fortran.npy
head -c 4095 /dev/zero | npy cut.npy '<f4' '(1024,)'
refuse 'the header says 4096 bytes of data' "$jit" run "$scale" --arg x=cut.npy
head -c 4097 /dev/zero | npy long.npy '<f4' '(1024,)'
refuse 'the header says 4096 bytes of data' "$jit" run "$scale" --arg x=long.npy
npy huge.npy '<f4' '(2305843009213693951,)' </dev/null
refuse 'the file has 0' "$jit" run "$scale" --arg x=huge.npy
npy object.npy '|O' '(1024,)' </dev/null
refuse 'object arrays are not supported' "$jit" run "$scale" --arg x=object.npy
echo hello >text.npy
refuse 'not a .npy file' "$jit" run "$scale" --arg x=text.npy
printf '\x93NUMPY\x02\x00\xff\xff\xff\xff' >header.npy
refuse 'it claims 4294967295 bytes' "$jit" run "$scale" --arg x=header.npy

# devices, targets, kernels
refuse 'CPU' "$jit" run "$scale" --arg x=1 --device FPGA
refuse 'CPU' "$jit" verify "$scale" --device CUDA
refuse 'pentium9' "$jit" run "$scale" --arg x=1 --target pentium9
refuse 'pentium9' "$jit" emit "$scale" --emit=llvm --target pentium9
expect 2 "$jit" run "$scale" --arg x=1 --opts 'FROB:0:4'
one_line '' 'bad loop option'
expect 2 "$jit" emit "$scale" --emit=opt --opts 'UPCAST:99:4'
one_line '' 'bad axis'
refuse "no kernel 'mul': expected scale" "$jit" run "$scale" --kernel mul
cat >tensor.uop <<'END'
tolk.uop 1
%0 = const f32 1
END
refuse 'the root is const: expected a kernel' "$jit" run tensor.uop

# values and bounds that no dtype holds are wrong input, whatever command reads them
range_error() { # TEXT DTYPE ATTRIBUTES
    cat >range.uop <<END
tolk.uop 1
%0 = const index 1
%1 = param $2 (%0) {slot=0, name="y"}
%2 = const index 0
%3 = index $2 (%1, %2)
%4 = param $2 {slot=1, name="v", space=alu$3}
%5 = store void (%3, %4)
%6 = sink void (%5) {name="k"}
END
    for command in 'run --set v=1' 'run --device interp --set v=1' verify fmt 'emit --emit=uop'; do
        # shellcheck disable=SC2086
        refuse "$1" "$jit" ${command%% *} range.uop $(cut -s -d' ' -f2- <<<"$command")
    done
}
range_error 'min=5 is above max=3' i32 ', min=5, max=3'
range_error 'do not fit u8' u8 ', min=0, max=256'
range_error 'do not fit i8' i8 ', min=-129'
range_error 'do not fit u64' u64 ', min=-1'
range_error 'expected an integer dtype' f32 ', max=5'

# output that cannot be written
if [ -c /dev/full ]; then
    expect 1 bash -c '"$1" emit "$2" --emit=uop >/dev/full' _ "$jit" "$scale"
    one_line 'cannot write the output: No space left' '/dev/full'
    fail 'cannot write' "$jit" emit "$scale" --emit=uop -o /dev/full
    fail 'cannot write' "$jit" run "$scale" --device interp --arg x=1 --out y=/dev/full
fi
refuse 'cannot write' "$jit" emit "$scale" --emit=uop -o /nonexistent/a.uop
fail 'cannot write' "$jit" run "$scale" --device interp --arg x=1 --out y=/nonexistent/a.npy
# a reader that leaves is no death by signal
bash -c '"$1" fmt "$2"; echo $? >code' _ "$jit" "$scale" | :
case $(cat code 2>/dev/null) in 0 | 1) ;; *) problem "closed pipe: exit $(cat code)" ;; esac

# for programs an error is on stdout, too, with all that is known of it
error() { # EXIT TEXT CMD...
    local code=$1 text=$2
    shift 2
    expect "$code" "$@"
    one_line '' "$*"
    [ "$(tail -n1 out)" = "$text" ] || problem "error as JSON: $(tail -n1 out), expected $text"
}
printf 'tolk.uop 1\n%%0 = mull f32 (%%1)\n' >wrong.uop
error 2 '{"error": {"exit": 2, "status": "TOLK_E_PARSE", "message": "there is no op \"mull\" (did you mean mul?)", "file": "wrong.uop", "line": 2, "column": 6}}' \
    "$jit" run wrong.uop --json
cp out once
expect 2 "$jit" verify wrong.uop --json
same out once
error 2 '{"error": {"exit": 2, "status": "TOLK_E_ARG", "message": "run: --repeat 0: expected a whole number from 1 up", "file": null, "line": null, "column": null}}' \
    "$jit" run "$scale" --repeat 0 --json
error 1 '{"error": {"exit": 1, "status": "TOLK_E_IO", "message": "--out y=/nonexistent/a.npy: cannot write: No such file or directory", "file": null, "line": null, "column": null}}' \
    "$jit" run "$scale" --device interp --arg x=1 --out y=/nonexistent/a.npy --json
refuse '--repeat 0' "$jit" run "$scale" --repeat 0 -- --json

# the message is UTF-8 whatever the file is called (the replacement of Unicode's chapter 3.9)
named() { # BYTES WANT, both as printf takes them
    checks=$((checks + 1))
    "$jit" run "$(printf "$1").uop" --json 2>err | grep -qF "cannot open $(printf "$2").uop: No such file" ||
        problem "name $1 in JSON"
}
r='\xef\xbf\xbd'
named '\xff' "$r"
named 'a\x80\xc0\xaf' "a$r$r$r"
named '\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80' '\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80'
named '\xe2\x82' "$r$r"
named '\xed\xa0\x80' "$r$r$r"
named '\xf4\x90\x80\x80' "$r$r$r$r"
named '\xe0\x9f\xbf' "$r$r$r"

# help is no error; that of a command names each of its flags in a line
for command in '' run emit verify fmt devices doctor cache version; do
    expect 0 "$jit" $command --help
    has 'tolk-jit'
done
for command in run emit verify fmt devices doctor cache version; do
    "$jit" $command --frob 2>&1 | grep -oE -- '--?[a-z-]+' | grep -vE "frob|^-jit" >flags
    [ -s flags ] || problem "$command: no flags"
    "$jit" $command --help >out
    while read -r flag; do
        grep -qE "^  $flag[ =]" out || problem "$command --help does not explain $flag"
    done <flags
done
for command in run verify; do
    expect 0 "$jit" $command --help
    has '- reads standard input'
    has 'no bf16 and no fp8: in a .npy file their bits are uint16 and uint8'
done
finish
