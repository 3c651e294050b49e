#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR - what live analysis costs, and how soon the page shows a fault.
set -eu
here="$(dirname "$0")"
python3 "$here/bench_row.py" "$1/sidelight"
python3 "$here/bench_page.py" "$1/sidelight" "$1/tests/act/act-pod"
