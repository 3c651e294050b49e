// SPDX-License-Identifier: Apache-2.0
/* dta.c - the collector's own series about stores of reports, from one status per walk */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "collect/read/self.h"
#include "collect/self/self.h"
#include "dta/query/json.h"
#include "dta/store_server/server.h"

/* A series. family: collect_self_family.key of its family. */
struct stores_series {
	const char *family;
	struct region_text_label label[3]; /* the rest is {NULL, NULL} */
	const json_t *value;		   /* NULL means 0; a string is a number beyond 63 bits */
};

/* State of a walk over the stores (collect_part.walk_bytes). */
struct stores_walk {
	bool listed, failed; /* failed: out of memory */
	json_t *keep;	     /* an array of all objects that the series refer to */
	struct stores_series *series;
	size_t n, room, next;
};

static void end_walk(struct collect_self *s)
{
	struct stores_walk *w = s->own;

	json_decref(w->keep);
	free(w->series);
}

/* Keeps an object until the end of the walk. Returns NULL if out of memory. */
static json_t *keep(struct stores_walk *w, json_t *j)
{
	if (!json_array_append_new(w->keep, j))
		return j;
	w->failed = true;
	return NULL;
}

static const char *text_of(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key)) ?: "";
}

#define LABELS(...)		   ((const struct region_text_label[3]){__VA_ARGS__})
#define PUT(w, family, value, ...) put_series(w, family, value, LABELS(__VA_ARGS__))
static void put_series(struct stores_walk *w, const char *family, const json_t *value,
		       const struct region_text_label label[3])
{
	if (!BASE_GROW(w->series, w->n, w->room)) {
		w->failed = true;
		return;
	}
	w->series[w->n] = (struct stores_series){.family = family, .value = value};
	memcpy(w->series[w->n++].label, label, sizeof(w->series->label));
}

/*
 * Puts a series for each number in an object. The label without a value gets the prefix, followed
 * by the number's key in the object.
 */
static void put_numbers(struct stores_walk *w, const char *family, json_t *from, const char *prefix,
			const struct region_text_label labels[3])
{
	struct region_text_label l[3] = {labels[0], labels[1], labels[2]}, *name = l;
	const char *key;
	json_t *value;

	while (name->value)
		name++;
	json_object_foreach(from, key, value)
	{
		name->value = json_string_value(keep(w, json_sprintf("%s%s", prefix, key))) ?: "";
		if (json_is_integer(value))
			put_series(w, family, value, l);
	}
}

/* ---- a store ---- */

/* Puts the keys listed in the file of stores. A key that was not found has no value. */
static void put_listed(struct stores_walk *w, const json_t *store)
{
	const json_t *j, *value;
	size_t i;

	json_array_foreach(json_object_get(store, "series"), i, j)
	{
		const struct region_text_label labels[3] = {{"series", text_of(j, "name")},
							    {"store", text_of(store, "name")}};

		value = json_object_get(j, "value");
		put_series(w, "found", keep(w, json_integer(value != NULL)), labels);
		if (value)
			put_series(w, "value", value, labels);
	}
}

static void put_store(struct stores_walk *w, struct dta_store_server *server, const json_t *store)
{
	static const char *const own[] = {"epoch", "rotations_late", "rotations"};
	static const char *const sums[] = {"bytes", "huge_bytes"};
	const struct region_text_label of = {"store", text_of(store, "name")};
	json_t *loads = dta_store_server_load_json(server, of.value);
	/* the load of the newest epoch; 0 for a store without one */
	const json_t *load = json_array_get(loads ? keep(w, loads) : NULL, 0);
	const json_t *measured = json_object_get(load, "measured"), *object;
	size_t k;

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		PUT(w, own[i], json_object_get(store, own[i]), of);
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
		json_int_t bytes = 0;

		json_array_foreach(json_object_get(store, "objects"), k, object)
			bytes += json_integer_value(json_object_get(object, sums[i]));
		PUT(w, sums[i], keep(w, json_integer(bytes)), of);
	}
	PUT(w, "load", json_object_get(load, "load"), of);
	if (json_is_object(measured)) {
		PUT(w, "predicted", json_object_get(measured, "predicted"), of);
		PUT(w, "ratio", json_object_get(measured, "ratio"), of);
	}
	put_listed(w, store);
}

/* ---- exporters ---- */

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

/* Puts the counts of each exporter, summed over all translators. */
static void put_exporters(struct stores_walk *w, struct dta_store_server *server)
{
	json_t *all = keep(w, json_object()), *e;
	const json_t *said = keep(w, dta_store_server_exporters(server));
	const char *key;
	size_t i;

	json_array_foreach(json_object_get(said, "exporters"), i, e) add_exporter(all, e);
	json_object_foreach(all, key, e) for (i = 0; i < EXPORTER_COUNTS; i++)
		PUT(w, "exporters", json_object_get(e, exporter_counts[i]),
		    {"count", exporter_counts[i]}, {"exporter", text_of(e, "address")},
		    {"input", text_of(e, "input")});
}

/* ---- the account ---- */

static void put_account(struct stores_walk *w, const json_t *account)
{
	static const char *const outcomes[] = {"stored", "waiting", "duplicates", "late",
					       "lost",	 "missing", "unknown"};
	static const char *const states[] = {"standing", "overwritten", "updated", "expired"};
	const json_t *units = json_object_get(account, "units");
	const json_t *translators = json_object_get(account, "translators");
	const char *input;
	json_t *counts;

	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
		PUT(w, "reports", json_object_get(account, outcomes[i]), {"outcome", outcomes[i]});
	put_numbers(w, "reports", json_object_get(account, "dropped_by_cause"), "dropped_",
		    LABELS({"outcome", NULL}));
	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
		PUT(w, "units", json_object_get(units, states[i]), {"state", states[i]});
	PUT(w, "collisions", json_object_get(json_object_get(translators, "loss"), "collisions"),
	    {NULL, NULL});
	json_object_foreach(json_object_get(translators, "devices"), input, counts)
	{
		const struct region_text_label labels[3] = {{"input", input}, {"count", NULL}};

		put_numbers(w, "devices", counts, "", labels);
		put_numbers(w, "devices", json_object_get(counts, "refused"), "refused_", labels);
	}
}

static void list_series(struct stores_walk *w, struct dta_store_server *server)
{
	json_t *status, *j;
	json_int_t connected = 0;
	size_t i;

	w->listed = true;
	w->keep = json_array();
	status = keep(w, dta_store_server_json(server));
	json_array_foreach(json_object_get(status, "stores"), i, j) put_store(w, server, j);
	put_exporters(w, server);
	put_account(w, json_object_get(status, "account"));
	PUT(w, "mended", json_object_get(status, "mended"), {NULL, NULL});
	PUT(w, "reloads", json_object_get(status, "reloads"), {"outcome", "done"});
	PUT(w, "reloads", json_object_get(status, "reloads_refused"), {"outcome", "refused"});
	put_numbers(w, "refused", json_object_get(status, "refused_by_cause"), "",
		    LABELS({"cause", NULL}));
	json_array_foreach(json_object_get(status, "translators"), i, j)
		connected += json_is_true(json_object_get(j, "connected"));
	PUT(w, "translators", keep(w, json_integer(connected)), {NULL, NULL});
	if (w->failed)
		w->n = 0; /* no series is better than one with a false zero */
}

/* Collects the status only when the first series is requested, because it scans the stores. */
static bool next_series(struct collect_self *s, struct export_series *out)
{
	struct stores_walk *w = s->own;
	const struct stores_series *e;
	uint32_t labels = 0;

	if (!w->listed)
		list_series(w, s->arg);
	w->next = s->at ? w->next : 0;
	while (w->next < w->n && strcmp(w->series[w->next].family, s->family->key))
		w->next++;
	if (w->next == w->n)
		return false;
	e = &w->series[w->next++];
	while (labels < 3 && e->label[labels].key)
		labels++;
	if (!collect_self_labels(s, out, e->label, labels))
		return false;
	if (json_is_string(e->value))
		return collect_self_f64(out, strtod(json_string_value(e->value), NULL));
	return json_is_real(e->value)
		       ? collect_self_f64(out, json_real_value(e->value))
		       : collect_self_u64(out, (uint64_t)json_integer_value(e->value));
}

#define LISTED(as) .series = next_series, .key = (as)

/* ---- the families ---- */

static const struct collect_self_family dta_families[] = {
	{"sidelight_dta_collisions", COUNTER, "",
	 "Reporters that sent at the same time as another one with the same number; the translator's log names them.",
	 LISTED("collisions")},
	{"sidelight_dta_devices", GAUGE, "",
	 "Input of translators from devices, by kind: datagrams, records, lost, refused_CAUSE and more.",
	 LISTED("devices")},
	{"sidelight_dta_epoch", GAUGE, "", "The current epoch of a store.", LISTED("epoch")},
	{"sidelight_dta_exporters", GAUGE, "",
	 "What each exporter sent, by input: datagrams, records, lost, no_template and more; "
	 "exporters beyond 256 are added up as other.",
	 LISTED("exporters")},
	{"sidelight_dta_found_predicted_ratio", GAUGE, "ratio",
	 "Share of keys in a store's newest epoch that a query is expected to find, predicted from the age of sampled keys.",
	 LISTED("predicted")},
	{"sidelight_dta_found_ratio", GAUGE, "ratio",
	 "Measured share of keys that a query finds, from a sample of up to 1,024 keys in the key "
	 "log of a store's newest epoch.",
	 LISTED("ratio")},
	{"sidelight_dta_key_found", GAUGE, "",
	 "1 if a key listed in the file of stores is found, 0 if not.", LISTED("found")},
	{"sidelight_dta_key_value", GAUGE, "",
	 "Value of a key listed in the file of stores, from the newest epoch that has it.",
	 LISTED("value")},
	{"sidelight_dta_late_rotations", COUNTER, "",
	 "Epochs that began late because a translator was still writing to the memory they reuse.",
	 LISTED("rotations_late")},
	{"sidelight_dta_load_ratio", GAUGE, "ratio",
	 "Estimated keys written in this epoch per slot of a store; 0 for kinds without slots.",
	 LISTED("load")},
	{"sidelight_dta_mended", COUNTER, "",
	 "Stores repaired after a translator truncated or overwrote their memory.",
	 LISTED("mended")},
	{"sidelight_dta_refused_connections", COUNTER, "",
	 "Connections to the store server closed before the handshake completed, by cause.",
	 LISTED("refused")},
	{"sidelight_dta_reloads", COUNTER, "", "Reloads of the file of stores, by outcome.",
	 LISTED("reloads")},
	{"sidelight_dta_reports", GAUGE, "",
	 "Reports counted by translators, by outcome; they add up to the reports sent.",
	 LISTED("reports")},
	{"sidelight_dta_rotations", COUNTER, "", "Epochs begun.", LISTED("rotations")},
	{"sidelight_dta_store_bytes", GAUGE, "bytes", "Memory of a store.", LISTED("bytes")},
	{"sidelight_dta_store_huge_bytes", GAUGE, "bytes", "Memory of a store in pages of 2 MiB.",
	 LISTED("huge_bytes")},
	{"sidelight_dta_translators", GAUGE, "", "Translators connected.", LISTED("translators")},
	{"sidelight_dta_units", GAUGE, "",
	 "Slots and paths written by translators, by outcome: overwritten by another key, or "
	 "updated by the same key; partly estimated.",
	 LISTED("units")},
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
