/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - declarations shared by the files of sidelight-kafka. */
#ifndef SL_KAFKA_INTERNAL_H
#define SL_KAFKA_INTERNAL_H

#include <librdkafka/rdkafka.h>

#include "export/kafka_wire.h"

#define KAFKA_FILES 8

struct kafka_producer {
	rd_kafka_conf_t *conf;
	rd_kafka_t *rk; /* used by the worker */
	char *topic[EXPORT_KAFKA_KINDS];
	char *file[KAFKA_FILES]; /* files read by librdkafka, such as certificates and keys */
	size_t files;
	bool unconfined;
	struct export_kafka_outcomes outcomes; /* not yet sent back */
};

/* ---- properties.c ---- */

/* Reads the file into k->conf and k->topic. Returns 0, or -errno with one line in error. */
int kafka_properties_read(struct kafka_producer *k, const char *path, char *error,
			  size_t error_bytes);

#endif
