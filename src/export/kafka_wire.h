/* SPDX-License-Identifier: Apache-2.0 */
/* kafka_wire.h - messages on the stream between a collector and its sidelight-kafka. */
#ifndef SL_EXPORT_KAFKA_WIRE_H
#define SL_EXPORT_KAFKA_WIRE_H

#include "export/kafka.h"

#define EXPORT_KAFKA_KEY_MAX  4096u
#define EXPORT_KAFKA_BODY_MAX (64u << 20)

/* Header of a message; the key and the body follow. */
struct export_kafka_header {
	uint32_t kind, key_bytes, body_bytes;
};

/*
 * The reply: numbers of delivered and failed messages, and of broker errors, since the previous
 * reply.
 */
struct export_kafka_outcomes {
	uint32_t delivered[EXPORT_KAFKA_KINDS], failed[EXPORT_KAFKA_KINDS],
		full[EXPORT_KAFKA_KINDS];
	uint32_t errors;
};

#endif
