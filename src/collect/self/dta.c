// SPDX-License-Identifier: Apache-2.0
/* self_dta.c - of the collector's own series, those of stores of reports: out of one look at their
 * owner a walk. */
#include "collect/self/self.h"
#include "dta/query/json.h"
#include "dta/store_server/server.h"

static json_t *status(struct collect_self *s)
{
	if (!s->dta)
		s->dta = dta_store_server_json(s->c->dta);
	return s->dta;
}

static json_t *store(struct collect_self *s)
{
	return json_array_get(json_object_get(status(s), "stores"), s->at);
}

static const char *name_of(const json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "name"));

	return name ? name : "";
}

static bool of_store(struct collect_self *s, struct export_series *out, const char *key)
{
	const json_t *j = store(s);

	return j && collect_self_label(s, out, "store", name_of(j)) &&
	       collect_self_u64(out, (uint64_t)json_integer_value(json_object_get(j, key)));
}

bool collect_self_dta_epoch(struct collect_self *s, struct export_series *out)
{
	return of_store(s, out, "epoch");
}

bool collect_self_dta_rotations(struct collect_self *s, struct export_series *out)
{
	return of_store(s, out, "rotations");
}

bool collect_self_dta_late(struct collect_self *s, struct export_series *out)
{
	return of_store(s, out, "rotations_late");
}

static bool of_objects(struct collect_self *s, struct export_series *out, const char *key)
{
	json_t *j = store(s), *object;
	uint64_t bytes = 0;
	size_t i;

	json_array_foreach(json_object_get(j, "objects"), i, object)
		bytes += (uint64_t)json_integer_value(json_object_get(object, key));
	return j && collect_self_label(s, out, "store", name_of(j)) && collect_self_u64(out, bytes);
}

bool collect_self_dta_bytes(struct collect_self *s, struct export_series *out)
{
	return of_objects(s, out, "bytes");
}

bool collect_self_dta_huge_bytes(struct collect_self *s, struct export_series *out)
{
	return of_objects(s, out, "huge_bytes");
}

/* The newest epoch's, of stores that have one: 0 for those that have none. */
bool collect_self_dta_load(struct collect_self *s, struct export_series *out)
{
	const json_t *j = store(s);
	json_t *load;
	double v;

	if (!j)
		return false;
	load = dta_store_server_load_json(s->c->dta, name_of(j));
	v = json_number_value(json_object_get(json_array_get(load, 0), "load"));
	json_decref(load);
	return collect_self_label(s, out, "store", name_of(j)) && collect_self_f64(out, v);
}

/* Of the newest epoch, for the stores that have it measured. */
static bool measured(struct collect_self *s, struct export_series *out, const char *key)
{
	const json_t *j, *m;

	for (; (j = store(s)); s->at++) {
		json_t *load = dta_store_server_load_json(s->c->dta, name_of(j));
		double v;

		m = json_object_get(json_array_get(load, 0), "measured");
		v = json_number_value(json_object_get(m, key));
		m = json_is_object(m) ? m : NULL;
		json_decref(load);
		if (m)
			return collect_self_label(s, out, "store", name_of(j)) &&
			       collect_self_f64(out, v);
	}
	return false;
}

bool collect_self_dta_found(struct collect_self *s, struct export_series *out)
{
	return measured(s, out, "ratio");
}

bool collect_self_dta_found_predicted(struct collect_self *s, struct export_series *out)
{
	return measured(s, out, "predicted");
}

bool collect_self_dta_reports(struct collect_self *s, struct export_series *out)
{
	static const char *const of[] = {"stored", "waiting", "duplicates",
					 "late",   "lost",    "missing"};
	const json_t *account = json_object_get(status(s), "account");
	json_t *dropped = json_object_get(account, "dropped_by_cause"), *value;
	const char *key;
	size_t i = sizeof(of) / sizeof(*of);
	char name[64];

	if (s->at < i)
		return collect_self_label(s, out, "outcome", of[s->at]) &&
		       collect_self_u64(out, (uint64_t)json_integer_value(
						     json_object_get(account, of[s->at])));
	json_object_foreach(dropped, key, value)
	{
		if (i++ != s->at)
			continue;
		snprintf(name, sizeof(name), "dropped_%s", key);
		return collect_self_label(s, out, "outcome", name) &&
		       collect_self_u64(out, (uint64_t)json_integer_value(value));
	}
	return false;
}

bool collect_self_dta_units(struct collect_self *s, struct export_series *out)
{
	static const char *const of[] = {"standing", "overwritten", "updated", "expired"};
	const json_t *units = json_object_get(json_object_get(status(s), "account"), "units");

	return s->at < 4 && collect_self_label(s, out, "state", of[s->at]) &&
	       collect_self_u64(out,
				(uint64_t)json_integer_value(json_object_get(units, of[s->at])));
}

bool collect_self_dta_reloads(struct collect_self *s, struct export_series *out)
{
	static const struct {
		const char *outcome, *key;
	} of[] = {{"done", "reloads"}, {"refused", "reloads_refused"}};

	return s->at < 2 && collect_self_label(s, out, "outcome", of[s->at].outcome) &&
	       collect_self_u64(out, (uint64_t)json_integer_value(
					     json_object_get(status(s), of[s->at].key)));
}

bool collect_self_dta_translators(struct collect_self *s, struct export_series *out)
{
	json_t *t;
	uint64_t connected = 0;
	size_t i;

	json_array_foreach(json_object_get(status(s), "translators"), i, t)
		connected += json_is_true(json_object_get(t, "connected"));
	return collect_self_single(s, out, connected);
}

void collect_self_dta_end(struct collect_self *s)
{
	json_decref(s->dta);
}
