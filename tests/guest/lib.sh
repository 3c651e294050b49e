# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that tests/guest/run runs inside of a guest; see run --help.

checks=0 failed=0
SLOWER=10 # all bounds are for a quiet machine, and this is how much slower another one may be
export PYTHONPATH=$SOURCE/tests

# check NAME COMMAND...: runs it, shows its output if it failed, and counts. What it skips (a line
# 'SKIP: reason') is said to the outside. A program that does not end within SECONDS_EACH (150; SLOWER times as many
# on a machine that is slow, or busy; as many times more as make soak does more) has failed, and what the kernel's
# tasks wait for is shown.
check() {
	local name=$1 log=/tmp/check.log code=0 limit=() begin=$SECONDS scale=${SL_TEST_SCALE%.*}
	shift
	checks=$((checks + 1))
	[ "$scale" -ge 1 ] || scale=1
	[ "$(type -t "$1")" = file ] && limit=(timeout -k 5 $((SLOWER * scale * ${SECONDS_EACH:-150})))
	echo "@@CHECK $name"
	"${limit[@]}" "$@" > $log 2>&1 || code=$?
	if [ "${limit[*]}" ] && { [ $code = 124 ] || [ $code = 137 ]; }; then
		echo "FAIL $name did not end; the kernel says:"
		for key in l w; do echo $key > /proc/sysrq-trigger; done
		dmesg | tail -n 150
	fi
	if [ $code = 0 ]; then
		echo "ok   $name ($((SECONDS - begin)) s)"
	else
		failed=$((failed + 1))
		echo "FAIL $name (${*@Q}: $code)"
		tail -n 40 $log | sed 's/^/     | /'
	fi
	sed -n "s/^SKIP: */SKIP: $name: /p; /^=/p" $log
}

# Ends the script: 0 if every check passed, and there were some.
finish() {
	echo "$checks checks, $failed failed"
	[ $failed = 0 ] && [ $checks -gt 0 ]
	exit
}

# wait_for SECONDS COMMAND...: until it succeeds. On a machine that is slow, or busy with other things,
# SLOWER times as long. Without a process: to start one costs more under emulation than what is waited for.
nap=$(mktemp -u) && mkfifo "$nap" && exec {nap}<> "$nap"
wait_for() {
	local end=$((SECONDS + SLOWER * $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		read -rt 0.05 -u "$nap" || true
	done
}

# hot FILE...: copies programs from 9p, which is slow, to memory, and puts them on the PATH; with sidelight, those that it
# executes.
hot() {
	local program
	for program in "$BUILD"/sidelight-*; do
		[[ " $* " != *"/sidelight "* ]] || [ ! -f "$program" ] || set -- "$@" "$program"
	done
	mkdir -p /tmp/hot
	cp "$@" /tmp/hot/ || { echo "FAIL: not built"; exit 1; }
	PATH=/tmp/hot:$PATH
}

# Two guests: say that one came to a point, and wait until the other one did.
tell() { echo "${*:2}" > "$OUT/$1.part" && mv "$OUT/$1.part" "$OUT/$1"; }
heard() { [ -e "$OUT/$1" ]; }
hear() { wait_for "${2:-120}" heard "$1" && cat "$OUT/$1"; }

# Counts the RDMA objects in this guest's kernel, except for the kernel's own (the CM's queue pair, which has no process).
rdma_left() {
	rdma resource show qp | grep -c 'pid ' || true
	rdma resource show mr | grep -c 'pid ' || true
}
