# SPDX-License-Identifier: MIT
#
# A full disk and a read-only one under the cache: right results, nothing else. Needs to mount a
# small file system (root, or user namespaces); skipped where that is not allowed.
if [ -z "${TOLK_TEST_IN_NAMESPACE:-}" ]; then
    if unshare -m true 2>/dev/null; then
        TOLK_TEST_IN_NAMESPACE=1 exec unshare -m bash "$0"
    elif unshare -rm true 2>/dev/null; then
        TOLK_TEST_IN_NAMESPACE=1 exec unshare -rm bash "$0"
    fi
    echo 'skipped: no mount namespace'
    exit 77
fi
. "$(dirname "$0")/lib.sh"
mkdir disk
if ! mount -t tmpfs -o size=64k,mode=700 tmpfs disk 2>/dev/null; then
    echo 'skipped: a tmpfs cannot be mounted'
    exit 77
fi
trap 'umount "$work/disk"; rm -rf "$work"' EXIT
export TOLK_CACHE_DIR=$work/disk/cache
scale=$examples/scale.uop

run() {
    expect 0 "$jit" run "$scale" --arg x=2
    has 'y = f32[1024] 6'
    has "cache: $1"
}
run none
run disk
expect 0 "$jit" cache clear
head -c 100000 /dev/zero >disk/filler 2>/dev/null
run none
run none
[ -z "$(find disk/cache -name '*tmp*' 2>/dev/null)" ] || problem 'a temporary file is left'
expect 0 "$jit" doctor
has 'is full'
rm disk/filler
run none
run disk

mount -o remount,ro disk || exit 77
run disk
expect 0 env TOLK_CPU=x86-64 "$jit" run "$scale" --arg x=2
has 'cache: none'
has 'f32[1024] 6'
expect 0 "$jit" doctor
has 'cannot be written: Read-only file system'
mount -o remount,rw disk
finish
