/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - the calls between services, from the kept traces. */
#ifndef SL_API_MAP_H
#define SL_API_MAP_H

#include "collect/services/latency.h"
#include "collect/services/services.h"
#include "collect/trace/trace.h"

struct api_map_call {
	struct collect_service_name from, to;
	struct collect_latency latency; /* latency of the callee's spans */
	bool shown;
};

struct api_map_calls {
	struct api_map_call *v;
	size_t n, room;
};

/*
 * Collects the calls between services in the newest traces. Some calls are missing if memory is
 * short.
 */
void api_map_traces(struct api_map_calls *to, struct collect_services *s,
		    struct collect_tracer *tracer, int64_t now_ns);
void api_map_calls_free(struct api_map_calls *c);
/* Returns NULL if there is no such call. */
struct api_map_call *api_map_find(const struct api_map_calls *c,
				  const struct collect_service_name *from,
				  const struct collect_service_name *to);

#endif
