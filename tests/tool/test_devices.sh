# SPDX-License-Identifier: MIT
#
# The examples of devices do what they say: in C, and in Python where that is there.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache

[ "$(wc -l <"$examples/devices.c")" -lt 60 ] || problem 'examples/devices.c has 60 lines or more'
expect 0 "$TOLK_TEST_BUILD/examples/devices"
echo '2^4 = 16, 3^4 = 81' >want.txt
same want.txt out

expect 0 "$TOLK_TEST_BUILD/examples/pipeline"
cat >want.txt <<'END'
runs        x = 1, n =   10: sum 55
is recorded x = 2, n =   10: sum 220
is replayed x = 3, n =    4: sum 90
is replayed x = 4, n = 1000: sum 8008000
is replayed x = 5, n =  100: sum 126250
the function was called 2 times
END
same want.txt out
# the same calls in text
while read -r x n sum; do
    expect 0 env TOLK_CPU_DEVICES=2 "$jit" run "$examples/pipeline.uop" --arg in="$x" --set n="$n"
    grep '^s = ' out >got.txt
    echo "s = f32[1] $sum" >want.txt
    same want.txt got.txt
done <<'END'
1 10 55
3 4 90
4 1000 8008000
END
expect 0 env TOLK_CPU_DEVICES=2 "$jit" verify "$examples/pipeline.uop"
refuse 'no device "CPU:1": expected one of CPU (TOLK_CPU_DEVICES=N' env TOLK_CPU_DEVICES=1 "$jit" run "$examples/pipeline.uop" --arg in=1 --set n=10

lib=$(find "$TOLK_TEST_BUILD" -maxdepth 2 -name 'libtolk.so' | head -1)
case ${ASAN_OPTIONS:-}${TSAN_OPTIONS:-} in
'') # a sanitizer would have to be loaded before Python
    if command -v python3 >/dev/null; then
        expect 0 env TOLK_CPU_DEVICES=2 python3 "$examples/devices.py" "$lib"
        echo '2 devices: 3 becomes 81' >want.txt
        same want.txt out
        expect 0 env TOLK_CPU_DEVICES=1 python3 "$examples/devices.py" "$lib"
        echo '1 devices: 3 becomes 9' >want.txt
        same want.txt out
    fi
    ;;
esac

# the tool sees them
expect 0 env TOLK_CPU_DEVICES=3 "$jit" devices --json
for name in CPU CPU:1 CPU:2; do
    has "\"name\": \"$name\""
done
expect 0 env TOLK_CPU_DEVICES=2 "$jit" run "$examples/scale.uop" --arg x=1.5 --device CPU:1
refuse 'no device "CPU:2": expected one of CPU, CPU:1' env TOLK_CPU_DEVICES=2 "$jit" run "$examples/scale.uop" --arg x=1.5 --device CPU:2
finish
