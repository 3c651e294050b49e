#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# in-guest.sh BUILDDIR AREA PROGRAM [OPTION]...: runs bench/AREA/guest.sh in a guest with soft-RoCE (tests/guest/run, with
# these options) and prints what it left in $OUT/results, one JSON object a line. 77, with a reason, if the build has no
# PROGRAM of that area, or if NEEDS, a program of perftest, is not installed. ROUNDS goes inside.
set -eu
build=${1:?in-guest.sh BUILDDIR AREA PROGRAM [OPTION]...} area=$2 program=$3
shift 3
bench=$(cd "$(dirname "$0")" && pwd)
if ! command -v "${NEEDS:-true}" > /dev/null; then
	echo "SKIP: $NEEDS is not installed (Debian package perftest)" >&2
	exit 77
fi
if [ ! -x "$build/bench/$area/$program" ]; then
	echo "SKIP: built without what bench/$area/$program needs" >&2
	exit 77
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
code=0
"$bench/../tests/guest/run" --build "$build" --cpu max,-erms,-fsrm --results "$results" \
	${ROUNDS:+--env "ROUNDS=$ROUNDS"} "$@" "$bench/$area/guest.sh" >&2 || code=$?
[ $code = 77 ] && exit 77
cat "$results"/*.jsonl || code=1
exit $code
