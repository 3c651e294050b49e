#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILDDIR - the figures of the exposition, one JSON object a line.
set -eu
bench=$1/bench/export/bench_expose
sidelight=$1/sidelight
if [ ! -x "$bench" ]; then
	echo "bench/export: no $bench: install prometheus-cpp-dev, configure with -Dbench=true" >&2
	exit 1
fi

# A collector that has 100,000 series: 100 pods of 1,000 metrics.
dir=$(mktemp -d)
pids=
stop() {
	for p in $pids; do
		kill "$p" 2>/dev/null || true
	done
	wait
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' INT TERM

# ready NAME: waits for its line
ready() {
	for _ in $(seq 300); do
		grep -qs '^ready' "$dir/$1" && return
		sleep 0.1
	done
	cat "$dir/$1" "$dir/log" >&2
	echo "bench/export: sidelight $1 does not get ready" >&2
	exit 1
}
# Ours and the peer's threads alike: whoever else uses the machine is not what is measured.
fifo=
if chrt -f 1 true 2>/dev/null; then
	fifo="chrt -f 1"
fi
"$sidelight" agent --socket "$dir/sock" --no-rest >"$dir/agent" 2>"$dir/log" &
pids=$!
ready agent
$fifo "$sidelight" collect --agent "$dir/sock" --listen 127.0.0.1:0 --period 1s --history 0 >"$dir/collect" 2>>"$dir/log" &
pids="$! $pids"
ready collect
"$sidelight" generate metrics --socket "$dir/sock" --pods 100 --pods-per-process 10 --metrics 1000 \
	--updates 1000 --hold 10m 2>"$dir/generate" >/dev/null &
pids="$! $pids"
ready generate
port=$(sed -n 's/^ready .*listen=[^ ]*:\([0-9]*\).*/\1/p' "$dir/collect")
sleep 3 # two rounds
$fifo "$bench" -c "$port"
