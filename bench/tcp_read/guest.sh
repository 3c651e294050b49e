# SPDX-License-Identifier: Apache-2.0
# Two guests: the one has connections and an agent, the other READs. Three times, the median.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/bench/tcp_read/bench_tcp_read"

seconds=8 watched=5 connections=1000
mkdir -p "$OUT/results"

# What the agent's threads spent so far: ticks of user time, ns on a CPU.
spent() {
	cat /proc/$agent/task/*/stat | awk '{ sub(/.*\) /, ""); u += $12 } END { printf "%d ", u }'
	cat /proc/$agent/task/*/schedstat | awk '{ ns += $1 } END { print ns }'
}

# While nobody connects or goes.
spent_in() {
	local before
	before=$(spent)
	sleep $watched
	echo "$before $(spent)" >> "$1"
}

agent_is_ready() { grep -q '^ready' /tmp/agent.out; }

host() {
	ip link set eth0 mtu 4400
	sidelight agent --tcp --tcp-flows 4096 --rdma "$RDMA_DEVICE" --no-rest > /tmp/agent.out 2>&1 &
	agent=$!
	wait_for 60 agent_is_ready
	ulimit -n 8192
	/usr/bin/python3 - $connections <<- 'PYTHON' &
		import socket, sys, time
		listener = socket.create_server(('127.0.0.1', 0), backlog=64)
		kept = []
		for _ in range(int(sys.argv[1])):
		    c = socket.create_connection(listener.getsockname())
		    s = listener.accept()[0]
		    c.sendall(b'q' * 1000)
		    s.recv(1000)
		    kept += [c, s]
		open('/tmp/there', 'w').close()
		while True:  # some of the records change while they are read
		    for c, s in zip(kept[:20:2], kept[1:20:2]):
		        c.sendall(b'q' * 1000)
		        s.recv(1000)
		    time.sleep(0.01)
	PYTHON
	traffic=$!
	wait_for 60 test -e /tmp/there
	tell ready
	spent_in /tmp/alone
	for round in 1 2 3; do
		hear go-$round > /dev/null
		spent_in /tmp/spent
	done
	tell spent "$(awk '{ t += $3 - $1; ns += $4 - $2 } END { print t, ns }' /tmp/spent)" \
		"$(awk '{ print $3 - $1, $4 - $2 }' /tmp/alone)"
	kill $traffic
}

reader() {
	ip link set eth0 mtu 4400
	hear ready > /dev/null
	for round in 1 2 3; do
		bench_tcp_read "$PEER" "$RDMA_DEVICE" $seconds > /tmp/round &
		wait_for 30 grep -q reading /tmp/round
		tell go-$round
		wait $! || exit 1
		grep -v reading /tmp/round >> /tmp/read
	done
	spent=$(hear spent)
	sort -g /tmp/read | awk -v s="$spent" -v c=$connections -v sec=$watched '
		NR == 2 {
			split(s, of, " ")
			how = c " connections, both ends in one guest, 10 of them busy; READ by another guest one-sided " \
				"over soft-RoCE, qemu tcg"
			printf "{\"name\":\"tcp.read\",\"value\":%d,\"unit\":\"flow records/s\",\"conditions\":\"%s; " \
				"one READ of all slots at a time; %d of %d records did not settle at the first look\"}\n", \
				$1, how, $3, $2
			printf "{\"name\":\"tcp.read.hostcpu\",\"value\":%d,\"unit\":\"ticks\",\"conditions\":\"user time " \
				"of the agent in 3 times %d s of that, a tick is 10 ms; on a CPU %d ns in all; in %d s that " \
				"nobody read it %d ticks, %d ns; %s\"}\n", of[1], sec, of[2], sec, of[3], of[4], how
		}' > "$OUT/results/tcp_read.jsonl"
	cat "$OUT/results/tcp_read.jsonl"
}

if [ "$GUEST" = 0 ]; then host; else reader; fi
