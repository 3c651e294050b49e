/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka.h - produces JSON messages to Kafka: idempotent, acknowledged by all replicas, from bounded
 * queues in memory. The program sidelight-kafka (src/kafka) does it by librdkafka. Callers never
 * wait. Each message ends in one counter, by the broker's delivery report. Knows nothing of the
 * messages' contents.
 *
 * The file has properties of librdkafka, `name=value` per line; `name.file=PATH` takes the value
 * from a file, for secrets; `sidelight.topic.KIND` names a topic.
 */
#ifndef SL_EXPORT_KAFKA_H
#define SL_EXPORT_KAFKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum export_kafka_kind {
	EXPORT_KAFKA_ANOMALIES, /* "sidelight-anomalies", by instance */
	EXPORT_KAFKA_TRACES,	/* "sidelight-traces", by trace ID */
	EXPORT_KAFKA_REPORTS,	/* "sidelight-reports", by STORE/LIST/LANE */
	EXPORT_KAFKA_KINDS
};
extern const char *const export_kafka_names[EXPORT_KAFKA_KINDS]; /* "anomalies", ... */

struct export_kafka_stats { /* messages of a kind */
	uint64_t delivered;
	uint64_t dropped_full;	 /* the queue was full */
	uint64_t dropped_failed; /* not delivered in time, refused, or a worker's that died */
	uint64_t waiting;
};

struct export_kafka;

/*
 * Starts the program with this file: before there are threads, and before this process is confined.
 * NULL with one line in error, which is empty if the program has logged why. The thread begins with
 * export_kafka_start().
 */
struct export_kafka *export_kafka_new(const char *path, bool unconfined, char *error,
				      size_t error_bytes);
/* 0, or -errno with one line in error. */
int export_kafka_start(struct export_kafka *k, char *error, size_t error_bytes);
/* Copies key and body. 0, or -errno, counted as dropped. Any thread. */
int export_kafka_send(struct export_kafka *k, enum export_kafka_kind kind, const char *key,
		      const void *body, size_t bytes);
/* Any thread; NULL has none. */
void export_kafka_stats(struct export_kafka *k, enum export_kafka_kind kind,
			struct export_kafka_stats *out);
uint64_t export_kafka_errors(struct export_kafka *k); /* of brokers: not reached, refused */
/* Waits up to linger_ns for what is queued; the rest is dropped. Accepts NULL. */
void export_kafka_free(struct export_kafka *k, uint64_t linger_ns);

#endif
