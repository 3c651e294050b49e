#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: connections of one guest, READ by another over soft-RoCE out of the kernel's memory.
set -eu
build=${1:?run.sh BUILDDIR}
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -x "$build/bench/tcp_read/bench_tcp_read" ]; then
	echo "SKIP: built without RDMA or eBPF" >&2
	exit 77
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
code=0
"$here/../../tests/guest/run" --build "$build" --guests 2 --threads single --cpu max,-erms,-fsrm --timeout 200 \
	--results "$results" "$here/guest.sh" >&2 || code=$?
[ $code = 77 ] && exit 77
cat "$results/tcp_read.jsonl"
exit $code
