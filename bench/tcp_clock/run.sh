#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: how right one-way latencies are, between two guests; one JSON object a line.
set -eu
build=${1:?run.sh BUILDDIR}
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
code=0
"$root/tests/guest/run" --quiet --build "$build" --guests 2 --threads single --timeout 240 --env REQUESTS=1000 --results "$out" \
	"$root/tests/guest/net.sh" >&2 || code=$?
[ -e "$out/tcp-clock.jsonl" ] && cat "$out/tcp-clock.jsonl"
exit $code
