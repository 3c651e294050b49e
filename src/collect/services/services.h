/* SPDX-License-Identifier: Apache-2.0 */
/*
 * services.h - what is going on in each service: requests, errors and latency of the last minute,
 * what limits its connections, its anomaly, and its calls of others. A thread of its own looks at
 * the collector's last values once per second, through collect.h; a view costs no look.
 */
#ifndef SL_COLLECT_SERVICES_SERVICES_H
#define SL_COLLECT_SERVICES_SERVICES_H

#include "act/verdict.h"
#include "collect/read/collect.h"
#include "region/why.h"

#define COLLECT_SERVICES_MAX	1024u /* more are left out, and counted */
#define COLLECT_SERVICES_WINDOW 60u   /* s */
#define COLLECT_SERVICES_LISTED 16u   /* hosts and instances of a service in a view */

struct collect_services;

/* Longer ones are cut. */
#define COLLECT_SERVICE_NAME_BYTES 96u
struct collect_service_name {
	char service[COLLECT_SERVICE_NAME_BYTES], kube_namespace[COLLECT_SERVICE_NAME_BYTES];
};

struct collect_services *collect_services_new(struct collect_collector *c); /* NULL: no memory */
int collect_services_start(
	struct collect_services *s); /* 0 or -errno: once per second from now on */
void collect_services_stop(struct collect_services *s);
void collect_services_free(struct collect_services *s); /* NULL is fine */
/* One look, by the thread or a test. real_ns: CLOCK_REALTIME, which may jump; ns: monotonic. */
void collect_services_look(struct collect_services *s, int64_t real_ns, uint64_t ns);

/* Where a figure comes from. */
enum collect_service_from {
	COLLECT_FROM_NOTHING,
	COLLECT_FROM_APPLICATION,
	COLLECT_FROM_KERNEL,
};

struct collect_service_connections {
	bool known;
	uint32_t open;
	double bytes, retransmits, rtt; /* per second, per second, s (NaN: not known) */
	enum region_why_limit limit;
	const char *why; /* "": nothing holds them back */
};

struct collect_service_saturation {
	double cores, cpu_ratio, bytes, memory_ratio; /* NaN: not known */
	double pressure[3];			      /* cpu, memory, io; NaN: not known */
};

/* Valid during the call. */
struct collect_service_view {
	const char *service, *kube_namespace;
	uint32_t pods, live, stale, dead; /* dead: and not closed in order */
	uint32_t hosts, instances;	  /* in the lists */
	const char *host[COLLECT_SERVICES_LISTED];
	uint64_t instance[COLLECT_SERVICES_LISTED];
	enum collect_service_from requests_from, latency_from;
	const char *requests_metric, *latency_metric;
	double requests, errors, p50, p99; /* per second, per second, s, s; NaN: not known */
	struct collect_service_saturation saturation;
	struct collect_service_connections connections;
	const struct act_anomaly *anomaly; /* NULL: none in the last minute */
	bool culprit;
	double spark[COLLECT_SERVICES_WINDOW]; /* requests per second, oldest first; NaN */
	uint64_t changing, unchanged;	       /* series, in the last minute */
	double attention;		       /* 0 .. 100 */
	char attention_why[192];
};

struct collect_services_totals {
	uint64_t changing, unchanged;
	uint64_t left_out; /* services, regions and series beyond the limits */
};

/*
 * Visits the services, those that need attention first; window: s, at most COLLECT_SERVICES_WINDOW.
 * Any thread. fn must not block.
 */
void collect_services_each(struct collect_services *s, unsigned int window,
			   void (*fn)(const struct collect_service_view *, void *), void *arg,
			   struct collect_services_totals *totals);

/* Sets still[i], of n, for each metric of a region that is known not to have changed in the last
 * minute. Any thread. */
void collect_services_still(struct collect_services *s, uint64_t instance, bool *still, size_t n);
/* The service of a pod, or of a workload of kernel tables. False: it has none. */
bool collect_services_name(struct collect_services *s, uint64_t instance,
			   struct collect_service_name *out);

/* An end is NULL outside of the known services. */
struct collect_service_edge {
	const struct collect_service_name *from, *to;
	uint32_t connections;
	double requests, bytes, retransmits, rtt; /* per second; rtt in s; NaN: not known */
};
/* Visits the edges that connections show. A connection that both of its ends list counts once. */
void collect_services_edges(struct collect_services *s,
			    void (*fn)(const struct collect_service_edge *, void *), void *arg);

#endif
