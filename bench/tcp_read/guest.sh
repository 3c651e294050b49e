# SPDX-License-Identifier: Apache-2.0
# Two guests: the one has connections and an agent, the other READs, three rounds, the median.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/bench/tcp_read/bench_tcp_read"

seconds=8 rounds=3 watched=20 connections=1000
mkdir -p "$OUT/results"

# What the agent's threads spent so far: ticks of user time; ns on a CPU, and how often they got one.
spent() {
	cat /proc/$agent/task/*/stat | awk '{ sub(/.*\) /, ""); u += $12 } END { printf "%d ", u }'
	cat /proc/$agent/task/*/schedstat | awk '{ ns += $1; n += $3 } END { print ns, n }'
}

# While nobody connects or goes, here or from elsewhere.
spent_in() {
	local before
	before=$(spent)
	sleep $watched
	echo "$before $(spent)" | awk '{ print $4 - $1, $5 - $2, $6 - $3 }'
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
	alone=$(spent_in)
	tell ready
	hear go > /dev/null
	tell spent "$(spent_in) $alone"
	kill $traffic
}

reader() {
	ip link set eth0 mtu 4400
	hear ready > /dev/null
	bench_tcp_read "$PEER" "$RDMA_DEVICE" $seconds $rounds > /tmp/read &
	wait_for 60 grep -q reading /tmp/read
	tell go
	wait $! || exit 1
	spent=$(hear spent)
	grep -v reading /tmp/read | sort -g | awk -v s="$spent" -v c=$connections -v sec=$watched '
		NR == 2 {
			split(s, of, " ")
			how = c " connections, both ends in one guest, 10 of them busy; READ by another guest one-sided " \
				"over soft-RoCE, qemu tcg"
			printf "{\"name\":\"tcp.read\",\"value\":%d,\"unit\":\"flow records/s\",\"conditions\":\"%s; " \
				"one READ of all slots at a time; %d of %d records did not settle at the first look\"}\n", \
				$1, how, $3, $2
			printf "{\"name\":\"tcp.read.hostcpu\",\"value\":%d,\"unit\":\"ticks\",\"conditions\":\"user time " \
				"of the agent in %d s of that, a tick is 10 ms; on a CPU %d times, %d ns in all, what it does " \
				"of itself every 5 s included: in %d s that nobody read it %d ticks, %d times, %d ns; " \
				"%s\"}\n", of[1], sec, of[3], of[2], sec, of[4], of[6], of[5], how
		}' > "$OUT/results/tcp_read.jsonl"
	cat "$OUT/results/tcp_read.jsonl"
}

if [ "$GUEST" = 0 ]; then host; else reader; fi
