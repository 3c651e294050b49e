/* SPDX-License-Identifier: Apache-2.0 */
/* mend.c - repairs stores that a translator damaged; counts and announces each repair */
#include "dta/store_server/internal.h"

#include "base/base.h"

#define MEND_NS 100000000ull

static void mend_object(struct dta_store_server *o, struct dta_server_store *s,
			struct dta_store_object *at)
{
	const bool registered = at->writable.mr;
	bool moved;
	const char *what = dta_store_object_mend(at, &moved);

	if (!what)
		return;
	o->mended++;
	base_log_each(
		BASE_WARN, "dta", s->spec->name,
		"a translator damaged store '%s', which was repaired: %s; the data there is lost: "
		"stop the translator if you do not trust it",
		s->spec->name, what);
	if (!moved)
		return;
	/* The device still writes to the old pages, so the old rkey must become invalid. */
	dta_store_server_object_unregister(o, at);
	if (registered && dta_store_server_object_register(o, at))
		base_logf(BASE_ERROR, "dta", "store '%s': cannot register its memory for RDMA",
			  s->spec->name);
	at->number = ++o->next_object;
	if (at == s->objects)
		dta_store_server_notify_object(o, s, false);
}

void dta_store_server_mend(struct dta_store_server *o, bool urgent)
{
	const uint64_t now = base_now_ns();

	if (!urgent && now - o->mended_ns < MEND_NS)
		return;
	o->mended_ns = now;
	for (size_t i = 0; i < o->store_count; i++)
		for (struct dta_store_object *at = o->stores[i].objects; at; at = at->older)
			mend_object(o, &o->stores[i], at);
}
