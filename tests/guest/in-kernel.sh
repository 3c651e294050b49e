# SPDX-License-Identifier: Apache-2.0
# One machine in two network namespaces: a translator in the kernel of the second one writes into the stores of a
# collector in the first, whose soft-RoCE takes its frames only with a right iCRC.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight"
cp "$SOURCE/tests/guest/in_kernel.py" /tmp/
count=${SL_REPORTS:-1000}

in_other() { ip netns exec other "$@"; }

# Reports come by sl-near, frames leave by sl-out: to the memory at 10.78.0.2.
networks() {
	local name
	ip netns add other
	ip link add sl-far type veth peer name sl-near netns other
	ip link add sl-memory type veth peer name sl-out netns other
	ip addr add 10.79.0.2/24 dev sl-far
	ip addr add 10.78.0.2/24 dev sl-memory
	in_other ip addr add 10.79.0.1/24 dev sl-near
	in_other ip addr add 10.78.0.1/24 dev sl-out
	for name in sl-far sl-memory; do ip link set $name up; done
	for name in lo sl-near sl-out; do in_other ip link set $name up; done
	/usr/bin/python3 /tmp/in_kernel.py merge sl-memory
	rdma link add rxe1 type rxe netdev sl-memory
}

ready() { grep -q '^ready' "$1"; }

collector() {
	cat > /tmp/stores.yaml <<- END
		listen: "10.78.0.2:7777"
		rdma: {device: rxe1, address: "10.78.0.2"}
		stores:
		  - {name: flows, number: 1, kind: key-write, seed: 1, slots: 500000, value: 8, copies: 1}
		  - {name: events, number: 2, kind: append, lists: 1, items: 8192, value: 8, batch: 1, lanes: 4}
		  - {name: bytes, number: 3, kind: increment, seed: 1, rows: 1, columns: 262144, epochs: 4}
	END
	sidelight collect --dta /tmp/stores.yaml --listen 127.0.0.1:9464 > /tmp/collect.out 2> /tmp/collect.err &
	collector=$!
	wait_for 30 ready /tmp/collect.out || { tail -n 5 /tmp/collect.err; return 1; }
}

translator() {
	# Not by a function, which would be a process of its own.
	ip netns exec other /tmp/hot/sidelight translate --collector 10.78.0.2:7777 --listen 10.79.0.1:40040 --name t --json \
		--xdp sl-near --in-kernel --output raw --raw-interface sl-out > /tmp/translate.out 2> /tmp/translate.err &
	translator=$!
	wait_for 30 ready /tmp/translate.out || { tail -n 5 /tmp/translate.err; return 1; }
}

# A store each; at a rate that soft-RoCE can follow under emulation.
reported() { # KIND REPORTER [OPTION]...
	sidelight generate dta --to 10.79.0.1:40040 --kinds "$1" --count "$count" --keys "$count" --copies 1 --lists 1 \
		--rate 500 --reporter "$2" --show 0 --expect "/tmp/expected-$1" "${@:3}"
}

stopped() {
	kill -TERM $translator
	wait $translator || { tail -n 5 /tmp/translate.err; return 1; }
}

check networks networks
check the-collector-offers-stores collector
check the-translator-is-in-the-kernel translator
check key-writes-are-reported reported keywrite 1
check items-are-reported reported append 2
check additions-are-reported reported increment 3
check the-translator-stops-cleanly stopped
check each-report-is-in-the-stores-by-the-kernel /usr/bin/python3 /tmp/in_kernel.py check "$count" /tmp/translate.out \
	/tmp/expected-keywrite /tmp/expected-append /tmp/expected-increment
kill -TERM $collector
check the-collector-stops-cleanly wait $collector
tail -n 10 /tmp/collect.err | sed 's/^/     | /'
finish
