/* SPDX-License-Identifier: Apache-2.0 */
/* otlp_internal.h - of the otlp*.c files. */
#ifndef SL_BRIDGE_OTLP_INTERNAL_H
#define SL_BRIDGE_OTLP_INTERNAL_H

#include "bridge/otlp.h"
#include "base/pb_read.h"

static inline struct bridge_text bridge_otlp_text(struct base_pb p)
{
	return (struct bridge_text){(const char *)p.at, (size_t)(p.end - p.at)};
}

/* service.name and service.instance.id of a Resource; empty: it does not say. False: malformed. */
bool bridge_otlp_identity(struct bridge_otlp *o, struct base_pb resource,
			  struct bridge_text *service, struct bridge_text *instance);

#endif
