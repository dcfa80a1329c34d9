# SPDX-License-Identifier: MIT
#
# Bad and odd text through the whole tool: an error with line and column, or the right value; never
# a signal. Case ids are those of the collection of reports this project tests against.
. "$(dirname "$0")/lib.sh"

# literal DTYPE LITERAL: a kernel that stores it
literal() {
    printf 'tolk.uop 1\n%%0 = param %s {slot=0, name="y"}\n%%1 = index %s (%%0)\n' "$1" "$1"
    printf '%%2 = const %s %s\n' "$1" "$2"
    printf '%%3 = store void (%%1, %%2)\n%%4 = sink void (%%3) {name="literal"}\n'
}
value() { # DTYPE LITERAL SHOWN
    literal "$1" "$2" >literal.uop
    expect 0 "$jit" run literal.uop --device interp
    has "y = $1[] $3"
}
wrong() { # DTYPE LITERAL
    literal "$1" "$2" >literal.uop
    refuse 'literal.uop:4:' "$jit" run literal.uop --device interp
}

# PARSE-03: literals at the edges
value i32 -2147483648 -2147483648
value i64 -9223372036854775808 -9223372036854775808
wrong i64 9223372036854775808
value u64 9223372036854775808 9223372036854775808
value u64 18446744073709551615 18446744073709551615
wrong u64 18446744073709551616
wrong u8 256
wrong u8 -1
wrong i8 -129
value u8 0xff 255
wrong i32 0x
wrong i32 --5
wrong i32 5-
wrong f32 1e
wrong f32 --5
wrong f32 $'\xe2\x88\x925' # a UTF-8 minus
wrong f32 0,5
wrong bool 2
value bool true true
value f32 0.1 0.100000001
value f32 0x1.fffffep127 3.40282347e+38
value f32 1e-45 1.40129846e-45
value f64 1e-400 0
wrong f64 1e400
wrong f16 65520
value f16 65519 65504
value f32 16777217 16777216
value f64 3.141592653589793 3.1415926535897931
value f32 -0.0 -0
value f16 nan nan

# CG-09: round trip of literals that six digits would lose
for row in f32:1e-8 f32:1e-18 f32:1e-45 f32:3.141592653589793 f64:0.1 f64:16777217; do
    literal "${row%%:*}" "${row#*:}" >literal.uop
    expect 0 "$jit" run literal.uop --device interp --out y=a.npy
    expect 0 "$jit" fmt -i literal.uop
    expect 0 "$jit" run literal.uop --out y=b.npy
    same a.npy b.npy
done

# the shape of the file
bytes() { # TEXT-FOR-printf: exit 2, with a place
    printf "$1" >odd.uop
    refuse 'odd.uop:' "$jit" fmt odd.uop
}
bytes ''
bytes '\n'
bytes 'tolk.uop 2\n'
bytes 'tolk.uop 1\n'
bytes 'tolk.uop 1\n%%0 = const index'
bytes 'tolk.uop 1\n%%0 = const index 1\n%%0 = const index 2\n'
bytes 'tolk.uop 1\n%%1 = neg f32 (%%0)\n'
bytes 'tolk.uop 1\n%%0 = frobnicate f32 1\n'
bytes 'tolk.uop 1\n%%0 = const f33 1\n'
bytes 'tolk.uop 1\n%%0 = const index 1\n%%1 = const index 2\n' # an unreachable node
bytes 'tolk.uop 1\n%%0 = const index 1 {x=1}\n'
bytes 'tolk.uop 1\n%%0 = const \0index 1\n'
bytes 'tolk.uop 1\n%%0 = const index 1\0\n'
bytes 'tolk.uop 1\n%%0 = sink void {name="open\n'
bytes 'tolk.uop 1\n%%0 = sink void {name="\\q"}\n'
bytes 'tolk.uop 1\n%%0 = sink void {name="a", name="b"}\n'
bytes 'tolk.uop 1\n%%99999999999999999999 = const index 1\n'
bytes '\xef\xbb\xbftolk.uop 1\n%%0 = const index 1\n' # a byte order mark
head -c 100000 /dev/urandom >odd.uop
refuse 'odd.uop:' "$jit" fmt odd.uop
{ echo 'tolk.uop 1'; printf '%%0 = '; head -c 1048576 /dev/zero | tr '\0' a; } >odd.uop
refuse 'odd.uop:' "$jit" fmt odd.uop
sed 's/$/\r/' "$examples/scale.uop" >crlf.uop
expect 0 "$jit" fmt crlf.uop
cp out crlf.txt
expect 0 "$jit" fmt "$examples/scale.uop"
same out crlf.txt
sed 's/ = /\t=\t/' "$examples/scale.uop" >tabs.uop
"$jit" fmt tabs.uop >out 2>err
case $? in 0 | 2) ;; *) problem "tabs: exit $?" ;; esac

# a store must have a place: a scalar, a buffer and a value are none
not_a_place() { # NODE: what is stored to
    sed -e "s/store void (%3/store void (%$1/" >store.uop <<'END'
tolk.uop 1
%0 = param f32 {slot=0, name="y"}
%1 = param f32 {slot=1, name="s", space=alu}
%2 = const f32 1
%3 = index f32 (%0)
%4 = store void (%3, %1)
%5 = store void (%3, %2)
%6 = sink void (%4, %5) {name="store"}
END
    refuse 'store' "$jit" run store.uop --set s=1
    refuse 'store' "$jit" emit store.uop --emit=asm
}
for node in 0 1 2; do
    not_a_place $node
done

# PARSE-01: deep graphs on a small stack
chain() {
    printf 'tolk.uop 1\n%%0 = param f32 {slot=0, name="y"}\n%%1 = index f32 (%%0)\n'
    printf '%%2 = const f32 1\n%%3 = load f32 (%%1)\n'
    awk -v n="$1" 'BEGIN { for (i = 4; i < n + 4; i++) printf "%%%d = add f32 (%%%d, %%2)\n", i, i - 1 }'
    printf '%%%d = store void (%%1, %%%d)\n%%%d = sink void (%%%d) {name="deep"}\n' \
        $(($1 + 4)) $(($1 + 3)) $(($1 + 5)) $(($1 + 4))
}
for depth in 1000 100000; do
    chain $depth >deep.uop
    expect 0 bash -c 'ulimit -s 512; exec "$1" fmt deep.uop' _ "$jit"
    expect 0 bash -c 'ulimit -s 512; exec "$1" run deep.uop --device interp --arg y=0' _ "$jit"
    has "y = f32[] $depth"
done
# the compiler does it too, or says that it is too large: CG-13
bash -c 'ulimit -s 512; exec "$1" run deep.uop --arg y=0' _ "$jit" >out 2>err
case $? in
0) has "y = f32[] 100000" ;;
1 | 2) one_line '' 'deep kernel' ;;
*) problem "deep kernel on the CPU: exit $?" ;;
esac
finish
