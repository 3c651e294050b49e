# SPDX-License-Identifier: Apache-2.0
# Two guests: one has connections and an agent, the other READs them; the median of three rounds.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/bench/tcp/bench_tcp_read"

seconds=5 rounds=3 watched=20 connections=1000
mkdir -p "$OUT/results"

# A line per process of this machine: number, ticks of user time, nanoseconds on a CPU, voluntary and involuntary
# context switches. Threads of the kernel, which have no command line, are left out.
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

# What the agent spends while no one connects or leaves, and then what all others do, without the traffic's process and
# this one.
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
		while True:  # some records change while they are read
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
	hear done > /dev/null # a guest ends with its script
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
	tell done
	spent=$(hear spent)
	grep '^[0-9]' /tmp/read > /tmp/rounds || exit 1
	floor=$(cut -d' ' -f4 /tmp/rounds | sort -g | sed -n 2p)
	sort -g /tmp/rounds | awk -v s="$spent" -v c=$connections -v sec=$watched -v floor="$floor" '
		function row(name, value, unit, more, what) {
			printf "{\"name\":\"%s\",\"value\":%d,\"unit\":\"%s\",\"peer\":null,\"peer_value\":null,\"ratio\":null,%s", \
				name, value, unit, more
			printf "\"conditions\":\"%s; %s\"}\n", what, how
		}
		NR == 2 {
			split(s, of, " ")
			how = c " connections, both ends in one guest, 10 of them busy; READ by another guest one-sided " \
				"over soft-RoCE, qemu tcg"
			row("tcp.read", $1, "flow records/s", sprintf("\"ratio_to_floor\":%.3f,", $1 / floor), \
				"one READ of all slots at a time; " $3 " of " $2 " records did not settle at the first look")
			row("tcp.read.floor", floor, "flow records/s", "", "the same READs, with no record parsed")
			row("tcp.read.woken", of[3] - of[11], "times", "", "how often the agent was woken in " sec " s of that, " \
				"less while the reader was connected and did not read, " of[3] " and " of[11] ": every 5 s by its " \
				"own timers, and to probe whether the reader is there; all other processes but the traffic: " of[7] \
				" and " of[15])
			row("tcp.read.hostcpu", of[1] - of[9] + of[5] - of[13], "ticks", "", "user time of the agent in " sec \
				" s of that, less while the reader was connected and did not read, " of[1] " and " of[9] ", a tick is " \
				"10 ms; " of[2] " and " of[10] " ns on a CPU, interrupts of soft-RoCE and probes included; all other " \
				"processes but the traffic: " of[5] " and " of[13] " ticks")
		}' > "$OUT/results/tcp_read.jsonl"
}

if [ "$GUEST" = 0 ]; then host; else reader; fi
