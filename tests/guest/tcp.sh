# SPDX-License-Identifier: Apache-2.0
# The eBPF programs on a second kernel (Debian's 6.1), which also allows fentry and kprobes, has netem, and
# lacks some tracepoints: every test of tests/tcp that loads some runs here, too, and the reporter of flows.
#
# What is done to the network, and what says what is true then:
#   a link that flaps     loss: nstat's retransmissions and timeouts, iperf3's bytes
#   loss, delay,          why_ends: what each end is told, of all situations that netem can make
#   reordering, rate
#   loss, delay           loss: nstat, iperf3; the RTT is no less than the delay. wire: each cause by chosen packets, nstat.
#                         layer: every segment is in a histogram or in a cause. net.sh: both machines' captures
#   reordering            loss: nstat's recoveries and duplicates; layer
#   marks of congestion   wire: both ends' TCP_INFO
#   none                  flows: TCP_INFO of each socket; layer: the server's own clock and a capture; cpu: schedstat and
#                         cpu.stat; many: every byte of each connection
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/tests/tcp/tcp_test_cpu" "$BUILD/tests/tcp/tcp_test_layer" \
	"$BUILD/tests/tcp/tcp_test_table" "$BUILD/tests/tcp/tcp_test_owners" "$BUILD/tests/tcp/tcp_test_why" \
	"$BUILD/tests/tcp/tcp_test_feature" "$BUILD/tests/tcp/tcp_path"
cp -r "$SOURCE/tests/tcp" "$SOURCE/tests/dta" "$SOURCE/tests/support" /tmp/ && PYTHONPATH=/tmp # 9p is slow
uname -r

# Each start takes seconds under emulation, so the others use the result of the first probe.
export SL_TCP_PROBED=/tmp/probed
probe() { sidelight tcp probe --json > $SL_TCP_PROBED && grep -q tp_btf $SL_TCP_PROBED; }
# python NAME [ARG]...: a test of tests/tcp
python() {
	check "tcp-$1" /usr/bin/python3 "/tmp/tcp/test_$1.py" /tmp/hot/sidelight "${@:2}"
	grep -E '^(ok|note)' /tmp/check.log | sed 's/^/     | /'
}

# The kernel reports flows, of both families, to this host and by IPv6 to another one, which does not exist: each target makes
# the kernel check other code. The second one does all that a reporter can.
flows_of() { for i in {2001..2060}; do echo > "/dev/udp/$1/$i"; done; }
ready() { grep -q '^ready' "$1"; }
number() { sed -n "s/.*\"$2\": *\([0-9]*\).*/\1/p" "$1" | head -n 1; }
kernel_reports() {
	local here there translator name
	ip addr add fd77::1/64 dev eth0 nodad
	ip neigh add fd77::9 lladdr 02:00:00:00:00:09 dev eth0
	sidelight translate --collector unix:/tmp/absent --listen 0.0.0.0:40040 --insecure-listen --json > /tmp/translate.out &
	translator=$!
	sidelight report --interface lo --target :40040 --store 1 --sample 1 --json > /tmp/here.out &
	here=$!
	(umask 077 && echo 000102030405060708090a0b0c0d0eff > /tmp/key)
	sidelight report --interface eth0 --target [fd77::9]:40040 --store 1 --json --key-file /tmp/key --inner \
		--report drops=2,retransmissions=3,latency=4,queue=5 > /tmp/there.out 2> /tmp/there.err &
	there=$!
	wait_for 30 grep -q ':9C68 ' /proc/net/udp || return 1
	for name in here there; do wait_for 30 ready /tmp/$name.out || return 1; done
	flows_of 127.0.0.1
	flows_of ::1
	flows_of fd77::9
	kill -TERM $here $there
	wait $here && wait $there || return 1
	kill -TERM $translator
	wait $translator || return 1
	cat /tmp/{here,there,translate}.out /tmp/there.err
	! grep -q 'cannot report' /tmp/there.err || return 1
	[ "$(number /tmp/there.out flows)" -ge 60 ] && [ "$(number /tmp/there.out sent_reports)" -gt 0 ] &&
		[ "$(number /tmp/here.out left_out)" -gt 0 ] && [ "$(number /tmp/here.out sent_reports)" -gt 0 ] &&
		[ "$(number /tmp/translate.out reports)" = "$(number /tmp/here.out sent_reports)" ]
}

check hooks-are-chosen-by-trial probe
check each-feature-is-tried-here tcp_test_feature
check scheduler-time-matches-the-kernel tcp_test_cpu
check layers-and-requests-are-timed-as-server-and-wire-saw-them tcp_test_layer
check flow-table-is-filtered-and-mapped tcp_test_table
check busy-connections-have-owners tcp_test_owners
check why-a-connection-is-slow-is-told tcp_test_why
# Tests that do not depend on the kernel are left out here.
python flows every_statistic_is_what_tcp_info_says_for_each_family \
	bulk_data_that_fills_the_window_is_right_to_the_byte \
	connections_made_before_the_start_are_marked_and_right what_reset_a_connection_is_known
python flows \
	an_accept_queue_that_overflows_shows_at_its_listener calls_are_counted_and_their_process_is_known \
	a_full_table_counts_what_it_refuses killed_while_attached_leaves_nothing_loaded
python wire a_lost_segment_is_a_fast_retransmission a_lost_tail_is_found_by_a_probe \
	a_dead_wire_is_a_probe_and_timeouts a_lost_syn_is_sent_again \
	late_acknowledgements_are_spurious_retransmissions congestion_that_the_wire_marks_is_counted_at_both_ends
# Few at a time: the emulated CPUs are slow.
for some in 'idle little-to-send reads-nothing' 'keepalive dead-path cork' 'lossy-path slow-reader-of-little' \
	'long-queue round-trips' 'reordering' 'small-receive-buffer slow-reader-far-away' \
	'small-send-buffer slow-reader' 'small-send-buffer-and-timeouts slow-client' 'pacing' 'nagle slow-answers'; do
	python why_ends netem $some
done
python why_ends /tmp/hot/tcp_path mtu-black-hole # netem passes packets of any length
python drops
case $SL_TEST_SCALE in
1 | 1.0) python many 300 ;;
*) python many 10000 ;;
esac
check the-kernel-reports-flows-of-both-families-to-this-host-and-another kernel_reports
# This kernel has Geneve, which others may lack.
SL_BULK=200000 check the-kernel-reports-what-is-coalesced-within-geneve /usr/bin/python3 /tmp/dta/test_flow_gso.py \
	/tmp/hot/sidelight within_geneve
python loss 1M
python layers what_stands_in_for_a_hook_measures_the_same_segments
python refused locked_down_for_reading # the last one: there is no way back
finish
