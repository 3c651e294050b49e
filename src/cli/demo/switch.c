// SPDX-License-Identifier: Apache-2.0
/*
 * switch.c - a real switch that reports flows: Open vSwitch between two network namespaces as
 * hosts, started by the script examples/dta/switch.sh. The datapath is in user space, and nothing
 * exists outside the namespaces.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/demo/demo.h"

/* The stores of the default mapping for sFlow (docs/dta-devices.md). */
const char cli_demo_switch_stores[] =
	"  # What the switch sends: bytes and packets of flows, counters of its ports.\n"
	"  - {name: flow_bytes, number: 10, kind: increment, rows: 2, columns: 65536, copies: 2, "
	"keylog: flow_keys}\n"
	"  - {name: flow_packets, number: 11, kind: increment, rows: 2, columns: 65536, copies: "
	"2}\n"
	"  - {name: interfaces, number: 12, kind: key-write, slots: 4096, value: 64, copies: 2, "
	"keylog: interface_keys}\n"
	"  - {name: flow_keys, number: 16, kind: append, lists: 1, items: 16384, value: 38, batch: "
	"1, lanes: 4}\n"
	"  - {name: interface_keys, number: 17, kind: append, lists: 1, items: 4096, value: 21, "
	"batch: 1, lanes: 4}\n";

static bool has_needs(struct cli_demo *d)
{
	static const char *const programs[] = {
		"ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "setpriv",
		"unshare",	"nsenter",	"ip",	      "curl",	   "python3"};

	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (!cli_demo_runs(programs[i])) {
			snprintf(d->no_switch, sizeof(d->no_switch),
				 "%s is not installed (apt-get install openvswitch-switch curl)",
				 programs[i]);
			return false;
		}
	if (geteuid()) {
		snprintf(d->no_switch, sizeof(d->no_switch), "network namespaces need root");
		return false;
	}
	return true;
}

bool cli_demo_switch_can(struct cli_demo *d)
{
	if (!has_needs(d))
		return false;
	snprintf(d->switch_script, sizeof(d->switch_script), "%s/switch.sh", d->examples);
	snprintf(d->switch_dir, sizeof(d->switch_dir), "%s/switch", d->dir);
	if (!access(d->switch_script, R_OK) && !mkdir(d->switch_dir, 0700) &&
	    !setenv("SIDELIGHT", d->self, 1))
		return true;
	snprintf(d->no_switch, sizeof(d->no_switch), "%s: %s", d->switch_script, strerror(errno));
	return false;
}

void cli_demo_switch_set(struct cli_demo *d)
{
	cli_demo_part_set(d, DEMO_SWITCH, "switch", "sh", d->switch_script, "sflow", "lab",
			  d->switch_dir, d->dta + strlen("unix:"), NULL);
	d->part[DEMO_SWITCH].late = true;
}
