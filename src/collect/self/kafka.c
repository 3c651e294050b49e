// SPDX-License-Identifier: Apache-2.0
/* kafka.c - the collector's own series about messages to Kafka */
#include "collect/read/self.h"
#include "collect/self/self.h"
#include "export/kafka.h"

static const void *topic_at(struct collect_self *s, struct export_series *out)
{
	const size_t kind = s->at / s->family->counters;
	struct region_text_label labels[] = {{"kind", NULL}, collect_self_by(s)};

	if (kind >= EXPORT_KAFKA_KINDS)
		return NULL;
	labels[0].value = export_kafka_names[kind];
	export_kafka_stats(s->arg, (enum export_kafka_kind)kind, s->own);
	return collect_self_labels(s, out, labels, s->family->key ? 2 : 1) ? s->own : NULL;
}

#define OF_TOPIC(label, field) OF(label, FOUND, export_kafka_stats, field)

static bool errors(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, export_kafka_errors(s->arg));
}

static const struct collect_self_family messages_families[] = {
	{"sidelight_kafka_delivered", COUNTER, "", "Messages that Kafka acknowledged.",
	 .find = topic_at, SINGLE(OF_TOPIC(NULL, delivered))},
	{"sidelight_kafka_dropped", COUNTER, "", "Messages not delivered, by cause.",
	 .find = topic_at,
	 BY_LABEL("cause", OF_TOPIC("full", dropped_full), OF_TOPIC("failed", dropped_failed))},
	{"sidelight_kafka_errors", COUNTER, "",
	 "Errors after which the client retries: of brokers, or as no descriptor was left.",
	 .series = errors},
	{"sidelight_kafka_waiting", GAUGE, "", "Messages queued for Kafka.", .find = topic_at,
	 SINGLE(OF_TOPIC(NULL, waiting))},
};

static const struct collect_part messages_part = {
	COLLECT_SELF_FAMILIES(messages),
	.walk_bytes = sizeof(struct export_kafka_stats),
};

int collect_self_kafka(struct collect_collector *c, struct export_kafka *kafka)
{
	return collect_collector_attach(c, &messages_part, kafka);
}
