// SPDX-License-Identifier: Apache-2.0
/*
 * tcp.c - kernel tables (src/source/tcp) as regions: programs in the kernel write them, and each is
 * an entry of the directory. The agent writes only the names of cgroups, and every few seconds
 * catches up on what the kernel skipped.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/region.h"
#include "agent/tcp.h"
#include "region/flows.h"
#include "source/tcp/tcp.h"

enum agent_tcp_part { FLOWS, LAYERS, TASKS, NET, PARTS };
static const char *const part_names[PARTS] = {"flows", "layers", "cpu", "net"};

/* Bits of the parts in a list of names; 0 with a line in error. */
static unsigned int parts_of(const char *list, char *error, size_t bytes)
{
	unsigned int parts = 0;

	while (*list) {
		size_t n = strcspn(list, ",");
		int i = 0;

		while (i < PARTS && (strlen(part_names[i]) != n || strncmp(list, part_names[i], n)))
			i++;
		if (i == PARTS) {
			snprintf(error, bytes,
				 "--tcp: '%.*s' is not one of flows, layers, cpu, net",
				 (int)(n < 64 ? n : 64), list);
			return 0;
		}
		parts |= 1u << i;
		list += n + (list[n] == ',');
	}
	if (!parts)
		snprintf(error, bytes, "--tcp: flows, layers, cpu or net, separated by commas");
	return parts;
}

#if HAVE_BPF
#include "source/tcp/cpu.h"
#include "source/tcp/layer.h"
#include "source/tcp/net.h"
#include "source/tcp/identity.h"
#include "source/tcp/filter.h"

#define CGROUPS	 1024u /* slots for names of cgroups: 512 bytes each */
#define LOOK_NS	 5000000000ull
#define TASKS_NS 1000000000ull /* costs one line per cgroup */

struct agent_tcp {
	struct agent_source source;
	struct agent_timer timer;
	struct tcp *flows;
	struct tcp_identity *names;
	struct tcp_layers *layers;
	struct tcp_cpu *tasks;
	struct tcp_net *net;
	struct agent_region *region[PARTS];
	struct region_flows_info info;
	uint64_t look_ns, names_ns; /* when to catch up, and to look up names */
	uint64_t tasks_ns;	    /* when to look for cgroups of tasks; UINT64_MAX: never */
	uint64_t missed;
};

int agent_tcp_check(const struct agent_opts *o, char *error, size_t bytes)
{
	if (!parts_of(o->tcp, error, bytes))
		return -EINVAL;
	return o->tcp_filter ? tcp_filter_check(o->tcp_filter, error, bytes) : 0;
}

static int admit(struct agent *a, enum agent_tcp_part part, const struct tcp_region *region,
		 char *error, size_t bytes)
{
	struct agent_refused why = {0};
	int read_only = tcp_region_read_only(region->fd);

	if (read_only < 0)
		base_logf(
			BASE_WARN, AGENT_LOG,
			"--tcp %s: no descriptor for local readers: %s (needs CAP_SYS_ADMIN); RDMA is not affected",
			part_names[part], strerror(-read_only));
	if (!agent_region_admit_kernel(a, region->fd, read_only, region->bytes,
				       &a->tcp->region[part], &why))
		return 0;
	snprintf(error, bytes, "--tcp %s: %s", part_names[part], why.reason);
	return why.error ? -why.error : -EIO;
}

static int open_flows(struct agent *a, char *error, size_t bytes)
{
	struct tcp_opts o = {
		.flows = a->o.tcp_flows,
		.quarantine_ns = a->o.tcp_quarantine_ns,
		.existing = true,
		.cgroups = CGROUPS,
	};
	struct agent_tcp *t = a->tcp;
	const struct tcp_region *region;
	int err;

	if (a->o.tcp_filter)
		o.filter = *a->o.tcp_filter;
	err = tcp_open(&o, &t->flows, error, bytes);
	if (err)
		return err;
	t->names = tcp_identity(t->flows);
	region = tcp_region(t->flows);
	if (region_flows_info_parse(region->map, region->bytes, &t->info))
		return base_fail(error, bytes, -EIO, "invalid table of connections");
	err = admit(a, FLOWS, region, error, bytes);
	return err ? err : tcp_attach(t->flows, error, bytes);
}

static int open_layers(struct agent *a, char *error, size_t bytes)
{
	struct tcp_layers_opts o = {0};
	int err;

	if (a->o.tcp_filter)
		o.filter = *a->o.tcp_filter;
	err = tcp_layers_open(&o, &a->tcp->layers, error, bytes);
	return err ?: admit(a, LAYERS, tcp_layers_region(a->tcp->layers), error, bytes);
}

static int open_tasks(struct agent *a, char *error, size_t bytes)
{
	struct tcp_cpu_opts o = {0};

	a->tcp->tasks = tcp_cpu_open(&o, error, bytes);
	if (!a->tcp->tasks)
		return -errno;
	return admit(a, TASKS, tcp_cpu_region(a->tcp->tasks), error, bytes);
}

/* A network device knows no cgroups and no processes: the rest of the filter applies. */
static struct tcp_filter device_filter(const struct tcp_filter *filter)
{
	struct tcp_filter w = *filter;

	w.cgroups = (struct base_strings){0};
	w.pid = 0;
	return w;
}

static int open_net(struct agent *a, char *error, size_t bytes)
{
	struct tcp_net_opts o = {.devices = {a->o.tcp_devices, a->o.tcp_device_count}};
	int err;

	if (a->o.tcp_filter)
		o.filter = device_filter(a->o.tcp_filter);
	err = tcp_net_open(&o, &a->tcp->net, error, bytes);
	return err ?: admit(a, NET, tcp_net_region(a->tcp->net), error, bytes);
}

static void drop(struct agent *a, enum agent_tcp_part part)
{
	struct agent_tcp *t = a->tcp;

	/* Readers first, then the mapping, then the programs that write it. */
	if (t->region[part]) {
		agent_region_retire(a, t->region[part]);
		agent_region_free(a, t->region[part]);
	}
	t->region[part] = NULL;
	if (part == FLOWS) {
		tcp_close(t->flows);
		t->flows = NULL;
	} else if (part == LAYERS) {
		tcp_layers_close(t->layers);
		t->layers = NULL;
	} else if (part == TASKS) {
		tcp_cpu_close(t->tasks);
		t->tasks = NULL;
	} else {
		tcp_net_close(t->net);
		t->net = NULL;
	}
}

/* Leaves out, with a warning, a part without hooks in this kernel, if another part works. */
static int open_parts(struct agent *a, unsigned int parts, char *error, size_t bytes)
{
	static int (*const open[PARTS])(struct agent *, char *, size_t) = {open_flows, open_layers,
									   open_tasks, open_net};
	unsigned int works = 0;
	int err = 0;

	for (int i = 0; i < PARTS; i++) {
		if (!(parts & 1u << i))
			continue;
		err = open[i](a, error, bytes);
		if (!err) {
			works |= 1u << i;
			continue;
		}
		drop(a, (enum agent_tcp_part)i);
		if (err != -ENOTSUP)
			return err;
		base_logf(BASE_WARN, AGENT_LOG, "--tcp %s is left out: %s", part_names[i], error);
	}
	return works ? 0 : err;
}

/* Starts the only timer of its queue with the delay to whatever is due first. */
static void arm(struct agent *a, uint64_t now)
{
	struct agent_tcp *t = a->tcp;
	uint64_t due = t->names_ns < t->look_ns ? t->names_ns : t->look_ns;

	due = due < t->tasks_ns ? due : t->tasks_ns;
	a->timers[TIMER_TCP].delay = due > now ? due - now : 0;
	agent_timer_start(a, TIMER_TCP, &t->timer);
}

void agent_tcp_event(struct agent *a)
{
	uint64_t now = agent_now(a);

	if (!a->tcp->flows)
		return;
	a->tcp->names_ns = tcp_identity_serve(a->tcp->names, now);
	arm(a, now);
}

/* Cgroups with tasks but no connections get names, too. */
static void name_tasks(struct agent_tcp *t, uint64_t now)
{
	for (uint32_t i = 1; i < tcp_cpu_cgroup_slots(t->tasks); i++)
		if (tcp_identity_want(t->names, tcp_cpu_cgroup_id(t->tasks, i), now))
			t->names_ns = now;
}

void agent_tcp_timer(struct agent *a, struct agent_timer *timer)
{
	uint64_t now = agent_now(a);
	struct agent_tcp *t = a->tcp;
	int err = 0;

	(void)timer;
	if (t->look_ns <= now) {
		if (t->flows)
			err = tcp_catch_up(t->flows, &t->missed);
		if (!err && t->layers)
			err = tcp_layers_namespaces(t->layers);
		if (t->layers)
			tcp_layers_groups(t->layers, now);
		if (!err && t->tasks)
			err = tcp_cpu_refresh(t->tasks);
		if (err)
			base_log_limited(BASE_WARN, AGENT_LOG, "--tcp: cannot catch up: %s",
					 strerror(-err));
		t->look_ns = now + LOOK_NS;
	}
	if (t->flows && t->tasks && t->tasks_ns <= now) {
		name_tasks(t, now);
		t->tasks_ns = now + TASKS_NS;
	}
	if (t->flows && t->names_ns <= now)
		t->names_ns = tcp_identity_serve(t->names, now);
	arm(a, now);
}

int agent_tcp_init(struct agent *a, char *error, size_t bytes)
{
	struct epoll_event ev = {.events = EPOLLIN};
	unsigned int parts;
	struct agent_tcp *t;
	int err;

	if (!a->o.tcp)
		return 0;
	parts = parts_of(a->o.tcp, error, bytes);
	if (!parts)
		return -EINVAL;
	t = a->tcp = calloc(1, sizeof(*t));
	if (!t)
		return base_fail(error, bytes, -ENOMEM, "out of memory");
	t->source.kind = SOURCE_TCP;
	err = open_parts(a, parts, error, bytes);
	if (err)
		goto fail;
	ev.data.ptr = &t->source;
	if (t->flows && epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, tcp_identity_fd(t->names), &ev)) {
		err = -errno;
		snprintf(error, bytes, "epoll: %s", strerror(errno));
		goto fail;
	}
	t->look_ns = agent_now(a) + LOOK_NS;
	t->tasks_ns = t->flows && t->tasks ? 0 : UINT64_MAX;
	t->names_ns = t->flows ? 0 : UINT64_MAX; /* the iterator has queued existing cgroups */
	arm(a, agent_now(a));
	return 0;
fail:
	agent_tcp_fini(a);
	return err;
}

void agent_tcp_fini(struct agent *a)
{
	if (!a->tcp)
		return;
	agent_timer_stop(&a->tcp->timer);
	if (a->tcp->flows && a->epoll_fd >= 0)
		epoll_ctl(a->epoll_fd, EPOLL_CTL_DEL, tcp_identity_fd(a->tcp->names), NULL);
	for (int i = 0; i < PARTS; i++)
		drop(a, (enum agent_tcp_part)i);
	free(a->tcp);
	a->tcp = NULL;
}

void agent_tcp_use(struct agent *a, struct agent_tcp_use *use)
{
	const struct agent_tcp *t = a->tcp;
	struct region_flow_cgroup names;
	struct region_flows_hot hot;
	uint64_t slot[64];
	const char *map;

	*use = (struct agent_tcp_use){0};
	if (!t || !t->flows)
		return;
	map = tcp_region(t->flows)->map;
	a->n.tcp_missed = t->missed;
	if (!region_flows_hot_read(map, &t->info, &hot)) {
		use->open = hot.open;
		use->closed = hot.quarantined;
		a->n.tcp_refused = hot.refused;
	}
	/* Only this thread writes it. */
	region_copy_words(slot, (const uint64_t *)(map + t->info.cgroups), 64);
	if (!region_flow_cgroup_parse(slot, &names) && names.used) {
		use->identities = names.used - 1;
		a->n.tcp_cgroups_refused = names.refused;
	}
}

json_t *agent_tcp_json(struct agent *a)
{
	const struct agent_tcp *t = a->tcp;
	struct agent_tcp_use use;
	json_t *parts;

	if (!t)
		return json_pack("{s:n}", "tcp");
	parts = json_array();
	for (int i = 0; i < PARTS; i++) {
		const struct agent_region *r = t->region[i];

		if (r)
			json_array_append_new(
				parts,
				json_pack("{s:s,s:I,s:i,s:I,s:b}", "name", part_names[i], "region",
					  (json_int_t)r->id, "kind", (int)r->info->kind, "bytes",
					  (json_int_t)r->info->size, "local", r->fd >= 0));
	}
	agent_tcp_use(a, &use);
	return json_pack("{s:{s:o,s:I,s:I,s:I,s:I,s:I,s:I}}", "tcp", "parts", parts, "open",
			 (json_int_t)use.open, "closed", (json_int_t)use.closed, "refused",
			 (json_int_t)a->n.tcp_refused, "missed", (json_int_t)a->n.tcp_missed,
			 "identities", (json_int_t)use.identities, "identities_refused",
			 (json_int_t)a->n.tcp_cgroups_refused);
}

int agent_tcp_filter(struct agent *a, const struct tcp_filter *filter, char *why, size_t bytes)
{
	struct agent_tcp *t = a->tcp;
	int err = 0;

	if (!t || (!t->flows && !t->layers && !t->net))
		return base_fail(why, bytes, -ENOENT,
				 "this agent records no connections: start it with --tcp");
	snprintf(why, bytes, "the filter could not be set");
	if (t->flows)
		err = tcp_filter(t->flows, filter, why, bytes);
	if (!err && t->layers)
		err = tcp_layers_filter(t->layers, filter, why, bytes);
	if (!err && t->net) {
		const struct tcp_filter w = device_filter(filter);

		err = tcp_net_filter(t->net, &w, why, bytes);
	}
	return err;
}
#else
int agent_tcp_check(const struct agent_opts *o, char *error, size_t bytes)
{
	return parts_of(o->tcp, error, bytes) ? 0 : -EINVAL;
}

int agent_tcp_init(struct agent *a, char *error, size_t bytes)
{
	if (!a->o.tcp)
		return 0;
	return base_fail(error, bytes, -ENOTSUP,
			 "--tcp: built without eBPF (libbpf, clang and bpftool)");
}

void agent_tcp_fini(struct agent *a)
{
	(void)a;
}

void agent_tcp_event(struct agent *a)
{
	(void)a;
}

void agent_tcp_timer(struct agent *a, struct agent_timer *t)
{
	(void)a, (void)t;
}

void agent_tcp_use(struct agent *a, struct agent_tcp_use *use)
{
	(void)a;
	*use = (struct agent_tcp_use){0};
}

json_t *agent_tcp_json(struct agent *a)
{
	(void)a;
	return json_pack("{s:n}", "tcp");
}

int agent_tcp_filter(struct agent *a, const struct tcp_filter *filter, char *why, size_t bytes)
{
	(void)a, (void)filter;
	return base_fail(why, bytes, -ENOENT, "built without eBPF");
}
#endif
