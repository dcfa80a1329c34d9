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

# problems ENV... : what doctor lists with these variables, in problems.txt
problems() {
    expect 0 env "$@" "$jit" doctor
    [ -s err ] && problem "doctor with $*: $(cat err)"
    sed '1,/^problems/d' out >problems.txt
}
once() { # TEXT
    [ "$(grep -cF -- "$1" problems.txt)" = 1 ] || problem "\"$1\" is not listed once: $(cat problems.txt)"
}
problems A=b
[ "$(cat problems.txt)" = '  none' ] || problem "without a problem: $(cat problems.txt)"
problems TOLK_CPU=frob
once 'a small kernel does not run with TOLK_CPU="frob": unknown CPU name'
[ "$(wc -l <problems.txt)" = 1 ] || problem "more than one problem: $(cat problems.txt)"
problems TOLK_THREADS=many TOLK_DEBUG=x TOLK_DUMP=PQ TOLK_TREADS=3
once 'TOLK_THREADS="many" ignored'
once 'TOLK_DEBUG="x" ignored'
once "TOLK_DUMP=\"PQ\": there is no pass of letter 'Q'"
once 'TOLK_TREADS is set, but nothing reads it'
[ "$(wc -l <problems.txt)" = 4 ] || problem "other problems: $(cat problems.txt)"
problems -u TOLK_CACHE_DIR -u XDG_CACHE_HOME -u HOME
once 'there is no usable cache directory'
[ "$(wc -l <problems.txt)" = 1 ] || problem "no cache directory is one problem: $(cat problems.txt)"
problems TOLK_CACHE_DIR=/proc/nothing
once 'the cache directory /proc/nothing cannot be made'
[ "$(wc -l <problems.txt)" = 1 ] || problem "/proc is one problem: $(cat problems.txt)"
touch file
long=$work/$(head -c 300 /dev/zero | tr '\0' a)
deep=$work/$(yes a | head -n 3000 | tr '\n' /)
for wrong in "$work/file:Not a directory" "$work/file/sub:Not a directory" "$long:File name too long" \
    "$deep:File name too long"; do
    problems TOLK_CACHE_DIR="${wrong%:*}"
    once "is not used: ${wrong##*:}"
    [ "$(wc -l <problems.txt)" = 1 ] || problem "a wrong directory is one problem: $(cat problems.txt)"
done
if [ "$(id -u)" != 0 ]; then
    mkdir -p shut/in
    chmod 0 shut
    problems TOLK_CACHE_DIR="$work/shut/in"
    once 'is not used: Permission denied'
    chmod 700 shut
fi
if command -v python3 >/dev/null; then # JSON is UTF-8, whatever a directory is called
    expect 0 env TOLK_CACHE_DIR="$work/"$'a\xff' "$jit" doctor --json
    python3 -c 'import json, sys
assert json.loads(open("out", "rb").read().decode())["disk_cache"]["dir"].endswith("/a\ufffd")' ||
        problem "not UTF-8: $(cat -v out)"
    mkdir $'b\xff'
    expect 0 env TOLK_CACHE_DIR="$work/"$'b\xff' "$jit" doctor --json
    python3 -c 'import json, sys
assert json.loads(open("out", "rb").read().decode())["library"]["cache"]["dir"].endswith("/b\ufffd")' ||
        problem "not UTF-8: $(cat -v out)"
fi
mkdir -m 777 open
problems TOLK_CACHE_DIR="$work/open"
once 'is not used: it must belong to this user and be writable by nobody else'
[ "$(wc -l <problems.txt)" = 1 ] || problem "an open directory is one problem: $(cat problems.txt)"

# it makes no directory
mkdir empty
problems TOLK_CACHE_DIR="$work/empty/some/where"
[ "$(cat problems.txt)" = '  none' ] || problem "a directory to be made: $(cat problems.txt)"
has "$work/empty/some/where"
problems -u TOLK_CACHE_DIR XDG_CACHE_HOME="$work/empty"
problems -u TOLK_CACHE_DIR -u XDG_CACHE_HOME HOME="$work/empty"
[ -z "$(ls -A empty)" ] || problem "doctor made $(ls -A empty)"
finish
