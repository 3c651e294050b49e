# SPDX-License-Identifier: Apache-2.0
# The eBPF programs on a second kernel (Debian's 6.1), which also allows fentry and kprobes, has netem, and
# lacks some tracepoints: every test of tests/tcp that loads some runs here, too.
#
# What is done to the network, and what says what is true then:
#   a link that flaps     loss: nstat's retransmissions and timeouts, iperf3's bytes
#   loss, delay           loss: nstat, iperf3; the RTT is no less than the delay. wire: each cause by chosen packets, nstat.
#                         layer: every segment is in a histogram or in a cause. net.sh: both machines' captures
#   reordering            loss: nstat's recoveries and duplicates; layer
#   marks of congestion   wire: both ends' TCP_INFO
#   none                  flows: TCP_INFO of each socket; layer: the server's own clock and a capture; cpu: schedstat and
#                         cpu.stat; many: every byte of each connection
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/tests/tcp/tcp_test_cpu" "$BUILD/tests/tcp/tcp_test_layer" \
	"$BUILD/tests/tcp/tcp_test_table" "$BUILD/tests/tcp/tcp_test_why"
cp -r "$SOURCE/tests/tcp" "$SOURCE/tests/e2e" /tmp/
uname -r

# Each start takes seconds under emulation: what was tried once is known to the rest.
export SL_TCP_PROBED=/tmp/probed
probe() { sidelight tcp probe --json > $SL_TCP_PROBED && grep -q tp_btf $SL_TCP_PROBED; }
# python NAME [ARG]...: a test of tests/tcp
python() {
	check "tcp-$1" /usr/bin/python3 "/tmp/tcp/test_$1.py" /tmp/hot/sidelight "${@:2}"
	grep -E '^(ok|note)' /tmp/check.log | sed 's/^/     | /'
}

check hooks-are-chosen-by-trial probe
check scheduler-time-is-what-the-kernel-accounts-for tcp_test_cpu
check layers-and-requests-are-timed-as-server-and-wire-saw-them tcp_test_layer
check the-table-of-flows-is-filtered-at-run-time-and-mapped-by-others tcp_test_table
check why-a-connection-is-slow-is-told tcp_test_why
# What does not depend on the kernel is left out here.
python flows every_statistic_is_what_tcp_info_says_for_each_family \
	bulk_data_that_fills_the_window_is_right_to_the_byte \
	connections_made_before_the_start_are_marked_and_right what_reset_a_connection_is_known
python flows \
	an_accept_queue_that_overflows_shows_at_its_listener calls_are_counted_and_their_process_is_known \
	a_full_table_counts_what_it_refuses killed_while_attached_leaves_nothing_loaded
python wire a_lost_segment_is_a_fast_retransmission a_lost_tail_is_found_by_a_probe \
	a_dead_wire_is_a_probe_and_timeouts a_lost_syn_is_sent_again \
	late_acknowledgements_are_spurious_retransmissions congestion_that_the_wire_marks_is_counted_at_both_ends
case $SL_TEST_SCALE in
1 | 1.0) python many 300 ;;
*) python many 10000 ;;
esac
python loss 1M
python layers what_stands_in_for_a_hook_measures_the_same_segments
python refused locked_down_for_reading # the last one: there is no way back
finish
