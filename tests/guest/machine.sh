# SPDX-License-Identifier: Apache-2.0
# Other machines: of another architecture, page size or kernel. Each guest publishes, attaches the programs of eBPF that its
# kernel takes, and collects what it published; each is read by the other one over soft-RoCE, or by itself if it is alone.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight"
echo "= $(uname -mr), pages of $(sed -n '/^KernelPageSize/{s/[^0-9]//g;p;q}' /proc/self/smaps) KiB, clock $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"

pods=2 metrics=16 threads=2 updates=2000
each=$((threads * updates)) series=$((pods * metrics))
# Linux 5.10 lacks a feature that every table needs: docs/tcp.md.
case $(uname -r) in
5.10.*) tables=flows,layers,cpu,net too_old=yes ;;
*) tables=flows too_old= ;;
esac

ready() { grep -q '^ready' "$1"; }
ready_or_ended() { ready "$1" || ! kill -0 "$2" 2> /dev/null; }

agent_start() {
	sidelight agent --rdma "$RDMA_DEVICE" --no-rest --tcp "$tables" > /tmp/agent.out 2> /tmp/agent.err &
	agent=$!
	wait_for 120 ready_or_ended /tmp/agent.out $agent && ready /tmp/agent.out || { cat /tmp/agent.err; return 1; }
}

generate() {
	sidelight generate metrics --service shop --wait 60s --hold 1200s -n $pods -m $metrics -t $threads -u $updates \
		--json > /tmp/shop.out 2> /tmp/shop.err &
	wait_for 120 ready /tmp/shop.err || { cat /tmp/shop.err; return 1; }
}

# collect NAME PORT ARGUMENT...
collect() {
	local name=$1 port=$2
	shift 2
	sidelight collect "$@" --period 100ms --read-timeout 5s --stale 30s --listen "127.0.0.1:$port" \
		> "/tmp/$name.out" 2> "/tmp/$name.err" &
	wait_for 120 ready "/tmp/$name.out" || { cat "/tmp/$name.err"; return 1; }
	wait_for 120 exact "$port" || { cat "/tmp/$name.err" /tmp/metrics; return 1; }
}

# Every series is there, and has just the value that was counted.
exact() {
	exec 3<> "/dev/tcp/127.0.0.1/$1" && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3 > /tmp/metrics
	exec 3>&-
	[ "$(grep -c "generated_updates_total{.*service=\"shop\".* $each\$" /tmp/metrics)" = $series ]
}

# One connection over loopback, held: the table must name its port.
kernel_tables() {
	exec 4<> /dev/tcp/127.0.0.1/9464
	wait_for 60 sees_port
	local code=$?
	exec 4>&-
	[ $code = 0 ] || sidelight dump --agent /run/sidelight/agent.sock --kind flows --json | head -c 2000
	return $code
}
sees_port() { sidelight dump --agent /run/sidelight/agent.sock --kind flows --json 2> /tmp/dump.err | grep -q 9464; }

# One line per table names the missing feature, and there is no table.
tables_are_missed() {
	local table
	for table in ${tables//,/ }; do
		grep "tcp $table is not available: Linux $(uname -r) lacks .* ([0-9.]*)$" /tmp/agent.err || return 1
	done
	! sidelight dump --agent /run/sidelight/agent.sock --kind flows --json
}

# ends_saying WORDS COMMAND...: with one line.
ends_saying() {
	local words=$1
	shift
	timeout 150 "$@" > /tmp/said 2>&1
	[ $? = 1 ] && cat /tmp/said && [ "$(grep -c . /tmp/said)" = 1 ] && grep -q "$words" /tmp/said
}

# Other programs that need eBPF end, and name the missing feature.
programs_are_refused() {
	ends_saying "Linux $(uname -r) lacks .*bpf_xdp_store_bytes() (5.18)" \
		sidelight report --interface lo --target :40040 --store 1 &&
		ends_saying 'Linux 5.18' \
			sidelight translate --collector unix:/tmp/absent --listen 127.0.0.1:40040 --xdp lo &&
		ends_saying "Linux $(uname -r) lacks .*bpf_loop() (5.17)" sidelight tcp flows
}

check agent-is-ready-with-rdma agent_start
cat /tmp/agent.err
check pods-publish generate
check collected-from-shared-memory collect local 9464 --agent /run/sidelight/agent.sock
if [ "$too_old" ]; then
	check each-feature-is-tried-here "$BUILD/tests/tcp/tcp_test_feature"
	check what-the-kernel-lacks-for-its-tables-is-said tables_are_missed
	check what-attaches-programs-ends-with-the-reason programs_are_refused
else
	check kernel-tables-are-read kernel_tables
fi
tell "agent$GUEST"
hear "agent$((GUESTS == 2 ? 1 - GUEST : 0))" 600 > /dev/null
check collected-over-rdma collect remote 9465 --agent "$PEER" --dev "$RDMA_DEVICE"
tell "read$GUEST"
hear "read$((GUESTS == 2 ? 1 - GUEST : 0))" 600 > /dev/null
kill -TERM $agent
check the-agent-stops-cleanly wait $agent
finish
