/* SPDX-License-Identifier: Apache-2.0 */
/* otlp_internal.h - shared by the otlp*.c files. */
#ifndef SL_BRIDGE_OTLP_INTERNAL_H
#define SL_BRIDGE_OTLP_INTERNAL_H

#include "bridge/otlp.h"
#include "base/pb_read.h"

static inline struct bridge_text bridge_otlp_text(struct base_pb p)
{
	return (struct bridge_text){(const char *)p.at, (size_t)(p.end - p.at)};
}

/*
 * Counts a message in the current body. Returns false if there are too many; then treat the body as
 * malformed.
 */
bool bridge_otlp_message(struct bridge_otlp *o, bool resource);
/* Starts to read a body. json: the body is JSON. Returns 0, or -E2BIG with an error. */
int bridge_otlp_begin(struct bridge_otlp *o, const char *body, size_t bytes, bool json,
		      struct bridge_otlp_counts *counts, struct bridge_error *error);
/*
 * Call it when reading failed. Returns -E2BIG with an error if a limit was the reason, otherwise 0.
 */
int bridge_otlp_refused(const struct bridge_otlp *o, struct bridge_error *error);
/* Starts to read a checked body again. This time only the number of messages is limited. */
void bridge_otlp_again(struct bridge_otlp *o);

/*
 * Gets a Resource's service.name and service.instance.id, which are empty if absent. Returns false
 * if malformed.
 */
bool bridge_otlp_identity(struct bridge_otlp *o, struct base_pb resource,
			  struct bridge_text *service, struct bridge_text *instance);

#endif
