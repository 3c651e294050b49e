// SPDX-License-Identifier: Apache-2.0
/* proxy.c - writes regions for REST clients in region format 1. All functions need the lock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/peer.h"
#include "agent/proxy.h"
#include "base/hash.h"
#include "region/text.h"

#define HOT		  4096u
#define STRIPES		  8192u
#define SCHEMA_PER_METRIC 256u /* average number of schema bytes per metric */

struct proxy_known {	 /* a metric of the region; the index is its cell */
	uint64_t hash;	 /* hash of name and labels */
	uint32_t record; /* offset of its record in the schema */
};

struct agent_proxy {
	struct base_node node; /* in the table until the region is retired */
	char *microservice;
	uint64_t key; /* key of the tenant */
	struct agent_region *region;
	struct proxy_known *known;
	uint32_t count, max;
	uint64_t hot[7]; /* copy of the hot line in the region */
	struct agent_timer idle;
};

static void restart_idle_timer(struct agent *a, struct agent_proxy *p)
{
	agent_timer_start(a, TIMER_IDLE, &p->idle);
}

static uint64_t *address_at(const struct agent_region *r, uint64_t offset)
{
	return (uint64_t *)((char *)r->map + offset);
}

static void publish_hot(struct agent_region *r)
{
	struct agent_proxy *p = r->proxy;

	p->hot[SL_HOT_CHANGED_NS] = base_realtime_ns();
	region_store_line(address_at(r, HOT), p->hot);
}

/* The agent owns the memory, but admits it like any other region. */
static int make_region(struct agent *a, const struct agent_rest_caller *caller,
		       const char *microservice, uint32_t metrics,
		       const struct region_text_label *labels, size_t count,
		       struct agent_region **out, struct agent_refused *why)
{
	uint64_t stripe = ((metrics + SL_LINE_CELLS - 1) / SL_LINE_CELLS * SL_LINE_SIZE + 4095) &
			  ~4095ull;
	uint64_t schema = ((uint64_t)metrics * SCHEMA_PER_METRIC + 4095) & ~4095ull;
	struct sl_region_section section[3] = {
		{.type = SL_SECTION_HOT, .stride = 64, .offset = HOT, .length = 64},
		{.type = SL_SECTION_STRIPES,
		 .stride = (uint32_t)stripe,
		 .offset = STRIPES,
		 .length = stripe},
		{.type = SL_SECTION_SCHEMA,
		 .stride = 8,
		 .offset = STRIPES + stripe,
		 .length = schema},
	};
	struct region_text_label all[SL_LABELS_MAX] = {
		{"service", microservice},
		{"pod", a->host},
	};
	struct agent_build b = {
		.kind = SL_REGION_METRICS,
		.size = STRIPES + stripe + schema,
		.section = section,
		.section_count = 3,
		.labels = all,
		.label_count = 2,
	};
	struct sl_msg_publish say = {.size = b.size};
	struct agent_peer *peer;
	void *map;
	int fd, err;

	for (size_t i = 0; i < count; i++) {
		size_t j = 0;

		while (j < b.label_count && strcmp(all[j].key, labels[i].key))
			j++;
		if (j == SL_LABELS_MAX)
			return agent_refuse(why, REFUSED_HEADER, EINVAL, "more than %u labels",
					    SL_LABELS_MAX);
		all[j] = labels[i];
		b.label_count += j == b.label_count;
	}
	err = agent_build_region(&b, "sidelight-rest", &fd, &map, &say.instance);
	if (err)
		return agent_refuse(why, REFUSED_SYSTEM, -err,
				    "cannot create a region of %llu bytes: %s",
				    (unsigned long long)b.size, strerror(-err));
	munmap(map, b.size); /* admission maps the memory again, in the arena */
	/* the memory is charged to the caller's tenant */
	peer = agent_peer_as(a, getpid(), &caller->id);
	if (peer) {
		err = agent_region_admit(a, fd, &say, NULL, peer, false, out, why);
		agent_peer_put(a, peer);
	} else {
		err = agent_refuse(why, REFUSED_SYSTEM, ENOMEM, "out of memory");
	}
	close(fd);
	return err;
}

static uint32_t count_of(const struct agent *a, uint64_t key)
{
	uint32_t n = 0;

	BASE_TABLE_EACH(&a->proxies, at)
		n += ((const struct agent_proxy *)at)->key == key;
	return n;
}

/* The label "service" keeps the series of a user's microservices apart. */
int agent_proxy_open(struct agent *a, const struct agent_rest_caller *caller,
		     const char *microservice, uint32_t metrics,
		     const struct region_text_label *labels, size_t count,
		     struct agent_region **out, bool *created, struct agent_refused *why)
{
	uint64_t h = base_hash_text(0, microservice);
	struct agent_proxy *p = base_table_first(&a->proxies, h);
	uint32_t most = BASE_MIN(a->o.max_regions / 2, PROXIES_MAX);
	struct agent_region *r;

	*created = false;
	while (p && (p->key != caller->key || strcmp(p->microservice, microservice)))
		p = base_table_next(p);
	if (p) {
		*out = p->region;
		if (p->region->state == SL_STATE_CLOSED)
			agent_region_revive(a, p->region);
		restart_idle_timer(a, p);
		return 0;
	}
	if (a->proxies.count >= (most ? most : 1))
		return agent_refuse(why, REFUSED_QUOTA, EDQUOT, "too many microservices (%u)",
				    (uint32_t)a->proxies.count);
	if (!caller->trusted && count_of(a, caller->key) >= (most / PROXIES_PART ?: 1))
		return agent_refuse(why, REFUSED_QUOTA, EDQUOT,
				    "uid %d has reached its limit of microservices: %u of %u",
				    (int)caller->id.uid, most / PROXIES_PART ?: 1, most);
	metrics = metrics ?: PROXY_METRICS;
	p = calloc(1, sizeof(*p));
	if (p) {
		p->microservice = strdup(microservice);
		p->known = calloc(metrics, sizeof(*p->known));
	}
	if (!p || !p->microservice || !p->known) {
		agent_refuse(why, REFUSED_SYSTEM, ENOMEM, "out of memory");
		goto err;
	}
	if (make_region(a, caller, microservice, metrics, labels, count, &r, why))
		goto err;
	p->key = caller->key;
	p->max = metrics;
	p->region = r;
	p->hot[SL_HOT_GENERATION] = 1;
	p->hot[SL_HOT_STRIPES_USED] = 1;
	p->hot[SL_HOT_STATE] = SL_STATE_LIVE;
	base_table_add(&a->proxies, p, h);
	r->proxy = p;
	publish_hot(r);
	restart_idle_timer(a, p);
	*out = r;
	*created = true;
	return 0;
err:
	if (p) {
		free(p->known);
		free(p->microservice);
		free(p);
	}
	return -1;
}

void agent_proxy_timer_idle(struct agent *a, struct agent_timer *t)
{
	struct agent_proxy *p = AGENT_TIMER_OWNER(t, struct agent_proxy, idle);

	a->n.rest_expired++;
	p->hot[SL_HOT_STATE] = SL_STATE_CLOSED;
	agent_region_closed(a, p->region);
}

void agent_proxy_revived(struct agent_region *r)
{
	r->proxy->hot[SL_HOT_STATE] = SL_STATE_LIVE;
	publish_hot(r);
}

/* If a microservice posts again before its old region is freed, it gets a new region. */
void agent_proxy_retire(struct agent *a, struct agent_region *r)
{
	agent_timer_stop(&r->proxy->idle);
	base_table_remove(&a->proxies, r->proxy);
}

void agent_proxy_free(struct agent *a, struct agent_region *r)
{
	struct agent_proxy *p = r->proxy;

	if (r->state != SL_STATE_RETIRED)
		agent_proxy_retire(a, r);
	free(p->known);
	free(p->microservice);
	free(p);
	r->proxy = NULL;
}

const char *agent_proxy_microservice(const struct agent_region *r)
{
	return r->proxy->microservice;
}

/* ---- metrics ---- */

struct proxy_key { /* the parts that identify a metric */
	size_t name_bytes, label_bytes;
	const char *name;
	char labels[SL_LABELS_MAX * (SL_NAME_MAX + SL_LABEL_VALUE_MAX + 2)];
};
_Static_assert(sizeof(((struct proxy_key *)0)->labels) <= UINT16_MAX, "label_bytes of a record");

/* Writes a record after those that readers use, then announces it in the hot line. */
static int append_record(struct agent_region *r, const struct agent_proxy_metric *m,
			 const struct proxy_key *key, uint64_t h, uint32_t *cell)
{
	struct agent_proxy *p = r->proxy;
	size_t unit = strlen(m->unit), help = strlen(m->help), length;
	struct sl_schema_record *rec;
	char *s;

	length = (sizeof(*rec) + key->name_bytes + unit + help + key->label_bytes + 7) & ~(size_t)7;
	if (p->count == p->max || length > r->info->schema_bytes - p->hot[SL_HOT_SCHEMA_USED])
		return -ENOSPC;

	rec = (struct sl_schema_record *)address_at(r,
						    r->info->schema + p->hot[SL_HOT_SCHEMA_USED]);
	rec->length = (uint32_t)length;
	rec->kind = (uint16_t)m->kind;
	rec->cell = p->count;
	rec->cells = 1;
	rec->id = p->count;
	rec->generation = (uint32_t)p->hot[SL_HOT_GENERATION] + 1;
	rec->name_bytes = (uint16_t)key->name_bytes;
	rec->unit_bytes = (uint16_t)unit;
	rec->help_bytes = (uint16_t)help;
	rec->label_bytes = (uint16_t)key->label_bytes;
	s = mempcpy(rec + 1, key->name, key->name_bytes);
	s = mempcpy(s, m->unit, unit);
	s = mempcpy(s, m->help, help);
	memcpy(s, key->labels, key->label_bytes);
	rec->check = sl_fnv1a(SL_FNV_BASIS, rec, length); /* computed while the check field is 0 */

	/*
	 * Store the record before the hot line: pairs with readers, which read the hot line first.
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	p->known[p->count] = (struct proxy_known){h, (uint32_t)p->hot[SL_HOT_SCHEMA_USED]};
	*cell = p->count++;
	p->hot[SL_HOT_SCHEMA_USED] += length;
	p->hot[SL_HOT_LINES_USED] = *cell / SL_LINE_CELLS + 1;
	p->hot[SL_HOT_GENERATION]++;
	publish_hot(r);
	return 0;
}

static bool same_metric(const struct sl_schema_record *rec, const struct proxy_key *key)
{
	const char *name = (const char *)(rec + 1);
	const char *labels = name + rec->name_bytes + rec->unit_bytes + rec->help_bytes;

	return rec->name_bytes == key->name_bytes && rec->label_bytes == key->label_bytes &&
	       !memcmp(name, key->name, key->name_bytes) &&
	       !memcmp(labels, key->labels, key->label_bytes);
}

int agent_proxy_metric(struct agent_region *r, const struct agent_proxy_metric *m, uint32_t *cell,
		       bool *created)
{
	struct agent_proxy *p = r->proxy;
	struct proxy_key key;
	uint64_t h;

	key.name = m->name;
	key.name_bytes = strlen(m->name);
	key.label_bytes = region_text_put_labels(key.labels, sizeof(key.labels), m->labels,
						 m->label_count);
	h = base_hash(0, key.name, key.name_bytes + 1);
	h = base_hash(h, key.labels, key.label_bytes);
	*created = false;
	for (uint32_t i = 0; i < p->count; i++) {
		/* Only the agent writes records, so they can be compared in place. */
		const struct sl_schema_record *rec = (const struct sl_schema_record *)address_at(
			r, r->info->schema + p->known[i].record);

		if (p->known[i].hash != h || !same_metric(rec, &key))
			continue;
		*cell = i;
		return rec->kind == m->kind ? 0 : -EEXIST;
	}
	*created = true;
	if (!append_record(r, m, &key, h, cell))
		return 0;
	p->hot[SL_HOT_REFUSED]++;
	publish_hot(r);
	return -ENOSPC;
}

static uint64_t *line_of(const struct agent_region *r, uint32_t cell)
{
	return address_at(r, r->info->stripes + (uint64_t)(cell / SL_LINE_CELLS) * SL_LINE_SIZE);
}

double agent_proxy_get(const struct agent_region *r, uint32_t cell)
{
	return sl_f64_of_cell(line_of(r, cell)[cell % SL_LINE_CELLS]);
}

void agent_proxy_set(struct agent_region *r, uint32_t cell, double value)
{
	uint64_t *line = line_of(r, cell), now = sl_cell_of_f64(value);
	uint32_t i = cell % SL_LINE_CELLS;
	uint64_t old = __atomic_exchange_n(&line[i], now, __ATOMIC_RELAXED);

	/* Stripe 0 consists of mixed lines (sl_cell_mix()). */
	__atomic_fetch_add(&line[7], sl_cell_mix(now, i) - sl_cell_mix(old, i), __ATOMIC_RELAXED);
}
