// SPDX-License-Identifier: Apache-2.0
/* tcp.c - loads, attaches and closes the flow programs. */
#include "source/tcp/tcp.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sidelight/flow.h>

#include "base/base.h"
#include "source/tcp/bpf/shared.h"
#include "source/tcp/drop.h"
#include "source/tcp/feature.h"
#include "source/tcp/flow.skel.h"
#include "source/tcp/identity.h"
#include "source/tcp/netns.h"
#include "source/tcp/util.h"
#include "source/tcp/filter.h"

#define FLOWS_DEFAULT 16384u
#define JOURNAL_LEAST 1024u
/* sockets whose processes can be noted; without sockets, each takes 16 bytes */
#define HOLDERS_LEAST	  65536u
#define WALKS		  4 /* maximum number of walks over file descriptors */
#define LINES_PER_ELEMENT (SL_FLOW_SIZE / SL_LINE_SIZE)

struct tcp {
	struct flow_bpf *flow;
	struct tcp_hooks hooks;
	struct tcp_opts options;
	struct tcp_kernel_filter *filter; /* mapped */
	struct tcp_region region;
	struct bpf_link *iterator, *holders;
	struct tcp_identity *identity; /* set if options.cgroups is not 0 */
	bool attached;
	/* network namespace filter at the last walk over sockets; 0 means all */
	uint64_t netns_before;
	uint64_t missed;  /* number of skipped calls at the last walk */
	uint64_t next_ns; /* earliest time of the next walk, to limit the time spent walking */
};

/*
 * The programs of flow.bpf.c use tracepoints, and functions to count calls. Programs whose hook
 * this kernel lacks are left out; the first two programs are indispensable.
 */
static int choose_programs(struct tcp *t, char *why, size_t bytes)
{
	const struct tcp_hooks *h = &t->hooks;
	bool owner = t->options.calls || t->options.filter.pid, calls, exits;

#define TRACEPOINT(boundary) (tcp_hook_chosen(h, TCP_BOUNDARY_##boundary) == TCP_HOOK_TP)
	if (!TRACEPOINT(STATE) || tcp_hook_chosen(h, TCP_BOUNDARY_EXISTING) != TCP_HOOK_ITER)
		return base_fail(why, bytes, -ENOTSUP,
				 "this kernel lacks the tracepoint inet_sock_set_state or the "
				 "iterator tcp; see 'sidelight tcp probe'");
	calls = t->options.calls && TRACEPOINT(CALLS);
	exits = t->options.calls && tcp_hook_chosen(h, TCP_BOUNDARY_CALLS) == TCP_HOOK_FENTRY;
	bpf_program__set_autoload(t->flow->progs.flow_destroy, TRACEPOINT(CLOSE));
	bpf_program__set_autoload(t->flow->progs.flow_segment, TRACEPOINT(SEGMENT));
	bpf_program__set_autoload(t->flow->progs.flow_congestion, TRACEPOINT(CONGESTION));
	bpf_program__set_autoload(t->flow->progs.flow_retransmit, TRACEPOINT(RETRANSMIT));
	bpf_program__set_autoload(t->flow->progs.flow_reset_in, TRACEPOINT(RESET_IN));
	bpf_program__set_autoload(t->flow->progs.flow_reset_out, TRACEPOINT(RESET_OUT));
	bpf_program__set_autoload(t->flow->progs.flow_drop,
				  TRACEPOINT(DROP) && !t->flow->rodata->settings.remember);
	bpf_program__set_autoload(t->flow->progs.flow_drop_any,
				  TRACEPOINT(DROP) && t->flow->rodata->settings.remember);
	bpf_program__set_autoload(t->flow->progs.flow_send, calls);
	bpf_program__set_autoload(t->flow->progs.flow_receive, calls);
	bpf_program__set_autoload(t->flow->progs.flow_sent, exits);
	bpf_program__set_autoload(t->flow->progs.flow_received, exits);
	bpf_program__set_autoload(t->flow->progs.flow_owner, owner && TRACEPOINT(TCP_APP));
#undef TRACEPOINT
	return 0;
}

/* ---- the table ---- */

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

/* Returns the length of a jiffy in microseconds, which is the resolution of coarse clocks. */
static uint32_t tick_us(void)
{
	struct timespec t;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) || t.tv_sec || t.tv_nsec < 1000)
		return 4000;
	return (uint32_t)(t.tv_nsec / 1000);
}

static uint32_t cgroups_first(const struct tcp_flow_settings *s)
{
	return s->reasons_first + SL_DROP_REASONS / LINES_PER_ELEMENT;
}

/* Sizes the maps before the object is loaded. Returns 0 or -errno. */
static int size_table(struct flow_bpf *flow, const struct tcp_opts *o)
{
	struct tcp_flow_settings *s = (struct tcp_flow_settings *)&flow->rodata->settings;
	uint32_t slots = o->flows ? o->flows : FLOWS_DEFAULT, ring = power_of_two(slots);
	uint32_t journal = BASE_MAX(ring, JOURNAL_LEAST);

	if (slots > SL_FLOWS_MAX || o->cgroups >= SL_FLOW_CGROUPS_MAX)
		return -EINVAL;
	s->interval_ns = o->interval_ns ? o->interval_ns : 10000000;
	s->quarantine_ns = o->quarantine_ns ? o->quarantine_ns : 5000000000;
	s->slots = slots;
	s->ring_mask = ring - 1;
	s->near_shift = 31 - (uint32_t)__builtin_ctz(ring); /* tcp_near has two places per slot */
	s->journal_mask = journal - 1;
	s->journal_first = TCP_FLOWS_FIRST_ELEMENT + slots;
	s->tick_us = tick_us();
	flow->rodata->take_existing = o->existing;
	s->cgroups = o->cgroups ? o->cgroups + 1 : 0; /* slot 0 of the section holds its counters */
	s->drops_first = s->journal_first + journal / LINES_PER_ELEMENT;
	s->reasons_first = s->drops_first + (slots + LINES_PER_ELEMENT - 1) / LINES_PER_ELEMENT;
	s->remember = !tcp_drop_says_socket();
	return tcp_maps_size((const struct tcp_map_size[]){
		{flow->maps.tcp_flows, cgroups_first(s) + s->cgroups},
		{flow->maps.tcp_known, s->cgroups ? s->cgroups : 1},
		{flow->maps.tcp_states, slots},
		{flow->maps.tcp_free, slots},
		{flow->maps.tcp_holders, BASE_MAX(4 * slots, HOLDERS_LEAST)},
		{flow->maps.tcp_dirty, ring},
		{flow->maps.tcp_near, 2 * ring},
		{flow->maps.tcp_quarantine, ring},
		{0}});
}

/* Maps the table of a loaded object and writes its header. Returns 0 or -errno. */
static int map_table(struct tcp *t)
{
	const struct tcp_flow_settings *s =
		(const struct tcp_flow_settings *)&t->flow->rodata->settings;
	uint64_t journal = (uint64_t)s->journal_first * SL_FLOW_SIZE;
	uint64_t journal_bytes = ((uint64_t)s->journal_mask + 1) * SL_LINE_SIZE;
	uint64_t cgroups = (uint64_t)cgroups_first(s) * SL_FLOW_SIZE;
	uint64_t cgroups_bytes = (uint64_t)s->cgroups * SL_FLOW_CGROUP_SIZE;
	uint64_t reasons = (uint64_t)s->reasons_first * SL_FLOW_SIZE;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, TCP_FLOWS_HOT_ELEMENT * SL_FLOW_SIZE, SL_LINE_SIZE},
		{SL_SECTION_FLOWS, SL_FLOW_SIZE, TCP_FLOWS_FIRST_ELEMENT * SL_FLOW_SIZE,
		 (uint64_t)s->slots * SL_FLOW_SIZE},
		{SL_SECTION_JOURNAL, SL_LINE_SIZE, journal, journal_bytes},
		{SL_SECTION_DROPS, SL_LINE_SIZE, (uint64_t)s->drops_first * SL_FLOW_SIZE,
		 (uint64_t)s->slots * SL_LINE_SIZE},
		{SL_SECTION_DROP_REASONS, SL_LINE_SIZE, reasons, SL_DROP_REASONS * SL_LINE_SIZE},
		{SL_SECTION_CGROUPS, SL_FLOW_CGROUP_SIZE, cgroups, cgroups_bytes},
	};
	int err = tcp_region_map(&t->region, bpf_map__fd(t->flow->maps.tcp_flows),
				 cgroups + cgroups_bytes, SL_REGION_FLOWS, sections,
				 cgroups_bytes ? 6 : 5);

	if (!err)
		tcp_drop_names((uint64_t(*)[8])((char *)t->region.map + reasons));
	return err;
}

/* ---- opening ---- */

int tcp_open(const struct tcp_opts *options, struct tcp **out, char *why, size_t bytes)
{
	/* The boundaries that choose_programs() uses. */
	uint32_t boundaries = TCP_HOOKS_OF(TCP_APP) | TCP_HOOKS_OF(STATE) | TCP_HOOKS_OF(CLOSE) |
			      TCP_HOOKS_OF(SEGMENT) | TCP_HOOKS_OF(CONGESTION) |
			      TCP_HOOKS_OF(RETRANSMIT) | TCP_HOOKS_OF(RESET_IN) |
			      TCP_HOOKS_OF(RESET_OUT) | TCP_HOOKS_OF(EXISTING) | TCP_HOOKS_OF(DROP);
	struct tcp *t = calloc(1, sizeof(*t));
	int err;

	*out = NULL;
	snprintf(why, bytes, "out of memory");
	if (!t)
		return -ENOMEM;
	t->options = *options;
	/* Report invalid options before anything else. */
	err = tcp_filter_check(&t->options.filter, why, bytes);
	if (err)
		goto fail;
	if (t->options.calls)
		boundaries |= TCP_HOOKS_OF(CALLS);
	err = tcp_features_need(TCP_PART_FLOWS, why, bytes)
		      ?: tcp_hooks_choose(&t->hooks, boundaries, t->options.avoid, why, bytes);
	if (err)
		goto fail;
	t->flow = flow_bpf__open();
	err = t->flow ? size_table(t->flow, &t->options) : -errno;
	if (err == -EINVAL)
		snprintf(why, bytes, "a table cannot hold %u flows", t->options.flows);
	err = err ?: choose_programs(t, why, bytes) ?: tcp_load(t->flow->skeleton, "flow", why, bytes);
	if (err)
		goto fail;
	err = tcp_filter_map(bpf_map__fd(t->flow->maps.tcp_filter), &t->filter);
	err = err ?: map_table(t) ?: tcp_filter(t, &t->options.filter, why, bytes);
	if (!err && t->options.cgroups)
		err = tcp_identity_open(t->flow, &t->region, &t->identity);
	if (err)
		goto fail;
	*out = t;
	return 0;
fail:
	tcp_close(t);
	return err;
}

struct sockets {
	const struct tcp *t;
	int err;
};

static bool may_have_wanted(void *context, uint64_t inode)
{
	const struct sockets *s = context;

	/* After a filter change, include the previous namespace, so that its flows are closed. */
	return !s->err && (!s->t->filter->netns || s->t->filter->netns == inode ||
			   s->t->netns_before == inode || !s->t->netns_before);
}

static void iterate_namespace(void *context, uint64_t inode)
{
	struct sockets *s = context;

	(void)inode;
	s->err = tcp_iterate(s->t->iterator);
}

/* Walks the sockets of each namespace: an iterator only sees the namespace it was created in. */
static int iterate_sockets(struct tcp *t)
{
	struct sockets s = {.t = t};
	int err = tcp_netns_each(may_have_wanted, iterate_namespace, &s);

	t->netns_before = t->filter->netns;
	return err ? err : s.err;
}

/* Removes the holders of an earlier walk, among which are those of sockets that are closed. */
static void forget_holders(const struct tcp *t)
{
	int map = bpf_map__fd(t->flow->maps.tcp_holders);
	__u64 inode, next;

	for (int err = bpf_map_get_next_key(map, NULL, &inode); !err; inode = next) {
		err = bpf_map_get_next_key(map, &inode, &next);
		bpf_map_delete_elem(map, &inode);
	}
}

/*
 * Finds the processes of existing sockets, before another walk creates flows for these sockets. A
 * walk skips sockets for which there is no memory at that moment, so it is repeated. Afterwards,
 * flows are judged again at their next segment, because the owners of some are known now: the walk
 * over sockets does not reach namespaces that this process may not enter.
 */
static void find_holders(struct tcp *t)
{
	const __u64 *unheld = &t->flow->bss->unheld, *crowded = &t->flow->bss->crowded;
	uint64_t before, full = __atomic_load_n(crowded, __ATOMIC_RELAXED);
	int err = 0, walks = 0;

	if (!t->options.existing)
		return;
	forget_holders(t);
	do {
		before = __atomic_load_n(unheld, __ATOMIC_RELAXED);
		err = tcp_iterate(t->holders);
	} while (!err && before != __atomic_load_n(unheld, __ATOMIC_RELAXED) && ++walks < WALKS);
	__atomic_fetch_add(&t->filter->generation, 1, __ATOMIC_RELEASE);
	if (err)
		base_logf(BASE_WARN, "tcp",
			  "existing connections are shown without a process: cannot list file "
			  "descriptors: %s",
			  strerror(-err));
	full = __atomic_load_n(crowded, __ATOMIC_RELAXED) - full;
	if (full)
		base_logf(
			BASE_WARN, "tcp",
			"some existing connections are shown without a process: there are %" PRIu64
			" descriptors of TCP sockets too many to note",
			full);
}

int tcp_attach(struct tcp *t, char *why, size_t bytes)
{
	int err;

	bpf_program__set_autoattach(t->flow->progs.flow_existing, false);
	bpf_program__set_autoattach(t->flow->progs.flow_holders, false);
	t->holders = bpf_program__attach_iter(t->flow->progs.flow_holders, NULL);
	t->iterator = bpf_program__attach_iter(t->flow->progs.flow_existing, NULL);
	err = t->holders && t->iterator ? flow_bpf__attach(t->flow) : -errno;
	if (!err)
		find_holders(t);
	/* Walk after attaching the hooks, so that a new connection is seen at least once. */
	err = err ? err
		  : tcp_iterate_until(t->flow->progs.flow_existing, &t->flow->bss->timer_ready);
	t->netns_before = t->filter->netns;
	err = err ? err : iterate_sockets(t);
	if (err)
		snprintf(why, bytes, "cannot attach the flow programs: %s", strerror(-err));
	t->attached = !err;
	return err;
}

int tcp_catch_up(struct tcp *t, uint64_t *missed)
{
	uint64_t sum = t->flow->bss->unopened, skipped, now = base_now_ns();
	int err = tcp_skipped_calls(t->flow->obj, &skipped);

	if (err)
		return err;
	sum += skipped;
	if (sum != t->missed && t->attached && now >= t->next_ns) {
		find_holders(t);
		err = iterate_sockets(t);
		t->next_ns = base_now_ns() + 20 * (base_now_ns() - now);
		/* After a failure, keep the old number, so that the next call tries again. */
		if (!err)
			t->missed = sum;
	}
	if (missed)
		*missed = sum;
	return err;
}

int tcp_filter(struct tcp *t, const struct tcp_filter *filter, char *why, size_t bytes)
{
	int err;

	/* A segment that arrives after the change is judged by the process of its socket. */
	if (t->attached)
		find_holders(t);
	err = tcp_filter_set(t->filter, filter, bpf_map__fd(t->flow->maps.tcp_cidrs),
			     bpf_map__fd(t->flow->maps.tcp_cgroups), why, bytes);
	return err || !t->attached ? err : iterate_sockets(t);
}

const struct tcp_region *tcp_region(const struct tcp *t)
{
	return &t->region;
}

struct tcp_identity *tcp_identity(const struct tcp *t)
{
	return t->identity;
}

void tcp_close(struct tcp *t)
{
	if (!t)
		return;
	tcp_identity_close(t->identity);
	bpf_link__destroy(t->iterator);
	bpf_link__destroy(t->holders);
	tcp_region_unmap(&t->region);
	tcp_filter_unmap(t->filter);
	flow_bpf__destroy(t->flow);
	free(t);
}
