# SPDX-License-Identifier: Apache-2.0
# The eBPF programs on a second kernel (Debian's 6.1), which also allows fentry and kprobes: every test
# of tests/tcp that loads some runs here, too.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/tests/tcp/tcp_test_cpu" "$BUILD/tests/tcp/tcp_test_why"
uname -r

check "scheduler time is what the kernel accounts for" tcp_test_cpu
check "why a connection is slow is told" tcp_test_why

finish
