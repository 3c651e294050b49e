#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: key-write queries a second and core. One JSON object a line.
exec "${1:?run.sh BUILDDIR}/bench/dta_query/bench_query"
