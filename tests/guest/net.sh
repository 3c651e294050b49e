# SPDX-License-Identifier: Apache-2.0
# Network latency between two machines with clocks of their own, the second one's 80 ppm fast: what is said of each
# segment against captures on both ends, and the offset of the clocks by shared memory.
#   live: out of the rings of two agents, READ by RDMA. In make check 5 ms are added in one direction only, which no
#   estimate can tell from an offset, so that the bound has to hold to the last; and a collector, which READs both agents,
#   shows the whole way of a request. In bench/run tcp.clock, where REQUESTS are many, nothing is added.
#   plain, slow (bench/run tcp.clock): from files, at eth0, and in a namespace behind a queue that is slow in one direction.
# Where both guests' CPUs do not run at the same time, as on a busy machine, it is not known to the microsecond how far their
# clocks are apart: small bounds are for bench/run tcp.clock.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/tests/tcp/clock_truth"
cp -r "$SOURCE/tests/tcp" "$SOURCE/tests/support" /tmp/ && PYTHONPATH=/tmp # 9p is slow
port=7310 requests=${REQUESTS:-60}
long=$([ "$requests" -lt 1000 ] || echo yes)
device=eth0 within=() what=(net)
[ "$long" ] || what=(net,layers -p $port --tcp-flows 1024)
if [ "$GUEST" = 0 ] && [ -z "$long" ]; then
	device=sl0 within=(nsenter --net=/run/netns/sl-net)
	what+=(--netns /run/netns/sl-net)
fi

# Creates a namespace behind this guest: its device is the NIC, and the path to it may be slow.
behind() {
	ip netns add sl-net && ip link add sl0 type veth peer name sl1 || return 1
	ip link set sl0 netns sl-net
	ip addr add 10.78.0.1/24 dev sl1 && ip link set sl1 up
	nsenter --net=/run/netns/sl-net ip addr add 10.78.0.2/24 dev sl0
	nsenter --net=/run/netns/sl-net ip link set sl0 up
	nsenter --net=/run/netns/sl-net ip link set lo up
	nsenter --net=/run/netns/sl-net ip route add default via 10.78.0.1
	sysctl -qw net.ipv4.ip_forward=1
}

# captures NAME DEVICE COMMAND-PREFIX...: until stop_capture NAME; that which comes last is written by then.
captures() {
	local name=$1 device=$2
	shift 2
	: > /tmp/dump.err
	"$@" tcpdump -i "$device" -n -s 96 -B 16384 -U --immediate-mode -Z root \
		--time-stamp-precision=nano -w /tmp/$name.pcap "tcp port $port" 2> /tmp/dump.err &
	dump=$!
	wait_for 60 grep -q listening /tmp/dump.err
}
calm() {
	local now
	now=$(stat -c %s "$1")
	[ "$now" = "$size" ] && return
	size=$now
	sleep 0.3
	false
}
stop_capture() {
	size=
	wait_for 30 calm /tmp/$1.pcap
	kill -INT $dump
	wait $dump
	cp /tmp/$1.pcap "$OUT/"
}

records() { # the same, with what is recorded
	captures "$@"
	sidelight tcp net --record /tmp/$1.rec --dev "$2" -p $port 2> /tmp/net.err &
	recorder=$!
	wait_for 60 grep -q '^ready' /tmp/net.err
}
stop_records() {
	stop_capture "$1"
	kill -INT $recorder
	wait $recorder
	cp /tmp/$1.rec "$OUT/"
}

agent() {
	sidelight agent --tcp "${what[@]}" --tcp-dev $device --hostname guest$GUEST --rdma "$RDMA_DEVICE" --no-rest > /tmp/agent.out 2> /tmp/agent.err &
	agent=$!
	wait_for 60 grep -q '^ready' /tmp/agent.out || { cat /tmp/agent.*; false; }
}

client='
import socket, sys, time
end = time.monotonic() + 60
while True:
    try:
        c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.2)
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
i = 0
while not sys.argv[3] or i < int(sys.argv[3]):  # without a number, until it is killed
    i += 1
    c.sendall(b"q" * 200)
    n = 900
    while n:
        n -= len(c.recv(n))
    time.sleep(0.002 if sys.argv[3] else 0.02)
'
server='
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", int(sys.argv[1])))
s.listen()
print("ready", flush=True)
while True:
    c = s.accept()[0]
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    have = 0
    while True:
        d = c.recv(4096)
        if not d:
            break
        have += len(d)
        while have >= 200:
            have -= 200
            c.sendall(b"r" * 900)
'
asked() { [ "$(wc -l < /tmp/clock)" -ge "$1" ]; }
segments() { [ "$(grep -c '"row":"segment"' /tmp/live.json)" -ge "$1" ]; }
collected() {
	# It reports that it is ready again whenever it reaches or loses a host.
	/usr/bin/python3 /tmp/tcp/net_trip.py "$(sed -n '/.*listen=\([^ ]*\).*/{s//\1/p;q}' /tmp/collect.out)" \
		$port 0.005
}
judge() {
	/usr/bin/python3 /tmp/tcp/net_judge.py /tmp/hot/sidelight "$OUT" "$@" "$OUT/results/tcp-clock.jsonl"
}

first() {
	mkdir -p "$OUT/results"
	clock_truth epoch > "$OUT/epoch.0"
	if [ -z "$long" ]; then
		check a-namespace-behind behind
		check a-way-that-is-slow-in-one-direction tc qdisc add dev eth0 root netem delay 5ms
	fi
	check agent-has-a-ring agent
	check capturing captures live.0 $device "${within[@]}"
	hear serving > /dev/null
	clock_truth ask > /tmp/clock &
	truth=$!
	check the-clocks-are-compared wait_for 30 asked 10
	sidelight tcp net --agent "$ADDRESS" --agent "$PEER" --json --segments -p $port -i 500ms > /tmp/live.json \
		2> /tmp/live.err &
	live=$!
	if [ -z "$long" ]; then
		sidelight collect --agent "$ADDRESS" --agent "$PEER" --dev "$RDMA_DEVICE" --listen 127.0.0.1:0 \
			--period 500ms --tcp-period 500ms > /tmp/collect.out 2> /tmp/collect.err &
		collector=$!
		check a-collector wait_for 60 grep -q '^ready' /tmp/collect.out
	fi
	check both-rings-are-read-by-rdma wait_for 60 grep -q '^ready' /tmp/live.err
	cat /tmp/live.err
	"${within[@]}" /usr/bin/python3 -c "$client" "$PEER" $port "${long:+$requests}" &
	asking=$!
	# A request and its answer are two, with their acknowledgements more; some may come in one piece.
	check segments-are-shown-live wait_for 60 segments $((requests * 3 / 2))
	if [ -z "$long" ]; then
		check a-collector-shows-the-whole-way-of-a-request collected
		kill $collector $asking
		wait $collector
	fi
	wait $asking
	check live-capture-ends end_live
	stop_capture live.0
	kill $agent
	cp /tmp/live.json "$OUT/"
	tell lived
	[ "$long" ] && files
	tell done
	hear all > /dev/null
	kill $truth
	wait $truth
	cp /tmp/clock "$OUT/"
	check latencies-are-within-their-bound judge live $((requests / 2))
	grep '^  ' /tmp/check.log
	for name in ${long:+plain slow}; do
		check latencies-are-within-their-bound-$name judge $name 400
		grep '^  ' /tmp/check.log
	done
}
end_live() {
	kill -INT $live
	wait $live && return
	echo "it ended with $?:"
	cat /tmp/live.err
	false
}

files() {
	check recording records plain.0 eth0
	hear serving-plain > /dev/null
	check requests /usr/bin/python3 -c "$client" "$PEER" $port "$requests"
	stop_records plain.0
	check a-namespace-behind behind
	check recording-behind records slow.0 sl0 nsenter --net=/run/netns/sl-net
	tc qdisc add dev eth0 root netem delay 5ms
	tell slow
	hear serving-slow > /dev/null
	check requests-over-a-slow-way nsenter --net=/run/netns/sl-net /usr/bin/python3 -c "$client" \
		"$PEER" $port $requests
	stop_records slow.0
	tc qdisc del dev eth0 root
}

second() {
	clock_truth answer 80 > /tmp/truth.out 2>&1 &
	truth=$!
	wait_for 30 grep -q ready /tmp/truth.out || { cat /tmp/truth.out; failed=1; }
	clock_truth epoch > "$OUT/epoch.1"
	ip route add 10.78.0.0/24 via "$PEER"
	check agent-has-a-ring agent
	check capturing captures live.1 eth0
	/usr/bin/python3 -c "$server" $port > /tmp/server.out &
	server=$!
	wait_for 30 grep -q ready /tmp/server.out
	tell serving
	hear lived > /dev/null
	stop_capture live.1
	kill $agent
	if [ "$long" ]; then
		check recording records plain.1 eth0
		tell serving-plain
		hear slow > /dev/null
		stop_records plain.1
		check recording-again records slow.1 eth0
		tell serving-slow
	fi
	hear done > /dev/null
	[ "$long" ] && stop_records slow.1
	kill $server $truth
	tell all
}

if [ "$GUEST" = 0 ]; then first; else second; fi
finish
