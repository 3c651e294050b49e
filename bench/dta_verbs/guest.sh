# SPDX-License-Identifier: Apache-2.0
# Inside of a guest: perftest and ours in turn, one warming round and several more, the median of each, and how
# far they lie apart. One JSON a line.
. "$SOURCE/tests/guest/lib.sh"
. "$SOURCE/bench/perftest.sh"
hot "$BUILD/bench/dta_verbs/bench_verbs" /usr/bin/ib_write_bw /usr/bin/ib_atomic_bw

depth=128 bytes=64 seconds=2 rounds=${ROUNDS:-7}
common="soft-RoCE (rxe), client and server in one guest of 2 CPUs, qemu tcg"

bench_verbs owner &
owner=$!
wait_for 20 test -e /tmp/bench-verbs.object

# The last column is millions of messages a second.
millions() { awk '{ print $5 * 1000000 }'; }

# a_round WHERE: the peer first, or ours, in turn: what the machine does beside falls on both.
turn=0
a_round() {
	turn=$((1 - turn))
	[ $turn = 1 ] || bench_verbs write $seconds $depth $bytes >> "$1/write"
	perftest ib_write_bw -s $bytes -t $depth -D $seconds -I 64 | millions >> "$1/write-bw"
	[ $turn = 0 ] || bench_verbs write $seconds $depth $bytes >> "$1/write"
	[ $turn = 1 ] || bench_verbs add $seconds $depth >> "$1/add"
	perftest ib_atomic_bw -A FETCH_AND_ADD -t $depth -D $seconds | millions >> "$1/atomic-bw"
	[ $turn = 0 ] || bench_verbs add $seconds $depth >> "$1/add"
}
mkdir /tmp/warm /tmp/rounds
a_round /tmp/warm
for round in $(seq "$rounds"); do a_round /tmp/rounds; done
kill $owner

# spread OURS PEER: the ratio of each round, from the least to the greatest.
spread() {
	paste "$1" "$2" | awk '{ printf "%.3f\n", $1 / $2 }' | sort -g |
		awk '{ v[NR] = $1 } END { printf "%d rounds in turns, ratios %s to %s, median %s", NR, v[1], v[NR], v[int((NR + 1) / 2)] }'
}
cd /tmp/rounds
result dta.verbs.write "$(median < write)" "WRITEs/s" "ib_write_bw" "$(median < write-bw)" \
	"$bytes bytes each, inline, queue depth $depth on both sides, $(spread write write-bw), $common"
result dta.verbs.add "$(median < add)" "FETCH_ADDs/s" "ib_atomic_bw" "$(median < atomic-bw)" \
	"queue depth $depth on both sides, $(spread add atomic-bw), $common"
