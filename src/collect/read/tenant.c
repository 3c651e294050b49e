// SPDX-License-Identifier: Apache-2.0
/* tenant.c - the tenants of a host, and their identity as labels */
#include "collect/read/tenant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/text.h"
#include "collect/read/host.h"

#define IDLE_NS 600000000000u /* how long a tenant without regions is remembered */

static void name_tenant(struct collect_tenant *t)
{
	static const uint8_t none[16];
	char pod[33];

	snprintf(t->uid, sizeof(t->uid), "%u", t->who.uid);
	if (memcmp(t->who.container, none, sizeof(none)))
		base_hex(t->container, t->who.container, (sizeof(t->container) - 1) / 2);
	if (!memcmp(t->who.pod, none, sizeof(none)))
		return;
	base_hex(pod, t->who.pod, sizeof(t->who.pod));
	snprintf(t->pod, sizeof(t->pod), "%.8s-%.4s-%.4s-%.4s-%.12s", pod, pod + 8, pod + 12,
		 pod + 16, pod + 20);
}

static bool is_same(const struct region_tenant *a, const struct region_tenant *b)
{
	return a->key == b->key && a->uid == b->uid && a->trusted == b->trusted &&
	       a->origin == b->origin &&
	       !memcmp(a->container, b->container, sizeof(a->container)) &&
	       !strcmp(a->names.kube_namespace, b->names.kube_namespace) &&
	       !strcmp(a->names.pod, b->names.pod) &&
	       !strcmp(a->names.container, b->names.container);
}

/* Frees the tenants that have had no region for idle_ns. */
static void forget_idle(struct collect_host *h, uint64_t idle_ns)
{
	uint64_t now = base_now_ns();

	BASE_TABLE_EACH(&h->tenants, n) {
		struct collect_tenant *t = (struct collect_tenant *)n;

		if (t->refs || now - t->idle_ns < idle_ns)
			continue;
		base_table_remove(&h->tenants, t);
		free(t);
	}
}

void collect_tenants_free(struct collect_host *h)
{
	forget_idle(h, 0);
	base_table_free(&h->tenants);
}

static struct collect_tenant *get_tenant(struct collect_host *h, const struct region_tenant *who,
					 bool known)
{
	uint64_t hash = base_hash(known, &who->key, sizeof(who->key));
	struct collect_tenant *t;

	pthread_mutex_lock(&h->lock);
	t = base_table_first(&h->tenants, hash);
	while (t && !(t->known == known && is_same(&t->who, who)))
		t = base_table_next(t);
	if (!t)
		forget_idle(h, IDLE_NS);
	if (t) {
		t->refs++;
	} else if ((t = calloc(1, sizeof(*t) + h->links * sizeof(*t->turn)))) {
		t->host = h;
		t->refs = 1;
		t->who = *who;
		t->known = known;
		t->exempt = who->trusted || who->origin || !known;
		t->build_end = &t->build;
		t->first = UINT64_MAX;
		for (unsigned int i = 0; i < h->links; i++)
			t->turn[i].every = 1;
		name_tenant(t);
		base_table_add(&h->tenants, t, hash);
	}
	pthread_mutex_unlock(&h->lock);
	return t;
}

struct collect_tenant *collect_tenant_get(struct collect_host *h, const struct region_tenant *who)
{
	return get_tenant(h, who ? who : &(struct region_tenant){0}, who);
}

struct collect_tenant *collect_tenant_own(struct collect_host *h)
{
	return get_tenant(h, &(struct region_tenant){.trusted = true}, false);
}

struct collect_tenant *collect_tenant_ref(struct collect_tenant *t)
{
	pthread_mutex_lock(&t->host->lock);
	t->refs++;
	pthread_mutex_unlock(&t->host->lock);
	return t;
}

void collect_tenant_put(struct collect_tenant *t)
{
	struct collect_host *h;

	if (!t)
		return;
	h = t->host;
	pthread_mutex_lock(&h->lock);
	if (!--t->refs)
		t->idle_ns = base_now_ns();
	pthread_mutex_unlock(&h->lock);
}

int collect_tenant_order(const struct collect_tenant *a, const struct collect_tenant *b)
{
	return BASE_ORDER(!a->who.trusted, !b->who.trusted) ?: BASE_ORDER(a->first, b->first) ?:
	       BASE_ORDER(a->host, b->host) ?: BASE_ORDER(a->who.key, b->who.key);
}

uint32_t collect_tenant_labels(const struct collect_tenant *t,
			       struct region_text_label out[COLLECT_TENANT_LABELS])
{
	uint32_t n = 0;

	out[n++] = (struct region_text_label){"uid", t->uid};
	if (*t->container)
		out[n++] = (struct region_text_label){"container_id", t->container};
	if (*t->pod)
		out[n++] = (struct region_text_label){"pod_uid", t->pod};
	return n;
}

uint64_t collect_tenant_room(const struct collect_tenant *t, uint64_t capacity, uint64_t used,
			     uint64_t held)
{
	const struct base_share s = {capacity, used, capacity / BASE_SHARE_RESERVE};

	return base_share_limit(&s, held, t->exempt) - held;
}

uint32_t collect_tenant_every(const struct collect_tenant *t)
{
	uint32_t most = 1;

	for (unsigned int i = 0; i < t->host->links; i++)
		most = BASE_MAX(most, relaxed_load(t->turn[i].every));
	return most;
}
