#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR [ROUNDS] - what a span costs its application, one JSON object a line.
set -eu
exec "${1:?run.sh BUILDDIR}/bench/span/bench_span" "${2:-21}"
