// SPDX-License-Identifier: Apache-2.0
/* dta.c - the collector's own series about stores of reports, from one status per walk */
#include <stdlib.h>

#include "collect/read/self.h"
#include "collect/self/self.h"
#include "dta/query/json.h"
#include "dta/store_server/server.h"

/* State of a walk over the stores (collect_part.walk_bytes). */
struct stores_walk {
	json_t *status;
	json_t *exporters; /* exporters by input and address, added up over translators */
};

static json_t *get_status(struct collect_self *s)
{
	struct stores_walk *w = s->own;

	if (!w->status)
		w->status = dta_store_server_json(s->arg);
	return w->status;
}

static void end_walk(struct collect_self *s)
{
	struct stores_walk *w = s->own;

	json_decref(w->status);
	json_decref(w->exporters);
}

static json_t *get_store(struct collect_self *s)
{
	return json_array_get(json_object_get(get_status(s), "stores"), s->at);
}

static const char *name_of(const json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "name"));

	return name ? name : "";
}

static bool fill_named(struct collect_self *s, struct export_series *out, const char *key,
		       const char *name, const json_t *number)
{
	return collect_self_label(s, out, key, name) &&
	       collect_self_u64(out, (uint64_t)json_integer_value(number));
}

/* of_store(), of_objects() and fill_measured() output the values that have the family's key. */

static bool of_store(struct collect_self *s, struct export_series *out)
{
	const json_t *j = get_store(s);

	return j && fill_named(s, out, "store", name_of(j), json_object_get(j, s->family->key));
}

static bool of_objects(struct collect_self *s, struct export_series *out)
{
	json_t *j = get_store(s), *object;
	uint64_t bytes = 0;
	size_t i;

	json_array_foreach(json_object_get(j, "objects"), i, object)
		bytes += (uint64_t)json_integer_value(json_object_get(object, s->family->key));
	return j && collect_self_label(s, out, "store", name_of(j)) && collect_self_u64(out, bytes);
}

/* Outputs the load of the newest epoch, or 0 for a store without an epoch. */
static bool dta_load(struct collect_self *s, struct export_series *out)
{
	const json_t *j = get_store(s);
	json_t *load;
	double v;

	if (!j)
		return false;
	load = dta_store_server_load_json(s->arg, name_of(j));
	v = json_number_value(json_object_get(json_array_get(load, 0), "load"));
	json_decref(load);
	return collect_self_label(s, out, "store", name_of(j)) && collect_self_f64(out, v);
}

/* Fills in a measurement of the newest epoch, for stores that measure it. */
static bool fill_measured(struct collect_self *s, struct export_series *out)
{
	const json_t *j, *m;

	for (; (j = get_store(s)); s->at++) {
		json_t *load = dta_store_server_load_json(s->arg, name_of(j));
		double v;

		m = json_object_get(json_array_get(load, 0), "measured");
		v = json_number_value(json_object_get(m, s->family->key));
		m = json_is_object(m) ? m : NULL;
		json_decref(load);
		if (m)
			return collect_self_label(s, out, "store", name_of(j)) &&
			       collect_self_f64(out, v);
	}
	return false;
}

static bool dta_reports(struct collect_self *s, struct export_series *out)
{
	static const char *const of[] = {"stored", "waiting", "duplicates",
					 "late",   "lost",    "missing"};
	const json_t *account = json_object_get(get_status(s), "account");
	json_t *dropped = json_object_get(account, "dropped_by_cause"), *value;
	const char *key;
	size_t i = sizeof(of) / sizeof(*of);
	char name[64];

	if (s->at < i)
		return fill_named(s, out, "outcome", of[s->at],
				  json_object_get(account, of[s->at]));
	json_object_foreach(dropped, key, value)
	{
		if (i++ != s->at)
			continue;
		snprintf(name, sizeof(name), "dropped_%s", key);
		return fill_named(s, out, "outcome", name, value);
	}
	return false;
}

static bool dta_units(struct collect_self *s, struct export_series *out)
{
	static const char *const of[] = {"standing", "overwritten", "updated", "expired"};
	const json_t *units = json_object_get(json_object_get(get_status(s), "account"), "units");

	return s->at < 4 &&
	       fill_named(s, out, "state", of[s->at], json_object_get(units, of[s->at]));
}

static bool dta_reloads(struct collect_self *s, struct export_series *out)
{
	static const char *const of[] = {"done", "refused"};

	return s->at < 2 &&
	       fill_named(s, out, "outcome", of[s->at],
			  json_object_get(get_status(s), s->at ? "reloads_refused" : "reloads"));
}

/*
 * Finds the i-th number among an input's counters, including refusals. Returns false after the last
 * one.
 */
static bool device_number(const json_t *counts, size_t i, char name[64], json_t **number)
{
	json_t *refused = json_object_get(counts, "refused"), *value;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)counts, key, value)
	{
		if (!json_is_integer(value) || i--)
			continue;
		snprintf(name, 64, "%s", key);
		*number = value;
		return true;
	}
	json_object_foreach(refused, key, value)
	{
		if (i--)
			continue;
		snprintf(name, 64, "refused_%s", key);
		*number = value;
		return true;
	}
	return false;
}

static bool dta_devices(struct collect_self *s, struct export_series *out)
{
	json_t *devices = NULL, *counts, *number;
	const char *input;
	size_t before = 0;
	char name[64];

	json_unpack(get_status(s), "{s:{s:{s:o}}}", "account", "translators", "devices", &devices);
	json_object_foreach(devices, input, counts)
	{
		const size_t n = json_object_size(counts) - 1 +
				 json_object_size(json_object_get(counts, "refused"));

		if (s->at < before + n)
			return device_number(counts, s->at - before, name, &number) &&
			       SELF_LABELS(s, out, {"input", input}, {"count", name}) &&
			       collect_self_u64(out, (uint64_t)json_integer_value(number));
		before += n;
	}
	return false;
}

#define EXPORTERS_MAX 256u /* maximum number of exporters with their own series */

static const char *const exporter_counts[] = {
	"datagrams",   "records", "options",  "lost",	   "restarts",
	"no_template", "refused", "unmapped", "saturated", "templates",
};
#define EXPORTER_COUNTS (sizeof(exporter_counts) / sizeof(*exporter_counts))

/* Adds an exporter to the entry of its input and address, or to "other" if there are too many. */
static void add_exporter(json_t *all, const json_t *e)
{
	const char *input = json_string_value(json_object_get(e, "input"));
	const char *address = json_string_value(json_object_get(e, "address"));
	char key[80];
	json_t *to;

	snprintf(key, sizeof(key), "%s %s", input, address);
	to = json_object_get(all, key);
	if (!to && json_object_size(all) >= EXPORTERS_MAX) {
		address = "other";
		snprintf(key, sizeof(key), "%s %s", input, address);
		to = json_object_get(all, key);
	}
	if (!to) {
		to = json_pack("{s:s,s:s}", "input", input, "address", address);
		json_object_set_new(all, key, to);
	}
	for (size_t i = 0; i < EXPORTER_COUNTS; i++)
		json_object_set_new(
			to, exporter_counts[i],
			json_integer(json_integer_value(json_object_get(to, exporter_counts[i])) +
				     json_integer_value(json_object_get(e, exporter_counts[i]))));
}

static json_t *get_exporters(struct collect_self *s)
{
	struct stores_walk *w = s->own;
	json_t *said, *e;
	size_t i;

	if (w->exporters)
		return w->exporters;
	w->exporters = json_object();
	said = dta_store_server_exporters(s->arg);
	json_array_foreach(json_object_get(said, "exporters"), i, e) add_exporter(w->exporters, e);
	json_decref(said);
	return w->exporters;
}

static bool dta_exporters(struct collect_self *s, struct export_series *out)
{
	const char *count = exporter_counts[s->at % EXPORTER_COUNTS], *key;
	size_t at = s->at / EXPORTER_COUNTS;
	json_t *e;

	json_object_foreach(get_exporters(s), key, e)
	{
		if (at--)
			continue;
		return SELF_LABELS(s, out, {"count", count},
				   {"exporter", json_string_value(json_object_get(e, "address"))},
				   {"input", json_string_value(json_object_get(e, "input"))}) &&
		       collect_self_u64(out,
					(uint64_t)json_integer_value(json_object_get(e, count)));
	}
	return false;
}

static bool dta_mended(struct collect_self *s, struct export_series *out)
{
	const json_t *n = json_object_get(get_status(s), "mended");

	return collect_self_single(s, out, (uint64_t)json_integer_value(n));
}

static bool dta_collisions(struct collect_self *s, struct export_series *out)
{
	json_int_t n = 0;

	json_unpack(get_status(s), "{s:{s:{s:{s:I}}}}", "account", "translators", "loss",
		    "collisions", &n);
	return collect_self_single(s, out, (uint64_t)n);
}

static bool dta_refused(struct collect_self *s, struct export_series *out)
{
	json_t *causes = json_object_get(get_status(s), "refused_by_cause"), *value;
	const char *key;
	size_t i = 0;

	json_object_foreach(causes, key, value)
	{
		if (i++ == s->at)
			return fill_named(s, out, "cause", key, value);
	}
	return false;
}

/*
 * Returns the i-th series that the configuration of the stores lists, over all stores; *of: the
 * store's name.
 */
static const json_t *get_listed(struct collect_self *s, size_t i, const char **of)
{
	json_t *j;
	size_t k;

	json_array_foreach(json_object_get(get_status(s), "stores"), k, j)
	{
		const json_t *series = json_object_get(j, "series");

		*of = name_of(j);
		if (i < json_array_size(series))
			return json_array_get(series, i);
		i -= json_array_size(series);
	}
	return NULL;
}

static bool dta_key_found(struct collect_self *s, struct export_series *out)
{
	const char *of = "";
	const json_t *j = get_listed(s, s->at, &of);

	return j && SELF_LABELS(s, out, {"series", name_of(j)}, {"store", of}) &&
	       collect_self_u64(out, json_object_get(j, "value") != NULL);
}

/* A key that is not found has no series. */
static bool dta_key_value(struct collect_self *s, struct export_series *out)
{
	const json_t *j, *value = NULL;
	const char *of = "";

	while ((j = get_listed(s, s->at, &of)) && !(value = json_object_get(j, "value")))
		s->at++;
	if (!j || !SELF_LABELS(s, out, {"series", name_of(j)}, {"store", of}))
		return false;
	/* A value that exceeds 63 bits is a string. */
	return json_is_string(value) ? collect_self_f64(out, strtod(json_string_value(value), NULL))
				     : collect_self_u64(out, (uint64_t)json_integer_value(value));
}

static bool dta_translators(struct collect_self *s, struct export_series *out)
{
	json_t *t;
	uint64_t connected = 0;
	size_t i;

	json_array_foreach(json_object_get(get_status(s), "translators"), i, t)
		connected += json_is_true(json_object_get(t, "connected"));
	return collect_self_single(s, out, connected);
}

/* ---- the families ---- */

static const struct collect_self_family dta_families[] = {
	{"sidelight_dta_collisions", COUNTER, "",
	 "Reporters that sent at the same time as another one with the same number; the translator's log names them.",
	 .series = dta_collisions},
	{"sidelight_dta_devices", GAUGE, "",
	 "Input of translators from devices, by kind: datagrams, records, lost, refused_CAUSE and more.",
	 .series = dta_devices},
	{"sidelight_dta_epoch", GAUGE, "", "The current epoch of a store.", .series = of_store,
	 .key = "epoch"},
	{"sidelight_dta_exporters", GAUGE, "",
	 "What each exporter sent, by input: datagrams, records, lost, no_template and more; "
	 "exporters beyond 256 are added up as other.",
	 .series = dta_exporters},
	{"sidelight_dta_found_predicted_ratio", GAUGE, "ratio",
	 "Share of keys in a store's newest epoch that a query is expected to find, predicted from the age of sampled keys.",
	 .series = fill_measured, .key = "predicted"},
	{"sidelight_dta_found_ratio", GAUGE, "ratio",
	 "Measured share of keys that a query finds, from a sample of up to 1,024 keys in the key "
	 "log of a store's newest epoch.",
	 .series = fill_measured, .key = "ratio"},
	{"sidelight_dta_key_found", GAUGE, "",
	 "1 if a key listed in the file of stores is found, 0 if not.", .series = dta_key_found},
	{"sidelight_dta_key_value", GAUGE, "",
	 "Value of a key listed in the file of stores, from the newest epoch that has it.",
	 .series = dta_key_value},
	{"sidelight_dta_late_rotations", COUNTER, "",
	 "Epochs that began late because a translator was still writing to the memory they reuse.",
	 .series = of_store, .key = "rotations_late"},
	{"sidelight_dta_load_ratio", GAUGE, "ratio",
	 "Estimated keys written in this epoch per slot of a store; 0 for kinds without slots.",
	 .series = dta_load},
	{"sidelight_dta_mended", COUNTER, "",
	 "Stores repaired after a translator truncated or overwrote their memory.",
	 .series = dta_mended},
	{"sidelight_dta_refused_connections", COUNTER, "",
	 "Connections to the store server closed before the handshake completed, by cause.",
	 .series = dta_refused},
	{"sidelight_dta_reloads", COUNTER, "", "Reloads of the file of stores, by outcome.",
	 .series = dta_reloads},
	{"sidelight_dta_reports", GAUGE, "",
	 "Reports counted by translators, by outcome; they add up to the reports sent.",
	 .series = dta_reports},
	{"sidelight_dta_rotations", COUNTER, "", "Epochs begun.", .series = of_store,
	 .key = "rotations"},
	{"sidelight_dta_store_bytes", GAUGE, "bytes", "Memory of a store.", .series = of_objects,
	 .key = "bytes"},
	{"sidelight_dta_store_huge_bytes", GAUGE, "bytes", "Memory of a store in pages of 2 MiB.",
	 .series = of_objects, .key = "huge_bytes"},
	{"sidelight_dta_translators", GAUGE, "", "Translators connected.",
	 .series = dta_translators},
	{"sidelight_dta_units", GAUGE, "",
	 "Slots and paths written by translators, by outcome: overwritten by another key, or "
	 "updated by the same key; partly estimated.",
	 .series = dta_units},
};

static const struct collect_part stores_part = {
	COLLECT_SELF_FAMILIES(dta),
	.walk_bytes = sizeof(struct stores_walk),
	.walk_end = end_walk,
};

int collect_self_stores(struct collect_collector *c, struct dta_store_server *stores)
{
	return collect_collector_attach(c, &stores_part, stores);
}
