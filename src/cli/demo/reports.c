// SPDX-License-Identifier: Apache-2.0
/* reports.c - lets the kernel report loopback flows into the collector's stores. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/demo/demo.h"
#if HAVE_TCP
#include "source/report/reporter.h"
#endif

#define INTERFACE "lo"
#define TARGET	  ":40040" /* this host */

static const char stores[] =
	"stores:\n"
	"  # Of each flow its packets and bytes so far; a new epoch each ten minutes, two are "
	"kept.\n"
	"  - {name: flows, number: 1, kind: key-write, slots: 65536, value: 16, copies: 2, "
	"epochs: 2, epoch: 10m,\n"
	"     keylog: flow-keys}\n"
	"  - {name: flow-keys, number: 2, kind: append, lists: 1, items: 16384, value: 40, "
	"batch: 1, lanes: 4}\n";

#if HAVE_TCP
/* Returns true if the kernel can report; d->report_to is then the target. */
static bool try_kernel(struct cli_demo *d)
{
	const struct report_kernel_opts o = {
		.interface = INTERFACE, .target = TARGET, .ingress = true, .store = 1};
	struct report_kernel *r = report_kernel_open(&o, d->no_reports, sizeof(d->no_reports));

	if (!r)
		return false;
	snprintf(d->report_to, sizeof(d->report_to), "%s", report_kernel_target(r));
	report_kernel_close(r);
	return true;
}
#else
static bool try_kernel(struct cli_demo *d)
{
	snprintf(d->no_reports, sizeof(d->no_reports), "built without eBPF");
	return false;
}
#endif

static void set_kernel(struct cli_demo *d)
{
	cli_demo_part_set(d, DEMO_REPORT, "report", d->self, "report", "--interface", INTERFACE,
			  "--target", TARGET, "--direction", "in", "--store", "1", "--copies", "2",
			  NULL);
	/* Starts after the reporter, which provides the translator's address. */
	cli_demo_part_set(d, DEMO_TRANSLATE, "translate", d->self, "translate", "--collector",
			  d->dta, "--listen", d->report_to, "--name", "demo", NULL);
	d->part[DEMO_REPORT].late = d->part[DEMO_TRANSLATE].late = true;
}

int cli_demo_reports_set(struct cli_demo *d)
{
	const bool kernel = try_kernel(d), with_switch = d->with_switch && cli_demo_switch_can(d);

	if (!kernel && !with_switch)
		return BASE_EXIT_OK;
	snprintf(d->stores, sizeof(d->stores), "%s/stores.yaml", d->dir);
	if (cli_demo_write(d->stores, "# Written by sidelight demo.\nlisten: %s/dta.sock\n%s%s",
			   d->dir, stores, with_switch ? cli_demo_switch_stores : ""))
		return BASE_EXIT_FAILURE;
	snprintf(d->dta, sizeof(d->dta), "unix:%s/dta.sock", d->dir);
	if (kernel)
		set_kernel(d);
	if (with_switch)
		cli_demo_switch_set(d);
	return BASE_EXIT_OK;
}
