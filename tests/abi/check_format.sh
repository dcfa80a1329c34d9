#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Every C file is as clang-format 19 writes it. `check_format.sh --fix [FILE...]` makes it so.
# Tables (.def) are aligned by hand.
set -euo pipefail
cd "$(dirname "$0")/../.."
format=$(command -v clang-format-19) || {
    echo "clang-format-19 is not installed" >&2
    exit 77
}
if [ "${1:-}" = --fix ]; then
    shift
    if [ $# -gt 0 ]; then
        exec "$format" -i "$@"
    fi
    action=-i
else
    action='--dry-run -Werror'
fi
# shellcheck disable=SC2086
find src include tools tests bench examples -name '*.[ch]' -type f -print0 |
    xargs -0 -r "$format" $action
