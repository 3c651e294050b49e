#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: WRITE and FETCH_ADD against perftest, in a guest with soft-RoCE. One JSON object a line.
set -eu
build=${1:?run.sh BUILDDIR}
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v ib_write_bw > /dev/null; then
	echo "SKIP: ib_write_bw is not installed (Debian package perftest)" >&2
	exit 77
fi
if [ ! -x "$build/bench/dta_verbs/bench_verbs" ]; then
	echo "SKIP: built without RDMA" >&2
	exit 77
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
code=0
"$here/../../tests/guest/run" --build "$build" --cpu max,-erms,-fsrm --timeout 400 \
	--results "$results" "$here/guest.sh" >&2 || code=$?
[ $code = 77 ] && exit 77
cat "$results/dta.jsonl"
exit $code
