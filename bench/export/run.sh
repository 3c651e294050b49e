#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR - the figures of the exposition, one JSON object a line.
set -eu
bench=$1/bench/export/bench_expose
if [ ! -x "$bench" ]; then
	echo "bench/export: $bench is not there: install prometheus-cpp-dev, configure with -Dbench=true" >&2
	exit 1
fi
exec "$bench"
