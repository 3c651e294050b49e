#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR - the figures of publishing, one JSON object a line.
set -eu
bench=${1:?run.sh BUILDDIR}/bench/lib/bench_publish
if [ ! -x "$bench" ]; then
	echo "bench/lib: $bench is not there: install prometheus-cpp-dev, configure with -Dbench=true" >&2
	exit 1
fi
# PCP MMV maps a file of its own below this folder, and asks for no daemon.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/mmv"
PCP_TMP_DIR=$tmp "$bench" "${2:-11}"
