#!/bin/bash
# SPDX-License-Identifier: MIT
#
#   start.sh TOLK-JIT KERNEL.uop [NAME=VALUE...]
#
# From the start of a process to the result of its first kernel, with a warm disk cache: the median of
# 51 runs of "tolk-jit run", beside that of "tolk-jit version", which does nothing; and the processor
# time of a run, with that of making the process.
set -euo pipefail
jit=$1 kernel=$2
shift 2
args=()
for a in "$@"; do args+=(--arg "$a"); done
TOLK_CACHE_DIR=$(mktemp -d)
export TOLK_CACHE_DIR
trap 'rm -rf "$TOLK_CACHE_DIR"' EXIT
"$jit" run "$kernel" "${args[@]}" >/dev/null

median() { # CMD...: microseconds
    local i t times=()
    for i in $(seq 51); do
        t=${EPOCHREALTIME/./}
        "$@" >/dev/null
        times+=($((${EPOCHREALTIME/./} - t)))
    done
    printf '%s\n' "${times[@]}" | sort -n | sed -n 26p
}
nothing=$(median "$jit" version)
first=$(median "$jit" run "$kernel" "${args[@]}")
TIMEFORMAT='%U %S'
cpu=$({ time for _ in $(seq 50); do "$jit" run "$kernel" "${args[@]}" >/dev/null; done; } 2>&1)
cpu=$(awk '{printf "%d", ($1 + $2) * 1e6 / 50}' <<<"$cpu")
echo "| process start to first result, warm disk: $first us, $cpu us of processor time (bar 3000 us); a process that does nothing: $nothing us |"
