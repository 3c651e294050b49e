/* SPDX-License-Identifier: Apache-2.0 */
/*
 * services.h - the state of each service: requests, errors and latency of the last minute, the
 * limits of its connections, its anomaly, and its calls to other services. A separate thread looks
 * at the collector's last values once per second, through collect.h; views only read the results.
 */
#ifndef SL_COLLECT_SERVICES_SERVICES_H
#define SL_COLLECT_SERVICES_SERVICES_H

#include "act/verdict.h"
#include "collect/read/collect.h"
#include "region/why.h"

/* maximum number of services; further services are left out and counted */
#define COLLECT_SERVICES_MAX	1024u
#define COLLECT_SERVICES_WINDOW 60u /* length of the window in seconds */
/* maximum number of hosts and instances listed per service in a view */
#define COLLECT_SERVICES_LISTED 16u

struct collect_services;

/* Longer names are truncated. */
#define COLLECT_SERVICE_NAME_BYTES 96u
struct collect_service_name {
	char service[COLLECT_SERVICE_NAME_BYTES], kube_namespace[COLLECT_SERVICE_NAME_BYTES];
};

/* returns NULL if out of memory */
struct collect_services *collect_services_new(struct collect_collector *c);
/* Starts a thread that looks once per second. Returns 0 or -errno. */
int collect_services_start(struct collect_services *s);
void collect_services_free(struct collect_services *s); /* s may be NULL */
/*
 * Performs one look, for the thread or a test. real_ns: CLOCK_REALTIME, which may jump; ns:
 * CLOCK_MONOTONIC.
 */
void collect_services_look(struct collect_services *s, int64_t real_ns, uint64_t ns);

/* The source of a figure. */
enum collect_service_from {
	COLLECT_FROM_NOTHING,
	COLLECT_FROM_APPLICATION,
	COLLECT_FROM_KERNEL,
};

struct collect_service_connections {
	bool known;
	uint32_t open;
	double bytes, retransmits; /* per second */
	double rtt, rtt_min;	   /* smoothed and minimum RTT, in seconds; NaN if not known */
	enum region_why_limit limit;
	const char *why; /* "" if nothing limits the connections */
};

struct collect_service_saturation {
	double cores, cpu_ratio, bytes, memory_ratio; /* NaN if not known */
	double pressure[3];			      /* cpu, memory, io; NaN if not known */
};

/* A service with its figures. Valid during the call. */
struct collect_service_view {
	const char *service, *kube_namespace;
	uint32_t pods, live, stale, dead; /* dead: exited without closing its region */
	uint32_t hosts, instances;	  /* number of entries in host[] and in instance[] */
	const char *host[COLLECT_SERVICES_LISTED];
	uint64_t instance[COLLECT_SERVICES_LISTED];
	enum collect_service_from requests_from, latency_from;
	const char *requests_metric, *latency_metric;
	/* requests/s, errors/s, latency quantiles in seconds; NaN if not known */
	double requests, errors, p50, p99;
	struct collect_service_saturation saturation;
	struct collect_service_connections connections;
	const struct act_anomaly *anomaly; /* NULL if there was no anomaly in the last minute */
	bool culprit;
	/* requests per second, oldest first; NaN if not known */
	double spark[COLLECT_SERVICES_WINDOW];
	/* number of series by whether they changed in the last minute */
	uint64_t changing, unchanged;
	double attention; /* from 0 to 100 */
	char attention_why[192];
};

struct collect_services_totals {
	uint64_t changing, unchanged;
	uint64_t left_out; /* services, regions and series beyond the limits */
};

/*
 * Visits the services, sorted by the attention they need; window: seconds, at most
 * COLLECT_SERVICES_WINDOW. Thread-safe. fn must not block.
 */
void collect_services_each(struct collect_services *s, unsigned int window,
			   void (*fn)(const struct collect_service_view *, void *), void *arg,
			   struct collect_services_totals *totals);

/*
 * Sets still[i] for each of a region's n metrics that is known not to have changed in the last
 * minute. Thread-safe.
 */
void collect_services_still(struct collect_services *s, uint64_t instance, bool *still, size_t n);
/*
 * Looks up the service of a pod, or of a workload of kernel tables. Returns false if there is none.
 */
bool collect_services_name(struct collect_services *s, uint64_t instance,
			   struct collect_service_name *out);

/* Connections between two services. An end outside the known services is NULL. */
struct collect_service_edge {
	const struct collect_service_name *from, *to;
	uint32_t connections;
	double requests, bytes, retransmits, rtt; /* per second; rtt in seconds; NaN if not known */
};
/* Visits the edges that connections show. A connection listed by both of its ends counts once. */
void collect_services_edges(struct collect_services *s,
			    void (*fn)(const struct collect_service_edge *, void *), void *arg);

#endif
