// SPDX-License-Identifier: Apache-2.0
/* self_dta.c - of the collector's own series, those of stores of reports: out of one look at their owner a walk. */
#include "collect/self/self.h"
#include "dta/query/json.h"

static json_t *status(struct self *s)
{
	if (!s->dta)
		s->dta = sl_owner_json(s->c->dta);
	return s->dta;
}

static json_t *store(struct self *s)
{
	return json_array_get(json_object_get(status(s), "stores"), s->at);
}

static const char *name_of(const json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "name"));

	return name ? name : "";
}

static bool of_store(struct self *s, struct sl_series *out, const char *key)
{
	const json_t *j = store(s);

	return j && self_label(s, out, "store", name_of(j)) &&
	       self_u64(out, (uint64_t)json_integer_value(json_object_get(j, key)));
}

bool self_dta_epoch(struct self *s, struct sl_series *out)
{
	return of_store(s, out, "epoch");
}

bool self_dta_rotations(struct self *s, struct sl_series *out)
{
	return of_store(s, out, "rotations");
}

bool self_dta_late(struct self *s, struct sl_series *out)
{
	return of_store(s, out, "rotations_late");
}

static bool of_objects(struct self *s, struct sl_series *out, const char *key)
{
	json_t *j = store(s), *object;
	uint64_t bytes = 0;
	size_t i;

	json_array_foreach(json_object_get(j, "objects"), i, object)
		bytes += (uint64_t)json_integer_value(json_object_get(object, key));
	return j && self_label(s, out, "store", name_of(j)) && self_u64(out, bytes);
}

bool self_dta_bytes(struct self *s, struct sl_series *out)
{
	return of_objects(s, out, "bytes");
}

bool self_dta_huge_bytes(struct self *s, struct sl_series *out)
{
	return of_objects(s, out, "huge_bytes");
}

/* The newest epoch's, of stores that have one: 0 for those that have none. */
bool self_dta_load(struct self *s, struct sl_series *out)
{
	const json_t *j = store(s);
	json_t *load;
	double v;

	if (!j)
		return false;
	load = sl_owner_load_json(s->c->dta, name_of(j));
	v = json_number_value(json_object_get(json_array_get(load, 0), "load"));
	json_decref(load);
	return self_label(s, out, "store", name_of(j)) && self_f64(out, v);
}

/* Of the newest epoch, for the stores that have it measured. */
static bool measured(struct self *s, struct sl_series *out, const char *key)
{
	const json_t *j, *m;

	for (; (j = store(s)); s->at++) {
		json_t *load = sl_owner_load_json(s->c->dta, name_of(j));
		double v;

		m = json_object_get(json_array_get(load, 0), "measured");
		v = json_number_value(json_object_get(m, key));
		m = json_is_object(m) ? m : NULL;
		json_decref(load);
		if (m)
			return self_label(s, out, "store", name_of(j)) && self_f64(out, v);
	}
	return false;
}

bool self_dta_found(struct self *s, struct sl_series *out)
{
	return measured(s, out, "ratio");
}

bool self_dta_found_predicted(struct self *s, struct sl_series *out)
{
	return measured(s, out, "predicted");
}

bool self_dta_reports(struct self *s, struct sl_series *out)
{
	static const char *const of[] = {"stored", "waiting", "duplicates",
					 "late",   "lost",    "missing"};
	const json_t *account = json_object_get(status(s), "account");
	json_t *dropped = json_object_get(account, "dropped_by_cause"), *value;
	const char *key;
	size_t i = sizeof(of) / sizeof(*of);
	char name[64];

	if (s->at < i)
		return self_label(s, out, "outcome", of[s->at]) &&
		       self_u64(out,
				(uint64_t)json_integer_value(json_object_get(account, of[s->at])));
	json_object_foreach(dropped, key, value)
	{
		if (i++ != s->at)
			continue;
		snprintf(name, sizeof(name), "dropped_%s", key);
		return self_label(s, out, "outcome", name) &&
		       self_u64(out, (uint64_t)json_integer_value(value));
	}
	return false;
}

bool self_dta_units(struct self *s, struct sl_series *out)
{
	static const char *const of[] = {"standing", "overwritten", "updated", "expired"};
	const json_t *units = json_object_get(json_object_get(status(s), "account"), "units");

	return s->at < 4 && self_label(s, out, "state", of[s->at]) &&
	       self_u64(out, (uint64_t)json_integer_value(json_object_get(units, of[s->at])));
}

bool self_dta_reloads(struct self *s, struct sl_series *out)
{
	static const struct {
		const char *outcome, *key;
	} of[] = {{"done", "reloads"}, {"refused", "reloads_refused"}};

	return s->at < 2 && self_label(s, out, "outcome", of[s->at].outcome) &&
	       self_u64(out,
			(uint64_t)json_integer_value(json_object_get(status(s), of[s->at].key)));
}

bool self_dta_translators(struct self *s, struct sl_series *out)
{
	json_t *t;
	uint64_t connected = 0;
	size_t i;

	json_array_foreach(json_object_get(status(s), "translators"), i, t)
		connected += json_is_true(json_object_get(t, "connected"));
	return self_single(s, out, connected);
}

void self_dta_end(struct self *s)
{
	json_decref(s->dta);
}
