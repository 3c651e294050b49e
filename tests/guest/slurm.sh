# SPDX-License-Identifier: Apache-2.0
# Jobs of Slurm have cgroups of version 2, which this guest mounts alone.
. "$SOURCE/tests/guest/lib.sh"
for program in munged slurmctld slurmd srun; do
	[ -x "$(PATH=$PATH:/usr/sbin command -v $program)" ] ||
		{ echo "SKIP: no $program: Debian packages slurmctld, slurmd, slurm-client and munge"; exit 77; }
done
hot "$BUILD/sidelight"
cp -r "$SOURCE/tests/host" "$SOURCE/tests/support" /tmp/ && PYTHONPATH=/tmp # 9p is slow
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# As systemd would. Slurm 22.05 does not recognise the last controller in a list, so pids comes after memory.
mkdir /sys/fs/cgroup/system.slice
for folder in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
	echo '+cpu +cpuset +memory +pids' > $folder/cgroup.subtree_control
done
check jobs-of-slurm-are-named-by-cgroups-of-version-2 /usr/bin/python3 /tmp/host/test_slurm.py /tmp/hot/sidelight
finish
