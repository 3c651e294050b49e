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

/* Gets a Resource's service.name and service.instance.id, empty if absent. False: malformed. */
bool bridge_otlp_identity(struct bridge_otlp *o, struct base_pb resource,
			  struct bridge_text *service, struct bridge_text *instance);

#endif
