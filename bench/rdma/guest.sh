# SPDX-License-Identifier: Apache-2.0
# Inside of a guest: perftest and ours in turn, three times, the median of each. One JSON a line.
. "$SOURCE/tests/guest/lib.sh"
. "$SOURCE/bench/perftest.sh"
hot "$BUILD/bench/fabric/bench_read" /usr/bin/ib_read_bw /usr/bin/ib_read_lat

sizes="65536 262144 1048576"
depth=128 seconds=3 rounds=${ROUNDS:-3}
common="soft-RoCE (rxe), RoCE MTU 4096, client and server in one guest of 2 CPUs, qemu tcg"
# Frames for a RoCE MTU of 4096 bytes, as a network for RDMA has them.
ip link set eth0 mtu 4400

bench_read host &
host=$!
sleep 1
: > /tmp/limit; : > /tmp/bw; : > /tmp/rate; : > /tmp/pages; : > /tmp/lat; : > /tmp/ours
for round in $(seq "$rounds"); do
	# ib_read_bw's last column is millions of messages a second.
	perftest ib_read_bw -s 4096 -t $depth -D $seconds | awk '{ print $5 * 1000000 }' >> /tmp/bw
	bench_read rate $seconds $depth >> /tmp/rate
	bench_read pages $seconds $depth >> /tmp/pages
	# What the device itself can do when a READ is as long as our merged ones.
	for size in $sizes; do
		perftest ib_read_bw -s $size -t 16 -D $seconds |
			awk -v s=$size '{ print $5 * 1000000 * s / 4096, s }' >> /tmp/limit
	done
	# t_typical is the median; then the average, the deviation and the 99th percentile.
	perftest ib_read_lat -s 4096 -n 5000 | awk '{ print $5, $8 }' >> /tmp/lat
	bench_read latency 5000 4096 >> /tmp/ours
done
kill $host

peer=$(median < /tmp/bw)
result read.verbs.4k "$(median < /tmp/rate)" "READs/s" "ib_read_bw" "$peer" \
	"4 KiB each, queue depth $depth on both sides, $common"
result read.verbs.coalesced "$(median < /tmp/pages)" "pages/s" "ib_read_bw" "$peer" \
	"4 KiB pages that are neighbours, 256 a post, merged into READs of up to 256 KiB, $common"
limit=$(for size in $sizes; do
	awk -v s=$size '$2 == s { print $1 }' /tmp/limit | median
done | sort -g | tail -1)
result read.verbs.coalesced.limit "$limit" "pages/s" "ib_read_bw" "$peer" \
	"ib_read_bw itself at 64 KiB, 256 KiB and 1 MiB, whichever is fastest, against itself at 4 KiB, $common"
result read.latency "$(cut -d' ' -f1 /tmp/ours | median)" us "ib_read_lat t_typical" \
	"$(cut -d' ' -f1 /tmp/lat | median)" "median of a round of one 4 KiB READ, $common"
result read.latency.p99 "$(cut -d' ' -f2 /tmp/ours | median)" us "ib_read_lat 99%" \
	"$(cut -d' ' -f2 /tmp/lat | median)" "99th percentile of such a round, $common"
