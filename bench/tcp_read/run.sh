#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR: connections of one guest, READ by another over soft-RoCE out of the kernel's memory. One JSON object a line.
exec "$(dirname "$0")/../in-guest.sh" "${1:?run.sh BUILDDIR}" tcp_read bench_tcp_read --guests 2 --threads single --timeout 200
