# SPDX-License-Identifier: MIT
#
# docs/environment.md names each variable that the sources read, and no other; and whatever is in
# them, there is a result or one line that says what is wrong.
. "$(dirname "$0")/lib.sh"
grep -rhoE '"(TOLK_[A-Z_]+|HOME|XDG_[A-Z_]+|OMP_[A-Z_]+)"' "$src/src" | tr -d '"' |
    grep -v '^TOLK_E_' | sort -u >read.txt
grep -oE '^\| `[A-Z_]+`' "$src/docs/environment.md" | tr -d '|` ' | sort -u >told.txt
checks=1
diff read.txt told.txt >&2 || problem 'docs/environment.md and the sources differ (< read, > told)'
[ -s read.txt ] || problem 'no variable found in the sources'

export TOLK_CACHE_DIR=$work/cache
# each letter that the page has for TOLK_DUMP is one, and no other
letters=$(sed -n 's/^| `TOLK_DUMP` |//p' "$src/docs/environment.md" | grep -oE '`[A-Z]`' | tr -d '`\n')
[ ${#letters} -ge 9 ] || problem "letters of TOLK_DUMP: $letters"
for letter in {A..Z} a 1 +; do
    expect 0 env TOLK_DUMP="$letter" "$jit" version
    case $letters in
    *"$letter"*) [ -s err ] && problem "TOLK_DUMP=$letter: $(cat err)" ;;
    *) [ "$(grep -cF "there is no pass of letter '$letter', expected letters of $letters" err)" = 1 ] ||
        problem "TOLK_DUMP=$letter: $(cat err)" ;;
    esac
done
rubbish=('' ' ' -1 0 abc 99999999999999999999999 $'\x01\x02\xff\xfe' $'a\nb' $'\xf0\x9f\x98' '%s%n%s' , +
    native, native,+bogus native,-sse2 x86-64,+avx512f 1e3 0x10 /dev/null /proc/self/mem // ../../..
    "$(head -c 100000 /dev/zero | tr '\0' A)")
mkdir odd
cd odd || exit 1 # names of cache directories among them are relative
for name in TOLK_CPU TOLK_TIER TOLK_THREADS TOLK_DEBUG TOLK_CACHE_DIR TOLK_DUMP \
    TOLK_CPU_DEVICES TOLK_SPIN_US TOLK_FREELIST_BYTES TOLK_MEMORY_PLAN TOLK_SCHEDULE_CACHE; do
    for value in "${rubbish[@]}"; do
        for command in "run $examples/scale.uop --arg x=1" 'cache stats'; do
            checks=$((checks + 1))
            # shellcheck disable=SC2086
            env "$name=$value" timeout 60 "$jit" $command >../out 2>../err
            code=$?
            lines=$(wc -l <../err)
            what="$name='${value:0:40}' $command: exit $code, $(head -c 300 ../err)"
            case $code in
            0) [ "$lines" -le 1 ] || [ $name = TOLK_DUMP ] || [ $name = TOLK_DEBUG ] || problem "$what" ;;
            1 | 2) [ "$lines" = 1 ] || problem "$what" ;;
            *) problem "$what" ;;
            esac
            tr -d '\n' <../err | LC_ALL=C grep -q '[[:cntrl:]]' && problem "control characters: $what"
        done
    done
done
cd ..
finish
