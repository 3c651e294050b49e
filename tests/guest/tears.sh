# SPDX-License-Identifier: Apache-2.0
# Lines through real READs under a writer at full speed.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/tests/fabric/tears"

echo "cpu $SL_GUEST_CPU"
lines=$(awk "BEGIN { printf \"%d\", ${LINES_READ:-10000000} * $SL_TEST_SCALE }")
check "$lines-lines-and-none-torn-unnoticed" tears "$lines"
finish
