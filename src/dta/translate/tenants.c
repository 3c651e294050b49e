// SPDX-License-Identifier: Apache-2.0
/* tenants.c - keeps what each collector says about tenants, and applies the strictest of it */
#include "dta/translate/tenants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"

#define LOG	"translate"
#define TENANTS 65536u

struct tenants_word {
	uint64_t rate, burst;
	uint64_t digest;  /* of all keys, in any order */
	uint32_t session; /* the session in which the collector said it */
	uint32_t keys;
	bool listed, required, has_keys; /* has_keys: it was trusted to set keys, perhaps none */
};

struct dta_tenants {
	const char *const *name;
	struct dta_rates *rates;
	uint32_t n;
	struct tenants_collector {
		struct dta_auth *auth;
		struct tenants_word *says; /* by tenant */
	} collector[];
};

struct dta_tenants *dta_tenants_new(const char *const *collectors, uint32_t n_collectors,
				    struct dta_rates *rates)
{
	struct dta_tenants *t = calloc(1, sizeof(*t) + n_collectors * sizeof(*t->collector));

	if (!t)
		return NULL;
	t->name = collectors;
	t->rates = rates;
	t->n = n_collectors;
	for (uint32_t i = 0; i < n_collectors; i++) {
		t->collector[i].auth = dta_auth_new();
		/* Only pages of tenants that are listed take memory. */
		t->collector[i].says = calloc(TENANTS, sizeof(struct tenants_word));
		if (!t->collector[i].auth || !t->collector[i].says) {
			dta_tenants_free(t);
			return NULL;
		}
	}
	return t;
}

void dta_tenants_free(struct dta_tenants *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n; i++) {
		dta_auth_free(t->collector[i].auth);
		free(t->collector[i].says);
	}
	free(t);
}

static uint64_t digest_of(const struct dta_key_spec *keys, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t about[] = {keys[i].own, keys[i].first, keys[i].last,
					  keys[i].until_ns};

		sum += base_hash(base_hash(0, about, sizeof(about)), keys[i].key, DTA_KEY_BYTES);
	}
	return sum;
}

static void apply_rate(struct dta_tenants *t, uint16_t tenant)
{
	uint64_t rate = 0, burst = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct tenants_word *s = &t->collector[i].says[tenant];

		if (!s->rate || (rate && s->rate > rate))
			continue;
		burst = s->rate == rate ? BASE_MIN(burst, s->burst) : s->burst;
		rate = s->rate;
	}
	if (t->rates)
		dta_rates_set(t->rates, tenant, rate, burst);
}

static bool words_differ(const struct tenants_word *a, const struct tenants_word *b)
{
	return a->required != b->required || a->rate != b->rate || a->burst != b->burst ||
	       (a->has_keys && b->has_keys && (a->keys != b->keys || a->digest != b->digest));
}

static void warn_if_different(const struct dta_tenants *t, uint32_t collector, uint16_t tenant)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct tenants_word *other = &t->collector[i].says[tenant];

		if (!other->listed || !words_differ(other, &t->collector[collector].says[tenant]))
			continue;
		base_log_limited(
			BASE_WARN, LOG,
			"collectors differ about a tenant, and the strictest decides: give "
			"it the same keys, required, rate and burst in their stores files "
			"tenant=%u collector=%s other=%s",
			tenant, t->name[collector], t->name[i]);
		return;
	}
}

void dta_tenants_set(struct dta_tenants *t, uint32_t collector, uint32_t session, uint16_t tenant,
		     const struct dta_tenant_says *says)
{
	struct tenants_collector *c = &t->collector[collector];
	struct tenants_word *s = &c->says[tenant];
	int err = 0;

	s->listed = true;
	s->session = session;
	s->rate = says->rate;
	s->burst = says->burst;
	s->required = says->required || (s->required && !says->trusted);
	dta_auth_require(c->auth, tenant, s->required);
	if (says->keys || says->unread) {
		const size_t n = says->keys ? says->n : 0;

		err = dta_auth_keys(c->auth, tenant, says->keys, n);
		if (says->unread)
			err = -ENOMEM;
		s->has_keys = true;
		/* A collector without usable keys still has a say: another's are not enough. */
		s->keys = says->unread ? 1 : (uint32_t)n;
		s->digest = digest_of(says->keys, n);
	}
	if (err)
		base_log_limited(BASE_ERROR, LOG,
				 "cannot use the keys: %s; the tenant's packets with a MAC are "
				 "refused tenant=%u",
				 strerror(-err), tenant);
	apply_rate(t, tenant);
	warn_if_different(t, collector, tenant);
}

static bool listed_elsewhere(const struct dta_tenants *t, uint32_t collector, uint32_t tenant)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (i != collector && t->collector[i].says[tenant].listed)
			return true;
	return false;
}

void dta_tenants_ready(struct dta_tenants *t, uint32_t collector, uint32_t session)
{
	struct tenants_collector *c = &t->collector[collector];

	for (uint32_t tenant = 0; t->n > 1 && tenant < TENANTS; tenant++) {
		struct tenants_word *s = &c->says[tenant];

		if (!s->listed || s->session == session || !listed_elsewhere(t, collector, tenant))
			continue;
		*s = (struct tenants_word){0};
		dta_auth_require(c->auth, (uint16_t)tenant, false);
		dta_auth_keys(c->auth, (uint16_t)tenant, NULL, 0);
		apply_rate(t, (uint16_t)tenant);
	}
}

enum dta_refusal dta_tenants_check(struct dta_tenants *t, const struct dta_header *h,
				   const void *packet, size_t bytes,
				   const struct dta_auth_here *here, uint64_t now_ns,
				   uint32_t *used)
{
	const bool is_signed = h->flags & DTA_AUTHENTICATED;
	enum dta_refusal refusal = is_signed ? DTA_BAD_MAC : DTA_FINE;
	bool found = false;

	*used = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		struct tenants_collector *c = &t->collector[i];

		if (is_signed && !c->says[h->tenant].keys)
			continue;
		/* The MAC is computed only once. */
		if (found && !dta_auth_valid(c->auth, h, *used, now_ns))
			return DTA_BAD_MAC;
		if (found)
			continue;
		refusal = dta_auth_check(c->auth, h, packet, bytes, here, now_ns, used);
		if (refusal != DTA_FINE)
			return refusal;
		found = is_signed;
	}
	return refusal;
}

const struct dta_key *dta_tenants_key(const struct dta_tenants *t, uint16_t tenant,
				      uint32_t reporter, uint32_t used)
{
	const struct dta_key *key = NULL;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct tenants_collector *c = &t->collector[i];

		if (!c->says[tenant].keys)
			continue;
		key = dta_auth_find(c->auth, tenant, reporter, used);
		if (!key)
			return NULL;
	}
	return key;
}
