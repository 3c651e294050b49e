# SPDX-License-Identifier: Apache-2.0
# Two machines: the first owns memory, the second writes into it, through its RDMA device and by frames of its
# own making, which soft-RoCE takes only with a right iCRC. tests/dta/drive.c says what is checked.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/tests/dta/dta-drive"
shared=$OUT/dta

there() { [ -e "$shared/OBJECT.0" ]; }

owner() {
	mkdir -p "$shared"
	dta-drive owner "$shared" "$RDMA_DEVICE" > /tmp/owner.log 2>&1 &
	owner=$!
	check the-owner-offers-memory wait_for 30 there
	tell object
	hear lossy > /dev/null
	tc qdisc add dev eth0 root netem loss 3%
	tell lossy-too
	hear done > /dev/null
	tc qdisc del dev eth0 root
	check the-owner-ends-well wait $owner
	sed 's/^/     | /' /tmp/owner.log
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	tell owner-done
}

run=0
drive() {
	run=$((run + 1))
	dta-drive write "$shared" "$1" "$PEER" eth0 $run "${@:2}"
}

writer() {
	hear object > /dev/null
	check frames-of-our-own-do-what-they-say drive raw 2000
	check and-so-does-the-device drive verbs 2000
	check a-queue-pair-that-is-ended-is-followed-by-another-raw drive raw 1000 kill
	check a-queue-pair-that-is-ended-is-followed-by-another-verbs drive verbs 1000 kill
	check what-the-owner-refuses-is-counted-raw drive raw 200 deny
	check what-the-owner-refuses-is-counted-verbs drive verbs 200 deny
	tc qdisc add dev eth0 root netem loss 3%
	tell lossy
	hear lossy-too > /dev/null
	check with-loss-each-frame-is-executed-once drive raw 1000 loss
	check with-loss-the-device-does-the-same drive verbs 300
	tc qdisc del dev eth0 root
	echo '{}' > "$shared/STOP.0"
	tell done
	check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
	hear owner-done > /dev/null
}

if [ "$GUEST" = 0 ]; then owner; else writer; fi
finish
