# SPDX-License-Identifier: Apache-2.0
# Network latency between two machines with clocks of their own: what is said of each segment against captures
# on both ends and the offset of the clocks by shared memory. For bench/tcp_clock. The second clock runs 80 ppm fast.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/tests/tcp/clock_truth"
cp -r "$SOURCE/tests/tcp" "$SOURCE/tests/e2e" /tmp/
port=7310 requests=${REQUESTS:-300}

# A namespace behind this guest: its device is the NIC, and what lies between may be slow.
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

# records NAME DEVICE COMMAND-PREFIX...: capture and recorder, until stop_records
records() {
	local name=$1 device=$2
	shift 2
	"$@" tcpdump -i "$device" -n -s 96 -B 16384 -U --immediate-mode -Z root \
		--time-stamp-precision=nano -w /tmp/$name.pcap "tcp port $port" 2> /tmp/dump.err &
	dump=$!
	sidelight tcp net --record /tmp/$name.rec --dev "$device" -p $port 2> /tmp/net.err &
	recorder=$!
	wait_for 60 grep -q listening /tmp/dump.err && wait_for 60 grep -q '^ready' /tmp/net.err
}
stop_records() {
	kill -INT $recorder
	wait $recorder
	sleep 1
	kill -INT $dump
	wait $dump
	cp /tmp/$1.pcap /tmp/$1.rec "$OUT/"
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
for i in range(int(sys.argv[3])):
    c.sendall(b"q" * 200)
    n = 900
    while n:
        n -= len(c.recv(n))
    time.sleep(0.002)
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

# Both at once: who samples the clocks needs the other.
truth() {
	clock_truth sample "$GUEST" $((GUEST * 80)) /tmp/clock > /tmp/truth.out 2>&1 &
	truth=$!
	wait_for 30 grep -q ready /tmp/truth.out
}
end_truth() {
	kill -TERM $truth
	wait $truth
	cp /tmp/clock "$OUT/clock.$GUEST"
}

first() {
	tell start
	truth || { cat /tmp/truth.out; failed=1; return; }
	tell truth-0
	check a-namespace-behind behind
	check recording records plain.0 eth0
	hear serving > /dev/null
	check requests /usr/bin/python3 -c "$client" "$PEER" $port "$requests"
	stop_records plain.0
	check recording-behind records slow.0 sl0 nsenter --net=/run/netns/sl-net
	tc qdisc add dev eth0 root netem delay 5ms
	tell slow
	hear serving-slow > /dev/null
	check requests-over-a-slow-way nsenter --net=/run/netns/sl-net /usr/bin/python3 -c "$client" \
		"$PEER" $port $requests
	stop_records slow.0
	tc qdisc del dev eth0 root
	tell done
	end_truth
	hear all > /dev/null
	mkdir -p "$OUT/results"
	check latencies-are-within-their-bound /usr/bin/python3 /tmp/tcp/net_judge.py \
		/tmp/hot/sidelight /tmp/hot/clock_truth "$OUT" "$OUT/results/tcp-clock.jsonl"
	grep -E '^ok|^  ' /tmp/check.log | sed 's/^/     | /'
}

second() {
	hear start 300 > /dev/null
	truth || { cat /tmp/truth.out; return; }
	ip route add 10.78.0.0/24 via "$PEER"
	check recording records plain.1 eth0
	/usr/bin/python3 -c "$server" $port > /tmp/server.out &
	wait_for 30 grep -q ready /tmp/server.out
	tell serving
	hear slow > /dev/null
	stop_records plain.1
	check recording-again records slow.1 eth0
	tell serving-slow
	hear done > /dev/null
	stop_records slow.1
	kill %% 2> /dev/null
	end_truth
	tell all
}

if [ "$GUEST" = 0 ]; then first; else second; fi
finish
