#!/bin/sh
# SPDX-License-Identifier: MIT
#
# demo.sh BUILD-DIR: the kernels of this folder on real arrays, times in a table, pictures in
# ./demo-out. A second run finds the compiled kernels in the disk cache.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-build/release}
if [ ! -x "$build/examples/demo" ]; then
    echo "demo.sh: $build/examples/demo is missing: expected the build folder as argument" >&2
    exit 2
fi
"$build/tolk-jit" version
exec "$build/examples/demo" "$here" demo-out
