#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR [all] - how well faults are found and at what rate, one JSON object a line.
set -eu
"${1:?run.sh BUILDDIR}/bench/detect/bench_pipeline"
exec python3 "$(dirname "$0")/bench_detect.py" "$1/sidelight" "${2:-}"
