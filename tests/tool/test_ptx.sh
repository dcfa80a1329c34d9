# SPDX-License-Identifier: MIT
#
# tolk-jit emit --emit=ptx: every example for every chip, in the version asked for, accepted by ptxas
# where that is installed; and what is said where a GPU does not fit.
source "$(dirname "$0")/lib.sh"

ptxas=$(command -v ptxas || ls /usr/local/cuda/bin/ptxas 2>/dev/null)
[ -n "$ptxas" ] || echo "not assembled: there is no ptxas"

# whole LINE FILE WHAT: a whole line of the text
whole() {
    checks=$((checks + 1))
    grep -qxF "$1" "$2" || problem "no line \"$1\": $3"
}

while read -r chip version; do
    for file in "$examples"/*.uop; do
        for kernel in $(sed -n 's/.* = sink .*name="\([^"]*\)".*/\1/p' "$file"); do
            expect 0 "$jit" emit "$file" --kernel "$kernel" --emit=ptx --target "$chip" -o k.ptx
            whole ".version $version" k.ptx "$kernel for $chip"
            whole ".target $chip" k.ptx "$kernel for $chip"
            grep -qE '\.approx|\.ftz|call|\.extern' k.ptx && problem "a wrong word: $kernel for $chip"
            [ -z "$ptxas" ] || expect 0 "$ptxas" -arch="$chip" k.ptx -o k.cubin
        done
    done
done <<CHIPS
sm_75 6.3
sm_80 7.0
sm_86 7.1
sm_89 7.8
sm_90 7.8
sm_90a 8.0
CHIPS

scale=$examples/scale.uop
expect 0 "$jit" emit "$scale" --emit=ptx --target sm_80,+ptx78
whole '.version 7.8' out "+ptx78"
expect 0 "$jit" emit "$scale" --emit=ptx --target sm_80,cuda12.4
whole '.version 7.0' out "cuda12.4"
expect 0 "$jit" emit "$scale" --emit=ptx
whole '.target sm_75' out "no target"
expect 0 "$jit" emit "$scale" --emit=ptx --symbol mine
whole '.visible .entry mine(' out "--symbol"

# Names: WARP_SZ and a single _ are no names in PTX, those of instructions, types and registers are.
constant='symbol "WARP_SZ" is a constant of PTX'
refuse "$constant" "$jit" emit "$scale" --emit=ptx --symbol WARP_SZ
refuse "$constant" "$jit" emit "$scale" --emit=asm --target sm_90 --symbol WARP_SZ
expect 0 "$jit" emit "$scale" --emit=asm --target x86-64 --symbol WARP_SZ
for name in _ _x; do
    refuse "symbol \"$name\" is reserved" "$jit" emit "$scale" --emit=ptx --symbol "$name"
done
refuse 'symbol "$x": expected an identifier of C' "$jit" emit "$scale" --emit=ptx --symbol '$x'
refuse 'symbol "%x": expected an identifier of C' "$jit" emit "$scale" --emit=ptx --symbol '%x'
refuse 'symbol "tolk_shared" is a name of tolk' "$jit" emit "$scale" --emit=ptx --symbol tolk_shared
for name in add mov bra ret call entry func shared b32 f32 tid clock64 x WARP_SZ_ warp_sz x_; do
    expect 0 "$jit" emit "$scale" --emit=ptx --symbol "$name" -o k.ptx
    whole ".visible .entry $name(" k.ptx "--symbol $name"
    [ -z "$ptxas" ] || expect 0 "$ptxas" -arch=sm_75 k.ptx -o k.cubin
done
# Names in the kernel's text are not in the PTX.
for name in WARP_SZ _ '$' '%' '%tid' 'a b' '} /*' '*/' '// x' '\n}' ''; do
    printf '%s\n' 'tolk.uop 1' '%0 = const index 8' \
        "%1 = param i32 (%0) {slot=0, name=\"$name\"}" '%2 = special index (%0) {name="gidx0"}' \
        '%3 = index i32 (%1, %2)' '%4 = const i32 7' '%5 = store void (%3, %4)' \
        "%6 = sink void (%5) {name=\"$name\"}" >named.uop
    expect 0 "$jit" emit named.uop --emit=ptx -o k.ptx
    whole '.visible .entry tolk_kernel(' k.ptx "a kernel named $name"
    [ -z "$ptxas" ] || expect 0 "$ptxas" -arch=sm_75 k.ptx -o k.cubin
done
expect 0 "$jit" emit "$scale" --emit=program --target sm_80
grep -q 'name="gidx0"' out || problem "no gidx0 in the program"
expect 0 "$jit" emit "$scale" --emit=ptx --target sm_90 -o a
expect 0 "$jit" emit "$scale" --emit=asm --target sm_90 -o b
same a b

# What has no PTX, and that nothing here launches it.
refuse 'expected a GPU as target' "$jit" emit "$scale" --emit=ptx --target haswell
refuse 'sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a' "$jit" emit "$scale" --emit=ptx --target sm_70
fail 'an object for sm_80' "$jit" emit "$scale" --emit=obj --target sm_80 -o k.o
fail 'PTX 7.8: the driver of CUDA 11.4 takes PTX up to 7.4' \
    "$jit" emit "$scale" --emit=ptx --target sm_89,cuda11.4
fail 'kernel scale is compiled for a GPU' "$jit" run "$scale" --arg x=1 --target sm_80
finish
