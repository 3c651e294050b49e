# SPDX-License-Identifier: Apache-2.0
# Two machines: applications and agent on the first, the collector on the second, RDMA between.
# Each step is announced by tell and awaited by hear, so that both do it at the same time.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight"

pods=8 metrics=64 threads=2 updates=5000
each=$((threads * updates)) series=$((pods * metrics))

# Packets from here no longer arrive elsewhere, but packets to here do, so that the agent detects that its reader has left; its
# probes take a minute. Not 'ip link set eth0 down': then there would be no route, and if the agent gives up its reader
# meanwhile (a probe takes 5 s), soft-RoCE of Linux 6.1 fails to send the CM's disconnect, and the CM's own queue pair is deaf
# until 'rdma link delete'.
cut() { tc qdisc add dev eth0 root netem loss 100%; }
mend() { tc qdisc del dev eth0 root; }

# ---- the observed host --------------------------------------------------------------------------

agent_start() {
	: > /tmp/agent.out
	sidelight agent --rdma "$RDMA_DEVICE" --host --no-rest --grace 5s > /tmp/agent.out 2>> /tmp/agent.err &
	agent=$!
	wait_for 30 grep -q '^ready' /tmp/agent.out
}

status() { sidelight agent --status --json; }
queue_pairs() { rdma resource show qp | grep -c "pid $agent " || true; }
queue_pairs_are() { [ "$(queue_pairs)" = "$1" ]; }
generated() { grep -q '^ready' "$1"; }

# Publishes and keeps running; readers must see the totals that it prints.
generate() {
	local name=$1
	shift
	sidelight generate metrics --service "$name" --hold 600s "$@" --json \
		> "/tmp/$name.out" 2> "/tmp/$name.err" &
	wait_for 40 generated "/tmp/$name.err"
}

host() {
	check agent-is-ready-with-rdma agent_start
	cat /tmp/agent.err
	tell agent
	check pods-publish generate shop -n $pods -m $metrics -t $threads -u $updates
	check a-pod-keeps-counting generate live -n 1 -m 1 -u 100000000 -r 1000
	tell published

	hear collected > /dev/null
	check one-queue-pair-for-one-collector wait_for 30 queue_pairs_are 1
	tell counted

	hear collector-killed > /dev/null
	check a-killed-collector-leaves-no-queue-pair wait_for 30 queue_pairs_are 0
	tell host-is-clean
	hear collector-again > /dev/null
	check its-successor-has-one wait_for 30 queue_pairs_are 1

	kill -9 $agent
	wait $agent 2> /dev/null
	tell agent-killed
	sleep 1
	check the-agent-starts-again agent_start
	tell agent-again
	hear agent-found > /dev/null

	cut
	tell link-down
	hear link-missed > /dev/null
	mend
	tell link-up
	hear link-found > /dev/null
	check a-lost-link-leaves-one-queue-pair wait_for 40 queue_pairs_are 1

	tc qdisc add dev eth0 root netem loss 1%
	tell lossy
	hear loss-read > /dev/null
	tc qdisc del dev eth0 root
	tell lossless

	# The collector's machine vanishes without a word: the probe finds out.
	hear collector-gone > /dev/null
	ip link set eth0 down
	tell deaf
	check a-collector-that-vanished-is-forgotten wait_for 60 queue_pairs_are 0
	ip link set eth0 up

	kill %% 2> /dev/null
	kill -TERM $agent
	check the-agent-stops-cleanly wait $agent
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	tell host-done
}

# ---- the collector ------------------------------------------------------------------------------

collector_start() {
	: > /tmp/collect.out
	sidelight collect --agent "$PEER" --dev "$RDMA_DEVICE" --period 10ms \
		--listen 127.0.0.1:9464 --read-timeout 500ms --stale 1s --analyse --warm-up 10s \
		> /tmp/collect.out 2>> /tmp/collect.err &
	collector=$!
	wait_for 40 grep -q '^ready' /tmp/collect.out
}

get() {
	exec 3<> /dev/tcp/127.0.0.1/9464 &&
		printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3 && cat <&3
	exec 3>&-
}
scrape() { get /metrics; }
loses_packets() { get /api/v1/incidents | grep -q "has lost packets at $RDMA_DEVICE port 1 since "; }

# Every series of the shop is there, and has just the value that was counted.
exact() {
	scrape > /tmp/metrics
	[ "$(grep -c 'generated_updates_total{.*service="shop"' /tmp/metrics)" = $series ] &&
		[ "$(grep -c "generated_updates_total{.*service=\"shop\".* $each\$" /tmp/metrics)" = $series ]
}
live() { scrape | sed -n 's/^generated_updates_total{.*service="live".* //p'; }
moves() {
	local before after
	before=$(live)
	sleep 0.2
	after=$(live)
	[ "$before" ] && [ "$after" ] && [ "$after" -gt "$before" ]
}
absent() { [ -z "$(live)" ]; }
collector_value() { scrape | sed -n "s/^$1 //p"; }

collector() {
	hear agent > /dev/null
	hear published > /dev/null
	check collector-is-ready collector_start
	check every-value-is-exact wait_for 40 exact
	check a-counting-pod-is-seen-counting wait_for 60 moves
	tell collected
	hear counted > /dev/null

	for again in 1 2 3; do
		kill -9 $collector
		wait $collector 2> /dev/null
		[ $again = 3 ] || collector_start
	done
	tell collector-killed
	hear host-is-clean > /dev/null
	check a-killed-collector-starts-again collector_start
	check a-restarted-collector-finds-every-value wait_for 40 exact
	tell collector-again

	hear agent-killed > /dev/null
	hear agent-again > /dev/null
	check a-restarted-agent-is-found-with-every-value wait_for 40 exact
	check a-restarted-agent-continues-counting wait_for 60 moves
	tell agent-found

	hear link-down > /dev/null
	check a-lost-link-makes-its-series-stale wait_for 40 absent
	check the-collector-still-answers test -n "$(collector_value 'sidelight_build_info.*')"
	tell link-missed
	hear link-up > /dev/null
	check a-link-that-is-back-is-used wait_for 60 moves
	check a-restored-link-gives-every-value wait_for 40 exact
	tell link-found

	hear lossy > /dev/null
	check with-loss-reads-continue wait_for 60 moves
	check with-loss-every-value-is-exact wait_for 60 exact
	# What is lost on the way to the host is missing in the host's counters of sequence numbers.
	tc qdisc add dev eth0 root netem loss 2%
	check the-port-that-loses-packets-is-an-incident wait_for 60 loses_packets
	tc qdisc del dev eth0 root
	tell loss-read
	hear lossless > /dev/null
	check after-loss-reads-continue wait_for 60 moves

	grep -E '^sidelight_.*(error|timeout|disconnect|connects)' /tmp/metrics | head -20
	tell collector-gone
	hear deaf > /dev/null
	kill -TERM $collector
	check the-collector-stops-cleanly wait $collector
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	hear host-done > /dev/null
	sed 's/^/     | /' /tmp/collect.err | tail -30
}

if [ "$GUEST" = 0 ]; then host; else collector; fi
finish
