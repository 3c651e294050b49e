/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - the services as the files of this folder see them. */
#ifndef SL_COLLECT_SERVICES_INTERNAL_H
#define SL_COLLECT_SERVICES_INTERNAL_H

#include <pthread.h>

#include "collect/read/hash.h"
#include "collect/services/latency.h"
#include "collect/services/rules.h"
#include "collect/services/services.h"

#define SERVICES_TICKS (COLLECT_SERVICES_WINDOW + 4)

struct collect_services_tick {
	bool told; /* the figures are those of this tick */
	double requests, errors;
};

/* By limit, what its connections weigh and the sentence of the heaviest. */
struct collect_services_limits {
	double weight[REGION_WHY_LIMITS], heaviest[REGION_WHY_LIMITS];
	char why[REGION_WHY_LIMITS][256];
};

struct collect_services_service {
	struct collect_node node; /* by name */
	struct collect_services_service *next;
	struct collect_service_name name;
	uint32_t regions; /* that refer to it */

	/* Of the last look. */
	uint32_t pods, live, stale, dead, hosts, instances;
	const char *host[COLLECT_SERVICES_LISTED];
	uint64_t instance[COLLECT_SERVICES_LISTED];
	uint64_t changing, unchanged;
	char requests_metric[SL_NAME_MAX + 1], latency_metric[SL_NAME_MAX + 1];
	double cores, bytes;						   /* NaN: not known */
	double box_cores, box_bytes, cpu_ratio, memory_ratio, pressure[3]; /* of its containers */

	/* By tick. */
	struct collect_services_tick tick[SERVICES_TICKS];
	struct collect_latency_tick *latency; /* [SERVICES_TICKS]; NULL: none yet */

	/* The kernel's, of the last look. */
	double kernel_requests; /* per second; NaN: not known */
	struct collect_latency kernel_latency;
	uint32_t open;
	bool connected;
	double flow_bytes, flow_retransmits, rtt_sum, rtt_weight;
	struct collect_services_limits *limits;

	struct act_anomaly *anomaly; /* of a view */
	double suspicion;
};

struct collect_services_series {
	uint64_t word;
	uint32_t changed; /* tick + 1; 0: never since it is known */
};

struct collect_services_region {
	uint64_t instance;
	struct collect_services_service *service; /* NULL: none, or left out */
	const char *target;
	char container[13];
	bool kernel, live;
	bool host; /* it tells of its host, and its agent attests it */
	struct collect_services_series *series;
	size_t series_count, series_room;
	double sum[COLLECT_RULE_ROLES];	     /* of the chosen metric, in the look before */
	uint32_t chosen[COLLECT_RULE_ROLES]; /* rank, in the look before; UINT32_MAX: none */
	double failed;			     /* of its requests, by their labels */
	struct collect_latency *latency;     /* cumulative, in the look before; NULL: none */
};

/*
 * The service that the connections of a process belong to, where the names of workloads do not
 * tell. A container counts its processes itself: the numbers that it gives are not those of the
 * host.
 */
struct collect_services_process {
	uint64_t pid;
	const char *target;
	struct collect_services_service *service;
};

/* A container of a host, or with an empty id the host itself. */
#define SERVICES_HOST_VALUES	8
#define SERVICES_HOST_RATES	4
#define SERVICES_CONTAINERS_MAX 2048u /* of a host */
struct collect_services_container {
	const char *target;
	char id[13];
	double value[SERVICES_HOST_VALUES], rate[SERVICES_HOST_RATES]; /* NaN: not known */
	struct collect_services_service *user;			       /* who had it last */
};

/* One end of a connection. */
struct collect_services_end {
	uint64_t key;
	struct collect_services_service *service; /* NULL: not known */
	uint32_t open;
	double requests, bytes, retransmits, rtt;
	bool matched;
};

struct collect_services_edge {
	struct collect_services_service *from, *to; /* NULL: outside */
	uint32_t connections;
	double requests, bytes, retransmits, rtt_sum, rtt_weight;
};

#define SERVICES_RULES 512u
struct collect_services {
	struct collect_collector *c;
	pthread_mutex_t lock; /* of all below but the thread's */
	struct collect_services_service *first;
	struct collect_hash by_name;
	struct collect_rule_memo rule[SERVICES_RULES]; /* by hash of a metric's name */
	size_t services;
	struct collect_services_region *region,
		*next; /* sorted by instance; of the look under way */
	size_t regions, next_count, region_room, next_room;
	uint64_t series, left_out;
	uint32_t tick;			/* number of the last look; 0: none */
	double seconds[SERVICES_TICKS]; /* that each tick took */
	uint64_t looked_ns;		/* CLOCK_MONOTONIC of the last look */
	int64_t now_ns;			/* CLOCK_REALTIME of it */
	struct collect_services_container *container, *container_before; /* by target and id */
	size_t containers, container_room, container_before_room;
	struct collect_services_process *process; /* sorted by pid */
	size_t processes, process_room;
	struct collect_services_end *initiated, *accepted;
	size_t n_initiated, n_accepted, initiated_room, accepted_room;
	struct collect_services_edge *edge;
	size_t edges, edge_room;
	unsigned int whys; /* in this look */

	pthread_t thread;
	bool running;
	int stop;
};

/* NULL: not known. */
struct collect_services_region *collect_services_region(struct collect_services *s,
							uint64_t instance);
/* Containers and pressure of all hosts, as of now; and what services have of them. */
void collect_services_hosts(struct collect_services *s);
void collect_services_saturation(struct collect_services *s);
/* Connections and edges, as of now. */
void collect_services_connections(struct collect_services *s);
/* Requests and their latency as the kernel sees them. */
void collect_services_layers(struct collect_services *s);
/* Sets attention and its reason. Pure. */
void collect_services_attention(struct collect_service_view *v);

#endif
