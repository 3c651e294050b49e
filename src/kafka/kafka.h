/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka.h - the program sidelight-kafka, which alone links librdkafka. A worker receives messages
 * from the collector (export/kafka.h) by a stream of its own, whose end it sends the collector at
 * its start, and sends back what becomes of them. A worker that ends is replaced.
 */
#ifndef SL_KAFKA_KAFKA_H
#define SL_KAFKA_KAFKA_H

#include <stdbool.h>
#include <stddef.h>

struct kafka_producer;

/* Reads the file of properties. NULL with one line in error. */
struct kafka_producer *kafka_producer_new(const char *path, bool unconfined, char *error,
					  size_t error_bytes);
/* Runs workers until the collector closes its end of the socket. */
void kafka_producer_run(struct kafka_producer *k, int sock);
void kafka_producer_free(struct kafka_producer *k); /* NULL is fine */

#endif
