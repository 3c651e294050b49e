#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# pcp.sh FOLDER - PCP's pmcd and pmlogger as Debian configures them, but with a sample of everything each second instead of
# each minute. Prints "ready", and runs until it gets SIGTERM. They are in a Debian in FOLDER, which is made once, because the
# package 'pcp' starts them on each boot of the machine that has it. Needs root and debootstrap.
set -eu
. "$(dirname "$0")/../../scripts/debian-root"
cache=$1 root=$1/root
if [ ! -e "$root/made" ]; then
	mkdir -p "$cache"
	make_debian "$cache" "$root"
	run_in "$cache" "$root" bash -ec 'apt-get update; apt-get install -y --no-install-recommends pcp; touch /made' > "$cache/log" 2>&1
fi
rm -rf "$root/tmp/pcp"
run_in "$cache" "$root" bash -ec '
	mkdir -p /run/pcp /tmp/pcp
	chown pcp /run/pcp
	(cd /var/lib/pcp/pmns && ./Rebuild -u)
	/usr/lib/pcp/bin/pmcd -f -i 127.0.0.1 -s /run/pcp/pmcd.socket -l /tmp/pcp/pmcd.log &
	/usr/lib/pcp/bin/pmcd_wait -h 127.0.0.1 -t 20
	/usr/lib/pcp/bin/pmlogconf -q -c -h 127.0.0.1 /tmp/pcp/config
	/usr/bin/pmlogger -h 127.0.0.1 -t 1 -c /tmp/pcp/config -l /tmp/pcp/pmlogger.log -U root /tmp/pcp/archive &
	until [ -s /tmp/pcp/archive.0 ]; do sleep 0.1; done
	echo ready
	wait' &
# pmlogger has a process group of its own, and the agents of pmcd end a moment after it.
inside() {
	local p
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/root")" != "$root" ] || echo "${p#/proc/}"
	done
}
finish() {
	while left=$(inside) && [ -n "$left" ]; do
		kill $left 2> /dev/null || true
		sleep 0.1
	done
	exit 0
}
trap finish TERM
wait
