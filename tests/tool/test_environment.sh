# SPDX-License-Identifier: MIT
#
# docs/environment.md names each variable that the sources read, and no other.
. "$(dirname "$0")/lib.sh"
grep -rhoE '"(TOLK_[A-Z_]+|HOME|XDG_[A-Z_]+|OMP_[A-Z_]+)"' "$src/src" | tr -d '"' |
    grep -v '^TOLK_E_' | sort -u >read.txt
grep -oE '^\| `[A-Z_]+`' "$src/docs/environment.md" | tr -d '|` ' | sort -u >told.txt
checks=1
diff read.txt told.txt >&2 || problem 'docs/environment.md and the sources differ (< read, > told)'
[ -s read.txt ] || problem 'no variable found in the sources'
finish
