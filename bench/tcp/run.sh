#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: what the eBPF programs cost, one JSON object a line. Some four minutes.
set -eu
build=${1:?run.sh BUILDDIR}
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -x "$build/bench/tcp/bench_tcp" ]; then
	echo "SKIP: built without eBPF" >&2
	exit 77
fi
"$build/bench/tcp/bench_tcp" all || exit $?
exec python3 "$here/bench_exact.py" "$build/sidelight"
