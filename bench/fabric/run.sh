#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: READs against perftest, in a guest with soft-RoCE. One JSON object a line.
set -eu
build=${1:?run.sh BUILDDIR}
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v ib_read_bw > /dev/null; then
	echo "SKIP: ib_read_bw is not installed (Debian package perftest)" >&2
	exit 77
fi
if [ ! -x "$build/bench/fabric/bench_read" ]; then
	echo "SKIP: built without RDMA" >&2
	exit 77
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
code=0
"$here/../../tests/guest/run" --build "$build" --cpu max,-erms,-fsrm --timeout 240 \
	--results "$results" "$here/guest.sh" >&2 || code=$?
[ $code = 77 ] && exit 77
cat "$results/fabric.jsonl"
exit $code
