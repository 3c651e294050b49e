// SPDX-License-Identifier: Apache-2.0
/*
 * report_interface.c - 'sidelight report --interface NAME': the kernel reports; its counters are
 * printed.
 */
#include <inttypes.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/report.h"

#define SHOW_NS	     1000000000ull

#define COUNT(field) CLI_COUNT(report_kernel_reporter_counts, field)
static const struct cli_count counts[] = {
	COUNT(packets),
	COUNT(others),
	COUNT(flows),
	COUNT(reports),
	COUNT(sent),
	COUNT(sent_reports),
	COUNT(no_room),
	COUNT(no_flow),
	COUNT(not_written),
	{"idle_carriers", offsetof(struct report_kernel_reporter_counts, idle)},
	COUNT(left_out),
	COUNT(held_back),
	COUNT(bytes),
	COUNT(said_bytes),
	COUNT(unsaid_bytes),
	COUNT(evicted),
	COUNT(evicted_bytes),
	COUNT(answers),
	COUNT(answers_refused)};

static int show(const struct report_kernel_reporter_counts *c, bool json)
{
	if (json) {
		json_t *j = json_object();

		cli_json_counts(j, c, counts, sizeof(counts) / sizeof(*counts));
		cli_json_print(stdout, j, JSON_INDENT(2));
	} else {
		printf("%" PRIu64 " packets of %" PRIu64 " flows seen (%" PRIu64
		       " in none, %" PRIu64 " of flows not in the sample)\n"
		       "%" PRIu64 " reports sent in %" PRIu64 " packets\n"
		       "%" PRIu64 " times a report waited for its translator, by %" PRIu64
		       " of its answers\n"
		       "lost here: %" PRIu64 " packets not written, %" PRIu64
		       " packets of flows without room, %" PRIu64 " bytes of %" PRIu64
		       " flows that left the table (--flows), %" PRIu64
		       " bytes not said at the end\n",
		       c->packets, c->flows, c->others, c->left_out, c->sent_reports, c->sent,
		       c->held_back, c->answers, c->not_written, c->no_flow, c->evicted_bytes,
		       c->evicted, c->unsaid_bytes);
	}
	return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

int cli_report_interface(const struct base_command *self,
			 const struct report_kernel_reporter_opts *o, uint64_t duration_ns,
			 bool json)
{
	uint64_t flush_ns = o->flush_ns ? o->flush_ns : 10000000, begun;
	struct report_kernel_reporter_counts c;
	struct report_kernel_reporter *r;
	char error[256];
	int stop = base_stop_fd(), code;

	if (stop < 0)
		return BASE_EXIT_FAILURE;
	r = report_kernel_reporter_open(o, error, sizeof(error));
	if (!r) {
		close(stop);
		return base_failure(self, "%s", error);
	}
	base_ready("target=%s", report_kernel_reporter_target(r));
	begun = base_now_ns();
	while (!base_stop_wait(stop, (int)(flush_ns / 1000000 + 1)) &&
	       (!duration_ns || base_now_ns() - begun < duration_ns))
		report_kernel_reporter_tick(r);
	report_kernel_reporter_drain(r);
	report_kernel_reporter_counts(r, &c);
	code = show(&c, json);
	report_kernel_reporter_close(r);
	close(stop);
	return code;
}
