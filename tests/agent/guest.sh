# SPDX-License-Identifier: Apache-2.0
# The agent with a real RDMA device (soft-RoCE) and a real collector, in one guest: regions get
# keys, neighbours get one together, members go, the agent is killed, and no value is lost.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/tests/agent/agent_counter"
S=/tmp/agent.sock

agent() {
	sidelight agent --socket $S --no-rest --rdma $RDMA_DEVICE --gid $GID_INDEX \
		--rdma-settle 4s --grace 1s > /tmp/agent.out 2>> /tmp/agent.err &
	AGENT=$!
	wait_for 10 grep -q ^ready /tmp/agent.out
}
status() { sidelight agent --status --json --socket $S; }
collected() { curl -s http://127.0.0.1:9464/metrics; }
# Returns the number of counters that the collector shows as live and growing.
growing() {
	collected | grep '^ticks_total' | sort > /tmp/before
	sleep 1
	collected | grep '^ticks_total' | sort > /tmp/after
	join /tmp/before /tmp/after | awk '$3 > $2' | wc -l
}
has_growing() { [ "$(growing)" = "$1" ]; }
keys() { status | python3 -c '
import json, sys
r = [x for x in json.load(sys.stdin)["regions"] if x["by"] == "publisher" and x["state"] == "live"]
assert all(x["address"] and x["rkey"] for x in r), r
print(len(set(x["rkey"] for x in r)))'; }
# Runs double, so that eight pods and the agent's own region end up in four at most.
promotions() { status | sed -n 's/.*"promotions": \([0-9]*\).*/\1/p'; }
few_keys() { [ "$(keys)" -le 4 ]; }
by_cause() { collected | grep '^sidelight_collector_read_errors_total' | sed 's/^/= /'; }
errors() { collected | awk '/^sidelight_collector_read_errors_total/ { n += $2 } END { print n + 0 }'; }

check agent-is-ready agent
cat /tmp/agent.out
sidelight collect --agent $ADDRESS --listen 127.0.0.1:9464 --period 20ms > /tmp/collect.out 2> /tmp/collect.err &
COLLECT=$!
check collector-is-ready wait_for 10 grep -q ^ready /tmp/collect.out
PIDS=()
before=$(promotions) # on a starved machine the first have settled when the last begin
for i in 1 2 3 4 5 6 7 8; do
	sleep 1000 | agent_counter $S 1 10000 > /dev/null &
	PIDS+=($!)
done
check every-pod-is-read wait_for 15 has_growing 8
check neighbours-share-keys wait_for 20 few_keys
echo "= $before promotions before, $(promotions) after the collector came"
check while-they-were-read test "$(promotions)" -gt "$before"
check and-are-read-on wait_for 10 has_growing 8
sleep 3 # a key remains valid for two leases
by_cause
check no-key-went-under-a-reader test "$(errors)" = 0

kill -9 $COLLECT
collector() {
	sidelight collect --agent $ADDRESS --listen 127.0.0.1:9464 --period 20ms > /tmp/collect.out 2> /tmp/collect.err &
	COLLECT=$!
	wait_for 10 grep -q ^ready /tmp/collect.out
}
check defect-5-a-collector-that-was-killed-comes-back-to-the-same-agent collector
check and-reads-every-pod wait_for 15 has_growing 8

# Another region with the same key: which regions share one depends on their addresses.
kill -9 "$(status | python3 -c '
import json, sys
r = [x for x in json.load(sys.stdin)["regions"] if x["by"] == "publisher" and x["state"] == "live"]
keys = [x["rkey"] for x in r]
print(next(x["pid"] for x in r if keys.count(x["rkey"]) > 1))')"
check a-death-is-shown wait_for 5 sh -c 'sidelight agent --status --socket /tmp/agent.sock | grep -q " dead "'
check the-group-breaks-up wait_for 10 sh -c \
	'sidelight agent --status --json --socket /tmp/agent.sock | grep -q "\"breakups\": 1"'
check the-others-are-read-on wait_for 10 has_growing 7
sleep 3 # a key remains valid for two leases
check no-key-went-under-a-reader-again test "$(errors)" = 0
by_cause

kill -9 $AGENT
check the-agent-comes-back agent
check publishers-and-collector-come-back-by-themselves wait_for 20 has_growing 7

kill $COLLECT
wait $COLLECT
check queue-pairs-go-with-the-collector wait_for 10 sh -c \
	'sidelight agent --status --json --socket /tmp/agent.sock | grep -q "\"queue_pairs\": 0"'
kill "${PIDS[@]}" 2> /dev/null
kill $AGENT
wait $AGENT
check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
[ $failed = 0 ] || cat /tmp/agent.err /tmp/collect.err
finish
