# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that measure beside perftest in a guest, behind tests/guest/lib.sh.
port=19000 results=$OUT/results/perftest.jsonl
mkdir -p "$OUT/results"

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
