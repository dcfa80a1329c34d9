# SPDX-License-Identifier: MIT
#
# The real perf and the real gdb see compiled kernels by name. What is not installed, or not allowed
# here, is left out with a word.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # it does not work under gdb
cat >spin.uop <<'E'
tolk.uop 1
%0 = const index 4096
%1 = param f32 (%0) {slot=0, name="y"}
%2 = param f32 (%0) {slot=1, name="x"}
%3 = range index (%0) {axis=0, kind=global}
%4 = const index 3000
%5 = range index (%4) {axis=1, kind=reduce}
%6 = index f32 (%2, %3)
%7 = load f32 (%6)
%8 = cast f32 (%5)
%9 = mul f32 (%7, %8)
%10 = sin f32 (%9)
%11 = reduce f32 (%10, %5) {op=add}
%12 = index f32 (%1, %3)
%13 = store void (%12, %11)
%14 = end void (%13, %3)
%15 = sink void (%14) {name="spin"}
E
tried=0

# A breakpoint on the kernel by name, its caller behind it; without the variable there is no such name.
# The second run takes the kernel from the disk cache: however it is linked, it is seen.
debug() { # VALUE
    TOLK_THREADS=1 TOLK_GDB=$1 timeout 120 gdb -nx -batch -ex 'set breakpoint pending on' \
        -ex 'set pagination off' -ex 'break tolk_kernel_spin' -ex run -ex bt -ex 'info symbol $pc' \
        -ex delete -ex continue --args "$jit" run spin.uop --arg x=1 >gdb.out 2>&1 </dev/null
}
if ! command -v gdb >/dev/null; then
    echo 'left out: gdb is not installed'
elif ! timeout 60 gdb -nx -batch -ex run --args /bin/true >gdb.out 2>&1 </dev/null ||
    ! grep -q 'exited normally' gdb.out; then
    echo 'left out: gdb cannot run a program here'
else
    tried=1
    for _ in first second; do
        checks=$((checks + 1))
        debug 1
        for word in 'hit Breakpoint 1,|^Breakpoint 1, ' '#0  .* tolk_kernel_spin ' '^#[1-9][0-9]* .* tolk_launch' \
            'tolk_kernel_spin in section .text' 'kernel spin on CPU' 'exited normally'; do
            grep -qE "$word" gdb.out || problem "gdb says no \"$word\": $(tail -n 20 gdb.out)"
        done
    done
    debug 0
    grep -q '#0 .* tolk_kernel_spin' gdb.out && problem 'gdb knows the kernel without TOLK_GDB'
fi

# Most of the time is the kernel's, by the map and by the dump.
profile() { # VALUE
    TOLK_PERF=$1 TOLK_THREADS=1 perf record -q -k mono -e task-clock -F 1000 -o perf.data \
        bash -c 'echo $$ >pid; exec "$@"' _ "$jit" run spin.uop --arg x=1 --repeat 20 >out 2>err
}
share() { # percent of samples in the kernel
    perf report -i "$1" --stdio -q 2>/dev/null |
        awk '/tolk_kernel_spin/ { sub("%", "", $1); s += $1 } END { print int(s) }'
}
if ! command -v perf >/dev/null; then
    echo 'left out: perf is not installed'
elif ! perf record -q -k mono -e task-clock -o perf.data true >out 2>&1; then
    echo "left out: perf cannot record here: $(head -n 1 out)"
else
    tried=1
    profile 1 || problem "perf record: $(cat err)"
    checks=$((checks + 4))
    [ "$(share perf.data)" -gt 50 ] || problem "by the map $(share perf.data)% are the kernel's"
    # without the map only the dump can tell
    mv "/tmp/perf-$(cat pid).map" map
    if perf inject --jit -i perf.data -o injected.data >out 2>&1; then
        [ "$(share injected.data)" -gt 50 ] ||
            problem "by the dump $(share injected.data)% are the kernel's"
    else
        problem "perf inject: $(cat out)"
    fi
    rm -f "/tmp/jit-$(cat pid).dump" /tmp/jitted-"$(cat pid)"-*.so
    profile 0 || problem "perf record: $(cat err)"
    [ "$(share perf.data)" = 0 ] || problem 'perf knows the kernel without TOLK_PERF'
    [ ! -e "/tmp/perf-$(cat pid).map" ] || problem 'there is a map without TOLK_PERF'
fi
[ $tried = 1 ] || exit 77
finish
