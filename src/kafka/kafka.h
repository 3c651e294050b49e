/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka.h - the program sidelight-kafka, the only one that links librdkafka. On startup, it opens a
 * stream and sends the collector the other end (export/kafka.h). It receives messages through the
 * stream and sends back their outcomes. The collector restarts it when it exits.
 */
#ifndef SL_KAFKA_KAFKA_H
#define SL_KAFKA_KAFKA_H

#include <stdbool.h>
#include <stddef.h>

struct kafka_producer;

/* Reads the properties file. Returns NULL with one line in error. */
struct kafka_producer *kafka_producer_new(const char *path, bool unconfined, char *error,
					  size_t error_bytes);
/* Runs until the collector closes its end of the stream. Returns an exit code. */
int kafka_producer_run(struct kafka_producer *k, int sock);
void kafka_producer_free(struct kafka_producer *k); /* NULL is ignored */

#endif
