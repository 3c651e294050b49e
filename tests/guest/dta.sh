# SPDX-License-Identifier: Apache-2.0
# Two machines: the first owns memory, the second writes into it, through its RDMA device and by frames of its
# own making, which soft-RoCE takes only with a right iCRC. tests/dta/drive.c says what is checked.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/tests/dta/dta-drive" "$BUILD/sidelight"
shared=$OUT/dta
ADDRESS6=fd77::$((GUEST + 1)) PEER6=fd77::$((2 - GUEST))
ip addr add $ADDRESS6/64 dev eth0 nodad

there() { [ -e "$shared/OBJECT.0" ]; }

owner() {
	mkdir -p "$shared"
	dta-drive owner "$shared" "$RDMA_DEVICE" > /tmp/owner.log 2>&1 &
	owner=$!
	check the-store-server-offers-memory wait_for 30 there
	tell object
	hear lossy > /dev/null
	tc qdisc add dev eth0 root netem loss 3%
	tell lossy-too
	hear done > /dev/null
	tc qdisc del dev eth0 root
	check the-store-server-ends-cleanly wait $owner
	sed 's/^/     | /' /tmp/owner.log
	stores
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	tell owner-done
}

ready() { grep -q '^ready' "$1"; }

# ---- stores of a collector, filled by the commands that a user has ----------------------------------------

# Each run has a translator, reporters, keys and a list of its own; what is in the stores is looked at when all are over.
devices=
case $SL_TEST_SCALE in 1 | 1.0) ;; *) devices="verbs-lost verbs-away" ;; esac # in make soak
runs=${SL_DTA_RUNS:-verbs raw verbs-killed raw-killed verbs-orphaned raw-orphaned $devices v6}

# The tenant's reports need a MAC, and the keys cross the network between the two: by TLS.
secrets() (
	umask 077
	echo 'between two machines' > /tmp/secret
	printf '%032x' 1 > /tmp/key1
	printf '%032x' 2 > /tmp/key2
)

# collector ADDRESS: on files, so that another one finds what this one had. Each start is an epoch: there are three more.
collector() {
	local number=10 name
	: > /tmp/collect.out
	mkdir -p /tmp/stores
	cat > /tmp/stores.yaml <<- END
		listen: "$1:7777"
		directory: /tmp/stores
		rdma: {device: $RDMA_DEVICE, address: "${1//[][]/}"}
		secret: /tmp/secret
		tenants: [{number: 0, keys: [{reporter: 1, key: /tmp/key1}, {reporter: 2, key: /tmp/key2}]}]
		stores:
		  - {name: flows, number: 1, kind: key-write, seed: 1, slots: 500000, value: 8, copies: 2, epochs: 4}
		  - {name: bytes, number: 3, kind: increment, seed: 1, rows: 2, columns: 262144, epochs: 4}
	END
	for name in $runs; do
		echo "  - {name: events-$name, number: $((number++)), kind: append, lists: 1, items: 2048, value: 8, batch: 8, lanes: 4}"
	done >> /tmp/stores.yaml
	sidelight collect --dta /tmp/stores.yaml --listen 127.0.0.1:9464 > /tmp/collect.out 2>> /tmp/collect.err &
	collector=$!
	wait_for 30 ready /tmp/collect.out || { tail -n 5 /tmp/collect.err; return 1; }
}

# The kernel waits until no process has the device open. librdmacm only closes a device if another one exists (docs/dta.md).
another_device() { ip link set dummy0 up && rdma link add rxe1 type rxe netdev dummy0; }
ended() { ! kill -0 $1 2> /dev/null; }
device_lost_and_back() {
	local deleting
	rdma link delete "$RDMA_DEVICE" &
	deleting=$!
	wait_for 60 ended $deleting && wait $deleting && rdma link add "$RDMA_DEVICE" type rxe netdev eth0
}
is_back() { grep -q 'device is back' /tmp/collect.err; }

crossed() { [ "$(cat /sys/class/net/eth0/statistics/tx_packets)" -gt "$1" ]; }

stores() {
	case "$runs" in *-lost*) check another-device another_device ;; esac
	secrets
	check the-collector-offers-stores collector "$ADDRESS"
	tell stores
	cp "$SOURCE/tests/guest/dta_stores.py" /tmp/
	for name in $runs; do
		case $name in
		*-killed)
			hear before-$name > /dev/null
			netem
			tell lossy-$name
			;;
		*-orphaned)
			hear middle-$name > /dev/null
			kill -9 $collector
			wait $collector 2> /dev/null
			tell gone-$name
			check a-killed-collector-starts-again collector "$ADDRESS"
			;;
		*-lost)
			hear middle-$name > /dev/null
			check the-collectors-device-goes-away device_lost_and_back
			tell gone-$name
			check and-is-found-again wait_for 30 is_back
			;;
		v6)
			hear before-v6 > /dev/null
			no_netem
			kill -TERM $collector
			check the-collector-stops-cleanly wait $collector
			check it-listens-by-ipv6 collector "[$ADDRESS6]"
			tell v6
			;;
		esac
	done
	hear translated > /dev/null
	no_netem
	check what-was-reported-is-in-the-stores python3 /tmp/dta_stores.py "$shared" $runs
	kill -TERM $collector
	check the-collector-stops-cleanly wait $collector
	sed 's/^/     | /' /tmp/collect.err | tail -n 40
}

# Only small losses: soft-RoCE retransmits everything after a lost packet, after 67 ms.
netem() { tc qdisc replace dev eth0 root netem delay 1ms reorder 5% loss 0.5%; }
no_netem() { tc qdisc del dev eth0 root 2> /dev/null; }

# port=, translator=
translate() { # NAME OUTPUT WHERE [LISTEN]
	: > /tmp/translate.out
	sidelight translate --collector "$3" --listen "${4:-127.0.0.1:0}" --insecure-listen --name "t-$1" --output "$2" --json \
		--secret /tmp/secret --device "$RDMA_DEVICE" --raw-interface eth0 > /tmp/translate.out 2>> /tmp/translate.err &
	translator=$!
	wait_for 30 ready /tmp/translate.out || { tail -n 5 /tmp/translate.err; return 1; }
	at=$(sed -n 's/^ready .*listen=\([^ ]*\).*/\1/p' /tmp/translate.out)
}

end_translator() { # NAME
	kill -TERM $translator
	wait $translator || { tail -n 5 /tmp/translate.err; return 1; }
	cp /tmp/translate.out "$shared/account-$1"
}

# Shows everything that helps to explain a failed run.
failed() {
	tail -n 5 /tmp/generate-*.out
	kill -TERM $translator
	wait $translator
	tail -n 5 /tmp/translate.out /tmp/translate.err
	return 1
}

# generate NAME COUNT RATE: two reporters, generators=. Each key once.
run_number=0
generate() {
	local some=(--to "$at" --count "$2" --pack 4 --essential --wait 60s --show 0)
	sidelight generate dta "${some[@]}" --kinds keywrite,increment --keys "$2" --key-bytes $((8 + run_number)) \
		--key /tmp/key1 --rate "$3" --expect "$shared/expected-$1" > /tmp/generate-keys.out 2>&1 &
	generators=$!
	sidelight generate dta "${some[@]}" --kinds append --lists 1 --store $((10 + run_number)) --reporter 2 \
		--key /tmp/key2 --rate $(($3 / 2)) --expect "$shared/items-$1" > /tmp/generate-items.out 2>&1 &
	generators="$generators $!"
}
generated() {
	local generator
	for generator in $generators; do wait $generator || failed || return 1; done
}

translated() { # NAME OUTPUT WHERE
	translate "$1" "$2" "$3" || return 1
	generate "$1" 400 2000
	generated || return 1
	end_translator "$1"
}

# In the middle of its work: reports are under way, and one generator waits to go on, so that there are more afterwards.
in_the_middle() { # NAME [COUNT RATE]
	local before
	before=$(cat /sys/class/net/eth0/statistics/tx_packets)
	generate "$1" "${2:-300}" "${3:-200}"
	wait_for 30 crossed $((before + 60)) || return 1
	kill -STOP ${generators#* }
}
go_on() {
	kill -CONT ${generators#* }
	generated
}

killed() { # NAME OUTPUT: another one takes its place
	translate "$1" "$2" "$PEER:7777" || return 1
	in_the_middle "$1" || return 1
	kill -9 $translator
	wait $translator 2> /dev/null
	translate "$1" "$2" "$PEER:7777" "$at" || return 1
	go_on || return 1
	end_translator "$1"
}

orphaned() { # NAME OUTPUT: another collector takes the place of its own, or the same one comes back
	translate "$1" "$2" "$PEER:7777" || return 1
	case $2 in
	raw) in_the_middle "$1" 1000 1500 || return 1 ;; # 3,000 reports
	*) in_the_middle "$1" || return 1 ;;
	esac
	tell "middle-$1"
	hear "gone-$1" > /dev/null
	go_on || return 1
	end_translator "$1"
}

# This machine's own device goes away.
away() { # NAME OUTPUT
	translate "$1" "$2" "$PEER:7777" || return 1
	in_the_middle "$1" || return 1
	device_lost_and_back || failed || return 1
	go_on || return 1
	end_translator "$1"
}

translators() {
	case "$runs" in *-away*) check another-device another_device ;; esac
	secrets
	hear stores > /dev/null
	for name in $runs; do
		output=${name%-*}
		case $name in
		*-killed)
			netem
			tell before-$name
			hear lossy-$name > /dev/null
			check "a-killed-translator-is-followed-by-another-$output" killed $name $output
			;;
		*-orphaned) check "a-killed-collector-is-found-again-$output" orphaned $name $output ;;
		*-lost) check "a-collector-whose-device-was-lost-is-found-again-$output" orphaned $name $output ;;
		*-away) check "a-device-that-was-lost-is-found-again-$output" away $name $output ;;
		v6)
			no_netem
			tell before-v6
			hear v6 > /dev/null
			check reports-are-translated-by-ipv6 translated v6 verbs "[$PEER6]:7777"
			;;
		*) check reports-are-translated-$output translated $name $output "$PEER:7777" ;;
		esac
		run_number=$((run_number + 1))
	done
	no_netem
	tell translated
}

# Again, twice at most, after one in which a busy host let the other guest wait for too long (75).
run=0
drive() {
	local code attempt
	for attempt in 1 2 3; do
		run=$((run + 1))
		code=0
		dta-drive write "$shared" "$1" "$PEER" eth0 $run "${@:2}" || code=$?
		[ $code = 75 ] || return $code
		echo "= the other machine was silent, in attempt $attempt"
	done
	return $code
}

writer() {
	hear object > /dev/null
	check raw-frames-write-what-they-say drive raw 2000
	check the-device-does-the-same drive verbs 2000
	check a-queue-pair-that-is-ended-is-followed-by-another-raw drive raw 1000 kill
	check a-queue-pair-that-is-ended-is-followed-by-another-verbs drive verbs 1000 kill
	check refusals-of-the-store-server-are-counted-raw drive raw 200 deny
	check refusals-of-the-store-server-are-counted-verbs drive verbs 200 deny
	check a-missing-frame-is-sent-again drive raw 1000 skip
	check a-frame-with-a-wrong-icrc-is-sent-again drive raw 1000 break
	tc qdisc add dev eth0 root netem loss 3%
	tell lossy
	hear lossy-too > /dev/null
	check with-loss-each-frame-is-executed-once drive raw 1000 loss
	check with-loss-the-device-does-the-same drive verbs 300
	tc qdisc del dev eth0 root
	echo '{}' > "$shared/STOP.0"
	tell done
	translators
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	hear owner-done > /dev/null
}

if [ "$GUEST" = 0 ]; then owner; else writer; fi
finish
