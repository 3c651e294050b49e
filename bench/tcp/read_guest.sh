# SPDX-License-Identifier: Apache-2.0
# Two guests: the one has connections and an agent, the other READs, three rounds, the median.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/bench/tcp_read/bench_tcp_read"

seconds=8 rounds=3 watched=20 connections=1000
mkdir -p "$OUT/results"

# A line for each process of this machine: number, ticks of user time, ns on a CPU, how often it was woken (it had let go
# of its CPU) and preempted. The kernel's threads have no command line.
spent() {
	local p name
	for p in /proc/[0-9]*; do
		{ read -rd '' name < $p/cmdline; } 2> /dev/null || continue
		cat $p/task/*/stat $p/task/*/schedstat $p/task/*/status 2> /dev/null | awk -v pid=${p#/proc/} '
			/\) [RSDTI] / { sub(/.*\) /, ""); ticks += $12; next }
			/^voluntary/ { woken += $2 }
			/^nonvoluntary/ { preempted += $2 }
			NF == 3 && $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ { ns += $1 }
			END { printf "%s %.0f %.0f %.0f %.0f\n", pid, ticks, ns, woken, preempted }'
	done
}

# While nobody connects or goes, here or from elsewhere: the same of the agent, and of all others but who makes the
# traffic and who measures.
spent_in() {
	spent > /tmp/before
	sleep $watched
	spent > /tmp/after
	awk -v agent=$agent -v traffic=$traffic -v me=$BASHPID -v shell=$$ '
		NR == FNR { for (i = 2; i <= 5; i++) old[$1, i] = $i; next }
		($1, 2) in old && $1 != traffic && $1 != me && $1 != shell {
			for (i = 2; i <= 5; i++) sum[$1 == agent, i] += $i - old[$1, i]
		}
		END { for (of = 1; of >= 0; of--) for (i = 2; i <= 5; i++) printf "%.0f ", sum[of, i] }' \
		/tmp/before /tmp/after
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
	hear connected > /dev/null
	idle=$(spent_in)
	tell on
	hear go > /dev/null
	tell spent "$(spent_in) $idle"
	kill $traffic
}

reader() {
	ip link set eth0 mtu 4400
	hear ready > /dev/null
	mkfifo /tmp/on
	bench_tcp_read "$PEER" "$RDMA_DEVICE" $seconds $rounds < /tmp/on > /tmp/read &
	reader=$!
	exec 9> /tmp/on
	wait_for 60 grep -q connected /tmp/read
	tell connected
	hear on > /dev/null
	echo >&9
	wait_for 60 grep -q reading /tmp/read
	tell go
	wait $reader || exit 1
	spent=$(hear spent)
	grep '^[0-9]' /tmp/read | sort -g | awk -v s="$spent" -v c=$connections -v sec=$watched '
		NR == 2 {
			split(s, of, " ")
			how = c " connections, both ends in one guest, 10 of them busy; READ by another guest one-sided " \
				"over soft-RoCE, qemu tcg"
			printf "{\"name\":\"tcp.read\",\"value\":%d,\"unit\":\"flow records/s\",\"conditions\":\"%s; " \
				"one READ of all slots at a time; %d of %d records did not settle at the first look\"}\n", \
				$1, how, $3, $2
			printf "{\"name\":\"tcp.read.woken\",\"value\":%d,\"unit\":\"times\",\"conditions\":\"how often the agent " \
				"was woken in %d s of that, less in %d s that the reader was connected and did not read, %d and " \
				"%d: every 5 s by its own timers, and to probe whether the reader is there; all other processes " \
				"but who makes the traffic: %d and %d; %s\"}\n", of[3] - of[11], sec, sec, of[3], of[11], of[7], of[15], how
			printf "{\"name\":\"tcp.read.hostcpu\",\"value\":%d,\"unit\":\"ticks\",\"conditions\":\"user time of the " \
				"agent in %d s of that, less when the reader was connected and did not read, %d and %d, a tick is " \
				"10 ms; %.0f and %.0f ns on a CPU, what soft-RoCE does in an interrupt or a call of who is there " \
				"included; all other processes but who makes the traffic: %d and %d ticks; %s\"}\n", \
				of[1] - of[9] + of[5] - of[13], sec, of[1], of[9], of[2], of[10], of[5], of[13], how
		}' > "$OUT/results/tcp_read.jsonl"
	cat "$OUT/results/tcp_read.jsonl"
}

if [ "$GUEST" = 0 ]; then host; else reader; fi
