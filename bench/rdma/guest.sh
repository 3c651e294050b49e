# SPDX-License-Identifier: Apache-2.0
# In a guest: perftest's programs and ours in turns, one warming round and ROUNDS (7) more. The median of
# each, and how far the ratios of the rounds lie apart. One JSON object per line.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/bench/rdma/bench_read" "$BUILD/bench/rdma/bench_write" \
	/usr/bin/ib_read_bw /usr/bin/ib_read_lat /usr/bin/ib_write_bw /usr/bin/ib_atomic_bw

sizes="65536 262144 1048576"
depth=128 bytes=64 seconds=2 rounds=${ROUNDS:-7}
common="$rounds rounds in turns, soft-RoCE (rxe), RoCE MTU 4096, client and server in one guest of 2 CPUs, qemu tcg"
port=19000 results=$OUT/results/rdma.jsonl
mkdir -p "$OUT/results" /tmp/warm /tmp/rounds
# Frames for a RoCE MTU of 4096 bytes, as networks for RDMA have them.
ip link set eth0 mtu 4400

# perftest PROGRAM OPTION...: server and client; prints the client's line of figures.
perftest() {
	local program=$1 try
	shift
	port=$((port + 1))
	timeout 60 $program -d "$RDMA_DEVICE" -x "$GID_INDEX" -p $port "$@" > /tmp/server.log 2>&1 &
	for try in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.3
		if timeout 60 $program -d "$RDMA_DEVICE" -x "$GID_INDEX" -p $port "$@" "$ADDRESS" > /tmp/client.log 2>&1; then
			wait $!
			grep -A1 '#bytes' /tmp/client.log | tail -1
			return
		fi
	done
	kill $! 2> /dev/null
	echo "FAIL: $program $*:" >&2
	tail -n 3 /tmp/server.log /tmp/client.log >&2
	exit 1
}

# The last column of perftest is millions of messages per second. pages SIZE: in pages of 4 KiB.
messages() { awk '{ print $5 * 1000000 }'; }
pages() { awk -v s="$1" '{ print $5 * 1000000 * s / 4096 }'; }

# in_turns OURS THEIRS: one after the other, in another order in each round.
turn=0
in_turns() {
	[ $turn = 1 ] || eval "$2"
	eval "$1"
	[ $turn = 0 ] || eval "$2"
}

# a_round FOLDER: a line for each file of the folder.
a_round() {
	cd "$1" || exit 1
	turn=$((1 - turn))
	in_turns 'bench_read rate $seconds $depth >> read' \
		'perftest ib_read_bw -s 4096 -t $depth -D $seconds | messages >> read-bw'
	bench_read pages $seconds $depth >> pages
	for size in $sizes; do
		perftest ib_read_bw -s $size -t 16 -D $seconds | pages $size >> pages-bw.$size
	done
	# ib_read_lat's t_typical is the median; then the average, the deviation and the 99th percentile.
	in_turns 'bench_read latency 5000 4096 > both; cut -d" " -f1 both >> lat; cut -d" " -f2 both >> lat99' \
		'perftest ib_read_lat -s 4096 -n 5000 > line; awk "{ print \$5 }" line >> read-lat; awk "{ print \$8 }" line >> read-lat99'
	in_turns 'bench_write write $seconds $depth $bytes >> write' \
		'perftest ib_write_bw -s $bytes -t $depth -D $seconds -I 64 | messages >> write-bw'
	in_turns 'bench_write add $seconds $depth >> add' \
		'perftest ib_atomic_bw -A FETCH_AND_ADD -t $depth -D $seconds | messages >> atomic-bw'
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# result NAME UNIT OURS PEER PEER-FILE FLOOR-FILE(or -) CONDITIONS: above 1 is better; times are in us.
result() {
	paste "$3" "$5" | awk -v n="$1" -v u="$2" -v v="$(median < "$3")" -v p="$4" -v q="$(median < "$5")" \
		-v f="$([ "$6" = - ] || median < "$6")" -v c="$7, $common" '
		{ r[NR] = u == "us" ? $2 / $1 : $1 / $2 }
		END {
			least = most = r[1]
			for (i in r) { if (r[i] < least) least = r[i]; if (r[i] > most) most = r[i] }
			printf "{\"name\":\"%s\",\"value\":%s,\"unit\":\"%s\",\"peer\":\"%s\",\"peer_value\":%s,\"ratio\":%.3f,", \
				n, v, u, p, q, u == "us" ? q / v : v / q
			if (f != "") printf "\"ratio_to_floor\":%.3f,", v / f
			printf "\"conditions\":\"%s, ratios of the rounds %.2f to %.2f\"}\n", c, least, most
			if (f != "")
				printf "{\"name\":\"%s.floor\",\"value\":%s,\"unit\":\"%s\",\"peer\":null,\"peer_value\":null,\"ratio\":null,\"conditions\":\"ib_read_bw with the fastest of 64 KiB, 256 KiB and 1 MiB\"}\n", n, f, u
		}' >> "$results"
}

bench_read host &
readable=$!
bench_write host &
writable=$!
wait_for 20 test -e /tmp/bench-write.object
sleep 1
a_round /tmp/warm
for round in $(seq "$rounds"); do a_round /tmp/rounds; done
kill $readable $writable

cd /tmp/rounds || exit 1
best=$(for size in $sizes; do echo "$(median < pages-bw.$size) $size"; done | sort -g | tail -1 | cut -d' ' -f2)
result read.verbs.4k READs/s read ib_read_bw read-bw - "4 KiB each, none of which can be merged, queue depth $depth on both sides"
result read.verbs.coalesced pages/s pages ib_read_bw read-bw pages-bw.$best \
	"4 KiB pages that are neighbours, 256 per post, merged into READs of up to 256 KiB"
result read.latency us lat "ib_read_lat t_typical" read-lat - "median of a round of one 4 KiB READ"
result read.latency.p99 us lat99 "ib_read_lat 99%" read-lat99 - "99th percentile of such a round"
result dta.verbs.write WRITEs/s write ib_write_bw write-bw - "$bytes bytes each, inline, queue depth $depth on both sides"
result dta.verbs.add FETCH_ADDs/s add ib_atomic_bw atomic-bw - "queue depth $depth on both sides"
