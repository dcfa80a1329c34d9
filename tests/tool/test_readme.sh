# SPDX-License-Identifier: MIT
#
# What README.md shows is what happens: its kernel, its program and their outputs; so is the linear of
# docs/ir.md and docs/tool.md. Times, widths and loop options depend on the machine and are not
# compared. The commands of docs/performance.md are there.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache

# block KIND N [FILE]: the Nth fenced block of that kind
block() {
    awk -v kind="$1" -v want="$2" '
        $0 == "```" { inside = 0 }
        inside { print }
        $0 == "```" kind { n++; inside = n == want }' "$src/${3:-README.md}"
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

# the linear
block uop 1 docs/ir.md >pipeline.uop
same pipeline.uop "$examples/pipeline.uop"
block text 1 docs/tool.md >shown.txt
sed -n '1s/^\$ //p' shown.txt >command.sh
expect 0 env PATH="$work/bin:$PATH" bash command.sh
blur_numbers <out | sed -E 's/[0-9]+ (compiled|from)/N \1/g' >got.txt
sed 1d shown.txt | blur_numbers | sed -E 's/[0-9]+ (compiled|from)/N \1/g' >want.txt
diff want.txt got.txt >&2 || problem 'the output of the linear in docs/tool.md'
grep -qF "\`$(cat command.sh)\` prints \`$(tail -1 out)\`" "$src/docs/ir.md" ||
    problem 'the run of the linear in docs/ir.md'

# docs/performance.md: each program and file of its commands is made from here; the short ones run
awk '$0 == "```" { inside = 0 } inside { print } $0 == "```sh" { inside = 1 }' "$src/docs/performance.md" >measure.txt
[ -s measure.txt ] || problem 'docs/performance.md has no commands'
grep -oE '[^ ]*/[^ ]*' measure.txt | sort -u | while read -r path; do
    made=$(sed -E -e 's|^build/release/bench/(.*)|bench/\1.c|' -e 's|^build/release/tolk-jit$|tools/main.c|' \
        -e 's|^build/release/tests/test_([a-z]*)_(.*)|tests/\1/test_\2.c|' <<<"$path")
    [ -f "$src/$made" ] || echo "$path"
done >missing.txt
[ -s missing.txt ] && problem "docs/performance.md names what is not there: $(tr '\n' ' ' <missing.txt)"
grep -qxF 'bash bench/start.sh build/release/tolk-jit examples/scale.uop x=1.5' measure.txt ||
    problem 'the command that times a start'
expect 0 bash "$src/bench/start.sh" "$jit" "$examples/scale.uop" x=1.5
has 'process start to first result, warm disk: '
if [ -x "$TOLK_TEST_BUILD/bench/llvm_compile" ]; then
    expect 0 "$TOLK_TEST_BUILD/bench/llvm_compile" quick
    has '| first compile of the process, LLVM opened: '
    has '| compile 64 FMAs: from disk: '
fi

# every file it points to exists
grep -oE '\]\([^)]*\)' "$src/README.md" | tr -d ']()' | while read -r path; do
    [ -e "$src/$path" ] || echo "$path"
done >missing.txt
[ -s missing.txt ] && problem "README.md points to what is not there: $(tr '\n' ' ' <missing.txt)"
finish
