#!/bin/bash
# SPDX-License-Identifier: MIT
#
#   check_install.sh BUILD_DIR C_COMPILER CMAKE
#
# Installs into a folder that is then moved, and builds and runs a program there, by
# find_package(tolk) (shared and static) and by pkg-config. Nothing installed may name the folders
# it was built from.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd -P)
build=$1 cc=$2 cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || {
    cat "$work/log"
    exit 1
}
mv "$work/first" "$work/prefix"
prefix=$work/prefix

# The static library holds debug information in debug builds, with mapped paths: it is checked, too.
if grep -rlaF -e "$source/" -e "$build/" "$prefix"; then
    echo "the files above name $source or $build" >&2
    exit 1
fi

mkdir "$work/program"
cd "$work/program"
cat >main.c <<'C'
#include <stdio.h>
#include <tolk/tolk.h>
int main(void) {
    tolk_ctx *ctx;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_ctx_create(NULL, &ctx, &err) != TOLK_OK)
        return puts(err.msg), 1;
    tolk_ctx_destroy(ctx);
    return printf("%x\n", (unsigned)tolk_version()) < 0;
}
C
cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(tolk 0.1 REQUIRED)
add_executable(user_shared main.c)
target_link_libraries(user_shared tolk::tolk)
add_executable(user_static main.c)
target_link_libraries(user_static tolk::tolk_static)
C
want=$(sed -nE 's/^#define TOLK_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' "$prefix/include/tolk/base.h" |
    { read -r a; read -r b; read -r c; printf '%x' $((a << 16 | b << 8 | c)); })
expect() { # what program...
    local got
    got=$("${@:2}")
    [ "$got" = "$want" ] || {
        echo "$1: prints '$got' instead of '$want'" >&2
        exit 1
    }
    echo "$1: $got"
}

generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt") # no other may be here
"$cmake" -S . -B out -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" >log 2>&1 &&
    "$cmake" --build out >>log 2>&1 || {
    cat log
    exit 1
}
expect "CMake, shared" out/user_shared
expect "CMake, static" out/user_static

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tolk.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cc" main.c -o user_pc $(pkg-config --cflags --libs tolk)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tolk) expect "pkg-config" ./user_pc

if [ -x "$prefix/bin/tolk-jit" ]; then
    "$prefix/bin/tolk-jit" version
    # The compiler is found where it was moved to.
    mkdir cache
    TOLK_CACHE_DIR=$PWD/cache "$prefix/bin/tolk-jit" run "$source/examples/scale.uop" --arg x=1.5 >log 2>&1 &&
        grep -q 'cache: none' log && grep -q '1024] 4.5' log || {
        cat log
        exit 1
    }
fi
