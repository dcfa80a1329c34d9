# SPDX-License-Identifier: MIT
#
# The prompt with piped input: the same commands in one process, arrays and kernels by name, and no
# command that ends it. tests/tool/test_terminal.c has it on a terminal.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache HOME=$work
scale=$examples/scale.uop

# prompt CODE LINE...: give these lines to the prompt
prompt() {
    local want=$1 got
    shift
    checks=$((checks + 1))
    printf '%s\n' "$@" | "$jit" >out 2>err
    got=$?
    [ "$got" = "$want" ] || problem "exit $got, expected $want: $* ($(head -c 300 err))"
}
errors() { # N TEXT...: so many lines on stderr, and these among them
    [ "$(wc -l <err)" = "$1" ] || problem "$(wc -l <err) lines on stderr, expected $1: $(cat err)"
    shift
    for text in "$@"; do
        grep -qF -- "$text" err || problem "no error \"$text\": $(cat err)"
    done
}

# nothing, the end, and a last line without its newline
expect 0 "$jit"
[ -s out ] && problem "no input, but output: $(cat out)"
prompt 0 ''
prompt 0 '   # only a comment'
prompt 0 quit bogus
errors 0
prompt 0 :exit bogus
errors 0
checks=$((checks + 1))
printf 'version' | "$jit" >out 2>err || problem 'version without a newline fails'
has 'tolk-jit '
printf 'version\r\n' | "$jit" >out 2>err || problem 'version with CR LF fails'
has 'tolk-jit '
[ -e "$work/.local" ] && problem 'a script leaves a history'

# a bad command never ends it; the exit code is that of the worst
prompt 2 bogus "run $scale" 'run nothing.uop' 'run' "run '$scale" 'show x' 'save x y' 'drop x' 'load' 'load 1=a.npy' \
    'load a=nothing.npy' 'arrays x' 'help bogus' ':' 'quit now' 'run -' 'load -' 'show' 'version'
errors 18 "unknown command 'bogus'" "unknown command ':'" 'parameter x (f32[1024]) is read' 'nothing.uop: No such file' \
    'run: expected a file' "there is a ' that no other one ends" "no array or kernel 'x'" "there is no array 'x'" \
    'load: expected K.uop or NAME=FILE.npy' 'load 1=a.npy: expected NAME=FILE.npy' 'nothing.npy' \
    "arrays: unexpected argument 'x'" "quit: unexpected argument 'now'" "-: standard input is the prompt's own" \
    'show: expected NAME'
has 'tolk-jit ' # the last one still ran
prompt 1 "run $scale --arg x=1 --out y=/nonexistent/a.npy" version
errors 1 'cannot write'
prompt 2 'bogus --json' 'version'
errors 1 'bogus'
prompt 2 "run $scale --json" "bogus"
[ "$(grep -c '"error"' out)" = 1 ] || problem "--json of one command holds for the next: $(cat out)"

# arrays by name
prompt 0 "run $scale --arg x=2 --out y=a" 'run scale --arg x=a --out y=b' ':run scale --arg x=b --device interp --out y=a' \
    arrays kernels 'show a 2' 'show b' 'save b b.npy' 'load c=b.npy d=b.npy' 'drop b d' 'show c 1' arrays
has 'a = f32[1024] 6 6 6'
has 'b = f32[1024] 18 18 18'
has 'a = f32[1024] 54 54 54'
has 'a = f32[1024]  4096 bytes'
has "scale  from $scale"
has 'a = f32[1024] 54 54 ...'
has 'c = f32[1024] 18 ...'
tail -n 3 out | tr '\n' '|' >tail
[ "$(cat tail)" = 'c = f32[1024] 18 ...|a = f32[1024]  4096 bytes|c = f32[1024]  4096 bytes|' ] ||
    problem "after drop: $(cat tail)"
[ "$(head -c 6 b.npy | tail -c 5)" = NUMPY ] || problem 'save writes no .npy file'
# of another shape or dtype they are refused like files
cat >small.uop <<'E'
tolk.uop 1
%0 = const index 4
%1 = param f64 (%0) {slot=0, name="y"}
%2 = param f64 (%0) {slot=1, name="x"}
%3 = range index (%0) {axis=0, kind=global}
%4 = index f64 (%2, %3)
%5 = load f64 (%4)
%6 = index f64 (%1, %3)
%7 = store void (%6, %5)
%8 = end void (%7, %3)
%9 = sink void (%8) {name="small"}
E
prompt 2 "run $scale --arg x=2 --out y=a" 'run small.uop --arg x=a' 'run small --arg x=3 --out y=s' 'run scale --arg x=s' \
    'run scale --arg x=none' 'run scale --arg x=2 --out y=inf'
errors 3 'expected f64[4], the array has f32' 'expected f32[1024], the array has f64' \
    'there is no array of that name, and no file either'
[ -f inf ] || problem '--out y=inf keeps an array of a name that is a number'

# REPL-03: the newest kernel of a name counts; the older one's results stay
sed 's/0x1.8p+1/0x1p+1/' "$scale" >twice.uop
prompt 0 "run $scale --arg x=2 --out y=a" 'run twice.uop --arg x=2 --out y=b' 'run scale --arg x=a' 'show a 1' 'show b 1' \
    kernels "load $scale" 'run scale --arg x=a'
has 'y = f32[1024] 12 12'
has 'a = f32[1024] 6 ...'
has 'b = f32[1024] 4 ...'
has 'y = f32[1024] 18 18'
has 'scale  from twice.uop'
# a file that is read again is read anew, and a kept kernel needs no file
cp "$scale" mine.uop
prompt 0 'run mine.uop --arg x=1 --out y=a' 'emit twice.uop --emit=uop -o mine.uop' 'run mine.uop --arg x=1 --out y=b'
has 'a = f32[1024] 3 3'
has 'b = f32[1024] 2 2'

# linears: arrays by name, and their kernels, which are kept
pipeline=$examples/pipeline.uop
export TOLK_CPU_DEVICES=2
prompt 0 "run $pipeline --arg in=2 --set n=3 --out buffer0=a --out s=b" "run $pipeline --arg in=a --set n=3" arrays kernels \
    'run square --arg x=a --set n=3 --out y=a' "run $pipeline --arg in=a --set n=3 --out buffer2=w" 'show w'
has 'a = f32[3] 4 4 4'
has 'b = f32[1] 24' # 4 + 8 + 12
has 's = f32[1] 96' # 16 + 32 + 48
has 'a = f32[3]  12 bytes'
has "weigh  from $pipeline"
has 'kernel square on CPU'
has 'a = f32[3] 16 16 16'
has 'w = f32[3] 256 512 768'
prompt 2 "run $pipeline --arg in=2 --set n=3 --out buffer0=a" "run $pipeline --arg in=a --set n=4" \
    "run $pipeline --arg in=none --set n=4" "run $pipeline --arg in=1 --set n=4 --out buffer0=c --out buffer2=c"
errors 3 '--arg in=a: expected 4 elements, or the largest 4096, the array has 3' \
    'in=none: there is no array of that name, and no file either' '--out buffer2=c: buffer0 goes there, too: expected another name'
prompt 0 "load $pipeline" 'run weigh --arg x=2 --set n=3'
has 'y = f32[3] 2 4 6'
prompt 2 "run $pipeline --arg in=1" 'run sum --arg x=1 --set n=9'
has 's = f32[1] 9'

# compiled once, then from memory, whatever comes between
prompt 0 "run $scale --arg x=1" 'run scale --arg x=2' "verify scale --rounds 1 --target native" 'fmt twice.uop' doctor devices \
    'cache stats' 'run scale --arg x=3' history 'history --json'
has 'cache: memory'
grep -E '^compile [0-9.]+ ms, cache: ' out | sed 's/.*: //' | tr '\n' ' ' >cached
case $(cat cached) in *'memory memory ') ;; *) problem "caches: $(cat cached)" ;; esac
grep -qE '^  0  scale: cache ' out || problem 'history has no first line'
if command -v python3 >/dev/null; then
    tail -n 1 out | python3 -c 'import json, sys; assert len(json.load(sys.stdin)) >= 5' || problem 'history --json'
fi

# words: quotes, backslashes, comments, lines that go on
prompt 0 "run \"$scale\" --arg x=2 --opts 'LANE:0:4 UPCAST:0:2' # with options"
has 'loop options: LANE:0:4 UPCAST:0:2'
cp "$scale" 'a b#c.uop'
prompt 0 'run "a b#c.uop" --arg x=2' "run 'a b#c.uop' --arg x=2" 'run a\ b#c.uop --arg x=2' 'run a\ b#c.uop \' '--arg x=2'
[ "$(grep -c 'y = f32\[1024\] 6 6' out)" = 4 ] || problem "quoted words: $(cat out err)"
prompt 2 "run $(head -c 100000 /dev/zero | tr '\0' x)" "run $(yes x | head -n 3000 | tr '\n' ' ')" version
errors 2
has 'tolk-jit '
printf '\000\001\002\377\376\nversion\n' | "$jit" >out 2>err
has 'tolk-jit '
tr -d '\n' <err | LC_ALL=C grep -q '[[:cntrl:]]' && problem 'control characters in a message'

# a NUL does not cut a line: the line is refused
for text in 'version\0 --bogus\n' '\0\n' 'version\0' 'version \\\n\0\n'; do
    checks=$((checks + 1))
    # shellcheck disable=SC2059
    printf "$text" | "$jit" >out 2>err
    [ $? = 2 ] || problem "a NUL in a line: $text"
    errors 1 'a line has a NUL byte: expected text'
    [ -s out ] && problem "a line with a NUL was run: $(cat out)"
done

# help names each command
prompt 0 help 'help run' 'help show'
for word in 'tolk-jit run K.uop' 'load K.uop' arrays kernels 'save NAME' 'drop NAME' history quit '--repeat N' 'show NAME [N]'; do
    has "$word"
done
finish
