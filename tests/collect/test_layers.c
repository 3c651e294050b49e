// SPDX-License-Identifier: Apache-2.0
/*
 * test_layers.c - layers and scheduler time: each count of a slot is taken once, and assigned to
 * the slot's owner.
 */
#include <math.h>
#include <string.h>

#include <sidelight/task.h>

#include "../region/make_flows.h"
#include "fixture.h"
#include "collect/tables/tables.h"

#define SECOND 1000000000ull
#define GROUPS 40u
#define CPUS   2u

static const struct collect_collector_opts fast = {.period_ns = 5 * MS};
static const struct collect_tables_opts often = {.period_ns = 5 * MS};

/* A table of layers or of tasks, of which only the slots of groups and of cgroups are written. */
struct table {
	uint64_t *mem, *hot, *loss, *slot;
	size_t size, stride; /* bytes */
	uint64_t instance;
	uint32_t kind;
};

static void seal(uint64_t *line)
{
	line[7] = sl_line_check(line);
}

static void table_make(struct table *t, uint32_t kind, uint64_t instance)
{
	bool layers = kind == SL_REGION_LAYERS;
	uint64_t one = layers ? SL_LAYER_SLOT_SIZE : SL_TASK_SIZE;
	uint64_t stride = layers ? one : CPUS * one;
	uint64_t losses = layers ? 2 * one : SL_TASKS_LOSSES_AT, cpus = layers ? CPUS : 1;
	uint64_t loss_stride = layers ? one : SL_LINE_SIZE;
	uint64_t first = layers ? 5 * one : SL_TASKS_FIRST * one, slots = first + one;
	struct sl_region_header *h;

	*t = (struct table){.kind = kind, .instance = instance, .stride = stride};
	t->size = (slots + GROUPS * stride + 4095) & ~4095ull;
	t->mem = aligned_alloc(4096, t->size);
	memset(t->mem, 0, t->size);
	t->hot = t->mem + SL_HEADER_SIZE / 8;
	t->loss = t->mem + losses / 8;
	t->slot = t->mem + slots / 8;
	h = (struct sl_region_header *)t->mem;
	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = t->size;
	h->kind = kind;
	h->pid = 1;
	h->start_ns = 1;
	h->instance = instance;
	h->section_count = 4;
	h->section[0] = (struct sl_region_section){SL_SECTION_HOT, SL_LINE_SIZE, SL_HEADER_SIZE,
						   SL_LINE_SIZE};
	h->section[1] = (struct sl_region_section){SL_SECTION_LOSSES, (uint32_t)loss_stride, losses,
						   cpus * loss_stride};
	h->section[2] = (struct sl_region_section){
		layers ? SL_SECTION_LAYER_FLOWS : SL_SECTION_TASKS, (uint32_t)one, first, one};
	h->section[3] = (struct sl_region_section){layers ? SL_SECTION_LAYER_GROUPS
							  : SL_SECTION_TASK_CGROUPS,
						   (uint32_t)stride, slots, GROUPS * stride};
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

static uint64_t *line_of(struct table *t, uint32_t slot, uint32_t line)
{
	return t->slot + (slot * t->stride + (size_t)line * SL_LINE_SIZE) / 8;
}

/* Changes are made under the host's lock: a reader sees all of them or, torn, none. */
#define CHANGE(h, ...)                            \
	do {                                      \
		pthread_mutex_lock(&(h)->lock);   \
		__VA_ARGS__;                      \
		pthread_mutex_unlock(&(h)->lock); \
	} while (0)

static void used(struct table *t, uint32_t slots)
{
	t->hot[t->kind == SL_REGION_LAYERS ? SL_LAYERS_GROUPS_USED : SL_TASKS_CGROUPS_USED] = slots;
	seal(t->hot);
}

static void group(struct table *t, uint32_t slot, uint64_t generation, enum sl_role role,
		  uint16_t port, uint64_t cgroup)
{
	uint64_t *key = line_of(t, slot, 0);

	memset(key, 0, t->stride);
	key[SL_SLOT_STATE] = generation << 16 | (uint64_t)role << 8 | SL_SLOT_OPEN;
	key[SL_SLOT_PORTS] = port;
	key[SL_SLOT_CGROUP] = cgroup;
	seal(key);
}

static void count(struct table *t, uint32_t slot, enum sl_slot_count what, uint64_t n)
{
	uint64_t *line = line_of(t, slot, SL_SLOT_COUNTS / 8);

	line[what] += n;
	seal(line);
}

/* Adds n observations to a cell of a layer's histogram, with a sum of ns. */
static void observe(struct table *t, uint32_t slot, enum sl_layer layer, uint32_t cell, uint64_t n,
		    uint64_t ns)
{
	uint32_t first = SL_SLOT_HISTOGRAMS / 8 + layer * 8;
	uint64_t *sum = line_of(t, slot, first), *at = line_of(t, slot, first + cell / 7);

	sum[SL_LAYER_SUM] += ns;
	seal(sum);
	at[cell % 7] += n;
	seal(at);
}

static void put_table(struct mock_host *h, uint32_t index, uint64_t id, struct table *t)
{
	mock_put_kind(h, index, id, t->mem, t->size, SL_STATE_LIVE, t->instance, t->kind);
}

/* A table of connections without entries, which names the owner of cgroup 7. */
static void put_names(struct mock_host *h, struct make_flows *m)
{
	static const char *const cart[SL_CGROUP_TEXTS] = {"shop", "cart-0", "app", "cart", "/k/1"};

	make_flows_named(m, 8, 16, 8, 9);
	make_flows_name(m, 1, 7, cart);
	make_flows_publish(m, 0, SECOND);
	mock_put_flows(h, 0, 1, m->mem, m->size, SL_STATE_LIVE, 9);
}

#define CART		      "pod=\"cart-0\",container=\"app\",service=\"cart\""
#define VALUE(name, labels)   self_value(c, "sidelight_" name, labels)
#define LAYER(suffix, labels) VALUE("tcp_layer_seconds_" suffix, labels)
#define STACK(suffix, labels) VALUE("tcp_stack_seconds_" suffix, labels)
#define LOST(cause)	      VALUE("host_kernel_lost_total", "cause=\"" cause "\"")

static void two_passes(struct mock_host *h, uint64_t id)
{
	uint64_t from = reads_of(h, id), until = base_now_ns() + 60 * SECOND;

	/* Hot line, slots and losses of two passes, and of the one in progress. */
	while (reads_of(h, id) < from + 3 * (2 + CPUS) && base_now_ns() < until)
		usleep(500);
}

static void counts_layers_exactly_once(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct make_flows m;
	struct table t;

	(void)state;
	put_names(h, &m);
	table_make(&t, SL_REGION_LAYERS, 5);
	group(&t, 1, 1, SL_ROLE_SERVER, 80, 7);
	count(&t, 1, SL_COUNT_REQUESTS, 1000);
	observe(&t, 1, SL_LAYER_APP, SL_LAYER_OVER, 1000, 1);
	used(&t, 2);
	put_table(h, 1, 2, &t);
	c = start_tables(&o, &often);
	/* Earlier counts are not added. */
	two_passes(h, 2);
	CHANGE(h, count(&t, 1, SL_COUNT_REQUESTS, 3); count(&t, 1, SL_COUNT_COMPLETE, 2);
	       count(&t, 1, SL_COUNT_INCOMPLETE, 1); count(&t, 1, SL_COUNT_UNATTRIBUTED, 4);
	       count(&t, 1, SL_COUNT_PIPELINED, 1);
	       observe(&t, 1, SL_LAYER_APP, SL_LAYER_ZERO, 1, 60);
	       observe(&t, 1, SL_LAYER_APP, SL_LAYER_BUCKETS, 1, 70); /* up to 2^-23.5 s */
	       observe(&t, 1, SL_LAYER_APP, SL_LAYER_OVER, 1, 7 * SECOND);
	       observe(&t, 1, SL_LAYER_TOTAL, SL_LAYER_BUCKETS + 1, 2, 200));
	WITHIN(3000, VALUE("tcp_requests_total", CART) == 3);
	assert_true(VALUE("tcp_requests_total", "port=\"80\",role=\"server\"") == 3);
	assert_true(VALUE("tcp_requests_measured_total", CART) == 2);
	assert_true(VALUE("tcp_requests_incomplete_total", CART) == 1);
	assert_true(VALUE("tcp_requests_pipelined_total", CART) == 1);
	assert_true(VALUE("tcp_unattributed_total", CART) == 4);
	assert_true(LAYER("count", "layer=\"app\"") == 3);
	assert_true(LAYER("sum", "layer=\"app\"") == 7000000130 / 1e9);
	assert_true(LAYER("bucket", "layer=\"app\",port=\"80\",role=\"server\",le=\"2.38418") == 2);
	assert_true(LAYER("bucket", "layer=\"app\",port=\"80\",role=\"server\",le=\"4\"") == 2);
	assert_true(LAYER("bucket", "layer=\"app\",port=\"80\",role=\"server\",le=\"+Inf") == 3);
	assert_true(STACK("count", "layer=\"tcp_in\"") == 0);
	assert_true(VALUE("tcp_request_seconds_count", NULL) == 2);
	/*
	 * A new group counts from zero; the port of a client's group is the port that it connected
	 * to.
	 */
	CHANGE(h, group(&t, 2, 1, SL_ROLE_CLIENT, 443, 7);
	       observe(&t, 2, SL_LAYER_MAC_IN, SL_LAYER_ZERO, 5, 100);
	       group(&t, 3, 1, SL_ROLE_UNKNOWN, 40000, 8); count(&t, 3, SL_COUNT_REQUESTS, 11);
	       count(&t, 0, SL_COUNT_REQUESTS, 17); /* found no group */
	       used(&t, 4));
	/* In text, the stack's layers are those of all ports. */
	WITHIN(3000, STACK("count", "layer=\"mac_in\",role=\"client\"") == 5);
	CHANGE(h, group(&t, 4, 1, SL_ROLE_CLIENT, 444, 7);
	       observe(&t, 4, SL_LAYER_MAC_IN, SL_LAYER_ZERO, 2, 50); used(&t, 5));
	WITHIN(3000, STACK("count", "layer=\"mac_in\",role=\"client\"") == 7);
	assert_true(STACK("sum", "layer=\"mac_in\"") == 150 / 1e9);
	assert_true(STACK("count", "port=") == -1 && LAYER("count", "layer=\"mac_in\"") == -1);
	WITHIN(3000, VALUE("tcp_requests_total", "unit=\"(other)\"") == 17);
	/* Its owner is not known. */
	WITHIN(10000, VALUE("tcp_requests_total", "unit=\"(unknown)\"") == 11);
	assert_true(VALUE("tcp_requests_total", "port=\"other\",role=\"unknown\"") == 28);
	/* A line that is torn for a while only costs time. */
	CHANGE(h, count(&t, 1, SL_COUNT_REQUESTS, 1); line_of(&t, 1, SL_SLOT_COUNTS / 8)[7]++;
	       observe(&t, 1, SL_LAYER_APP, SL_LAYER_ZERO, 1, 60));
	WITHIN(3000, LAYER("count", "layer=\"app\",port=\"80\"") == 4);
	assert_true(VALUE("tcp_requests_total", "port=\"80\"") == 3);
	CHANGE(h, count(&t, 1, SL_COUNT_REQUESTS, 1));
	WITHIN(3000, VALUE("tcp_requests_total", "port=\"80\"") == 5);
	/*
	 * Its slot now belongs to another group, whose values may be smaller: none of them counts
	 * for the first.
	 */
	CHANGE(h, group(&t, 1, 2, SL_ROLE_SERVER, 81, 7); count(&t, 1, SL_COUNT_REQUESTS, 2000));
	WITHIN(3000, VALUE("tcp_requests_total", "port=\"81\"") == 2000);
	assert_true(VALUE("tcp_requests_total", "port=\"80\"") == 5);
	assert_true(VALUE("collector_tcp_lost_total", "cause=\"slot_reused\"") == 1);
	/* Counts that the programs could not attribute, on all CPUs. */
	for (uint32_t i = 0; i < CPUS; i++)
		CHANGE(h, t.loss[i * SL_LAYER_SLOT_SIZE / 8 + SL_CAUSE_RETRANSMIT / 7 * 8 +
				 SL_CAUSE_RETRANSMIT % 7] = 4;
		       seal(t.loss + i * SL_LAYER_SLOT_SIZE / 8 + SL_CAUSE_RETRANSMIT / 7 * 8));
	WITHIN(3000, LOST("retransmit") == 4 * CPUS);
	assert_true(LOST("no_nic") == -1);
	collect_collector_free(c);
	make_flows_free(&m);
	free(t.mem);
}

static void cgroup(struct table *t, uint32_t slot, uint64_t generation,
		   enum sl_cpu_slot_state state, uint64_t id)
{
	uint64_t *key = line_of(t, slot, 0);

	if (state == SL_CPU_LIVE)
		memset(key, 0, t->stride);
	key[SL_CPU_CGROUP_GENERATION] = generation << 2 | state;
	key[SL_CPU_CGROUP_ID] = id;
	seal(key);
}

static void usage(struct table *t, uint32_t slot, uint32_t cpu, uint64_t run_ns, uint64_t wait_ns,
		  uint32_t bucket)
{
	uint32_t first = cpu * (SL_TASK_SIZE / SL_LINE_SIZE);
	uint64_t *n = line_of(t, slot, first + 1);
	uint64_t *wait = line_of(t, slot, first + 2 + bucket / 7);

	n[SL_CPU_RUN_NS] += run_ns;
	n[SL_CPU_WAIT_NS] += wait_ns;
	n[SL_CPU_INVOLUNTARY]++;
	seal(n);
	wait[bucket % 7]++;
	seal(wait);
}

/* 12 services of a host, and their clients on the same host, as a first installation has them. */
static void put_services(struct mock_host *h, struct make_flows *m, struct table *layers,
			 struct table *tasks)
{
	make_flows(m, 64, 16, 9);
	for (uint32_t i = 0; i < 24; i++) {
		uint16_t service = (uint16_t)(8000 + i / 2), other = (uint16_t)(33000 + i);
		struct region_flow f = {
			.id = i + 1,
			.open_ns = 300 * SECOND, /* the opening of the connection is counted */
			.changed_ns = 300 * SECOND,
			.state = SL_STATE_LIVE,
			.tcp_state = 1,
			.family = 4,
			.local_port = i % 2 ? other : service,
			.remote_port = i % 2 ? service : (uint16_t)(other + 1),
			.flags = i % 2 ? SL_FLOW_ACTIVE : 0,
			.handshake_us = 100,
			.srtt_us = 100,
			.rtt_sum_us = 100,
			.rtt_count = 1,
			.cgroup = 7,
		};

		make_flow(m, i, &f);
		group(layers, i + 1, 1, i % 2 ? SL_ROLE_CLIENT : SL_ROLE_SERVER, service, 7);
	}
	make_flows_publish(m, 24, 200 * SECOND);
	mock_put_flows(h, 0, 1, m->mem, m->size, SL_STATE_LIVE, 9);
	cgroup(tasks, 1, 1, SL_CPU_LIVE, 7);
	used(layers, 25);
	used(tasks, 2);
	put_table(h, 1, 2, layers);
	put_table(h, 2, 3, tasks);
}

static void serve_requests(struct mock_host *h, struct table *layers, struct table *tasks)
{
	for (uint32_t i = 0; i < 24; i++)
		for (enum sl_layer k = 0; k < SL_LAYERS; k++)
			if (i % 2 == 0 || (k != SL_LAYER_APP && k != SL_LAYER_TOTAL))
				CHANGE(h, observe(layers, i + 1, k, SL_LAYER_BUCKETS + 20, 1, 1));
	CHANGE(h, usage(tasks, 1, 0, SECOND, SECOND / 2, 30));
}

static void twelve_services_take_few_lines(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct table layers, tasks;
	struct collect_collector *c;
	struct make_flows m;
	unsigned int lines = 0;
	char *text;

	(void)state;
	table_make(&layers, SL_REGION_LAYERS, 5);
	table_make(&tasks, SL_REGION_TASKS, 6);
	put_services(h, &m, &layers, &tasks);
	c = start_tables(&o, &often);
	two_passes(h, 2);
	two_passes(h, 3);
	serve_requests(h, &layers, &tasks);
	WITHIN(20000, VALUE("tcp_connections", NULL) == 24 &&
			      VALUE("tcp_rtt_seconds_count", NULL) == 24 &&
			      LAYER("count", "layer=\"app\"") == 12 &&
			      VALUE("tcp_request_seconds_count", NULL) == 12 &&
			      VALUE("cpu_wait_duration_seconds_count", NULL) == 1);
	text = scrape(c);
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	free(text);
	print_message("%u lines\n", lines);
	if (lines >= 2000)
		fail_msg("%u lines", lines);
	collect_collector_free(c);
	make_flows_free(&m);
	free(layers.mem);
	free(tasks.mem);
}

static void take_view(const struct collect_layers_view *v, void *arg)
{
	if (!strcmp(v->port, "80"))
		*(uint64_t *)arg = v->late->count[SL_COUNT_REQUESTS] << 32 |
				   v->all->count[SL_COUNT_REQUESTS];
}

static uint64_t late_and_all(struct collect_collector *c)
{
	uint64_t seen_now = 0;

	collect_collector_layers(c, take_view, &seen_now);
	return seen_now;
}

static int64_t clock_ahead_ns; /* of CLOCK_REALTIME, as the collector sees it */
uint64_t __real_base_realtime_ns(void);
uint64_t __wrap_base_realtime_ns(void);
uint64_t __wrap_base_realtime_ns(void)
{
	return __real_base_realtime_ns() + (uint64_t)GET(clock_ahead_ns);
}

static void take_late_ns(const struct collect_layers_view *v, void *arg)
{
	if (!strcmp(v->port, "80"))
		*(int64_t *)arg = v->late_ns;
}

/* Otherwise, the latest counts would be those since then until the clock has caught up. */
static void late_layers_survive_a_clock_set_back(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	int64_t late_ns = 0;
	struct make_flows m;
	struct table t;

	(void)state;
	__atomic_store_n(&clock_ahead_ns, 3600 * (int64_t)SECOND, __ATOMIC_RELAXED);
	put_names(h, &m);
	table_make(&t, SL_REGION_LAYERS, 5);
	group(&t, 1, 1, SL_ROLE_SERVER, 80, 7);
	used(&t, 2);
	put_table(h, 1, 2, &t);
	c = start_tables(&o, &often);
	two_passes(h, 2);
	CHANGE(h, count(&t, 1, SL_COUNT_REQUESTS, 6));
	WITHIN(3000, late_and_all(c) == (6ull << 32 | 6));
	WITHIN(3000, (collect_collector_layers(c, take_late_ns, &late_ns), late_ns > 0));
	__atomic_store_n(&clock_ahead_ns, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < 5; i++)
		two_passes(h, 2);
	collect_collector_layers(c, take_late_ns, &late_ns);
	assert_in_range(late_ns, 1, 60 * SECOND);
	/* What was counted before is not within this time. */
	assert_true(late_and_all(c) == 6);
	collect_collector_free(c);
	free(t.mem);
	make_flows_free(&m);
}

static void layer_sums_outlive_the_agent(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct table t, n;

	(void)state;
	o.stale_ns = 100 * MS;
	table_make(&t, SL_REGION_LAYERS, 5);
	used(&t, 1);
	put_table(h, 1, 2, &t);
	c = start_tables(&o, &often);
	two_passes(h, 2);
	CHANGE(h, group(&t, 1, 1, SL_ROLE_SERVER, 80, 7); count(&t, 1, SL_COUNT_REQUESTS, 6);
	       used(&t, 2));
	/* No table of connections, so that no owner has a name. */
	WITHIN(10000, VALUE("tcp_requests_total", "unit=\"(unknown)\"") == 6);
	assert_true(late_and_all(c) == (6ull << 32 | 6));
	mock_set(h, false);
	WITHIN(3000, !mentions(c, "sidelight_tcp_requests_total"));
	/* Another agent counts from zero, so all of its counts are new. */
	table_make(&n, SL_REGION_LAYERS, 6);
	group(&n, 1, 1, SL_ROLE_SERVER, 80, 7);
	count(&n, 1, SL_COUNT_REQUESTS, 3);
	used(&n, 2);
	mock_restart(h);
	put_table(h, 1, 2, &n);
	mock_set(h, true);
	WITHIN(10000, VALUE("tcp_requests_total", "port=\"80\"") == 9);
	collect_collector_free(c);
	free(t.mem);
	free(n.mem);
}

static void task_time_belongs_to_its_cgroup(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct make_flows m;
	struct table t;

	(void)state;
	put_names(h, &m);
	table_make(&t, SL_REGION_TASKS, 5);
	cgroup(&t, 1, 1, SL_CPU_LIVE, 7);
	usage(&t, 1, 0, 500 * SECOND, 0, 0);
	used(&t, 2);
	put_table(h, 1, 2, &t);
	c = start_tables(&o, &often);
	two_passes(h, 2);
	CHANGE(h, usage(&t, 1, 0, SECOND, SECOND / 2, 0); usage(&t, 1, 1, SECOND, 0, 55));
	WITHIN(3000, VALUE("cpu_seconds_total", CART) == 2);
	assert_true(VALUE("cpu_wait_seconds_total", CART) == 0.5);
	assert_true(VALUE("cpu_switches_total", "cause=\"involuntary\"") == 2);
	assert_true(VALUE("cpu_wait_duration_seconds_count", CART) == 2);
	/* The first bucket ends at 2^-21.5 s; values above the last bucket only count in +Inf. */
	assert_true(VALUE("cpu_wait_duration_seconds_bucket", "le=\"1.52587") == 1);
	assert_true(VALUE("cpu_wait_duration_seconds_bucket", "le=\"+Inf") == 2);
	/* The cgroup ends, and another gets its slot: its last values count once, for itself. */
	CHANGE(h, usage(&t, 1, 0, SECOND, 0, 3); cgroup(&t, 1, 1, SL_CPU_ENDED, 7));
	WITHIN(3000, VALUE("cpu_seconds_total", CART) == 3);
	two_passes(h, 2);
	CHANGE(h, cgroup(&t, 1, 2, SL_CPU_LIVE, 8); usage(&t, 1, 0, 9 * SECOND, 0, 3));
	WITHIN(10000, VALUE("cpu_seconds_total", "unit=\"(unknown)\"") == 9);
	assert_true(VALUE("cpu_seconds_total", CART) == 3);
	assert_true(VALUE("collector_tcp_lost_total", "cause=\"slot_reused\"") == 0);
	CHANGE(h, t.loss[SL_TASK_LOSS_UNTRACKED] = 6; seal(t.loss));
	WITHIN(3000, LOST("untracked") == 6);
	collect_collector_free(c);
	make_flows_free(&m);
	free(t.mem);
}

static void drops_a_lying_layer_table_by_cause(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct make_flows m;
	struct table t, bad;

	(void)state;
	o.dropped_ns = 50 * MS;
	put_names(h, &m);
	table_make(&t, SL_REGION_LAYERS, 5);
	used(&t, 1);
	put_table(h, 1, 2, &t);
	c = start_tables(&o, &often);
	two_passes(h, 2);
	/* An invalid role; once it is valid again, reading goes on. */
	CHANGE(h, group(&t, 1, 1, (enum sl_role)9, 80, 7); used(&t, 2));
	WITHIN(3000, faults(c, "hot") >= 1);
	CHANGE(h, group(&t, 1, 1, SL_ROLE_SERVER, 80, 7); count(&t, 1, SL_COUNT_REQUESTS, 6));
	WITHIN(5000, VALUE("tcp_requests_total", "port=\"80\"") == 6);
	/* A full table reports more slots than it has; fewer than before is a lie. */
	CHANGE(h, used(&t, GROUPS + 7));
	two_passes(h, 2);
	assert_true(VALUE("collector_tcp_slots_refused", NULL) == 0);
	CHANGE(h, used(&t, 1));
	WITHIN(3000, faults(c, "hot") >= 2);
	/* A header without the groups. */
	table_make(&bad, SL_REGION_TASKS, 6);
	((struct sl_region_header *)bad.mem)->section[3].type = SL_SECTION_LAYER_GROUPS;
	((struct sl_region_header *)bad.mem)->check =
		sl_fnv1a(SL_FNV_BASIS, bad.mem, offsetof(struct sl_region_header, check));
	put_table(h, 2, 3, &bad);
	WITHIN(3000, faults(c, "section") >= 1);
	collect_collector_free(c);
	make_flows_free(&m);
	free(t.mem);
	free(bad.mem);
}

static void layer_sums_survive_tears(void **state)
{
	const struct collect_tables_opts tables = {.period_ns = 2 * MS, .groups = 1000};
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	uint64_t requests = 0, app = 0, random = 7;
	struct collect_collector *c;
	struct make_flows m;
	struct table t;

	(void)state;
	put_names(h, &m);
	table_make(&t, SL_REGION_LAYERS, 5);
	used(&t, 1);
	put_table(h, 1, 2, &t);
	h->tear = 2;
	h->shuffle = true;
	c = start_tables(&o, &tables);
	two_passes(h, 2);
	for (uint32_t i = 1; i < GROUPS; i++)
		CHANGE(h, group(&t, i, 1, SL_ROLE_SERVER, (uint16_t)(i % 9 + 1), 7);
		       used(&t, i + 1));
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t slot = 1 + (uint32_t)(random >> 33) % (GROUPS - 1);

		CHANGE(h, count(&t, slot, SL_COUNT_REQUESTS, i);
		       observe(&t, slot, SL_LAYER_APP, 1 + i % 55, 2, i));
		requests += i;
		app += 2;
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		if (i % 100 == 0)
			usleep(1000);
	}
	WITHIN(10000, VALUE("tcp_requests_total", CART) == (double)requests);
	WITHIN(3000, LAYER("count", "layer=\"app\"") == (double)app);
	/* Of nine ports, whose sums are seconds. */
	assert_int_equal(llround(LAYER("sum", "layer=\"app\"") * 1e9), requests);
	assert_true(VALUE("collector_tcp_lost_total", "cause=\"unsettled\"") > 0);
	collect_collector_free(c);
	make_flows_free(&m);
	free(t.mem);
}

static void a_layer_table_that_changes_harms_no_other(void **state)
{
	static const char *const hosts[] = {"one", "two"};
	struct collect_collector_opts o = {
		.agents = hosts, .agent_count = 2, .period_ns = MS, .dropped_ns = 20 * MS};
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct make_flows m;
	struct table t[2];
	struct pod good;

	(void)state;
	honest_host(&good);
	put_names(h, &m);
	for (uint32_t i = 0; i < 2; i++) {
		table_make(&t[i], i ? SL_REGION_TASKS : SL_REGION_LAYERS, 5 + i);
		group(&t[i], 1, 1, SL_ROLE_SERVER, 80, 7);
		used(&t[i], 2);
		put_table(h, 1 + i, 2 + i, &t[i]);
	}
	c = start_tables(&o, &often);
	two_passes(h, 2);
	WITHIN(3000, self_value(c, "good_total", NULL) == 43);
	for (uint32_t i = 0; i < 2; i++)
		mutate(h, t[i].mem, t[i].size, c);
	collect_collector_free(c);
	for (uint32_t i = 0; i < 2; i++)
		free(t[i].mem);
	make_flows_free(&m);
	make_free(&good.m);
}

const struct CMUnitTest layers_tests[] = {
	TEST(a_layer_table_that_changes_harms_no_other),
	TEST(counts_layers_exactly_once),
	TEST(layer_sums_outlive_the_agent),
	TEST(late_layers_survive_a_clock_set_back),
	TEST(task_time_belongs_to_its_cgroup),
	TEST(drops_a_lying_layer_table_by_cause),
	TEST(layer_sums_survive_tears),
	TEST(twelve_services_take_few_lines),
	{0},
};
