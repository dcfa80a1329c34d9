#!/bin/bash
# SPDX-License-Identifier: MIT
#
# One script from a fresh Debian 12 or newer to a run: see usage below.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
    cat <<'T'
./build.sh demo            install what is missing, build, run the kernels of examples/ on arrays
./build.sh build           install what is missing, build all (build/release)
./build.sh test [--full]   install what is missing, build, run every test: formatting and layers,
                           release, ASan and UBSan, TSan, gcc, fuzzers; --full runs all of each
                           random suite instead of 5%
environment:
  TOLK_TEST_SEED=N         seed of the random suites; default: the commit
  TOLK_TEST_SHARE=PERCENT  how much of them; default 5 (100 with --full)
  TOLK_FUZZ_SECONDS=N      for each fuzzer; default 60
T
}

# Debian's names; each is asked for and installed by name.
packages=(clang-19 llvm-19-dev libomp-19-dev libclang-rt-19-dev clang-format-19 gcc libc6-dev
    binutils cmake ninja-build pkgconf libxxhash-dev libpng-dev libedit-dev libcmocka-dev)
# Only compared against; the build does without.
optional_packages=(libsleef-dev)

jobs=$(nproc)
passed=0
failed=0
stage=start
started=$SECONDS

note() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - started)); }

die() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

# ---- packages ----

missing_of() {
    local name
    for name in "$@"; do
        [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$name" 2>/dev/null) == ?i* ]] || echo "$name"
    done
}

install_packages() {
    local missing optional root=()
    if ! command -v dpkg-query >/dev/null; then
        local tool
        for tool in clang-19 llvm-config-19 cmake ninja pkg-config; do
            command -v "$tool" >/dev/null ||
                die "$tool is missing, and this is no Debian where I could install it. Needed, by" \
                    "Debian's names: ${packages[*]}"
        done
        return 0
    fi
    mapfile -t missing < <(missing_of "${packages[@]}")
    [ ${#missing[@]} -gt 0 ] || return 0
    note "installing ${missing[*]}"
    command -v apt-get >/dev/null ||
        die "apt-get is missing; install these packages yourself: ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            die "not root, and sudo is missing; as root: apt-get install ${missing[*]}"
        root=(sudo)
    fi
    "${root[@]}" apt-get update -q ||
        echo "build.sh: apt-get update failed; trying with the lists that are here" >&2
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]} (Debian 12 or newer has them all)"
    mapfile -t optional < <(missing_of "${optional_packages[@]}")
    [ ${#optional[@]} -eq 0 ] ||
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends "${optional[@]}" ||
        echo "build.sh: going on without ${optional[*]} (only benchmarks use it)" >&2
}

# ---- building and testing ----

# build PRESET [TARGET...]
build() {
    local preset=$1
    shift
    if [ ! -f "build/$preset/build.ninja" ] || [ CMakePresets.json -nt "build/$preset/build.ninja" ]; then
        mkdir -p build
        cmake --preset "$preset" >"build/$preset.log" 2>&1 || {
            cat "build/$preset.log" >&2
            die "cmake --preset $preset failed"
        }
    fi
    ninja -C "build/$preset" -j "$jobs" "$@"
}

# The number in attribute $2 of the first <testsuite> of the file $1.
suite_number() {
    grep -m1 -A8 '<testsuite' "$1" | grep -oE "$2=\"[0-9]+\"" | head -n1 | grep -oE '[0-9]+' || echo 0
}

# run_ctest PRESET [CTEST ARGUMENT...]: its counts go to passed and failed.
run_ctest() {
    local preset=$1 xml rc=0 total bad skipped
    shift
    xml=$PWD/build/$preset/junit.xml
    rm -f "$xml"
    ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error \
        --output-junit "$xml" "$@" || rc=$?
    if [ -f "$xml" ]; then
        total=$(suite_number "$xml" tests)
        bad=$(suite_number "$xml" failures)
        skipped=$(($(suite_number "$xml" skipped) + $(suite_number "$xml" disabled)))
        passed=$((passed + total - bad - skipped - 1)) # setup.cache is none
        failed=$((failed + bad))
        [ "$skipped" = 0 ] || echo "$skipped skipped"
    fi
    return $rc
}

# Each fuzzer for TOLK_FUZZ_SECONDS, as many at once as there are cores.
run_fuzzers() {
    local seconds=${TOLK_FUZZ_SECONDS:-60} program name bad=0 running=() names=()
    local out=build/fuzz/run
    rm -rf "$out"
    mkdir -p "$out"
    finish() {
        local i
        for i in "${!running[@]}"; do
            if wait "${running[$i]}"; then
                passed=$((passed + 1))
                echo "${names[$i]}: $(grep -E '^#[0-9]+.*(DONE|pulse|NEW)' "$out/${names[$i]}.log" | tail -n1)"
            else
                failed=$((failed + 1))
                bad=1
                echo "${names[$i]}: FAILED" >&2
                tail -n 60 "$out/${names[$i]}.log" >&2
            fi
        done
        running=() names=()
    }
    for program in build/fuzz/fuzz/fuzz_*; do
        name=${program##*/fuzz_}
        mkdir -p "$out/$name"
        TOLK_CACHE_DIR=$PWD/$out/cache-$name ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
            LSAN_OPTIONS=suppressions=tests/support/lsan.supp:print_suppressions=0 \
            UBSAN_OPTIONS=print_stacktrace=1 \
            "$program" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=3000 \
            -seed=$((TOLK_TEST_SEED & 0x7fffffff)) -artifact_prefix="$out/$name-" \
            "$out/$name" "tests/fuzz/corpus/$name" >"$out/$name.log" 2>&1 &
        running+=($!)
        names+=("$name")
        [ ${#running[@]} -lt "$jobs" ] || finish
    done
    finish
    return $bad
}

# The last line, whatever happened: N passed, N failed.
report() {
    local rc=$?
    if [ $rc -ne 0 ]; then
        [ "$failed" -gt 0 ] || failed=1
        printf '\nbuild.sh test: FAILED in stage: %s\n' "$stage"
    else
        printf '\nbuild.sh test: all stages passed in %d s\n' $((SECONDS - started))
    fi
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit $rc
}

begin() {
    stage=$1
    note "$stage"
}

run_tests() {
    local check
    trap report EXIT
    trap 'exit 143' TERM # so that the report sees it
    trap 'exit 130' INT
    # Settings of the caller would change what the tests see.
    for check in $(compgen -e TOLK_ || true); do
        case $check in
        TOLK_TEST_SEED | TOLK_TEST_SHARE | TOLK_FUZZ_SECONDS) ;;
        *) unset "$check" ;;
        esac
    done
    : "${TOLK_TEST_SEED:=0x$(git rev-parse --short=8 HEAD 2>/dev/null || echo 0)}"
    : "${TOLK_TEST_SHARE:=5}"
    export TOLK_TEST_SEED TOLK_TEST_SHARE
    echo "TOLK_TEST_SEED=$TOLK_TEST_SEED TOLK_TEST_SHARE=$TOLK_TEST_SHARE"

    begin "format, layers, headers"
    for check in format spdx layers paths headers; do
        echo "check_$check"
        bash "tests/abi/check_$check.sh"
    done
    begin "release: build"
    build release
    begin "release: tests"
    run_ctest release
    begin "debug (ASan, UBSan): build"
    build debug
    begin "debug (ASan, UBSan): tests"
    # Several times slower: less of the random suites, unless all is wanted.
    local share=$TOLK_TEST_SHARE
    [ "$share" = 100 ] || share=$(((share + 1) / 2))
    TOLK_TEST_SHARE=$share run_ctest debug
    begin "tsan: build"
    build tsan tests_thread
    begin "tsan: tests"
    run_ctest tsan -L '^thread$'
    begin "gcc: build"
    build gcc tests_unit
    begin "gcc: tests"
    run_ctest gcc -L '^unit$'
    begin "fuzz: build"
    build fuzz tests_fuzz
    begin "fuzz: ${TOLK_FUZZ_SECONDS:-60} s each"
    run_fuzzers
}

case ${1:-} in
demo)
    [ $# = 1 ] || die "demo takes no argument"
    install_packages
    build release programs
    exec examples/demo.sh build/release
    ;;
build)
    [ $# = 1 ] || die "build takes no argument"
    install_packages
    build release
    ;;
test)
    if [ $# = 2 ] && [ "$2" = --full ]; then
        export TOLK_TEST_SHARE=100
    elif [ $# != 1 ]; then
        die "test takes --full or nothing"
    fi
    install_packages
    run_tests
    ;;
-h | --help | help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
