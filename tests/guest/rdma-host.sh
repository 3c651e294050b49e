# SPDX-License-Identifier: Apache-2.0
# With --host, the agent publishes what rdma(8) shows of the RDMA device.
. "$SOURCE/tests/guest/lib.sh"
hot "$BUILD/sidelight"
cp -r "$SOURCE/tests/host" "$SOURCE/tests/support" /tmp/ && PYTHONPATH=/tmp # 9p is slow
for name in \
	counters_move_under_load_and_are_the_kernels \
	objects_are_those_that_rdma_shows \
	the_interface_counts_what_its_driver_does \
	a_port_goes_down_and_its_device_goes_and_comes_back; do
	check "${name//_/-}" /usr/bin/python3 /tmp/host/test_rdma.py /tmp/hot/sidelight "$name"
done
check nothing-is-left-in-the-kernel test "$(rdma_left | tr '\n' ' ')" = "0 0 "
finish
