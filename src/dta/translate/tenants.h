/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenants.h - what a worker's collectors say about tenants. Collectors may differ, for example
 * while a change is rolled out. The strictest one decides, so that an old stores file of one
 * collector does not lift the authentication of the others:
 *
 * - a MAC is required if one collector requires it;
 * - a key is valid if all collectors that have keys of the tenant have it;
 * - the lowest rate applies.
 *
 * What an unreachable collector said last still counts. Single-threaded.
 */
#ifndef SL_DTA_TRANSLATE_TENANTS_H
#define SL_DTA_TRANSLATE_TENANTS_H

#include "dta/engine/rates.h"
#include "dta/wire/auth.h"

struct dta_tenants;

/*
 * rates: receives the limits of tenants; NULL means no limits. The names of collectors are not
 * copied. Returns NULL if out of memory.
 */
struct dta_tenants *dta_tenants_new(const char *const *collectors, uint32_t n_collectors,
				    struct dta_rates *rates);
void dta_tenants_free(struct dta_tenants *t);

/* The contents of a "tenant" message (control.h). */
struct dta_tenant_says {
	uint64_t rate, burst;
	bool required; /* packets must carry a MAC */
	/* The collector has proved the secret, or is local: it may set required to false. */
	bool trusted;
	const struct dta_key_spec *keys; /* sorted by dta_keys_check(); NULL: keep the previous */
	size_t n;
	bool unread; /* there was no memory to read the keys: none is valid until the next ones */
};
void dta_tenants_set(struct dta_tenants *t, uint32_t collector, uint32_t session, uint16_t tenant,
		     const struct dta_tenant_says *says);
/*
 * Forgets what a collector said about tenants in earlier sessions, if other collectors list them:
 * otherwise, keys of a tenant that it no longer lists would restrict the others for ever.
 */
void dta_tenants_ready(struct dta_tenants *t, uint32_t collector, uint32_t session);

/* Like dta_auth_check(). */
enum dta_refusal dta_tenants_check(struct dta_tenants *t, const struct dta_header *h,
				   const void *packet, size_t bytes,
				   const struct dta_auth_here *here, uint64_t now_ns,
				   uint32_t *used);
/* Like dta_auth_find(). */
const struct dta_key *dta_tenants_key(const struct dta_tenants *t, uint16_t tenant,
				      uint32_t reporter, uint32_t used);

#endif
