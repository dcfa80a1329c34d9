#!/bin/bash
# SPDX-License-Identifier: MIT
#
# No file of the repository names the folder it lies in or somebody's home.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(pwd -P)
bad=0
folders="CMakeLists.txt CMakePresets.json build.sh .ci cmake src include tools tests bench examples"
# shellcheck disable=SC2086
grep -rnIF "$root/" $folders docs ./*.md >&2 && bad=1
# shellcheck disable=SC2086
grep -rnIE '/(ho[m]e|User[s])/[A-Za-z]' $folders docs ./*.md >&2 && bad=1
[ $bad = 0 ] || echo "a path of one machine" >&2
exit $bad
