# SPDX-License-Identifier: MIT
#
# devices, doctor, version and cache stats: what they say, for people and for programs.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache

# JSON that a program can read, wherever a Python is at hand to tell
json() {
    expect 0 "$jit" "$@" --json
    if command -v python3 >/dev/null; then
        python3 -c 'import json, sys; json.load(sys.stdin)' <out || problem "no JSON: $* --json"
    fi
}
expect 0 "$jit" version
grep -qE '^tolk-jit [0-9]+\.[0-9]+\.[0-9]+, LLVM [0-9]+\.[0-9]+' out || problem "version: $(cat out)"
json version
has '"llvm": "'
expect 0 "$jit" --version
has 'tolk-jit'
expect 0 "$jit" devices
grep -q '^CPU$' out || problem "devices: $(cat out)"
json devices
has '"CPU"'
expect 0 "$jit" doctor
for word in library 'disk cache' 'CUDA driver' problems isa threads llvm "$work/cache"; do
    has "$word"
done
json doctor
has '"cuda_driver": {"found": '
has '"problems": ['
json cache stats
has '"entries": 0'
json run "$examples/scale.uop" --arg x=1
json run "$examples/scale.uop" --device interp --arg x=1

# what is wrong is said
expect 0 env TOLK_CACHE_DIR=/proc/nothing "$jit" doctor
grep -A3 '^problems' out | grep -q none && problem 'doctor is content with a cache in /proc'
expect 0 env -u TOLK_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$jit" doctor
grep -A3 '^problems' out | grep -q none && problem 'doctor is content with no place for a cache'
finish
