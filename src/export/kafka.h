/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka.h - produces messages to Kafka: idempotent, acknowledged by all replicas, from bounded
 * queues in memory. The program sidelight-kafka (src/kafka) talks to the brokers. Callers never
 * wait. The broker's delivery report decides which counter counts a message. Independent of the
 * messages' contents.
 *
 * The file has properties of librdkafka, one `name=value` per line. `name.file=PATH` reads a value
 * from a file, for secrets; `sidelight.topic.KIND` sets the name of a topic.
 */
#ifndef SL_EXPORT_KAFKA_H
#define SL_EXPORT_KAFKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum export_kafka_kind {
	EXPORT_KAFKA_INCIDENTS, /* topic "sidelight-incidents", keyed by ID */
	EXPORT_KAFKA_TRACES,	/* topic "sidelight-traces", keyed by trace ID */
	EXPORT_KAFKA_REPORTS,	/* topic "sidelight-reports", keyed by STORE/LIST/LANE */
	EXPORT_KAFKA_FLOWS,	/* topic "sidelight-flows", with the same keys */
	EXPORT_KAFKA_KINDS
};
extern const char *const export_kafka_names[EXPORT_KAFKA_KINDS]; /* "incidents", ... */

struct export_kafka_stats { /* messages of one kind */
	uint64_t delivered;
	uint64_t dropped_full;	 /* the queue was full */
	uint64_t dropped_failed; /* timed out, refused, or lost with a worker that died */
	uint64_t waiting;
};

struct export_kafka;

/*
 * Forks the spawners of sidelight-kafka (base/child.h), which reads the file at path. Call before
 * there are threads and secrets. Returns NULL with one line in error.
 */
struct export_kafka *export_kafka_fork(const char *path, bool unconfined, char *error,
				       size_t error_bytes);
/*
 * Starts the program, but not the thread (export_kafka_start()). Returns 0, or -errno with one line
 * in error; the line is empty if the program has logged the reason.
 */
int export_kafka_open(struct export_kafka *k, char *error, size_t error_bytes);
/* Returns 0, or -errno with one line in error. */
int export_kafka_start(struct export_kafka *k, char *error, size_t error_bytes);
/*
 * Queues copies of key and body. Returns 0; or -errno, after counting the message as dropped. May
 * be called by any thread.
 */
int export_kafka_send(struct export_kafka *k, enum export_kafka_kind kind, const char *key,
		      const void *body, size_t bytes);
/* May be called by any thread. If k is NULL, all counts are 0. */
void export_kafka_stats(struct export_kafka *k, enum export_kafka_kind kind,
			struct export_kafka_stats *out);
/* returns the number of errors reported by brokers: unreachable, refused */
uint64_t export_kafka_errors(struct export_kafka *k);
/* Waits up to linger_ns for queued messages to be sent; the rest is dropped. NULL is ignored. */
void export_kafka_free(struct export_kafka *k, uint64_t linger_ns);

#endif
