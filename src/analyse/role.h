/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role.h - infers a metric's role for the pod from its name, using the conventions of Prometheus
 * and OpenTelemetry, and the names in the recordings.
 */
#ifndef SL_ANALYSE_ROLE_H
#define SL_ANALYSE_ROLE_H

#include <stdbool.h>
#include <stdint.h>

enum analyse_role_kind {
	ANALYSE_ROLE_OTHER,
	ANALYSE_ROLE_LOAD,    /* work given to a pod, or a metric of its node */
	ANALYSE_ROLE_LATENCY, /* a statistic of latencies other than the following quantiles */
	ANALYSE_ROLE_CLIENT,  /* a latency quantile of calls made by the pod */
	ANALYSE_ROLE_SERVER,  /* a latency quantile of requests to the pod */
	ANALYSE_ROLE_RESOURCE,
	ANALYSE_ROLE_ERRORS, /* a counter of errors */
	ANALYSE_ROLE_WORK,   /* a counter of finished work: requests, jobs, messages */
	ANALYSE_ROLE_OTHERS, /* depends on other pods only, so it is not analysed */
};
enum analyse_resource { ANALYSE_CPU, ANALYSE_MEMORY, ANALYSE_RESOURCES };
/* What a series tells about a port of an RDMA device or a network interface. */
enum analyse_port {
	ANALYSE_PORT_NONE,
	ANALYSE_PORT_LOSSES, /* a counter of lost packets */
	ANALYSE_PORT_PAUSES, /* a counter of pause frames from the peer */
	ANALYSE_PORT_SPEED,  /* the speed of the link */
};

/* The part of a request that a latency covers, if the kernel measures it (docs/tcp.md). */
enum analyse_time {
	ANALYSE_TIME_OTHER,   /* not measured by the kernel */
	ANALYSE_TIME_LAYER,   /* the time of a request in one layer */
	ANALYSE_TIME_REQUEST, /* the sum over all layers */
};

struct analyse_role {
	uint8_t kind; /* enum analyse_role_kind */
	/* for latencies enum analyse_tail_quantile, for resources enum analyse_resource */
	uint8_t part;
	uint8_t port; /* enum analyse_port */
	uint8_t time; /* enum analyse_time */
};

/*
 * Returns the role of a column. name: with its labels. counter: true if the rate of the column is
 * analysed, and not its value.
 */
struct analyse_role analyse_role_of(const char *name, bool counter);
/* Arguments as above. */
enum analyse_port analyse_role_port(const char *name, bool counter);
/* True for gauges of waiting work: requests in flight, lengths of queues. */
bool analyse_role_waits(const char *name, bool counter);

#endif
