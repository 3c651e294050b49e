// SPDX-License-Identifier: Apache-2.0
/*
 * tcp.c - publishes kernel tables (src/source/tcp) as regions: eBPF programs write them, and each
 * has an entry in the directory. A separate process, the loader, holds the programs; the agent maps
 * the tables and requests filter changes.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/region.h"
#include "region/flows.h"
#include "source/tcp/tcp.h"

static const char *const part_names[] = {"flows", "layers", "cpu", "net"};
#define PARTS ((int)(sizeof(part_names) / sizeof(*part_names)))

/* Returns a bit set of the parts in a list of names, or 0 with a line in error. */
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
		snprintf(error, bytes,
			 "--tcp expects a comma-separated list of flows, layers, cpu and net");
	return parts;
}

#if HAVE_TCP
#include "source/tcp/filter.h"
#include "source/tcp/loader.h"

#define CGROUPS	  1024u		 /* slots for cgroup names, 512 bytes each */
#define ANSWER_NS 30000000000ull /* time limit of a filter change, including its wait */

struct agent_tcp {
	struct agent_source source;
	unsigned int parts;
	struct tcp_loader *loader;
	bool loading;	      /* the programs are not loaded yet */
	pthread_cond_t event; /* the loop has handled an event of the loader */
	bool asking;	      /* a request waits for the answer to its filter */
	bool stopping;	      /* no request may wait any longer */
	struct agent_region *region[TCP_PARTS];
	struct region_flows_info info;
	uint64_t missed;
	uint64_t refused_before, cgroups_refused_before; /* counts of earlier tables */
};

int agent_tcp_check(const struct agent_opts *o, char *error, size_t bytes)
{
	if (!parts_of(o->tcp, error, bytes))
		return -EINVAL;
	return tcp_filter_check(&o->tables.flows.filter, error, bytes);
}

int agent_tcp_fork(struct agent_opts *o, char *error, size_t bytes)
{
	int err;

	o->tables.parts = parts_of(o->tcp, error, bytes);
	if (!o->tables.parts)
		return -EINVAL;
	o->tables.flows.existing = true;
	o->tables.flows.cgroups = CGROUPS;
	o->tables.unconfined = o->unconfined;
	err = tcp_loader_fork(&o->tables, &o->tcp_loader);
	if (err)
		snprintf(error, bytes, "--tcp: cannot start a process: %s", strerror(-err));
	return err;
}

int agent_tcp_start(struct agent *a, char *error, size_t bytes)
{
	struct agent_tcp *t;
	int err;

	if (!a->o.tcp)
		return 0;
	t = a->tcp = calloc(1, sizeof(*t));
	if (!t)
		return base_fail(error, bytes, -ENOMEM, "out of memory");
	base_cond_init(&t->event);
	err = a->o.tcp_loader ? 0 : agent_tcp_fork(&a->o, error, bytes);
	t->loader = a->o.tcp_loader;
	t->parts = err ? 0 : parts_of(a->o.tcp, error, bytes);
	err = err ?: tcp_loader_start(t->loader);
	if (err && t->loader)
		snprintf(error, bytes, "--tcp: cannot start a process: %s", strerror(-err));
	t->loading = !err;
	if (err)
		agent_tcp_fini(a);
	return err;
}

/* The descriptors are either passed to the region or closed. */
static int admit_table(struct agent *a, enum tcp_part part, struct tcp_loader_table *table,
		       char *error, size_t bytes)
{
	struct agent_refused why = {0};
	int err;

	if (table->read_only < 0)
		base_logf(
			BASE_WARN, AGENT_LOG,
			"--tcp %s: local readers cannot open the table: %s (the agent needs CAP_SYS_ADMIN); RDMA is not affected",
			part_names[part], strerror(-table->read_only));
	err = agent_region_admit_kernel(a, table->fd, table->read_only, table->bytes,
					&a->tcp->region[part], &why);
	close(table->fd); /* the table has been mapped */
	table->fd = table->read_only = -1;
	if (!err)
		return 0;
	snprintf(error, bytes, "--tcp %s: %s", part_names[part], why.reason);
	return why.error ? -why.error : -EIO;
}

static bool has_region(const struct agent_tcp *t)
{
	for (int i = 0; i < TCP_PARTS; i++)
		if (t->region[i])
			return true;
	return false;
}

/* Waits until the loader has loaded its programs, and admits its tables. Returns 0 or -errno. */
static int take_tables(struct agent *a, char *error, size_t bytes)
{
	struct tcp_loader_table tables[TCP_PARTS];
	struct agent_tcp *t = a->tcp;
	struct sl_region_header header;
	int err = tcp_loader_loaded(t->loader, tables, error, bytes);

	for (int i = 0; i < TCP_PARTS; i++) {
		if (tables[i].fd >= 0 && !err)
			err = admit_table(a, (enum tcp_part)i, &tables[i], error, bytes);
		if (tables[i].fd >= 0)
			close(tables[i].fd);
		if (tables[i].read_only >= 0 && tables[i].fd >= 0)
			close(tables[i].read_only);
	}
	if (!err && t->region[TCP_PART_FLOWS]) {
		/* A copy, because the loader can still write to the table. */
		memcpy(&header, t->region[TCP_PART_FLOWS]->map, sizeof(header));
		if (region_flows_info_parse(&header, t->region[TCP_PART_FLOWS]->info->size,
					    &t->info))
			err = base_fail(error, bytes, -EIO,
					"the eBPF loader sent an invalid connection table");
	}
	t->loading = err;
	return err;
}

int agent_tcp_init(struct agent *a, char *error, size_t bytes)
{
	struct agent_tcp *t = a->tcp;
	int err;

	if (!t)
		return 0;
	err = take_tables(a, error, bytes);
	if (!err) {
		err = agent_watch(a, tcp_loader_fd(t->loader), &t->source, SOURCE_TCP);
		if (err)
			snprintf(error, bytes, "epoll: %s", strerror(-err));
	}
	if (!err && !has_region(t))
		base_logf(BASE_WARN, AGENT_LOG,
			  "--tcp: this kernel supports none of the tables; the agent continues "
			  "without them");
	if (err || !has_region(t))
		agent_tcp_fini(a);
	return err;
}

void agent_tcp_event(struct agent *a)
{
	struct agent_tcp *t = a->tcp;
	struct agent_tcp_use use;
	char why[256] = "";
	int err = t->loading ? take_tables(a, why, sizeof(why)) : tcp_loader_event(t->loader);

	pthread_cond_broadcast(&t->event); /* the requests continue after this turn of the loop */
	if (!err) {
		t->missed = tcp_loader_missed(t->loader);
		a->n.tcp_filters_refused = tcp_loader_filters_refused(t->loader);
		return;
	}
	if (*why)
		base_logf(BASE_ERROR, AGENT_LOG, "--tcp: %s", why);
	/* The tables disappeared with their loader; the next loader creates new ones. */
	if (!t->loading)
		agent_tcp_use(a, &use); /* reads the final counts */
	t->refused_before = a->n.tcp_refused;
	t->cgroups_refused_before = a->n.tcp_cgroups_refused;
	for (int i = 0; i < TCP_PARTS; i++)
		if (t->region[i])
			agent_region_retire(a, t->region[i]);
	memset(t->region, 0, sizeof(t->region));
	agent_unwatch(a, tcp_loader_fd(t->loader));
	t->loading = true;
	if (tcp_loader_again(t->loader) &&
	    agent_watch(a, tcp_loader_fd(t->loader), &t->source, SOURCE_TCP))
		base_logf(BASE_ERROR, AGENT_LOG, "--tcp: epoll: %s", strerror(errno));
}

void agent_tcp_fini(struct agent *a)
{
	struct agent_tcp *t = a->tcp;

	if (!t)
		return;
	/* Stop readers first, then remove the mapping, then the programs that write to it. */
	for (int i = 0; i < TCP_PARTS; i++)
		if (t->region[i]) {
			agent_region_retire(a, t->region[i]);
			agent_region_free(a, t->region[i]);
		}
	if (t->loader)
		agent_unwatch(a, tcp_loader_fd(t->loader));
	tcp_loader_stop(t->loader);
	a->o.tcp_loader = NULL;
	pthread_cond_destroy(&t->event);
	free(t);
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
	if (!t || !t->region[TCP_PART_FLOWS])
		return;
	map = t->region[TCP_PART_FLOWS]->map;
	a->n.tcp_missed = t->missed;
	if (!region_flows_hot_read(map, &t->info, &hot)) {
		use->open = hot.open;
		use->closed = hot.quarantined;
		a->n.tcp_refused = t->refused_before + hot.refused;
	}
	/* The loader may be writing: a torn copy does not verify. */
	region_copy_words(slot, (const uint64_t *)(map + t->info.cgroups), 64);
	if (!region_flow_cgroup_parse(slot, &names) && names.used) {
		use->identities = names.used - 1;
		a->n.tcp_cgroups_refused = t->cgroups_refused_before + names.refused;
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
	return json_pack("{s:{s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I}}", "tcp", "parts", parts, "open",
			 (json_int_t)use.open, "closed", (json_int_t)use.closed, "refused",
			 (json_int_t)a->n.tcp_refused, "missed", (json_int_t)a->n.tcp_missed,
			 "identities", (json_int_t)use.identities, "identities_refused",
			 (json_int_t)a->n.tcp_cgroups_refused, "filters_refused",
			 (json_int_t)a->n.tcp_filters_refused);
}

/* Waits, without the lock, until the loop has handled an event of the loader. */
static int await_event(struct agent *a, uint64_t until, char *why, size_t bytes)
{
	struct agent_tcp *t = a->tcp;

	if (!t->stopping && base_cond_wait(&t->event, &a->lock, until))
		return 0;
	if (t->stopping)
		return base_fail(why, bytes, -ECANCELED, "the agent is stopping");
	return base_fail(why, bytes, -ETIMEDOUT, "the eBPF loader does not respond: %s",
			 strerror(ETIMEDOUT));
}

int agent_tcp_filter(struct agent *a, const struct tcp_filter *filter, char *why, size_t bytes)
{
	const uint64_t until = base_now_ns() + ANSWER_NS;
	struct agent_tcp *t = a->tcp;
	int err;

	if (!t && a->o.tcp)
		return base_fail(why, bytes, -ENOENT,
				 "this kernel does not support --tcp: see the agent's log");
	if (!t || !(t->parts & ~(1u << TCP_PART_CPU)))
		return base_fail(why, bytes, -ENOENT,
				 "this agent records no connections: start it with --tcp");
	while (t->asking || tcp_loader_answer(t->loader, why, bytes) == -EINPROGRESS) {
		err = await_event(a, until, why, bytes);
		if (err)
			return err;
	}
	if (t->loading)
		return base_fail(why, bytes, -EAGAIN,
				 "the eBPF loader is restarting: try again in a few seconds");
	err = tcp_loader_filter(t->loader, filter, why, bytes);
	if (err)
		return err;
	t->asking = true;
	while ((err = tcp_loader_answer(t->loader, why, bytes)) == -EINPROGRESS) {
		err = await_event(a, until, why, bytes);
		if (err)
			break;
	}
	t->asking = false;
	pthread_cond_broadcast(&t->event);
	return err;
}

void agent_tcp_cancel(struct agent *a)
{
	if (!a->tcp)
		return;
	pthread_mutex_lock(&a->lock);
	a->tcp->stopping = true;
	pthread_cond_broadcast(&a->tcp->event);
	pthread_mutex_unlock(&a->lock);
}
#else
int agent_tcp_check(const struct agent_opts *o, char *error, size_t bytes)
{
	return parts_of(o->tcp, error, bytes) ? 0 : -EINVAL;
}

int agent_tcp_fork(struct agent_opts *o, char *error, size_t bytes)
{
	(void)o;
	return base_fail(error, bytes, -ENOTSUP,
			 "--tcp: this build has no eBPF support (it needs libbpf, clang and "
			 "bpftool)");
}

int agent_tcp_start(struct agent *a, char *error, size_t bytes)
{
	return a->o.tcp ? agent_tcp_fork(&a->o, error, bytes) : 0;
}

int agent_tcp_init(struct agent *a, char *error, size_t bytes)
{
	(void)a, (void)error, (void)bytes;
	return 0;
}

void agent_tcp_fini(struct agent *a)
{
	(void)a;
}

void agent_tcp_event(struct agent *a)
{
	(void)a;
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
	return base_fail(why, bytes, -ENOENT, "this build has no eBPF support");
}

void agent_tcp_cancel(struct agent *a)
{
	(void)a;
}
#endif
