// SPDX-License-Identifier: Apache-2.0
/* kafka.c - the collector's own series about messages to Kafka */
#include <string.h>

#include "collect/read/self.h"
#include "collect/self/self.h"
#include "export/kafka.h"

/* Makes one series per topic and counter of its export_kafka_stats. */
static bool by_topic(struct collect_self *s, struct export_series *out)
{
	const struct collect_self_family *f = s->family;
	const struct collect_self_counter *counter = &f->counter[s->at % f->counters];
	const size_t kind = s->at / f->counters;
	struct region_text_label label[] = {{"kind", NULL}, {f->key, counter->label}};
	struct export_kafka_stats st;
	uint64_t value;

	if (kind >= EXPORT_KAFKA_KINDS)
		return false;
	label[0].value = export_kafka_names[kind];
	export_kafka_stats(s->arg, (enum export_kafka_kind)kind, &st);
	memcpy(&value, (const char *)&st + counter->offset, sizeof(value));
	return collect_self_labels(s, out, label, f->key ? 2 : 1) && collect_self_u64(out, value);
}

#define OF_TOPIC(label, field) OF(label, OWN, export_kafka_stats, field)

static bool errors(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, export_kafka_errors(s->arg));
}

static const struct collect_self_family messages_families[] = {
	{"sidelight_kafka_delivered", COUNTER, "", "Messages that Kafka acknowledged.",
	 .series = by_topic, SINGLE(OF_TOPIC(NULL, delivered))},
	{"sidelight_kafka_dropped", COUNTER, "", "Messages not delivered, by cause.",
	 .series = by_topic,
	 BY_LABEL("cause", OF_TOPIC("full", dropped_full), OF_TOPIC("failed", dropped_failed))},
	{"sidelight_kafka_errors", COUNTER, "", "Broker errors, after which the client retries.",
	 .series = errors},
	{"sidelight_kafka_waiting", GAUGE, "", "Messages queued for Kafka.", .series = by_topic,
	 SINGLE(OF_TOPIC(NULL, waiting))},
};

static const struct collect_part messages_part = {COLLECT_SELF_FAMILIES(messages)};

int collect_self_kafka(struct collect_collector *c, struct export_kafka *kafka)
{
	return collect_collector_attach(c, &messages_part, kafka);
}
