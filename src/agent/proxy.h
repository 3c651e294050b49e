/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h - regions that the agent writes for microservices that post by REST.
 *
 * Each microservice has its own region, which expires by itself and keeps its metrics apart.
 * libsidelight does not write them: its handles have a slot in every thread, of which a process has
 * 15, and stripes for threads, of which there is one here. A value is stored in stripe 0 with the
 * lock held. Values are f64: exact for integers up to 2^53.
 */
#ifndef SL_AGENT_PROXY_H
#define SL_AGENT_PROXY_H

#include "agent/region.h"
#include "agent/tenant.h"

#define PROXY_METRICS	  448u /* one page per stripe */
#define PROXY_METRICS_MAX 65536u
#define PROXY_ID_MAX	  255u
#define PROXIES_MAX	  1024u /* or half of --max-regions */
#define PROXIES_PART	  8u	/* of these, for one user who is not trusted */

/* Who asks: the process at the other end of the unix socket. */
struct agent_rest_caller {
	struct agent_tenant_id id;
	uint64_t key; /* of its tenant */
	bool trusted; /* root or the agent's user, outside of containers */
	bool reader;  /* may see what belongs to others: trusted, or a consumer */
};

struct agent_proxy_metric { /* as requested */
	const char *name, *help, *unit;
	enum sl_metric_kind kind;		/* SL_KIND_COUNTER_F64 or SL_KIND_GAUGE_F64 */
	const struct region_text_label *labels; /* sorted by key, each once */
	size_t label_count;
};

/*
 * Finds or creates the region of the caller's microservice: 0, or -1 with why. Two users' of one
 * name are two, and neither can keep the name from the other. labels may extend the region's;
 * metrics 0 means PROXY_METRICS.
 */
int agent_proxy_open(struct agent *a, const struct agent_rest_caller *caller,
		     const char *microservice, uint32_t metrics,
		     const struct region_text_label *labels, size_t label_count,
		     struct agent_region **out, bool *created, struct agent_refused *why);

/* Finds or creates the cell of a metric: 0, -EEXIST (exists with another kind), -ENOSPC. */
int agent_proxy_metric(struct agent *a, struct agent_region *r, const struct agent_proxy_metric *m,
		       uint32_t *cell, bool *created);
double agent_proxy_get(const struct agent_region *r, uint32_t cell);
void agent_proxy_set(struct agent_region *r, uint32_t cell, double value);
const char *agent_proxy_microservice(const struct agent_region *r);

/* ---- called as the region's state changes ---- */

void agent_proxy_timer_idle(struct agent *a, struct agent_timer *t);
void agent_proxy_revived(struct agent_region *r);
void agent_proxy_retire(struct agent *a, struct agent_region *r);
void agent_proxy_free(struct agent *a, struct agent_region *r);

#endif
