// SPDX-License-Identifier: Apache-2.0
/* json.c - reports the status of stores and translators as JSON */
#include "dta/store_server/internal.h"

#include <math.h>

#include "base/base.h"

static json_t *integer_json(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* Returns NULL, which json_object_set_new() ignores, unless the value is shown. */
static json_t *if_shown(bool shown, uint64_t v)
{
	return shown ? integer_json(v) : NULL;
}

static json_t *object_json(const struct dta_store_object *at)
{
	json_t *j;

	j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:s,s:o}", "number", integer_json(at->number),
		      "first_epoch", integer_json(at->view.config->first_epoch), "oldest_epoch",
		      integer_json(at->epochs.oldest), "bytes", integer_json(at->map_bytes),
		      "slots", integer_json(at->view.config->slots), "pages", at->pages,
		      "huge_bytes", integer_json(at->huge_bytes));
	if (j && at->path)
		json_object_set_new(j, "file", json_string(at->path));
	return j;
}

static json_t *store_json(struct dta_store_server *o, const struct dta_server_store *s)
{
	const struct sl_store_config *c = &s->spec->config;
	json_t *objects = json_array(), *waits = json_array(), *j;
	const bool append = c->kind == SL_STORE_APPEND, sketch = c->kind == SL_STORE_SKETCH;
	const bool table = sketch || c->kind == SL_STORE_INCREMENT;
	const struct {
		const char *key;
		json_t *value;
	} more[] = {
		{table	  ? "columns"
		 : append ? "blocks"
			  : "slots",
		 integer_json(c->slots)},
		{"epochs", integer_json(c->banks)},
		{"immediates", integer_json(s->immediates)},
		{"seed", json_sprintf("%llu", (unsigned long long)c->seed)},
		{"rows", if_shown(table, c->rows)},
		{"copies", if_shown(c->copies, c->copies)},
		{"value", if_shown(c->value_bytes, c->value_bytes)},
		{"hops", if_shown(c->hops, c->hops)},
		{"lists", if_shown(append, c->lists)},
		{"batch", if_shown(append, c->batch)},
		{"lanes", if_shown(append || sketch, c->lanes)},
		{"sketch", sketch ? json_string(dta_store_sketch_name(c->sketch)) : NULL},
		{"reporters", if_shown(sketch, c->reporters)},
		{"keylog", *s->spec->keylog ? json_string(s->spec->keylog) : NULL},
		{"series", dta_store_server_series(o, s)},
		{"values", if_shown(s->spec->values, s->spec->value_count)},
	};
	size_t i = (size_t)(s - o->stores);

	for (const struct dta_store_object *at = s->objects; at; at = at->older)
		json_array_append_new(objects, object_json(at));
	for (const struct dta_server_conn *t = o->conns; t; t = t->next)
		if (t->state == CONN_WELCOMED && t->acked[i] < s->epoch)
			json_array_append_new(waits, json_string(t->name));
	j = json_pack(
		"{s:s,s:o,s:o,s:s,s:o,s:o,s:f,s:f,s:o,s:o,s:b,s:o,s:o}", "name", s->spec->name,
		"tenant", integer_json(c->tenant), "number", integer_json(c->id), "kind",
		dta_store_kind_name(c->kind), "epoch", integer_json(s->epoch), "oldest_epoch",
		integer_json(s->objects ? s->oldest : 0), "epoch_since", (double)s->since_ns * 1e-9,
		"epoch_seconds", (double)s->spec->epoch_ns * 1e-9, "rotations",
		integer_json(s->rotations), "rotations_late", integer_json(s->late), "waiting",
		(int)s->waiting, "not_rotated", waits, "objects", objects);
	for (size_t k = 0; k < sizeof(more) / sizeof(*more); k++)
		json_object_set_new(j, more[k].key, more[k].value);
	return j;
}

static json_t *tenants_json(const struct dta_store_server *o)
{
	json_t *all = json_array();

	for (size_t i = 0; i < o->config->tenant_count; i++) {
		const struct dta_tenant_spec *t = &o->config->tenants[i];

		json_array_append_new(
			all, json_pack("{s:i,s:s,s:o,s:o,s:b,s:b}", "number", (int)t->number,
				       "name", t->name, "rate", integer_json(t->rate), "burst",
				       integer_json(t->rate ? t->burst : 0), "key",
				       t->key_count > 0, "required", (int)t->required));
	}
	return all;
}

static json_t *translator_json(const struct dta_server_conn *c, const struct dta_server_known *k)
{
	const uint64_t now = base_realtime_ns();
	json_t *j = json_pack("{s:s,s:b,s:f}", "name", k->name, "connected", c && c->line,
			      "silent_seconds",
			      now > k->heard_ns ? (double)(now - k->heard_ns) * 1e-9 : 0);

	if (!j)
		return NULL;
	if (c) {
		json_object_set_new(j, "output", json_string(c->output));
		json_object_set_new(j, "lane", integer_json(c->lane));
		json_object_set_new(j, "may_write", json_true());
	}
	if (k->last)
		json_object_set_new(j, "account", json_deep_copy(k->last));
	return j;
}

void dta_store_server_account_take(struct dta_translate_account *to, const json_t *account)
{
	struct dta_translate_account a;

	if (!account)
		return;
	dta_account_of_json(account, &a);
	dta_account_add(to, &a);
}

static void add_units(struct dta_store_server_units *to, const struct dta_store_server_units *from)
{
	to->standing += from->standing;
	to->lost += from->lost;
	to->variance += from->variance;
	to->sampled |= from->sampled;
}

/*
 * Units written (key-write slots or paths) = standing + overwritten + updated + expired. Standing
 * units are counted by scanning, so that reports cost the collector no CPU time; the count includes
 * units written since a translator's last account. Units overwritten by other keys are estimated
 * (epoch.c). The remainder were updated by their own key.
 */
static json_t *units_json(const struct dta_store_server *o, uint64_t written)
{
	struct dta_store_server_units now = {0}, gone = {0}, before = {0};
	uint64_t known, left, lost;
	double estimate, error;
	bool sampled;

	for (size_t i = 0; i < o->store_count; i++) {
		const struct dta_server_store *s = &o->stores[i];

		add_units(&gone, &s->expired);
		add_units(&before, &s->before);
		for (const struct dta_store_object *at = s->objects; at; at = at->older)
			dta_store_server_units(at, &now);
	}
	known = now.standing + gone.standing;
	written += before.standing;
	left = written > known ? written - known : 0;
	estimate = now.lost + gone.lost - before.lost;
	lost = estimate < .5 ? 0 : estimate < (double)left ? (uint64_t)(estimate + .5) : left;
	error = sqrt(now.variance + gone.variance + before.variance);
	sampled = now.sampled || gone.sampled || before.sampled;
	return json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "written", integer_json(written), "standing",
		integer_json(now.standing), "expired", integer_json(gone.standing), "overwritten",
		integer_json(lost), "updated", integer_json(left - lost), "error",
		integer_json((uint64_t)(left || sampled ? error + .5 : 0)), "exact", !sampled);
}

/*
 * Adds up all accounts. away: those of runs that have ended or are cut off. Reports that waited in
 * such a translator, or that it missed, may have been written or sent again since.
 */
static void sum_accounts(const struct dta_store_server *o, struct dta_translate_account *connected,
			 struct dta_translate_account *away)
{
	*connected = (struct dta_translate_account){0};
	*away = o->forgotten;
	for (uint32_t i = 0; i < SL_STORE_LANES_MAX; i++) {
		const struct dta_server_conn *c = dta_store_server_of_lane(o, i);

		dta_store_server_account_take(c && c->line ? connected : away, o->known[i].last);
	}
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (*o->run[i].name)
			dta_account_add(away, &o->run[i].account);
}

/*
 * Invariant: sent = stored + waiting + duplicates + late + dropped + lost + missing + unknown. sent
 * is known only for reporters that number their reports (loss.h); refused packets contain no
 * reports. Unknown reports are those that were waiting or missing when a translator was last heard.
 */
static json_t *account_json(const struct dta_store_server *o)
{
	struct dta_translate_account a, away;
	json_t *j, *dropped = json_object();
	uint64_t drops = 0, sent, unknown, held;

	sum_accounts(o, &a, &away);
	held = away.engine.waiting; /* unknown, but received */
	unknown = held + away.loss.missing;
	sent = away.loss.missing;
	away.engine.waiting = away.loss.missing = 0;
	dta_account_add(&a, &away);
	for (int i = 0; i < DTA_DROPS; i++) {
		drops += a.engine.dropped[i];
		json_object_set_new(dropped, dta_engine_drop_name((enum dta_engine_drop)i),
				    integer_json(a.engine.dropped[i]));
	}
	sent += a.reports + a.loss.missing + a.loss.lost;
	j = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}", "sent", integer_json(sent),
		      "stored", integer_json(a.engine.stored), "waiting",
		      integer_json(a.engine.waiting), "duplicates", integer_json(a.loss.duplicates),
		      "late", integer_json(a.loss.late), "lost", integer_json(a.loss.lost),
		      "missing", integer_json(a.loss.missing), "unknown", integer_json(unknown),
		      "dropped", integer_json(drops), "dropped_by_cause", dropped, "closes",
		      (int)(a.reports == a.fresh + a.loss.duplicates + a.loss.late &&
			    a.fresh == a.engine.in &&
			    a.engine.in == a.engine.stored + a.engine.waiting + held + drops));
	if (!j || json_object_set_new(j, "units", units_json(o, a.engine.units)) ||
	    json_object_set_new(j, "translators", dta_account_json(&a))) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static json_t *gaps_json(const struct dta_store_server *o)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < o->gaps; i++)
		json_array_append_new(
			all, json_pack("{s:s,s:f,s:f,s:o,s:b}", "translator", o->gap[i].name,
				       "from", (double)o->gap[i].from_ns * 1e-9, "to",
				       (double)o->gap[i].to_ns * 1e-9, "reports",
				       integer_json(o->gap[i].reports), "filled",
				       (int)(o->gap[i].filled && dta_store_server_peer_fills(o))));
	return all;
}

json_t *dta_store_server_json(struct dta_store_server *o)
{
	uint32_t replicas = 1;
	static const char *const causes[DTA_CONN_REFUSALS] = {
		[DTA_CONN_LEFT] = "left",     [DTA_CONN_CROWDED] = "crowded",
		[DTA_CONN_SILENT] = "silent", [DTA_CONN_LONG] = "long",
		[DTA_CONN_PROOF] = "proof",   [DTA_CONN_WRONG] = "wrong",
	};
	json_t *stores = json_array(), *translators = json_array(), *listen = json_array(), *j;
	json_t *refused = json_object();
	uint64_t all = 0;

	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < o->store_count; i++)
		json_array_append_new(stores, store_json(o, &o->stores[i]));
	for (uint32_t i = 0; i < SL_STORE_LANES_MAX; i++)
		if (o->known[i].heard_ns)
			json_array_append_new(
				translators,
				translator_json(dta_store_server_of_lane(o, i), &o->known[i]));
	for (size_t i = 0; i < o->listeners; i++)
		json_array_append_new(listen, json_string(o->listener[i].address));
	for (int i = 0; i < DTA_CONN_REFUSALS; i++) {
		json_object_set_new(refused, causes[i], integer_json(o->refused[i]));
		all += o->refused[i];
	}
	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->state == CONN_WELCOMED && c->replicas > replicas)
			replicas = c->replicas;
	j = json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:f,s:o}", "listen",
		      listen, "called", o->called, "tenants", tenants_json(o), "stores", stores,
		      "translators", translators, "account", account_json(o), "refused_connections",
		      integer_json(all), "refused_by_cause", refused, "reloads",
		      integer_json(o->reloads), "reloads_refused", integer_json(o->reloads_refused),
		      "rdma_devices_lost", integer_json(o->devices_lost), "replicas",
		      integer_json(replicas), "gaps", gaps_json(o), "began",
		      (double)o->began_ns * 1e-9, "mended", integer_json(o->mended));
	pthread_mutex_unlock(&o->lock);
	return j;
}

/* Returns the latest lists of exporters, or of reporters, from all translators. */
static json_t *lists_json(struct dta_store_server *o, bool exporters, uint64_t *more)
{
	json_t *all = json_array(), *j, *copy;
	uint64_t now = base_realtime_ns();
	size_t k;

	pthread_mutex_lock(&o->lock);
	for (uint32_t i = 0; i < SL_STORE_LANES_MAX; i++) {
		const struct dta_server_conn *c = dta_store_server_of_lane(o, i);
		const struct dta_server_known *of = &o->known[i];
		const uint64_t ago = now > of->told_ns ? now - of->told_ns : 0;

		*more += of->more;
		json_array_foreach(exporters ? of->exporters : of->reporters, k, j)
		{
			copy = json_pack("{s:s,s:b,s:f}", "translator", of->name, "connected",
					 c && c->line, "told_seconds", (double)ago * 1e-9);
			/*
			 * A deep copy, because the server's loop may free the list after the
			 * unlock.
			 */
			json_object_update_new(copy, json_deep_copy(j));
			json_array_append_new(all, copy);
		}
	}
	pthread_mutex_unlock(&o->lock);
	return all;
}

json_t *dta_store_server_reporters(struct dta_store_server *o)
{
	uint64_t more = 0;
	json_t *all = lists_json(o, false, &more);

	return json_pack("{s:o,s:o}", "reporters", all, "more", integer_json(more));
}

json_t *dta_store_server_exporters(struct dta_store_server *o)
{
	uint64_t none = 0;

	return json_pack("{s:o}", "exporters", lists_json(o, true, &none));
}

json_t *dta_store_server_load_json(struct dta_store_server *o, const char *name)
{
	struct dta_server_store *s = dta_store_server_store(o, name);
	struct dta_held held, log;
	json_t *load = NULL;
	uint64_t began, took;
	bool logged;

	if (!s || (s->spec->config.kind != SL_STORE_KEYWRITE &&
		   s->spec->config.kind != SL_STORE_POSTCARD))
		return NULL;
	pthread_mutex_lock(&o->measuring);
	if (dta_store_server_hold(o, name, &held)) {
		began = base_now_ns();
		if (began >= s->measure_ns) {
			logged = *held.keylog && dta_store_server_hold(o, held.keylog, &log);
			dta_query_success(&held, logged ? &log : NULL, &s->success);
			if (logged)
				dta_store_server_release(o);
			took = base_now_ns() - began;
			s->measure_ns = began +
					(100 * took > 1000000000ull ? 100 * took : 1000000000ull);
		}
		load = dta_query_load_json(&held, &s->success);
		dta_store_server_release(o);
	}
	pthread_mutex_unlock(&o->measuring);
	return load;
}
