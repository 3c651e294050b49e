// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - publishes the agent's own metrics with libsidelight, in a region that passes the usual
 * checks. Events are counted in struct agent_counters, and added to the region at the end of each
 * batch.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "agent/peer.h"
#include "agent/region.h"
#include "agent/rest.h"
#include "base/child.h"

#define PREFIX	      "sidelight_agent_"
#define OFFSET(field) offsetof(struct agent_counters, field)

const struct agent_counter_info agent_counter_table[AGENT_COUNTERS] = {
	{"connections", OFFSET(connections), "Connections to the unix socket"},
	{"packets", OFFSET(packets), "Packets on the unix socket"},
	{"admitted", OFFSET(admitted), "Regions admitted"},
	{"reattached", OFFSET(reattached), "Regions attached again by their publisher"},
	{"restored", OFFSET(restored), "Regions restored from systemd after a restart"},
	{"store_refused", OFFSET(store_refused),
	 "Regions that systemd does not keep while the agent restarts"},
	{"dead", OFFSET(dead), "Regions whose publisher died"},
	{"closed", OFFSET(closed), "Regions closed by their publisher"},
	{"expired", OFFSET(expired), "Regions whose grace period ended"},
	{"evicted", OFFSET(evicted),
	 "Regions retired before the end of their grace period to make room"},
	{"freed", OFFSET(freed), "Regions whose memory was freed"},
	{"lines_repaired", OFFSET(lines_repaired),
	 "Half-written lines of dead publishers that were repaired"},
	{"lost_connections", OFFSET(lost_connections), "Lost connections of publishers"},
	{"extra_descriptor_packets", OFFSET(extra_fds),
	 "Packets with more file descriptors than expected, or than the agent could accept"},
	{"descriptors_set_aside", OFFSET(closing),
	 "Client descriptors handed to a separate thread, because closing them may block"},
	{"descriptors_leaked", OFFSET(closing_lost),
	 "Client descriptors left open because memory ran out"},
	{"connections_paused", OFFSET(paused),
	 "Times a connection was paused because its tenant had too many descriptors waiting to be "
	 "closed"},
	{"ends_held", OFFSET(ends_held),
	 "Region deaths and removals postponed because their tenant had used up its share of CPU "
	 "time"},
	{"subscribed", OFFSET(subscribed), "Consumers subscribed to the directory"},
	{"opened", OFFSET(opened), "Regions opened by consumers"},
	{"status_requests", OFFSET(status), "Status requests"},
	{"rest_requests", OFFSET(rest_requests), "REST requests"},
	{"rest_errors", OFFSET(rest_errors), "REST requests answered with an error"},
	{"rest_updates", OFFSET(rest_updates), "Values posted by REST"},
	{"rest_expired", OFFSET(rest_expired), "Microservices that stopped posting"},
	{"promotions", OFFSET(promotions),
	 "Memory registrations that cover several adjacent "
	 "regions"},
	{"promoted_regions", OFFSET(promoted_regions),
	 "Regions that share a memory registration "
	 "with adjacent regions"},
	{"breakups", OFFSET(breakups), "Shared memory registrations that were split up again"},
	{"registration_failures", OFFSET(registration_failures), "Failed memory registrations"},
	{"rdma_challenged", OFFSET(rdma_challenged),
	 "RDMA connections challenged to prove that they know the secret"},
	{"rdma_half_open", OFFSET(rdma_half_open),
	 "Queue pairs freed because the peer did not finish connecting"},
	{"fabric_sent_bytes", OFFSET(fabric_sent_bytes), "Bytes sent to collectors by --fabric"},
	{"fabric_silent", OFFSET(fabric_silent),
	 "Connections to --fabric closed because they requested nothing"},
	{"keys_renewed", OFFSET(keys_renewed), "Memory registrations replaced to change their key"},
	{"verdicts", OFFSET(verdicts), "Verdicts relayed to publishers"},
	{"verdicts_unknown", OFFSET(verdicts_unknown), "Verdicts on unknown regions"},
	{"verdicts_refused", OFFSET(verdicts_refused), "Invalid verdicts written by RDMA"},
	{"verdicts_lost", OFFSET(verdicts_lost),
	 "Verdicts not relayed: publisher absent, socket full, or notified shortly before"},
	{"tcp_refused", OFFSET(tcp_refused),
	 "TCP connections not recorded because the table was "
	 "full"},
	{"tcp_missed", OFFSET(tcp_missed),
	 "Runs of the flow eBPF programs that the kernel skipped"},
	{"tcp_cgroups_refused", OFFSET(tcp_cgroups_refused),
	 "Cgroups whose names did not fit in the table"},
	{"tcp_filters_refused", OFFSET(tcp_filters_refused),
	 "Filters set by REST that a restarted loader refused; it then records no connections"},
};

static const struct {
	const char *name, *help, *unit, *state;
} gauge_table[] = {
	{"regions", "Regions in the directory", NULL, "live"},
	{"regions", "Regions in the directory", NULL, "dead"},
	{"regions", "Regions in the directory", NULL, "closed"},
	{"regions", "Regions in the directory", NULL, "retired"},
	{"regions_max", "Maximum number of regions", NULL, NULL},
	{"memory_bytes", "Memory of all regions", "bytes", NULL},
	{"memory_max_bytes", "Maximum memory of all regions", "bytes", NULL},
	{"descriptors_closing", "Client descriptors waiting to be closed", NULL, NULL},
	{"open_connections", "Connections to the unix socket", NULL, NULL},
	{"consumers", "Local collectors connected", NULL, NULL},
	{"queue_pairs", "Queue pairs of remote collectors", NULL, NULL},
	{"tcp_flows", "TCP connections in the table", NULL, "open"},
	{"tcp_flows", "TCP connections in the table", NULL, "closed"},
	{"tcp_identities", "Cgroups with names in the table", NULL, NULL},
	{"rest_microservices", "Microservices that post by REST", NULL, NULL},
};
#define GAUGES (sizeof(gauge_table) / sizeof(*gauge_table))

/* REST, the eBPF loader, the bridges, and a spawner for each. */
#define HELPERS 6
#define WORDS	(sizeof(struct agent_counters) / sizeof(uint64_t))

struct agent_self {
	struct sl_publisher *publisher;
	struct agent_region *region;
	struct agent_counters sent;
	struct sl_counter counter[WORDS]; /* counters in the order of struct agent_counters */
	struct sl_gauge gauge[GAUGES];
	struct sl_counter_f64 fabric_cpu;
	struct sl_counter restarts[HELPERS];
	uint64_t restarted[HELPERS];
};

static struct sl_counter make_counter(struct agent_self *s, const char *name, const char *help,
				      const char *cause)
{
	struct sl_label label = {"cause", cause};
	char full[128];

	snprintf(full, sizeof(full), PREFIX "%s_total", name);
	return sl_counter_create(s->publisher,
				 &SL_OPTS(sl_metric_opts, .name = full, .help = help,
					  .labels = &label, .label_count = cause ? 1 : 0));
}

static struct sl_gauge make_gauge(struct agent_self *s, const char *name, const char *help,
				  const char *unit, const char *state)
{
	struct sl_label label = {"state", state};
	char full[128];

	snprintf(full, sizeof(full), PREFIX "%s", name);
	return sl_gauge_create(s->publisher,
			       &SL_OPTS(sl_metric_opts, .name = full, .help = help, .unit = unit,
					.labels = &label, .label_count = state ? 1 : 0));
}

static void make_restarts(struct agent_self *s)
{
	const char *helper;
	uint64_t n;

	for (size_t i = 0; i < HELPERS && base_children_restarts(i, &helper, &n); i++) {
		struct sl_label label = {"helper", helper};

		s->restarts[i] = sl_counter_create(
			s->publisher,
			&SL_OPTS(sl_metric_opts, .name = PREFIX "helper_restarts_total",
				 .help = "Helper processes restarted after they "
					 "exited, by helper",
				 .labels = &label, .label_count = 1));
	}
}

static void sync_restarts(struct agent_self *s)
{
	const char *helper;
	uint64_t n;

	for (size_t i = 0; i < HELPERS && base_children_restarts(i, &helper, &n); i++) {
		if (n != s->restarted[i])
			sl_counter_add(s->restarts[i], n - s->restarted[i]);
		s->restarted[i] = n;
	}
}

static void make_metrics(struct agent_self *s)
{
	for (int i = 0; i < AGENT_COUNTERS; i++) {
		const struct agent_counter_info *info = &agent_counter_table[i];

		s->counter[info->offset / 8] = make_counter(s, info->name, info->help, NULL);
	}
	for (int i = 0; i < REFUSED_COUNT; i++)
		s->counter[OFFSET(refused) / 8 + i] = make_counter(s, "refused", "Refusals",
								   agent_refusal_names[i]);
	for (int i = 0; i < DROP_COUNT; i++)
		s->counter[OFFSET(dropped) / 8 + i] =
			make_counter(s, "dropped", "Connections dropped", agent_drop_names[i]);
	for (int i = 0; i < HTTP_REFUSALS; i++)
		s->counter[OFFSET(rest_refused) / 8 + i] =
			make_counter(s, "rest_refused", "REST requests and connections refused",
				     http_refusal_names[i]);
	for (int i = 0; i < FABRIC_REFUSED_COUNT; i++)
		s->counter[OFFSET(rdma_refused) / 8 + i] = make_counter(
			s, "rdma_refused", "RDMA connections refused", agent_rdma_refusal_names[i]);
	make_restarts(s);
	s->fabric_cpu = sl_counter_f64_create(
		s->publisher,
		&SL_OPTS(sl_metric_opts, .name = PREFIX "fabric_cpu_seconds_total",
			 .help = "CPU time of the thread that answers READs of --fabric",
			 .unit = "seconds", .mirror = true));
	for (size_t i = 0; i < GAUGES; i++)
		s->gauge[i] = make_gauge(s, gauge_table[i].name, gauge_table[i].help,
					 gauge_table[i].unit, gauge_table[i].state);
}

int agent_self_init(struct agent *a, char *error, size_t bytes)
{
	struct sl_publisher_opts o = SL_OPTS(sl_publisher_opts, .service = "sidelight-agent",
					     .pod = a->host, .max_threads = 1, .max_cells = 144,
					     .schema_bytes = 32768, .flags = SL_PUBLISHER_DETACHED);
	struct sl_msg_publish say = {0};
	struct sl_region_header header;
	struct agent_refused why = {0};
	struct agent_self *s = calloc(1, sizeof(*s));
	struct agent_peer *peer = agent_peer_self(a);
	int fd, err;

	if (!s || !peer) {
		err = base_fail(error, bytes, -ENOMEM, "out of memory");
		goto err;
	}
	s->publisher = sl_publisher_open(&o);
	fd = sl_publisher_fd(s->publisher);
	if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header)) {
		err = base_fail(error, bytes, -errno, "cannot publish the agent's own metrics: %s",
				strerror(errno));
		goto err;
	}
	/* As with any publisher, only memory without holes is registered for RDMA. */
	err = -posix_fallocate(fd, 0, (off_t)header.size);
	if (err) {
		base_fail(error, bytes, err, "cannot allocate the agent's own metrics: %s",
			  strerror(-err));
		goto err;
	}
	say.instance = header.instance;
	say.size = header.size;
	if (agent_region_admit(a, fd, &say, NULL, peer, true, &s->region, &why)) {
		err = base_fail(error, bytes, -why.error,
				"cannot register the agent's own "
				"metrics: %s",
				why.reason);
		goto err;
	}
	agent_peer_put(a, peer);
	s->region->self = true;
	a->own_count++;
	a->n.admitted--; /* this counter excludes the agent's own region */
	a->memory -= say.size;
	make_metrics(s);
	a->self = s;
	agent_self_sync(a);
	return 0;
err:
	agent_peer_put(a, peer);
	if (s)
		sl_publisher_close(s->publisher);
	free(s);
	return err;
}

void agent_self_sync(struct agent *a)
{
	struct agent_self *s = a->self;
	const uint64_t *now = (const uint64_t *)&a->n, *sent;
	struct agent_tcp_use tcp;

	if (!s)
		return;
	agent_rest_count(a);
	sl_counter_f64_mirror(s->fabric_cpu, (double)agent_rdma_count(a) / 1e9);
	sent = (const uint64_t *)&s->sent;
	agent_tcp_use(a, &tcp);
	for (size_t i = 0; i < WORDS; i++)
		if (now[i] != sent[i])
			sl_counter_add(s->counter[i], now[i] - sent[i]);
	s->sent = a->n;
	sync_restarts(s);

	const uint64_t gauges[GAUGES] = {
		/* in the order of gauge_table */
		a->state_count[SL_STATE_LIVE],
		a->state_count[SL_STATE_DEAD],
		a->state_count[SL_STATE_CLOSED],
		a->state_count[SL_STATE_RETIRED],
		a->o.max_regions,
		a->memory,
		a->o.max_memory,
		agent_closer_waiting(a),
		a->conn_count,
		a->consumer_conns,
		agent_rdma_queue_count(a),
		tcp.open,
		tcp.closed,
		tcp.identities,
		a->proxies.count,
	};

	for (size_t i = 0; i < GAUGES; i++)
		sl_gauge_set(s->gauge[i], (int64_t)gauges[i]);
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
