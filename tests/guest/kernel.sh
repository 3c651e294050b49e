# SPDX-License-Identifier: Apache-2.0
# Two machines: what the kernel of the first knows of its connections is READ by the second, over RDMA,
# out of the kernel's own memory, while the first one's processes do nothing for it.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight"
cp -r "$SOURCE/tests/tcp" "$SOURCE/tests/support" /tmp/ && PYTHONPATH=/tmp # 9p is slow
# Under emulation a look at some thousand connections takes seconds: hence the long quarantine.
connections=${SL_CONNECTIONS:-500}
remote="/usr/bin/python3 /tmp/tcp/remote.py /tmp/hot/sidelight"

agent_is_ready() { grep -q '^ready' /tmp/agent.out; }

host() {
	sidelight agent --tcp --tcp-flows 65536 --tcp-quarantine 60s --rdma "$RDMA_DEVICE" --no-rest \
		> /tmp/agent.out 2> /tmp/agent.err &
	agent=$!
	check agent-is-ready-with-rdma wait_for 60 agent_is_ready
	cat /tmp/agent.err
	tell agent
	# Prints the TCP_INFO of each connection, and keeps the connections open until they have been read.
	check connections-at-rest $remote rest "$OUT"
	check connections-come-and-go $remote churn "$OUT" "$connections"
	hear all-read > /dev/null
	kill -9 $agent
	wait $agent 2> /dev/null
	tell killed
	check killed-agent-leaves-nothing-loaded wait_for 20 nothing_loaded
	check a-consumer-here-reads-without-writing /usr/bin/python3 /tmp/tcp/test_agent.py \
		/tmp/hot/sidelight a_consumer_can_write_to_nothing
	hear done > /dev/null
}

nothing_loaded() { ! bpftool prog show | grep -q ' flow_'; }

# It soon prints one line that says why.
reads_nothing() {
	! sidelight dump --agent "$PEER" --dev "$RDMA_DEVICE" --kind flows --json 2> /tmp/why > /dev/null &&
		[ "$(wc -l < /tmp/why)" = 1 ]
}

reader() {
	hear agent > /dev/null
	check flows-read-over-rdma-are-what-tcp-info-says $remote compare "$OUT" "$PEER" "$RDMA_DEVICE"
	check every-connection-is-seen-with-its-last-values $remote follow "$OUT" "$PEER" "$RDMA_DEVICE" \
		"$connections"
	grep '^=' /tmp/check.log
	tell all-read
	hear killed > /dev/null
	check a-killed-agent-is-reported reads_nothing
	tell done
}

if [ "$GUEST" = 0 ]; then host; else reader; fi
finish
