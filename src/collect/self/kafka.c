// SPDX-License-Identifier: Apache-2.0
/* kafka.c - the collector's own series about messages to Kafka */
#include "collect/read/self.h"
#include "collect/self/self.h"
#include "export/kafka.h"

/*
 * Gets the stats of topic s->at / each; the cause is number s->at % each. Returns false if there
 * are no more topics.
 */
static bool get_topic(struct collect_self *s, struct export_series *out, size_t each,
		      const char *const *causes, struct export_kafka_stats *st)
{
	const size_t kind = s->at / each;
	struct region_text_label label[] = {{"kind", NULL}, {"cause", NULL}};

	if (kind >= EXPORT_KAFKA_KINDS)
		return false;
	label[0].value = export_kafka_names[kind];
	if (causes)
		label[1].value = causes[s->at % each];
	export_kafka_stats(s->arg, (enum export_kafka_kind)kind, st);
	return collect_self_labels(s, out, label, causes ? 2 : 1);
}

static bool count_delivered(struct collect_self *s, struct export_series *out)
{
	struct export_kafka_stats st;

	return get_topic(s, out, 1, NULL, &st) && collect_self_u64(out, st.delivered);
}

static bool count_waiting(struct collect_self *s, struct export_series *out)
{
	struct export_kafka_stats st;

	return get_topic(s, out, 1, NULL, &st) && collect_self_u64(out, st.waiting);
}

static bool count_dropped(struct collect_self *s, struct export_series *out)
{
	static const char *const causes[] = {"full", "failed"};
	struct export_kafka_stats st;

	return get_topic(s, out, 2, causes, &st) &&
	       collect_self_u64(out, s->at % 2 ? st.dropped_failed : st.dropped_full);
}

static bool errors(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, export_kafka_errors(s->arg));
}

static const struct collect_self_family messages_families[] = {
	{"sidelight_kafka_delivered", COUNTER, "", "Messages that Kafka acknowledged.",
	 .series = count_delivered},
	{"sidelight_kafka_dropped", COUNTER, "", "Messages not delivered, by cause.",
	 .series = count_dropped},
	{"sidelight_kafka_errors", COUNTER, "", "Broker errors, after which the client retries.",
	 .series = errors},
	{"sidelight_kafka_waiting", GAUGE, "", "Messages queued for Kafka.",
	 .series = count_waiting},
};

COLLECT_SELF_PART(messages);

int collect_self_kafka(struct collect_collector *c, struct export_kafka *kafka)
{
	return collect_collector_attach(c, &messages_part, kafka);
}
