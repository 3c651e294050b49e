// SPDX-License-Identifier: Apache-2.0
/*
 * report_interface.c - 'sidelight report --interface NAME': the kernel reports; its counters are
 * printed.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/report.h"

static json_t *as_json(const struct report_kernel_counts *c)
{
	const struct {
		const char *name;
		uint64_t value;
	} all[] = {{"packets", c->n[RPT_PACKETS]},
		   {"others", c->n[RPT_OTHERS]},
		   {"flows", c->n[RPT_NEW]},
		   {"reports", c->n[RPT_REPORTS]},
		   {"sent", c->n[RPT_SENT]},
		   {"sent_reports", c->n[RPT_SENT_REPORTS]},
		   {"no_room", c->n[RPT_NO_ROOM]},
		   {"no_flow", c->n[RPT_NO_FLOW]},
		   {"not_written", c->n[RPT_NOT_WRITTEN]},
		   {"idle_carriers", c->n[RPT_IDLE]},
		   {"left_out", c->n[RPT_LEFT_OUT]},
		   {"held_back", c->n[RPT_HELD_BACK]},
		   {"bytes", c->n[RPT_BYTES]},
		   {"said_bytes", c->n[RPT_SAID_BYTES]},
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

static int show(const struct report_kernel_counts *c, bool json)
{
	if (json) {
		json_t *j = as_json(c);

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
		       c->n[RPT_PACKETS], c->n[RPT_NEW], c->n[RPT_OTHERS], c->n[RPT_LEFT_OUT],
		       c->n[RPT_SENT_REPORTS], c->n[RPT_SENT], c->n[RPT_HELD_BACK], c->answers,
		       c->n[RPT_NOT_WRITTEN], c->n[RPT_NO_FLOW], c->evicted_bytes, c->evicted,
		       c->unsaid_bytes);
	}
	return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

int cli_report_interface(const struct base_command *self, const struct report_kernel_opts *o,
			 uint64_t duration_ns, bool json)
{
	uint64_t flush_ns = o->flush_ns ? o->flush_ns : 10000000, begun;
	struct report_kernel_counts c;
	struct report_kernel *r;
	char error[256];
	int stop = base_stop_fd(), code;

	if (stop < 0)
		return BASE_EXIT_FAILURE;
	r = report_kernel_open(o, error, sizeof(error));
	if (!r) {
		fprintf(stderr, "sidelight %s: %s\n", self->name, error);
		close(stop);
		return BASE_EXIT_FAILURE;
	}
	base_ready("target=%s", report_kernel_target(r));
	begun = base_now_ns();
	while (!base_stop_wait(stop, (int)(flush_ns / 1000000 + 1)) &&
	       (!duration_ns || base_now_ns() - begun < duration_ns))
		report_kernel_tick(r);
	report_kernel_drain(r);
	report_kernel_counts(r, &c);
	code = show(&c, json);
	report_kernel_close(r);
	close(stop);
	return code;
}
