# SPDX-License-Identifier: MIT
#
# Sourced by the tests of the tool. Each test is a bash script; it works in a fresh folder, counts
# what fails and ends with finish.
set -u
jit=${TOLK_JIT:?the path of tolk-jit}
src=${TOLK_TEST_SOURCE:?the source folder}
examples=$src/examples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
checks=0

problem() {
    failures=$((failures + 1))
    echo "FAILED: $*" >&2
}

# expect CODE CMD...: exit code; output in out, messages in err
expect() {
    local want=$1 got
    shift
    checks=$((checks + 1))
    "$@" >out 2>err </dev/null
    got=$?
    [ "$got" = "$want" ] || problem "exit $got, expected $want: $* ($(head -c 300 err))"
}

# refuse TEXT CMD...: exit 2 with one line on stderr that begins with "tolk-jit: " and has TEXT in it,
# and nothing on stdout
refuse() {
    local text=$1
    shift
    expect 2 "$@"
    one_line "$text" "$*"
    [ -s out ] && problem "output beside an error: $*"
    return 0
}

# fail TEXT CMD...: exit 1 with one line on stderr
fail() {
    local text=$1
    shift
    expect 1 "$@"
    one_line "$text" "$*"
}

one_line() {
    [ "$(wc -l <err)" = 1 ] || problem "$(wc -l <err) lines on stderr, expected 1: $2"
    grep -q '^tolk-jit: ' err || problem "no \"tolk-jit: \" before the message: $2"
    grep -qF -- "$1" err || problem "message is \"$(head -c 400 err)\", expected \"$1\": $2"
}

# has TEXT: the output has it
has() {
    grep -qF -- "$1" out || problem "output has no \"$1\": $(head -c 300 out)"
}

# same A B: two files are equal
same() {
    checks=$((checks + 1))
    cmp -s "$1" "$2" || problem "$1 and $2 differ"
}

# npy FILE DESCR SHAPE [ORDER]: a header; the data comes from standard input
npy() {
    local dict="{'descr': '$2', 'fortran_order': ${4:-False}, 'shape': $3, }" n
    n=$((${#dict} + 1))
    {
        printf '\x93NUMPY\x01\x00'
        printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8)))"
        printf '%s\n' "$dict"
        cat
    } >"$1"
}

# number KEY: a number in the JSON output
number() {
    sed -n "s/.*\"$1\": \\(-\\{0,1\\}[0-9.e+-]*\\).*/\\1/p" out
}

finish() {
    if [ $failures != 0 ]; then
        echo "$failures of $checks checks failed" >&2
        exit 1
    fi
    echo "$checks checks passed"
    exit 0
}
