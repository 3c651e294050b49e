/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka.h - the program sidelight-kafka, the only one that links librdkafka. A worker receives
 * messages from the collector (export/kafka.h) on a separate stream, and sends back whether they
 * were delivered. It creates the stream when it starts, and sends the collector the other end. A
 * worker that ends is replaced.
 */
#ifndef SL_KAFKA_KAFKA_H
#define SL_KAFKA_KAFKA_H

#include <stdbool.h>
#include <stddef.h>

struct kafka_producer;

/* Reads the file of properties. Returns NULL with one line in error. */
struct kafka_producer *kafka_producer_new(const char *path, bool unconfined, char *error,
					  size_t error_bytes);
/* Runs workers until the collector closes its end of the socket. */
void kafka_producer_run(struct kafka_producer *k, int sock);
void kafka_producer_free(struct kafka_producer *k); /* NULL is fine */

#endif
