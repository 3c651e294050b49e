# SPDX-License-Identifier: Apache-2.0
# What is read by RDMA: lines under a writer at full speed, and spans after the fact; and what goes
# back, a verdict as a WRITE into the agent's board. The tests in Python are those of tests/span and
# tests/back, which run over the agent's socket elsewhere.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/tests/fabric/tears" "$BUILD/sidelight" "$BUILD/tests/span/traffic" \
	"$BUILD/tests/act/act-pod"
export SL_TEST_RDMA=$RDMA_DEVICE PYTHONDONTWRITEBYTECODE=1

echo "cpu $SL_GUEST_CPU"
# If the kernel copies by words, fewer lines are torn, and no cells: half as many lines suffice. make soak reads ten times as
# many.
words=yes lines=2000000
[ "$SL_GUEST_CPU" = max ] && words= lines=4000000
lines=$(awk "BEGIN { printf \"%d\", ${LINES_READ:-$lines} * $SL_TEST_SCALE }")
check "$lines-lines-and-none-torn-unnoticed" tears "$lines"
# Where the kernel copies by words, the test of verdicts, which reads traces as well, stands in for the test of traces, except
# in make soak. Verdicts do not depend on how the kernel copies, so their test runs only there.
case $words,$SL_TEST_SCALE in
yes,1 | yes,1.0) ;;
*)
	check traces-are-fetched-by-rdma-while-their-services-sleep \
		python3 "$SOURCE/tests/span/test_traces.py" /tmp/hot/sidelight /tmp/hot/traffic
	;;
esac
[ ! "$words" ] ||
	check a-verdict-goes-back-by-rdma-and-decides-on-traces \
		python3 "$SOURCE/tests/back/test_verdict_back.py" /tmp/hot/sidelight /tmp/hot/act-pod
check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
finish
