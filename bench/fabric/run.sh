#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: READs against perftest, in a guest with soft-RoCE. One JSON object a line.
NEEDS=ib_read_bw exec "$(dirname "$0")/../in-guest.sh" "${1:?run.sh BUILDDIR}" fabric bench_read --timeout 240
