// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - the agent's own metrics: a region by libsidelight, admitted through the same checks.
 * Events are counted in struct agent_counters, and carried over at the end of each batch.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "agent/peer.h"
#include "agent/rdma.h"
#include "agent/region.h"
#include "agent/tcp.h"

#define PREFIX	      "sidelight_agent_"
#define OFFSET(field) offsetof(struct agent_counters, field)

const struct agent_counter_info agent_counter_table[AGENT_COUNTERS] = {
	{"connections", OFFSET(connections), "Connections to the unix socket"},
	{"packets", OFFSET(packets), "Packets on the unix socket"},
	{"admitted", OFFSET(admitted), "Regions admitted"},
	{"reattached", OFFSET(reattached), "Regions attached again by their publisher"},
	{"restored", OFFSET(restored), "Regions restored from systemd after a restart"},
	{"dead", OFFSET(dead), "Regions whose publisher died"},
	{"closed", OFFSET(closed), "Regions closed by their publisher"},
	{"expired", OFFSET(expired), "Regions whose grace period ended"},
	{"evicted", OFFSET(evicted),
	 "Regions retired before the end of their grace period for lack of room"},
	{"freed", OFFSET(freed), "Regions whose memory was freed"},
	{"lines_repaired", OFFSET(lines_repaired),
	 "Half-written lines of dead publishers that were repaired"},
	{"lost_connections", OFFSET(lost_connections), "Lost connections of publishers"},
	{"extra_descriptor_packets", OFFSET(extra_fds),
	 "Packets with descriptors beyond the one expected, or beyond the agent's limit"},
	{"subscribed", OFFSET(subscribed), "Consumers subscribed to the directory"},
	{"opened", OFFSET(opened), "Regions opened by consumers"},
	{"status_requests", OFFSET(status), "Status requests"},
	{"rest_requests", OFFSET(rest_requests), "REST requests"},
	{"rest_errors", OFFSET(rest_errors), "REST requests answered with an error"},
	{"rest_updates", OFFSET(rest_updates), "Values posted by REST"},
	{"rest_expired", OFFSET(rest_expired), "Microservices that stopped posting"},
	{"promotions", OFFSET(promotions), "Joint registrations of neighbouring regions"},
	{"promoted_regions", OFFSET(promoted_regions), "Regions registered jointly"},
	{"breakups", OFFSET(breakups), "Joint registrations split up"},
	{"registration_failures", OFFSET(registration_failures), "Failed memory registrations"},
	{"verdicts", OFFSET(verdicts), "Verdicts relayed to publishers"},
	{"verdicts_unknown", OFFSET(verdicts_unknown), "Verdicts on unknown regions"},
	{"verdicts_refused", OFFSET(verdicts_refused),
	 "Verdicts written by RDMA with an invalid line"},
	{"verdicts_lost", OFFSET(verdicts_lost),
	 "Verdicts not relayed: publisher absent, its socket full, or notified just before"},
	{"tcp_refused", OFFSET(tcp_refused), "TCP connections without a slot in the table"},
	{"tcp_missed", OFFSET(tcp_missed), "Calls of the flow programs that the kernel skipped"},
	{"tcp_cgroups_refused", OFFSET(tcp_cgroups_refused),
	 "Cgroups without a slot for their names"},
};

enum {
	G_LIVE,
	G_DEAD,
	G_CLOSED,
	G_RETIRED,
	G_MEMORY,
	G_CONNECTIONS,
	G_CONSUMERS,
	G_REGIONS_MAX,
	G_MEMORY_MAX,
	G_QUEUES,
	G_REST_SERVICES,
	G_TCP_OPEN,
	G_TCP_CLOSED,
	G_TCP_IDENTITIES,
	GAUGES
};

struct agent_self {
	struct sl_publisher *publisher;
	struct agent_region *region;
	struct agent_counters sent;
	struct sl_counter counter[AGENT_COUNTERS], refused[REFUSED_COUNT], dropped[DROP_COUNT];
	struct sl_gauge gauge[GAUGES];
};

static struct sl_counter counter(struct agent_self *s, const char *name, const char *help,
				 const char *cause)
{
	struct sl_label label = {"cause", cause};
	char full[128];

	snprintf(full, sizeof(full), PREFIX "%s_total", name);
	return sl_counter_create(s->publisher,
				 &SL_OPTS(sl_metric_opts, .name = full, .help = help,
					  .labels = &label, .label_count = cause ? 1 : 0));
}

static struct sl_gauge gauge(struct agent_self *s, const char *name, const char *help,
			     const char *unit, const char *state)
{
	struct sl_label label = {"state", state};
	char full[128];

	snprintf(full, sizeof(full), PREFIX "%s", name);
	return sl_gauge_create(s->publisher,
			       &SL_OPTS(sl_metric_opts, .name = full, .help = help, .unit = unit,
					.labels = &label, .label_count = state ? 1 : 0));
}

static void make_metrics(struct agent_self *s)
{
	static const char regions[] = "Regions in the directory";

	for (int i = 0; i < AGENT_COUNTERS; i++)
		s->counter[i] = counter(s, agent_counter_table[i].name, agent_counter_table[i].help,
					NULL);
	for (int i = 0; i < REFUSED_COUNT; i++)
		s->refused[i] = counter(s, "refused", "Refusals", agent_refusal_names[i]);
	for (int i = 0; i < DROP_COUNT; i++)
		s->dropped[i] = counter(s, "dropped", "Connections dropped", agent_drop_names[i]);
	s->gauge[G_LIVE] = gauge(s, "regions", regions, NULL, "live");
	s->gauge[G_DEAD] = gauge(s, "regions", regions, NULL, "dead");
	s->gauge[G_CLOSED] = gauge(s, "regions", regions, NULL, "closed");
	s->gauge[G_RETIRED] = gauge(s, "regions", regions, NULL, "retired");
	s->gauge[G_REGIONS_MAX] = gauge(s, "regions_max", "Maximum number of regions", NULL, NULL);
	s->gauge[G_MEMORY] = gauge(s, "memory_bytes", "Memory of all regions", "bytes", NULL);
	s->gauge[G_MEMORY_MAX] = gauge(s, "memory_max_bytes", "Maximum memory of all regions",
				       "bytes", NULL);
	s->gauge[G_CONNECTIONS] = gauge(s, "open_connections", "Connections to the unix socket",
					NULL, NULL);
	s->gauge[G_CONSUMERS] = gauge(s, "consumers", "Local collectors connected", NULL, NULL);
	s->gauge[G_QUEUES] = gauge(s, "queue_pairs", "Queue pairs of remote collectors", NULL,
				   NULL);
	s->gauge[G_TCP_OPEN] = gauge(s, "tcp_flows", "TCP connections in the table", NULL, "open");
	s->gauge[G_TCP_CLOSED] = gauge(s, "tcp_flows", "TCP connections in the table", NULL,
				       "closed");
	s->gauge[G_TCP_IDENTITIES] = gauge(s, "tcp_identities", "Cgroups with names in the table",
					   NULL, NULL);
	s->gauge[G_REST_SERVICES] = gauge(s, "rest_microservices",
					  "Microservices that post by REST", NULL, NULL);
}

int agent_self_init(struct agent *a, char *error, size_t bytes)
{
	struct sl_publisher_opts o = SL_OPTS(sl_publisher_opts, .service = "sidelight-agent",
					     .pod = a->host, .max_threads = 1, .max_cells = 128,
					     .schema_bytes = 32768, .flags = SL_PUBLISHER_DETACHED);
	struct sl_msg_publish say = {0};
	struct sl_region_header header;
	struct agent_refused why = {0};
	struct agent_self *s = calloc(1, sizeof(*s));
	struct agent_peer *peer;
	int fd;

	if (!s)
		goto err_memory;
	s->publisher = sl_publisher_open(&o);
	fd = sl_publisher_fd(s->publisher);
	if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header)) {
		snprintf(error, bytes, "cannot publish own metrics: %s", strerror(errno));
		goto err;
	}
	say.instance = header.instance;
	say.size = header.size;
	peer = agent_peer_self(a);
	if (!peer)
		goto err_memory;
	if (agent_region_admit(a, fd, &say, NULL, peer, &s->region, &why)) {
		agent_peer_put(a, peer);
		snprintf(error, bytes, "cannot admit own metrics: %s", why.reason);
		errno = why.error;
		goto err;
	}
	agent_peer_put(a, peer);
	s->region->self = true;
	a->own_count++;
	a->n.admitted--; /* it counts the regions of others */
	a->memory -= say.size;
	make_metrics(s);
	a->self = s;
	agent_self_sync(a);
	return 0;

err_memory:
	snprintf(error, bytes, "out of memory");
	errno = ENOMEM;
err:
	if (s)
		sl_publisher_close(s->publisher);
	free(s);
	return -errno;
}

void agent_self_sync(struct agent *a)
{
	struct agent_self *s = a->self;
	int64_t gauges[GAUGES] = {0};
	struct agent_tcp_use tcp = {0};

	if (!s)
		return;
	agent_tcp_use(a, &tcp);
	for (int i = 0; i < AGENT_COUNTERS; i++) {
		const size_t at = agent_counter_table[i].offset;
		uint64_t now = *(uint64_t *)((char *)&a->n + at);
		uint64_t was = *(uint64_t *)((char *)&s->sent + at);

		if (now != was)
			sl_counter_add(s->counter[i], now - was);
	}
	for (int i = 0; i < REFUSED_COUNT; i++)
		if (a->n.refused[i] != s->sent.refused[i])
			sl_counter_add(s->refused[i], a->n.refused[i] - s->sent.refused[i]);
	for (int i = 0; i < DROP_COUNT; i++)
		if (a->n.dropped[i] != s->sent.dropped[i])
			sl_counter_add(s->dropped[i], a->n.dropped[i] - s->sent.dropped[i]);
	s->sent = a->n;

	gauges[G_LIVE] = a->state_count[SL_STATE_LIVE];
	gauges[G_DEAD] = a->state_count[SL_STATE_DEAD];
	gauges[G_CLOSED] = a->state_count[SL_STATE_CLOSED];
	gauges[G_RETIRED] = a->state_count[SL_STATE_RETIRED];
	gauges[G_MEMORY] = (int64_t)a->memory;
	gauges[G_CONNECTIONS] = a->conn_count;
	gauges[G_CONSUMERS] = a->consumer_conns;
	gauges[G_REGIONS_MAX] = a->o.max_regions;
	gauges[G_MEMORY_MAX] = (int64_t)a->o.max_memory;
	gauges[G_QUEUES] = (int64_t)agent_rdma_queue_count(a);
	gauges[G_REST_SERVICES] = a->proxy_count;
	gauges[G_TCP_OPEN] = (int64_t)tcp.open;
	gauges[G_TCP_CLOSED] = (int64_t)tcp.closed;
	gauges[G_TCP_IDENTITIES] = (int64_t)tcp.identities;
	for (int i = 0; i < GAUGES; i++)
		sl_gauge_set(s->gauge[i], gauges[i]);
}

void agent_self_fini(struct agent *a)
{
	struct agent_self *s = a->self;

	if (!s)
		return;
	a->self = NULL;
	agent_region_free(a, s->region);
	sl_publisher_close(s->publisher);
	free(s);
}
