// SPDX-License-Identifier: Apache-2.0
/* host.c - the thread for --host: reads the host at a fixed interval. A missed round is skipped. */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "bridge/source.h"
#include "source/host/host.h"

#define LOG "host"

struct host_told {
	struct sl_counter rounds, missed, errors, refused, left_out, mounts;
	struct host_counts counts;
};

static void add_counts(struct host_told *t, const struct host *h)
{
	struct host_counts now = host_counts(h);

	sl_counter_inc(t->rounds);
	sl_counter_add(t->errors, now.errors - t->counts.errors);
	sl_counter_add(t->refused, now.refused - t->counts.refused);
	sl_counter_add(t->left_out, now.left_out - t->counts.left_out);
	sl_counter_add(t->mounts, now.mounts_left_out - t->counts.mounts_left_out);
	t->counts = now;
}

void bridge_host_run(const struct bridge_worker *w)
{
	const uint64_t every = w->o->host_interval_ns;
	const struct sl_label l = {"target", "host"};
	struct host_told t = {
		.rounds = bridge_counter(w, "sidelight_bridge_host_rounds_total",
					 "Rounds in which the host's metrics were read.", NULL, 0),
		.missed = bridge_counter(w, "sidelight_bridge_host_missed_total",
					 "Rounds skipped because an earlier one took too long.",
					 NULL, 0),
		.errors = bridge_counter(w, "sidelight_bridge_host_errors_total",
					 "Files of the host that could not be read.", NULL, 0),
		.refused = bridge_counter(w, "sidelight_bridge_refused_total",
					  "Series that cannot be published.", &l, 1),
		.left_out = bridge_counter(w, "sidelight_bridge_host_cgroups_left_out_total",
					   "Cgroups beyond the limit, counted in each round.", NULL,
					   0),
		.mounts = bridge_counter(
			w, "sidelight_bridge_host_mounts_left_out_total",
			"Mounts beyond 1,024, or of file systems that the agent does not see, "
			"counted each time the mounts change.",
			NULL, 0),
	};
	struct host *h =
		host_open(&(struct host_opts){.socket = w->o->socket, .interval_ns = every});
	uint64_t next = base_now_ns();

	if (!h) {
		base_logf(BASE_ERROR, LOG, "cannot start reading host metrics error=%s",
			  bridge_publish_why(errno));
		return;
	}
	do {
		uint64_t now = base_now_ns();

		if (now > next + every) {
			sl_counter_add(t.missed, (now - next) / every);
			next += (now - next) / every * every;
		}
		host_round(h, now, false);
		add_counts(&t, h);
		next += every;
	} while (bridge_sleep(w, next));
	host_close(h);
}
