// SPDX-License-Identifier: Apache-2.0
/* families.c - the collector's own series about sampling for remote write */
#include "base/base.h"
#include "collect/read/self.h"
#include "collect/send/internal.h"

/* Statistics as of the start of a walk: sums over all receivers, but the lowest version. */
struct send_walk {
	struct collect_sender_stats sender;
	struct export_remote_write_stats writer;
	uint64_t version;
};

static struct send_walk *walk_of(const struct collect_self *s)
{
	return s->own;
}

static bool begin_walk(struct collect_self *s)
{
	struct send_walk *w = walk_of(s);

	*w = (struct send_walk){.version = 2};
	for (const struct collect_send *send = s->arg; send; send = send->next) {
		struct collect_sender_stats of;
		struct export_remote_write_stats by;

		collect_sender_stats(send->sender, &of);
		export_remote_write_stats(send->writer, &by);
		w->sender.back_ns += of.back_ns;
		w->sender.late_ns += of.late_ns;
		w->sender.skipped_ns += of.skipped_ns;
		w->sender.withheld_ns = BASE_MAX(w->sender.withheld_ns, of.withheld_ns);
		w->sender.relabel_failed += of.relabel_failed;
		w->writer.samples += by.samples;
		w->writer.exemplars += by.exemplars;
		w->writer.fallbacks += by.fallbacks;
		w->writer.same_ms += by.same_ms;
		w->writer.before += by.before;
		w->writer.clashing += by.clashing;
		w->writer.long_exemplars += by.long_exemplars;
		w->writer.future_exemplars += by.future_exemplars;
		w->writer.dropped_memory += by.dropped_memory;
		w->version = BASE_MIN(w->version, by.version);
	}
	return true;
}

#define OF_SEND(label, field) OF(label, OWN, send_walk, field)

static const struct collect_self_family sampling_families[] = {
	{"sidelight_remote_write_fallbacks", COUNTER, "",
	 "Number of times the receiver was found not to support version 2.0.",
	 SINGLE(OF_SEND(NULL, writer.fallbacks))},
	{"sidelight_remote_write_relabel_failures", COUNTER, "",
	 "Series not sent because a rule of --remote-relabel took too many steps.",
	 SINGLE(OF_SEND(NULL, sender.relabel_failed))},
	{"sidelight_remote_write_version", GAUGE, "",
	 "Lowest version of remote write used by requests: 1 or 2.",
	 SINGLE(OF_SEND(NULL, version))},
	{"sidelight_sampling_exemplars", COUNTER, "", "Exemplars selected for remote write.",
	 SINGLE(OF_SEND(NULL, writer.exemplars))},
	{"sidelight_sampling_left_out", COUNTER, "",
	 "Samples and exemplars selected but not sent, by cause.",
	 BY_LABEL("cause", OF_SEND("same_millisecond", writer.same_ms),
		  OF_SEND("earlier_process", writer.before), OF_SEND("clash", writer.clashing),
		  OF_SEND("long_exemplar", writer.long_exemplars),
		  OF_SEND("future_exemplar", writer.future_exemplars),
		  OF_SEND("memory", writer.dropped_memory))},
	{"sidelight_sampling_lost_seconds", COUNTER, "seconds",
	 "Time for which selected samples were not sent, by cause.",
	 BY_LABEL("cause", OF_SEND("clock_went_back", sender.back_ns),
		  OF_SEND("late_verdict", sender.late_ns),
		  OF_SEND("receiver_behind", sender.skipped_ns))},
	{"sidelight_sampling_samples", COUNTER, "", "Samples selected for remote write.",
	 SINGLE(OF_SEND(NULL, writer.samples))},
	{"sidelight_sampling_withheld_seconds", GAUGE, "seconds",
	 "Time until sending of samples resumes after the clock was set back.",
	 SINGLE(OF_SEND(NULL, sender.withheld_ns))},
};

const struct collect_part collect_send_part = {
	COLLECT_SELF_FAMILIES(sampling),
	.walk_bytes = sizeof(struct send_walk),
	.walk_begin = begin_walk,
};
