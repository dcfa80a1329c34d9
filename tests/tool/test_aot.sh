# SPDX-License-Identifier: MIT
#
# emit --emit=obj --header: a C program that links the object, without the library, computes what
# `run` computes, to the bit.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache
cc=${CC:-cc}
command -v "$cc" >/dev/null || {
    echo "skipped: there is no C compiler"
    exit 77
}

# softmax of examples/: 512 x 1024 in, as many out
expect 0 "$jit" emit "$examples/softmax.uop" --emit=obj --symbol softmax -o softmax.o --header softmax.h
[ -s out ] && problem "emit -o writes to standard output: $(head -c 100 out)"
cat >main.c <<'C'
#include "softmax.h"

#include <stdio.h>

static float x[512 * 1024], y[512 * 1024];

int main(void) {
    if (softmax_elems(0, NULL) != 512 * 1024 || softmax_elems(1, NULL) != 512 * 1024)
        return 3;
    if (fread(x, sizeof x, 1, stdin) != 1 || softmax_run(y, x))
        return 4;
    return fwrite(y, sizeof y, 1, stdout) == 1 ? 0 : 5;
}
C
expect 0 "$cc" -std=c11 -Wall -Wextra -Werror main.c softmax.o -o main
# 0.5 to 1: three digits are the mantissa, "?" is the exponent
seq -f '%03.0f?' 100 999 | tr -d '\n' >part
for _ in {1..10}; do cat part part >both && mv both part; done
head -c 2097152 part >x.raw
npy x.npy '<f4' '(512, 1024)' <x.raw
./main <x.raw >y.raw
code=$?
[ $code = 0 ] || problem "the program ends with $code"
expect 0 "$jit" run "$examples/softmax.uop" --arg x=x.npy --out y=y.npy
tail -c 2097152 y.npy >want.raw
same y.raw want.raw
[ "$(od -An -v -tx4 -w4 y.raw | sort -u | wc -l)" -gt 800 ] || problem 'the results are few'

# asm with a header; a header alone; names
expect 0 "$jit" emit "$examples/scale.uop" --emit=asm -o scale.s --header scale.h
grep -q '^tolk_kernel_scale:' scale.s || problem 'the function has no name of its own in the assembly'
grep -q '^void tolk_kernel_scale(' scale.h || problem 'the header does not declare tolk_kernel_scale'
expect 0 "$jit" emit "$examples/scale.uop" --emit=header
same out scale.h
expect 0 "$jit" emit "$examples/scale.uop" --emit=header --target x86-64
has 'It runs on x86-64.'
expect 0 "$jit" emit "$examples/scale.uop" --emit=header --target aarch64
has 'It runs on aarch64'
refuse 'symbol "a b": expected an identifier of C' "$jit" emit "$examples/scale.uop" --emit=obj -o a.o --symbol 'a b'
for name in _Bool _Thread_local while template; do
    refuse "symbol \"$name\" is a keyword of C or C++" "$jit" emit "$examples/scale.uop" --emit=obj -o a.o --symbol "$name"
done
refuse 'symbol "strlen" is a function of the C library' "$jit" emit "$examples/scale.uop" --emit=obj -o a.o --symbol strlen
refuse 'symbol "tolk_kenv" is a name of tolk' "$jit" emit "$examples/scale.uop" --emit=obj -o a.o --symbol tolk_kenv
# a param named as what the header calls
sed 's/name="x"/name="memset"/' "$examples/scale.uop" >memset.uop
grep -q '"memset"' memset.uop || problem 'no param is named memset'
expect 0 "$jit" emit memset.uop --emit=obj -o m.o --header m.h
echo '#include "m.h"' >m.c
expect 0 "$cc" -std=c11 -Wall -Wextra -Werror -c m.c -o m_main.o
refuse '--header: expected --emit=obj' "$jit" emit "$examples/scale.uop" --emit=llvm --header a.h
refuse 'cannot write' "$jit" emit "$examples/scale.uop" --emit=obj -o a.o --header /nonexistent/a.h

# two outputs in one place: one would be lost
touch there.o
ln there.o link.h
for pair in 'b.o b.o' 'b.o ./b.o' 'there.o link.h' '- -'; do
    refuse "--header ${pair#* }: the other output goes there, too: expected another file" \
        "$jit" emit "$examples/scale.uop" --emit=obj -o ${pair% *} --header ${pair#* }
done
[ -e b.o ] || [ -s there.o ] && problem 'a refused emit wrote a file'
refuse '--header -: the other output goes there, too: expected another file, or -o FILE' \
    "$jit" emit "$examples/scale.uop" --emit=asm --header -
expect 0 "$jit" emit "$examples/scale.uop" --emit=obj -o b.o --header -
same out scale.h
expect 0 "$jit" emit "$examples/scale.uop" --emit=obj -o /dev/null --header /dev/null
finish
