#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR - the collector's figures, one JSON object a line.
set -eu
exec python3 "$(dirname "$0")/bench_collect.py" "$1/sidelight"
