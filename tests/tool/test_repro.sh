# SPDX-License-Identifier: MIT
#
# TOLK_REPRO: what failed to compile is replayed by run, emit and verify; --history.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache
axpy=$examples/axpy.uop

expect 0 env TOLK_REPRO="$work/repro" "$jit" run "$axpy" --arg x=1 --arg y=2 --set a=3 --set n=100
[ -s err ] && problem "TOLK_REPRO: $(cat err)"
[ -z "$(ls repro)" ] || problem "a kernel that compiles leaves $(ls repro)"
expect 2 env TOLK_REPRO="$work/repro" "$jit" run "$axpy" --arg x=1 --arg y=2 --set a=3 --set n=100 \
    --opts 'LANE:9:4' --target x86-64 --bounds trust --strict
grep -q 'the kernel that failed to compile is in' err || problem "no word of the file: $(cat err)"
grep 'LANE:9:4' err | head -n1 >first
[ "$(ls repro | wc -l)" = 1 ] || problem "files: $(ls repro)"
file=$(echo repro/axpy-*.uop)

# the same failure, with nothing but the file
for command in 'run' 'emit --emit=asm' 'verify'; do
    # shellcheck disable=SC2086
    expect 2 "$jit" $command "$file"
    grep -qF "is compiled as it was then: --target x86-64 --bounds trust" err || problem "$command: $(cat err)"
    grep -qF 'LANE:9:4' err || problem "$command fails otherwise: $(cat err)"
done
# flags win, and inputs need not be given
expect 0 "$jit" run "$file" --opts ''
has 'kernel axpy on CPU, 1 lane'
expect 0 "$jit" run "$file" --opts '' --arg x=1 --arg y=2 --set a=3 --set n=4
has 'y = f32[4] 5 5 5 5'
expect 0 "$jit" verify "$file" --opts ''
has 'same     CPU x86-64'
expect 0 "$jit" run "$file" --device interp
expect 0 "$jit" emit "$file" --emit=uop
"$jit" emit "$axpy" --emit=uop >want
same out want

# a process that is killed while it compiles
cat >slow.sh <<'C'
"$1" run "$2" --arg x=1 --history --target native &
pid=$!
for _ in {1..2000}; do
    [ -n "$(ls "$TOLK_REPRO" 2>/dev/null)" ] && break
    sleep 0.001
done
kill -9 $pid
wait $pid
C
# large enough to be met while it compiles; if it never is the file is gone and nothing is tested
{
    echo 'tolk.uop 1'
    echo '%0 = const index 1024'
    echo '%1 = param f32 (%0) {slot=0, name="y"}'
    echo '%2 = param f32 (%0) {slot=1, name="x"}'
    echo '%3 = range index (%0) {axis=0, kind=global}'
    echo '%4 = index f32 (%2, %3)'
    echo '%5 = load f32 (%4)'
    for i in $(seq 6 2005); do
        case $((i % 2)) in
        0) echo "%$i = add f32 (%$((i - 1)), %5)" ;;
        1) echo "%$i = mul f32 (%$((i - 1)), %5)" ;;
        esac
    done
    echo '%2006 = index f32 (%1, %3)'
    echo '%2007 = store void (%2006, %2005)'
    echo '%2008 = end void (%2007, %3)'
    echo '%2009 = sink void (%2008) {name="large/../kernel"}'
} >large.uop
mkdir killed
TOLK_REPRO=$work/killed TOLK_CACHE_DIR=$work/none bash slow.sh "$jit" large.uop >out 2>&1
[ "$(ls killed | wc -l)" = 1 ] || problem "after a kill: $(ls killed)"
expect 0 "$jit" run killed/large____kernel-*.uop --history
has 'object'

# history
expect 0 "$jit" run "$examples/scale.uop" --arg x=1 --history
has 'compiled, with the milliseconds of each phase:'
grep -qE '^  0  scale: cache none, [0-9]+ bytes, [0-9.]+ ms: parse [0-9.]+ verify .* prepare .* llvm .* object .* link [0-9.]+$' out ||
    problem "history: $(cat out)"
expect 0 "$jit" run "$examples/scale.uop" --arg x=1 --history --json
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
h = json.load(sys.stdin)["history"]
assert len(h) == 1 and h[0]["kernel"] == "scale" and h[0]["cached"] == "disk", h
assert list(h[0]["phases_ns"]) == ["parse", "verify", "key", "cache", "link"], h' <out || problem "history: $(cat out)"
fi
expect 0 "$jit" run "$examples/scale.uop" --arg x=1 --history --device interp
finish
