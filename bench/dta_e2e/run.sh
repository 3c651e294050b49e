#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR - reports through a UDP socket on loopback into a collector's stores.
exec python3 "$(dirname "$0")/bench_e2e.py" "$1"
