# SPDX-License-Identifier: Apache-2.0
# Two machines with a collector each, which hold the same keys; a translator on the second one writes to both. The first
# collector is killed and comes back empty: what it missed it reads from the memory of the other, by RDMA READ.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight"
shared=$OUT/replicas
cp "$SOURCE/tests/guest/replicas.py" /tmp/

ready() { grep -q '^ready' "$1"; }
mkdir -p "$shared"
(umask 077 && echo 'between two machines' > /tmp/secret)

collector() { # [PEER]
	: > /tmp/collect.out
	cat > /tmp/stores.yaml <<- END
		listen: "$ADDRESS:7777"
		rdma: {device: $RDMA_DEVICE, address: "$ADDRESS"}
		secret: /tmp/secret
		peer: "${1:-$PEER:7777}"
		stores:
		  - {name: flows, number: 1, kind: key-write, seed: 1, slots: 100000, value: 8, copies: 2}
		  - {name: bytes, number: 3, kind: increment, seed: 3, rows: 2, columns: 65536}
		  - {name: events1, number: 11, kind: append, seed: 11, lists: 1, items: 2048, value: 8, batch: 8, lanes: 4}
		  - {name: events2, number: 12, kind: append, seed: 12, lists: 1, items: 2048, value: 8, batch: 8, lanes: 4}
	END
	sidelight collect --dta /tmp/stores.yaml --listen 127.0.0.1:9464 > /tmp/collect.out 2>> /tmp/collect.err &
	collector=$!
	wait_for 30 ready /tmp/collect.out || { tail -n 5 /tmp/collect.err; return 1; }
}

stopped() { # PID
	kill -TERM "$1"
	wait "$1" || { tail -n 5 /tmp/*.err; return 1; }
}

# ---- the one that is killed -------------------------------------------------------------------------------

look() { python3 /tmp/replicas.py "$shared" "$@"; }

first() {
	check the-first-collector-offers-stores collector
	tell first
	hear reported1 > /dev/null
	check it-has-what-was-reported look has 1
	kill -9 $collector
	wait $collector 2> /dev/null
	tell killed
	hear reported2 360 > /dev/null
	check it-comes-back-empty collector
	tell back
	check it-is-told-what-it-missed-and-fills-it look filled
	check it-has-read-what-it-missed look has 1 2
	hear reported3 > /dev/null
	check and-what-was-reported-since look has 3
	tell looked
	hear ended > /dev/null
	check the-first-collector-stops-cleanly stopped $collector
	sed 's/^/     | /' /tmp/collect.err | tail -n 30
}

# ---- the one that stays, and the translator ----------------------------------------------------------------

# It comes first here: a translator asks for both.
translator() {
	sidelight translate --collector "$PEER:7777" --collector "$ADDRESS:7777" --replicas 2 --listen 127.0.0.1:0 --name t \
		--output verbs --json --secret /tmp/secret --device "$RDMA_DEVICE" > /tmp/translate.out 2> /tmp/translate.err &
	translator=$!
	wait_for 30 ready /tmp/translate.out || { tail -n 5 /tmp/translate.err; return 1; }
	at=$(sed -n 's/^ready .*listen=\([^ ]*\).*/\1/p' /tmp/translate.out)
}

reported() { # N: selects the keys
	local some=(--to "$at" --count 300 --pack 4 --essential --wait 60s --show 0 --rate 1000)
	sidelight generate dta "${some[@]}" --kinds keywrite,increment --keys 300 --key-bytes $((8 + $1)) \
		--expect "$shared/expected-$1" || return 1
	[ "$1" = 3 ] || sidelight generate dta "${some[@]}" --kinds append --lists 1 --store $((10 + $1)) --reporter 2 \
		--expect "$shared/items-$1"
}

missed() { grep -q 'collector is not available' /tmp/translate.err; }

second() {
	hear first > /dev/null
	check the-second-collector-offers-stores collector
	check a-translator-writes-to-both translator
	check reports-go-to-both reported 1
	tell reported1
	hear killed > /dev/null
	check the-translator-notices-that-one-is-gone wait_for 90 missed
	check reports-go-to-the-one-that-is-left reported 2
	sleep $((${SL_TEST_SCALE%.*} * 6)) # a minute in make soak
	tell reported2
	hear back > /dev/null
	check reports-go-to-both-again reported 3
	tell reported3
	hear looked 240 > /dev/null
	check the-translator-stops-cleanly stopped $translator
	check the-second-collector-stops-cleanly stopped $collector
	sed 's/^/     | /' /tmp/collect.err /tmp/translate.err | tail -n 30
	tell ended
}

if [ "$GUEST" = 0 ]; then first; else second; fi
check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
finish
