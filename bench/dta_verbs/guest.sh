# SPDX-License-Identifier: Apache-2.0
# Inside of a guest: perftest and ours in turn, three times, the median of each. One JSON a line.
. "$SOURCE/tests/guest/lib.sh"
. "$SOURCE/bench/perftest.sh"
hot "$BUILD/bench/dta_verbs/bench_verbs" /usr/bin/ib_write_bw /usr/bin/ib_atomic_bw

depth=128 bytes=64 seconds=3 rounds=${ROUNDS:-3} port=19000
common="soft-RoCE (rxe), client and server in one guest of 2 CPUs, qemu tcg"
mkdir -p "$OUT/results"
results=$OUT/results/dta.jsonl

bench_verbs owner &
owner=$!
wait_for 20 test -e /tmp/bench-verbs.object
: > /tmp/write; : > /tmp/add; : > /tmp/write-bw; : > /tmp/atomic-bw
for round in $(seq "$rounds"); do
	# The last column is millions of messages a second.
	perftest ib_write_bw -s $bytes -t $depth -D $seconds -I 64 | awk '{ print $5 * 1000000 }' >> /tmp/write-bw
	bench_verbs write $seconds $depth $bytes >> /tmp/write
	perftest ib_atomic_bw -A FETCH_AND_ADD -t $depth -D $seconds | awk '{ print $5 * 1000000 }' >> /tmp/atomic-bw
	bench_verbs add $seconds $depth >> /tmp/add
done
kill $owner

result dta.verbs.write "$(median < /tmp/write)" "WRITEs/s" "ib_write_bw" "$(median < /tmp/write-bw)" \
	"$bytes bytes each, inline, queue depth $depth on both sides, $common"
result dta.verbs.add "$(median < /tmp/add)" "FETCH_ADDs/s" "ib_atomic_bw" "$(median < /tmp/atomic-bw)" \
	"queue depth $depth on both sides, $common"
