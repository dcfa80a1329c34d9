# SPDX-License-Identifier: MIT
#
# What README.md shows is what happens: its kernel, its program and their outputs. Times, widths and
# loop options depend on the machine and are not compared.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache

# block KIND N: the Nth fenced block of that kind
block() {
    awk -v kind="$1" -v want="$2" '
        $0 == "```" { inside = 0 }
        inside { print }
        $0 == "```" kind { n++; inside = n == want }' "$src/README.md"
}
blur_numbers() {
    sed -E -e 's/[0-9.]+(e[-+][0-9]+)? (ms|us|GFLOP|GB)/N \2/g' -e 's/[0-9]+ lanes?/N lanes/' \
        -e 's/loop options: .*/loop options: X/'
}

block uop 1 >scale.uop
same scale.uop "$examples/scale.uop"
[ "$(block sh 1)" = 'tolk-jit run scale.uop --arg x=1.5' ] || problem 'the command of the first kernel'
mkdir bin
ln -s "$jit" bin/tolk-jit
block sh 1 >command.sh
expect 0 env PATH="$work/bin:$PATH" bash command.sh
blur_numbers <out >got.txt
block text 1 | blur_numbers >want.txt
diff want.txt got.txt >&2 || problem 'the output of the first kernel'

block c 1 >first.c
same first.c "$examples/first.c"
cc=${CC:-$(command -v clang-19 || command -v cc)}
libs=$(dirname "$(find "$TOLK_TEST_BUILD" -maxdepth 2 -name 'libtolk.so' | head -1)")
case ${ASAN_OPTIONS:-}${TSAN_OPTIONS:-} in
'')
    expect 0 "$cc" -std=c11 -Wall -Wextra -Werror first.c -I "$src/include" -L "$libs" -ltolk \
        -Wl,-rpath,"$libs" -o first
    expect 0 ./first
    block text 2 >want.txt
    same want.txt out
    ;;
esac

# every file it points to exists
grep -oE '\]\([^)]*\)' "$src/README.md" | tr -d ']()' | while read -r path; do
    [ -e "$src/$path" ] || echo "$path"
done >missing.txt
[ -s missing.txt ] && problem "README.md points to what is not there: $(tr '\n' ' ' <missing.txt)"
finish
