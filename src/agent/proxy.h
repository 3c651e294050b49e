/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h - regions that the agent writes for microservices that post by REST.
 *
 * Each microservice has its own region, which expires independently and keeps its metrics apart.
 * libsidelight is not used: its handles need a slot in every thread, of which a process has 15, and
 * it has stripes for threads, while there is only one thread here. Values are stored in stripe 0
 * with the lock held. They are of type f64, which is exact for integers up to 2^53.
 */
#ifndef SL_AGENT_PROXY_H
#define SL_AGENT_PROXY_H

#include "agent/region.h"
#include "agent/tenant.h"

#define PROXY_METRICS	  448u /* default number of metrics, which fits one page per stripe */
#define PROXY_METRICS_MAX 65536u
#define PROXY_ID_MAX	  255u
/* maximum number of microservices; or half of --max-regions, if less */
#define PROXIES_MAX  1024u
#define PROXIES_PART 8u /* maximum number of microservices per untrusted user */

/* The caller: the process at the other end of the unix socket. */
struct agent_rest_caller {
	struct agent_tenant_id id;
	uint64_t key; /* key of its tenant */
	bool trusted; /* the caller is root or the agent's user, outside of containers */
	bool reader;  /* the caller may see the regions of others: it is trusted, or a consumer */
};

struct agent_proxy_metric { /* a metric as requested */
	const char *name, *help, *unit;
	enum sl_metric_kind kind; /* kind of the metric: SL_KIND_COUNTER_F64 or SL_KIND_GAUGE_F64 */
	/* labels of the metric, sorted by key, without duplicates */
	const struct region_text_label *labels;
	size_t label_count;
};

/*
 * Finds or creates the region of the caller's microservice. Returns 0, or -1 with the reason in
 * why. Microservices of two users with the same name are different, and neither user can take the
 * name from the other. labels may extend the region's; metrics 0 means PROXY_METRICS.
 */
int agent_proxy_open(struct agent *a, const struct agent_rest_caller *caller,
		     const char *microservice, uint32_t metrics,
		     const struct region_text_label *labels, size_t label_count,
		     struct agent_region **out, bool *created, struct agent_refused *why);

/* Finds or creates a metric's cell. Returns 0, -EEXIST (exists with another kind) or -ENOSPC. */
int agent_proxy_metric(struct agent_region *r, const struct agent_proxy_metric *m, uint32_t *cell,
		       bool *created);
double agent_proxy_get(const struct agent_region *r, uint32_t cell);
void agent_proxy_set(struct agent_region *r, uint32_t cell, double value);
const char *agent_proxy_microservice(const struct agent_region *r);

/* ---- called when the region's state changes ---- */

void agent_proxy_timer_idle(struct agent *a, struct agent_timer *t);
void agent_proxy_revived(struct agent_region *r);
void agent_proxy_retire(struct agent *a, struct agent_region *r);
void agent_proxy_free(struct agent *a, struct agent_region *r);

#endif
