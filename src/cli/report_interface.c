// SPDX-License-Identifier: Apache-2.0
/*
 * report_interface.c - 'sidelight report --interface NAME': the kernel reports; its counters are
 * printed.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/report.h"

#define SHOW_NS 1000000000ull

static json_t *as_json(const struct report_kernel_reporter_counts *c)
{
	const struct {
		const char *name;
		uint64_t value;
	} all[] = {{"packets", c->packets},
		   {"others", c->others},
		   {"flows", c->flows},
		   {"reports", c->reports},
		   {"sent", c->sent},
		   {"sent_reports", c->sent_reports},
		   {"no_room", c->no_room},
		   {"no_flow", c->no_flow},
		   {"not_written", c->not_written},
		   {"idle_carriers", c->idle},
		   {"left_out", c->left_out},
		   {"held_back", c->held_back},
		   {"bytes", c->bytes},
		   {"said_bytes", c->said_bytes},
		   {"unsaid_bytes", c->unsaid_bytes},
		   {"evicted", c->evicted},
		   {"evicted_bytes", c->evicted_bytes},
		   {"answers", c->answers},
		   {"answers_refused", c->answers_refused}};
	json_t *j = json_object();

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		json_object_set_new(j, all[i].name, json_integer((json_int_t)all[i].value));
	return j;
}

static int show(const struct report_kernel_reporter_counts *c, bool json)
{
	if (json) {
		json_t *j = as_json(c);

		json_dumpf(j, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(j);
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
		fprintf(stderr, "sidelight %s: %s\n", self->name, error);
		close(stop);
		return BASE_EXIT_FAILURE;
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
