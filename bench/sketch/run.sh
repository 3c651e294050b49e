#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR [ROUNDS] - the figures of the sketches, one JSON object a line.
set -eu
bench=${1:?run.sh BUILDDIR}/bench/sketch/bench_sketch
if [ ! -x "$bench" ]; then
	echo "bench/sketch: $bench is not there: configure with -Dbench=true" >&2
	exit 1
fi
"$bench" "${2:-21}"
