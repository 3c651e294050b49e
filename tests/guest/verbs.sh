# SPDX-License-Identifier: Apache-2.0
# The verbs provider and the host side in one guest, over soft-RoCE.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/tests/fabric/test_verbs"

for name in $(test_verbs --list); do
	check "$name" timeout 120 test_verbs "$name"
done
check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
finish
