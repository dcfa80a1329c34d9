# SPDX-License-Identifier: MIT
#
# The disk cache as a user meets it: separate processes, and a directory in every bad state. The
# result is right each time. Case ids are those of the collection this project tests against.
. "$(dirname "$0")/lib.sh"
export TOLK_CACHE_DIR=$work/cache
unset TOLK_CPU

kernel() { # FACTOR: y = FACTOR x
    sed "s/0x1.8p+1/$1/" "$examples/scale.uop" >k$1.uop
}
kernel 3
kernel 5

# run FACTOR CACHED: right result, and where the code came from ("any": wherever)
run() {
    expect 0 "$jit" run k$1.uop --arg x=2
    has "y = f32[1024] $(($1 * 2)) $(($1 * 2))"
    [ "$2" = any ] || has "cache: $2"
    # nothing but the result may be said of a cache that does not work, a warning at most
    [ "$(grep -vc -i 'warning\|cache' err)" = 0 ] || problem "on stderr: $(head -c 300 err)"
}
entries() { find "$TOLK_CACHE_DIR" -type f; }

run 3 none
run 3 disk
run 5 none
run 5 disk
run 3 disk
[ "$(entries | wc -l)" -ge 2 ] || problem "$(entries | wc -l) files in the cache, expected 2"
[ "$(stat -c %a "$TOLK_CACHE_DIR")" = 700 ] || problem 'the directory has mode 700'

# the key holds which compiler made the code, so that another build's entries never answer
hash=$(sed -nE 's/.*tk_code_hash\[\] = "([0-9a-f]{64})";/\1/p' "$TOLK_TEST_BUILD/generated/code_hash.c")
[ ${#hash} = 64 ] || problem 'no hash in generated/code_hash.c'
for entry in $(entries); do
    grep -aqF " code $hash llvm " "$entry" || problem "$entry does not name the code"
done

# KEY-03: the same file and kernel name, another body
kernel 3
cp k5.uop k3.uop
expect 0 "$jit" run k3.uop --arg x=2
has 'f32[1024] 10'
kernel 3

# KEY-01, CPUF-03: another CPU is another entry; KEY-07: another folder is not
expect 0 env TOLK_CPU=x86-64 "$jit" run k3.uop --arg x=2
has 'cache: none'
expect 0 env TOLK_CPU=x86-64 "$jit" run k3.uop --arg x=2
has 'cache: disk'
expect 0 env TOLK_CPU=x86-64 A=b "$jit" run "$work/k3.uop" --arg x=2
has 'cache: disk'
run 3 disk

# stats and clear
expect 0 "$jit" cache stats --json
[ "$(number entries)" = 3 ] || problem "$(number entries) entries, expected 3"
[ "$(number bytes)" -gt 0 ] || problem 'bytes of the cache'
expect 0 "$jit" cache clear
expect 0 "$jit" cache stats --json
[ "$(number entries)" = 0 ] || problem "$(number entries) entries after clear"
run 3 none
run 3 disk

# DISK-01: a damaged entry is compiled again and replaced
entry=$(entries | head -1)
cp "$entry" whole
size=$(stat -c %s whole)
damaged() {
    run 3 none
    run 3 disk
}
for n in 0 1 $((size / 2)) $((size - 1)); do
    head -c $n whole >"$entry"
    damaged
done
{
    cat whole
    echo more
} >"$entry"
damaged
for at in 0 3 8 17 40 $((size / 3)) $((size / 2)) $((size - 9)) $((size - 1)); do
    cp whole "$entry"
    byte=$(od -An -tu1 -j $at -N 1 whole | tr -d ' ')
    printf "\\x$(printf %02x $((byte ^ 64)))" | dd of="$entry" bs=1 seek=$at conv=notrunc status=none
    cmp -s whole "$entry" && problem 'the byte was not changed'
    damaged
done
head -c "$size" /dev/urandom >"$entry"
damaged
rm "$entry"
mkdir "$entry"
run 3 any
run 3 any
rm -rf "$entry"
ln -s "$entry" "$entry" # a link to itself
run 3 any
rm -f "$entry"
mkfifo "$entry"
expect 0 timeout 20 "$jit" run k3.uop --arg x=2
has 'f32[1024] 6'
rm -f "$entry"
run 3 any

# DISK-07: another key's file under this name, and rubbish all over the directory
expect 0 "$jit" cache clear
run 5 none
five=$(entries | head -1)
run 3 none
three=$(entries | grep -vF "$five" | head -1)
cp "$five" "$three"
run 3 none
run 3 disk
for i in 1 2 3; do
    head -c 100 /dev/urandom >"$TOLK_CACHE_DIR/rubbish$i"
    head -c 100 /dev/urandom >"$(dirname "$three")/$i"
done
run 3 disk
run 5 disk

# DISK-03: processes that start together
expect 0 "$jit" cache clear
for i in 1 2 3 4 5 6 7 8; do
    for factor in 3 5; do
        "$jit" run k$factor.uop --arg x=2 >together.$factor.$i 2>&1 &
    done
done
wait
for factor in 3 5; do
    for i in 1 2 3 4 5 6 7 8; do
        grep -qF "y = f32[1024] $((factor * 2)) " together.$factor.$i ||
            problem "together: $(cat together.$factor.$i)"
    done
done
run 3 disk
run 5 disk

# processes that are killed at any moment leave nothing that a later one stumbles over
for i in $(seq 30); do
    [ $((i % 3)) = 0 ] && entries | xargs -r rm -f
    "$jit" run k3.uop --arg x=2 >killed 2>&1 &
    sleep "0.0$((i % 10))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    run 3 any
done 2>/dev/null
[ $failures = 0 ] || problem 'a process after a killed one'
run 3 any
run 3 disk

# no place to keep anything
expect 0 env -u TOLK_CACHE_DIR -u XDG_CACHE_HOME -u HOME "$jit" run k3.uop --arg x=2
has 'f32[1024] 6'
expect 0 env TOLK_CACHE_DIR=/proc/nothing "$jit" run k3.uop --arg x=2
has 'f32[1024] 6'
has 'cache: none'
expect 0 env TOLK_CACHE_DIR="$work/k3.uop" "$jit" run k3.uop --arg x=2 # a file
has 'f32[1024] 6'
expect 0 env -u TOLK_CACHE_DIR XDG_CACHE_HOME="$work/xdg" "$jit" run k3.uop --arg x=2
[ -d xdg/tolk ] || problem 'XDG_CACHE_HOME/tolk is used'
expect 0 env -u TOLK_CACHE_DIR -u XDG_CACHE_HOME HOME="$work/home" "$jit" run k3.uop --arg x=2
[ -d home/.cache/tolk ] || problem 'HOME/.cache/tolk is used'

# a directory that others may write to is not trusted
mkdir -m 777 open
expect 0 env TOLK_CACHE_DIR="$work/open" "$jit" run k3.uop --arg x=2
has 'f32[1024] 6'
[ "$(grep -c 'is not used' err)" = 1 ] || problem "the warning is given once: $(cat err)"
expect 0 env TOLK_CACHE_DIR="$work/open" "$jit" run k3.uop --arg x=2
has 'cache: none'

# read-only directory
mkdir -m 500 locked
if [ "$(id -u)" != 0 ]; then
    expect 0 env TOLK_CACHE_DIR="$work/locked" "$jit" run k3.uop --arg x=2
    has 'f32[1024] 6'
    has 'cache: none'
    expect 0 env TOLK_CACHE_DIR="$work/locked" "$jit" doctor
    has 'cannot be written'
fi
finish
