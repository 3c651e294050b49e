#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR [ROUNDS] - reports a second in the engine, one JSON object a line.
set -eu
bench=${1:?run.sh BUILDDIR}/bench/dta_engine/bench_engine
if [ ! -x "$bench" ]; then
	echo "bench/dta_engine: $bench is not there: configure with -Dbench=true" >&2
	exit 1
fi
"$bench" "${2:-7}"
