# SPDX-License-Identifier: Apache-2.0
# Attackers with real verbs on the second machine; agent and pods on the first, an honest collector beside the attackers.
# First an agent without a secret, where reading is open and only the share of queue pairs protects; it also shows
# that the attacks work where nothing stops them. Then one with a secret.
# With GUARD=none the options of the secret are left out: what an agent without them suffers.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight" "$BUILD/tests/guest/rdma_attack"

port=7475 stranger=10.77.0.3 strangers="10.77.0.4 10.77.0.5 10.77.0.6"
secret=(--rdma-secret "$OUT/secret")
[ "$GUARD" = none ] && secret=()

# ---- the observed host --------------------------------------------------------------------------

agent_start() {
	: > /tmp/agent.out
	sidelight agent --rdma "$RDMA_DEVICE" --no-rest --grace 20s "$@" > /tmp/agent.out 2>> /tmp/agent.err &
	agent=$!
	wait_for 30 grep -q '^ready' /tmp/agent.out
}
agent_stop() { kill -TERM $agent && wait $agent; }
status() { sidelight agent --status --json; }
queue_pairs() { rdma resource show qp | grep -c "pid $agent " || true; }
queue_pairs_are() { [ "$(queue_pairs)" = "$1" ]; }
# Frames that the device took for its queue pair and found out of order.
out_of_order() { cat /sys/class/infiniband/"$RDMA_DEVICE"/ports/1/hw_counters/{out_of_seq_request,duplicate_request} |
	(read -r a && read -r b && echo $((a + b))); }
queue_pairs_below() { [ "$(queue_pairs)" -lt "$1" ]; }
counter() { status | sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" | head -n 1; }
generated() { grep -q '^ready' "$1"; }
generate() {
	local name=$1
	shift
	sidelight generate metrics --service "$name" --hold 900s "$@" --json > "/tmp/$name.out" 2> "/tmp/$name.err" &
	pods+=($!)
	wait_for 40 generated "/tmp/$name.err"
}
# The address, key, instance and slot of a pod's region, as the most curious stranger may know them.
region() {
	status | python3 -c '
import json, sys
r = [r for r in json.load(sys.stdin)["regions"] if r["labels"].get("service") == "live"][0]
print(r["address"], r["rkey"], int(r["instance"], 16), r["slot"])'
}
key_differs() { [ "$(region | cut -d " " -f 2)" != "$1" ]; }

host() {
	head -c 32 /dev/urandom | base64 > "$OUT/secret.part" && chmod 600 "$OUT/secret.part" && mv "$OUT/secret.part" "$OUT/secret"
	head -c 32 /dev/urandom | base64 > "$OUT/secret.wrong" && chmod 600 "$OUT/secret.wrong"
	# A reader that stands still for two leases loses its connection, and one that comes after the grace finds no dead region,
	# so both are as long as this machine is slow.
	lease=$SECONDS
	check an-open-agent-is-ready agent_start
	lease=$((SECONDS - lease > 0 ? SECONDS - lease : 1))
	[ "$GUARD" = none ] || check it-says-that-it-is-open grep -q 'WARN.*--rdma-secret' /tmp/agent.err
	check pods-publish generate shop -n 4 -m 32 -t 1 -u 1000
	check a-pod-keeps-counting generate live -n 1 -m 1 -u 100000000 -r 1000
	tell open "$(region)"
	hear half-done > /dev/null
	check half-open-queue-pairs-time-out wait_for 15 queue_pairs_below 3
	tell half-over
	hear open-done > /dev/null
	agent_stop

	[ "$GUARD" = none ] || rotation=(--lease "${lease}s" --rdma-key-lifetime "$((5 * lease))s" --grace "$((15 + 5 * lease))s")
	check a-guarded-agent-is-ready agent_start "${secret[@]}" "${rotation[@]}"
	wait_for 20 region > /dev/null
	tell guarded "$(region)"
	hear guessing 300 > /dev/null
	before=$(out_of_order)
	tell watched
	hear guessed > /dev/null
	check guessed-frames-reached-the-queue-pair test "$(out_of_order)" -gt $((before + 1000))
	hear attacked 300 > /dev/null
	check no-verdict-was-relayed test "$(counter verdicts)" = 0
	check no-verdict-was-written test "$(counter verdicts_refused)" = 0
	tell counted
	if [ "$GUARD" != none ]; then
		check keys-change wait_for 30 key_differs "$(region | cut -d " " -f 2)"
		hear rotated > /dev/null
		kill -9 "${pods[-1]}"
		tell pod-killed
		hear revoked > /dev/null
	fi
	hear collector-gone > /dev/null
	status | grep -E '"(rdma_|rejected|queue_pairs|memory_regions)' | head
	kill "${pods[@]}" 2> /dev/null
	check the-agent-stops-cleanly agent_stop
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	sed 's/^/     | /' /tmp/agent.err | tail -30
	tell host-done
}

# ---- the collector, and the attackers -----------------------------------------------------------

collector_start() {
	: > /tmp/collect.out
	sidelight collect --agent "$PEER" --dev "$RDMA_DEVICE" --period 20ms --listen 127.0.0.1:9464 \
		--read-timeout 5s --stale 5s "$@" > /tmp/collect.out 2>> /tmp/collect.err &
	collector=$!
	wait_for 40 grep -q '^ready' /tmp/collect.out
}
collector_stop() { kill -TERM $collector && wait $collector; }
scrape() {
	exec 3<> /dev/tcp/127.0.0.1/9464 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3
	exec 3>&-
}
live() { scrape | sed -n 's/^generated_updates_total{.*service="live".* //p'; }
moves() {
	local before after
	before=$(live)
	sleep 0.3
	after=$(live)
	[ "$before" ] && [ "$after" ] && [ "$after" -gt "$before" ]
}
# The agent's end of the reader's queue pair.
reader_queue() { rdma resource show qp | sed -n 's/.* rqpn \([1-9][0-9]*\) .*comm worker.*/\1/p' | grep -m 1 .; }
# Prints the collector's counters of failures of its host or connection.
losses() { scrape | grep -E '^sidelight_.*(disconnect|timeout|access|read_errors)[a-z_]*total' | sort; }
# Rounds of the collector from the first mark to the second, per second.
mark() { scrape | awk -v now="$EPOCHREALTIME" '/^sidelight_host_rounds_total/ { n += $2 } END { print now, n }' > "/tmp/mark$1"; }
rate() { awk '{ t[NR] = $1; n[NR] = $2 } END { printf "%.1f", (n[2] - n[1]) / (t[2] - t[1]) }' "/tmp/mark$1" "/tmp/mark$2"; }
undisturbed() { losses | diff /tmp/losses - && moves; }

attack() { FROM=$stranger timeout 300 rdma_attack "$@" > /tmp/attack && grep = /tmp/attack | sed 's/^/= /'; }
gets() { # gets PATTERN COMMAND...: checks the output of the attack
	local want=$1
	shift
	attack "$@"
	grep -Eq "(^| )$want( |$)" /tmp/attack
}
held() {
	FROM=$stranger rdma_attack "$@" > /tmp/held 2>&1 &
	holder=$!
	wait_for 60 grep -q = /tmp/held
	grep = /tmp/held | sed 's/^/= /'
}
release() { kill -9 $holder && wait $holder; } 2> /dev/null
held_from() { # held_from ADDRESS COMMAND...: beside the holder
	local from=$1
	shift
	FROM=$from rdma_attack "$@" > "/tmp/held.$from" 2>&1 &
	holders+=($!)
	wait_for 60 grep -q = "/tmp/held.$from"
	sed -n "s/^held=/= $from: &/p" "/tmp/held.$from"
}
release_all() { release; kill -9 "${holders[@]}"; wait "${holders[@]}"; } 2> /dev/null
refused_with() { # refused_with TEXT OPTION...
	local text=$1
	shift
	timeout 60 sidelight collect --agent "$PEER" --dev "$RDMA_DEVICE" --mode setup "$@" > /tmp/refused 2>&1 && return 1
	cat /tmp/refused
	grep -q "$text" /tmp/refused
}

collector() {
	local addr key instance slot
	for a in $stranger $strangers; do ip addr add "$a/24" dev eth0; done
	sleep 2 # until rxe has their GIDs
	hear open > /tmp/open && read -r addr key instance slot < /tmp/open
	check without-a-secret-a-stranger-reads gets 'bytes=[1-9][0-9]*' stranger "$PEER" $port
	check a-stranger-asks-for-every-queue-pair held hold "$PEER" $port 80 0
	check a-collector-gets-in-beside-a-stranger collector_start
	check it-reads wait_for 20 moves
	collector_stop
	for a in $strangers; do check "$a-asks-for-them-too" held_from "$a" hold "$PEER" $port 40 0; done
	check a-collector-gets-in-beside-four collector_start
	check it-reads wait_for 20 moves
	collector_stop
	release_all
	check a-stranger-leaves-queue-pairs-half-open held half "$PEER" $port 80
	tell half-done
	hear half-over > /dev/null
	check a-collector-gets-in-after-it collector_start
	check it-reads wait_for 20 moves
	collector_stop
	release
	[ "$GUARD" = none ] || check a-collector-with-a-secret-refuses-an-agent-without \
		refused_with 'did not prove that it knows the secret' "${secret[@]}"
	tell open-done

	hear guarded > /tmp/guarded && read -r addr key instance slot < /tmp/guarded
	check a-collector-with-the-secret-is-ready collector_start "${secret[@]}"
	check it-reads wait_for 20 moves
	losses > /tmp/losses
	mark 1 && sleep 10 && mark 2
	check a-stranger-reads-nothing gets bytes=0 stranger "$PEER" $port
	check a-scan-of-keys-reads-nothing gets bytes=0 scan "$PEER" $port "$addr" "$key" 60
	check a-stranger-writes-no-verdict gets verdicts=0 verdict "$PEER" $port "$slot" "$instance"
	check the-reader-has-a-queue-pair wait_for 20 reader_queue
	tell guessing
	hear watched > /dev/null
	check packet-numbers-are-guessed attack psn eth0 "$ADDRESS" "$PEER" "$(reader_queue)" 3000 "$addr" "$key"
	tell guessed
	check what-is-no-request-is-refused gets accepted=0 odd "$PEER" $port 100
	check a-recorded-proof-opens-nothing gets 'first=[01] again=0 moved=0 late=0 errors=129,129,0' \
		replay "$PEER" $port "$OUT/secret"
	check a-stranger-holds-no-queue-pair held hold "$PEER" $port 80 0
	check not-one grep -q 'held=0 ' /tmp/held
	mark 3
	check the-reader-is-undisturbed undisturbed
	echo "= rounds/s of the reader: $(rate 1 2) at rest, $(rate 2 3) under attack"
	check a-collector-restarts-beside-it collector_stop
	check it-is-ready collector_start "${secret[@]}"
	check it-reads wait_for 20 moves
	release
	if [ "$GUARD" != none ]; then
		check without-the-secret-it-is-told-why refused_with 'use --rdma-secret'
		check with-another-secret-too refused_with 'different secret' --rdma-secret "$OUT/secret.wrong"
	fi
	tell attacked
	hear counted > /dev/null
	if [ "$GUARD" != none ]; then
		losses > /tmp/losses
		check keys-change-while-it-reads gets 'rotated=1 bytes=0' rotated "$PEER" $port "$OUT/secret"
		check the-reader-is-undisturbed undisturbed
		tell rotated
		hear pod-killed > /dev/null
		check a-freed-region-is-not-readable gets 'bytes=0' revoked "$PEER" $port "$OUT/secret"
		check who-writes-reads-nothing gets 'bytes=0' insider "$PEER" $port "$OUT/secret"
		tell revoked
	fi
	check the-collector-stops-cleanly collector_stop
	tell collector-gone
	hear host-done > /dev/null
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	sed 's/^/     | /' /tmp/collect.err | tail -30
}

if [ "$GUEST" = 0 ]; then host; else collector; fi
finish
