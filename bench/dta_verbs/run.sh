#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: WRITE and FETCH_ADD against perftest, in a guest with soft-RoCE. One JSON object a line.
NEEDS=ib_write_bw exec "$(dirname "$0")/../in-guest.sh" "${1:?run.sh BUILDDIR}" dta_verbs bench_verbs --timeout 400
