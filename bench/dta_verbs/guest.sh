# SPDX-License-Identifier: Apache-2.0
# Inside of a guest: perftest and ours in turn, three times, the median of each. One JSON a line.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/bench/dta_verbs/bench_verbs" /usr/bin/ib_write_bw /usr/bin/ib_atomic_bw

depth=128 bytes=64 seconds=3 rounds=${ROUNDS:-3} port=19000
common="soft-RoCE (rxe), client and server in one guest of 2 CPUs, qemu tcg"
mkdir -p "$OUT/results"
results=$OUT/results/dta.jsonl

# perftest PROGRAM OPTION...: server and client; the client's line of figures.
perftest() {
	local program=$1 try
	shift
	port=$((port + 1))
	timeout 60 $program -d "$RDMA_DEVICE" -x "$GID_INDEX" -p $port "$@" > /tmp/server.log 2>&1 &
	for try in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.3
		if timeout 60 $program -d "$RDMA_DEVICE" -x "$GID_INDEX" -p $port "$@" "$ADDRESS" \
			> /tmp/client.log 2>&1; then
			break
		fi
	done
	wait $!
	grep -A1 '#bytes' /tmp/client.log | tail -1
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# result NAME VALUE UNIT PEER PEER_VALUE CONDITIONS
result() {
	awk -v n="$1" -v v="$2" -v u="$3" -v p="$4" -v q="$5" -v c="$6" 'BEGIN {
		printf "{\"name\":\"%s\",\"value\":%s,\"unit\":\"%s\",\"peer\":\"%s\",", n, v, u, p
		printf "\"peer_value\":%s,\"ratio\":%.3f,\"conditions\":\"%s\"}\n", q, v / q, c
	}' | tee -a "$results"
}

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
