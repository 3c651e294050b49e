#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# in-guest.sh BUILDDIR [OPTION]... SCRIPT: runs SCRIPT in guests with soft-RoCE (tests/guest/run, with
# these options) and prints the lines of results that it leaves in $OUT/results.
set -eu
build=${1:?in-guest.sh BUILDDIR [OPTION]... SCRIPT}
shift
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
trap 'exit 1' INT TERM
code=0
"$(dirname "$0")/../../tests/guest/run" --build "$build" --results "$results" "$@" >&2 || code=$?
[ $code = 77 ] && exit 77
cat "$results"/*.jsonl || code=1
exit $code
