#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# switch.sh [sflow|netflow|ipfix] - flows of a real switch on the page: Open vSwitch between two hosts that are network
# namespaces, with traffic through it, exports to a translator; the page's Reports tab shows flows and interfaces, until
# Ctrl-C. Needs root, Open vSwitch, iproute2 and curl (apt-get install openvswitch-switch curl), and touches no switch of
# this machine: nothing of it is outside of the namespaces, and nothing stays.
#
# SIDELIGHT: the program (build/sidelight). PAGE: where the page is (127.0.0.1:9464). 'sidelight demo --switch' runs it as
# switch.sh KIND lab FOLDER SOCKET: beside a collector that is there, whose socket for translators this is, until SIGTERM.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kind=${1:-sflow}
sidelight=$(readlink -f "${SIDELIGHT:-$here/../../build/sidelight}")
page=${PAGE:-127.0.0.1:9464}

# Its processes end with the first one of them, and the links with their namespace; it ends with this process.
in_namespaces() { # FOLDER SOCKET
	setpriv --pdeathsig KILL unshare --net --pid --fork --kill-child --mount-proc sh "$here/switch.sh" "$kind" inside "$@" &
	lab=$!
}

if [ "${2:-}" = lab ]; then
	in_namespaces "$3" "$4"
	# unshare ignores SIGTERM; with it goes the first process inside, and with that all others.
	trap 'first=$(cat /proc/$lab/task/$lab/children); kill -KILL $lab; while kill -0 $first 2> /dev/null; do sleep .05; done; exit 0' \
		INT TERM
	wait $lab
	cat "$3"/*.log >&2
	exit 1
fi
if [ "${2:-}" != inside ]; then
	case $kind in
	sflow | netflow | ipfix) ;;
	*) echo "usage: $0 [sflow|netflow|ipfix]" >&2; exit 2 ;;
	esac
	for p in "$sidelight" ovs-vswitchd ovsdb-server ovs-vsctl setpriv unshare nsenter ip curl python3; do
		command -v "$p" > /dev/null || { echo "$0: $p is missing" >&2; exit 1; }
	done
	[ "$(id -u)" = 0 ] || { echo "$0: network namespaces need root" >&2; exit 1; }
	folder=$(mktemp -d)
	collector='' lab=''
	# unshare ignores SIGTERM; with it goes the first process inside, and with that all others.
	trap 'kill -KILL $lab 2> /dev/null || true; kill $collector 2> /dev/null || true; wait; rm -rf "$folder"' EXIT
	trap 'exit 0' INT TERM
	sed "s|/tmp/sidelight-dta|$folder|" "$here/devices.yaml" > "$folder/stores.yaml"
	"$sidelight" collect --dta "$folder/stores.yaml" --listen "$page" > "$folder/collector" 2>&1 &
	collector=$!
	in_namespaces "$folder" "$folder/dta.sock"
	tries=0
	until grep -q '^ready' "$folder/collector"; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] && kill -0 $collector 2> /dev/null || { cat "$folder/collector" >&2; exit 1; }
		sleep .1
	done
	echo "page: http://$page/ (Reports); Ctrl-C ends it"
	wait $lab || { cat "$folder"/*.log >&2; exit 1; }
	exit 0
fi

# ---- in the namespaces ----
folder=$3 socket=$4
export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
db=unix:$folder/db.sock
set_() { ovs-vsctl --db="$db" --timeout=60 "$@"; }

ip link set lo up
for n in 1 2; do
	unshare --net sleep infinity &
	eval "host$n=$!"
	while [ "$(readlink /proc/$!/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep .1; done
	ip link add port$n type veth peer name eth0 netns $!
	ip link set port$n up
	nsenter --net=/proc/$!/ns/net ip addr add 10.9.0.$n/24 dev eth0
	nsenter --net=/proc/$!/ns/net ip link set eth0 up
	# A switch in user space passes on what it gets: the kernel must finish checksums and segments.
	nsenter --net=/proc/$!/ns/net python3 -c '
import ctypes, fcntl, socket, struct
for command in 0x17, 0x1f, 0x24:
    value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
    fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP", b"eth0", ctypes.addressof(value)))'
done
ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$folder/conf.db" --remote=p"$db" --unixctl="$folder/db.ctl" > "$folder/database.log" 2>&1 &
while [ ! -S "$folder/db.sock" ]; do sleep .1; done
set_ --no-wait init
ovs-vswitchd "$db" --unixctl="$folder/switch.ctl" --disable-system > "$folder/switch.log" 2>&1 &
set_ set Open_vSwitch . other_config:max-idle=1000
set_ add-br br0 -- set bridge br0 datapath_type=netdev
set_ add-port br0 port1 -- add-port br0 port2

while [ ! -S "$socket" ]; do sleep .1; done
"$sidelight" translate --collector "unix:$socket" --input "$kind" --name switch > "$folder/translator.log" 2>&1 &
until grep -q '^ready' "$folder/translator.log"; do sleep .1; done
case $kind in
sflow) set_ -- --id=@x create sFlow agent=lo 'targets="127.0.0.1:6343"' header=128 sampling=10 polling=1 -- set bridge br0 sflow=@x ;;
netflow) set_ -- --id=@x create NetFlow 'targets="127.0.0.1:2055"' active_timeout=5 -- set bridge br0 netflow=@x ;;
ipfix) set_ -- --id=@x create IPFIX 'targets="127.0.0.1:4739"' sampling=10 cache_active_timeout=5 -- set bridge br0 ipfix=@x ;;
esac > "$folder/export"

nsenter --net=/proc/$host2/ns/net python3 -m http.server --bind 10.9.0.2 --directory /usr/share/common-licenses 8080 \
	> "$folder/web" 2>&1 &
echo ready
while :; do
	for file in GPL-3 Artistic Apache-2.0; do
		nsenter --net=/proc/$host1/ns/net curl -s --noproxy '*' -o "$folder/got" "http://10.9.0.2:8080/$file" || true
	done
	sleep .5
done
