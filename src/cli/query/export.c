// SPDX-License-Identifier: Apache-2.0
/* export.c - exports a store as CSV or JSON lines (query.h) */
#include "cli/query/query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/common/common.h"
#include "dta/query/export.h"
#include "dta/query/json.h"
#include "dta/store/hash.h"

#define SEEN_MAX   (1u << 22) /* maximum number of distinct keys, 24 bytes each */
#define KEYS_ONCE  1000u
#define FIELD_MAX  64u
#define RECORD_MAX (1u << 14) /* maximum size of a key's line in bytes */

struct seen_key {
	struct base_node node; /* .hash is the low half of the key's hash */
	uint64_t hi;
};

/* State of an export. */
struct cli_export {
	const struct cli_query_export *x;
	/* extra field with the collector's name, if there are several collectors */
	const char *collector;
	bool headed;
	const json_t *fields;
	uint64_t records, torn, lost, empty, twice;
	struct base_table seen; /* the exported keys */
	/* Keys of the next query. */
	char *keys[KEYS_ONCE];
	size_t n;
};

/* Records */

static void print_field(const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

/*
 * Prints a list separated by blanks: the hops of a path, where "?" stands for an unknown hop, or
 * collectors.
 */
static void print_list(const json_t *all)
{
	const json_t *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		if (i)
			putchar(' ');
		if (json_is_integer(one))
			printf("%lld", json_integer_value(one));
		else
			fputs(json_string_value(one) ?: "?", stdout);
	}
}

static void print_value(const json_t *v)
{
	if (json_is_string(v))
		print_field(json_string_value(v));
	else if (json_is_integer(v))
		printf("%lld", json_integer_value(v));
	else if (json_is_real(v))
		printf("%.17g", json_real_value(v));
	else if (json_is_array(v))
		print_list(v);
}

/* Prints a record, or the names of its fields if it is NULL. */
static void print_line(const struct cli_export *e, const json_t *record)
{
	const json_t *name;
	size_t i;

	json_array_foreach(e->fields, i, name)
	{
		const char *text = json_string_value(name) ?: "";

		if (i)
			putchar(',');
		if (record)
			print_value(json_object_get(record, text));
		else
			print_field(text);
	}
	if (e->collector) {
		putchar(',');
		print_field(record ? e->collector : "collector");
	}
	fputs("\r\n", stdout);
}

static void print_csv(struct cli_export *e, const json_t *record)
{
	if (!e->headed)
		print_line(e, NULL);
	e->headed = true;
	if (record)
		print_line(e, record);
}

static void write_record(struct cli_export *e, json_t *record)
{
	e->records++;
	if (!e->x->json) {
		print_csv(e, record);
		return;
	}
	if (e->collector)
		json_object_set_new(record, "collector", json_string(e->collector));
	cli_json_print(stdout, json_incref(record), JSON_COMPACT);
}

/* Duplicate keys */

/* Returns true if the key was exported before. Keys beyond SEEN_MAX may be exported twice. */
static bool was_seen(struct cli_export *e, const char *key)
{
	const struct dta_hash h = dta_hash(key, strlen(key), 0);
	struct seen_key *k = NULL;

	if (e->seen.buckets || base_table_init(&e->seen)) {
		k = base_table_first(&e->seen, h.lo);
		while (k && k->hi != h.hi)
			k = base_table_next(k);
		if (k)
			return true;
		k = e->seen.count < SEEN_MAX ? malloc(sizeof(*k)) : NULL;
	}
	if (!k) {
		e->twice++;
		return false;
	}
	k->hi = h.hi;
	base_table_add(&e->seen, k, h.lo);
	return false;
}

static void forget_seen(struct cli_export *e)
{
	BASE_TABLE_EACH(&e->seen, n) {
		base_table_remove(&e->seen, n);
		free(n);
	}
}

/* Queries for keys */

/* Returns the field names of the answers, with extra fields when replicas disagree. */
static json_t *fields_of(const struct cli_export *e, const json_t *answer)
{
	static const char *const of_replicas[] = {"wanted", "missing", "differ", "may_be_old",
						  "collector"};
	char error[160];
	json_t *fields = dta_export_fields(dta_store_kind_of(cli_json_text(answer, "kind")), error,
					   sizeof(error));

	if (!fields)
		base_failure(e->x->self, "%s", error);
	for (size_t i = 0; e->x->disagree && i < sizeof(of_replicas) / sizeof(*of_replicas); i++)
		json_array_append_new(fields, json_string(of_replicas[i]));
	return fields;
}

/* Returns true if at least one replica has the key and the queried replicas are not all equal. */
static bool replicas_disagree(const json_t *answer)
{
	const json_t *r = json_object_get(answer, "replicas");

	return cli_query_weight(answer) > 1 && (json_array_size(json_object_get(r, "missing")) ||
						json_array_size(json_object_get(r, "differ")));
}

static bool ask_some(struct cli_export *e)
{
	json_t *answers = e->n ? e->x->ask(e->keys, e->n) : NULL, *a;
	const size_t n = e->n;
	size_t i;

	for (i = 0; i < n; i++)
		free(e->keys[i]);
	e->n = 0;
	if (!answers)
		return !n;
	e->fields = fields_of(e, json_array_get(answers, 0));
	json_array_foreach(e->fields ? answers : NULL, i, a)
	{
		if (e->x->disagree && !replicas_disagree(a))
			continue;
		if (!e->x->json) /* give each member of "replicas" its own column */
			json_object_update_missing(a, json_object_get(a, "replicas"));
		e->empty += !cli_json_is(a, "result", "found");
		write_record(e, a);
	}
	i = json_array_size(e->fields);
	json_decref((json_t *)(uintptr_t)e->fields);
	e->fields = NULL;
	json_decref(answers);
	return i;
}

static bool ask_for(struct cli_export *e, const char *key)
{
	e->keys[e->n] = strdup(key);
	return e->keys[e->n] && (++e->n < KEYS_ONCE || ask_some(e));
}

/* Pages */

/* Writes the cells of a sketch, which arrive in a single page. */
static bool write_cells(struct cli_export *e, const json_t *page)
{
	const json_int_t rows = cli_json_integer(page, "rows"),
			 columns = cli_json_integer(page, "columns");
	const bool bytes = cli_json_is(page, "sketch", "hyperloglog");
	const bool sign = cli_json_is(page, "sketch", "count-sketch");
	const char *hex = cli_json_text(page, "cells");
	const size_t each = bytes ? 1 : 8;
	uint8_t *cells = NULL;
	bool good;

	if (rows <= 0 || columns <= 0 || (uint64_t)rows > SIZE_MAX / 16 / (uint64_t)columns ||
	    strlen(hex) != 2 * each * (size_t)rows * (size_t)columns)
		return false;
	cells = malloc(strlen(hex) / 2);
	good = cells && !base_unhex(cells, hex, strlen(hex) / 2);
	for (json_int_t i = 0; good && i < rows * columns; i++) {
		uint64_t cell = 0;
		json_t *record;

		memcpy(&cell, cells + each * (size_t)i, each);
		if (!cell)
			continue;
		record = json_pack("{s:s,s:I,s:I,s:I,s:o}", "store", cli_json_text(page, "store"),
				   "epoch", cli_json_integer(page, "epoch"), "row", i / columns,
				   "column", i % columns, "value",
				   sign ? json_integer((json_int_t)cell) : dta_query_number(cell));
		write_record(e, record);
		json_decref(record);
	}
	free(cells);
	return good;
}

static bool write_page(struct cli_export *e, json_t *page)
{
	json_t *record;
	size_t i;

	e->fields = json_object_get(page, "fields");
	if (json_array_size(e->fields) < 2 || json_array_size(e->fields) > FIELD_MAX)
		return false;
	e->torn += (uint64_t)cli_json_integer(page, "torn");
	e->lost += (uint64_t)cli_json_integer(page, "lost");
	e->empty += (uint64_t)cli_json_integer(page, "empty");
	if (e->x->disagree && !cli_json_is(page, "by", "key")) {
		base_failure(e->x->self,
			     "store '%s' has no key log: specify the keys with --keys FILE",
			     cli_json_text(page, "store"));
		return false;
	}
	if (!e->x->json && !e->headed && !e->x->disagree)
		print_csv(e, NULL);
	if (cli_json_is(page, "by", "cell"))
		return write_cells(e, page);
	json_array_foreach(json_object_get(page, "records"), i, record)
	{
		if (!json_is_object(record))
			return false;
		json_object_set(record, "store", json_object_get(page, "store"));
		if (cli_json_is(page, "by", "key") && was_seen(e, cli_json_text(record, "key")))
			continue;
		if (!e->x->disagree)
			write_record(e, record);
		else if (!ask_for(e, cli_json_text(record, "key")))
			return false;
	}
	return true;
}

/* Reports on stderr what is missing from the export, because a table has no place for it. */
static int finish_export(struct cli_export *e, int code)
{
	forget_seen(e);
	base_table_free(&e->seen);
	while (e->n)
		free(e->keys[--e->n]);
	code = cli_output_end(e->x->self, code);
	if (code)
		return code;
	base_logf(BASE_INFO, "query",
		  "exported records=%" PRIu64 " torn=%" PRIu64 " lost_blocks=%" PRIu64
		  " empty_keys=%" PRIu64,
		  e->records, e->torn, e->lost, e->empty);
	if (e->x->disagree && e->records)
		code = BASE_EXIT_FAILURE;
	if (e->twice)
		base_failure(e->x->self, "more than %u keys: some may be exported twice", SEEN_MAX);
	return code;
}

static json_t *page_of(struct cli_query_collectors *c, uint32_t member, const char *store,
		       const struct cli_export *e, const char *epoch, const char *at)
{
	char path[CLI_QUERY_PATH] = "/api/v1/dta/export";

	cli_query_add_parameter(path, "store", store);
	if (e->x->slots)
		cli_query_add_parameter(path, "slots", "1");
	if (*epoch)
		cli_query_add_parameter(path, "epoch", epoch);
	if (*at)
		cli_query_add_parameter(path, "at", at);
	return cli_query_get(c, member, path);
}

static bool export_member(struct cli_export *e, struct cli_query_collectors *c, uint32_t member,
			  const char *store)
{
	char epoch[24] = "", at[84] = "";
	uint64_t where[4];

	if (c->set->has_epoch)
		snprintf(epoch, sizeof(epoch), "%" PRIu64, c->set->epoch_at);
	for (;;) {
		json_t *page = page_of(c, member, store, e, epoch, at);
		const char *next = cli_json_text(page, "next");
		bool good;

		if (!page)
			return false;
		good = write_page(e, page) &&
		       (!*next || (strcmp(next, at) && !dta_export_at(next, where)));
		snprintf(at, sizeof(at), "%s", next);
		if (json_object_get(page, "epoch"))
			snprintf(epoch, sizeof(epoch), "%lld", cli_json_integer(page, "epoch"));
		json_decref(page);
		if (!good) {
			base_failure(e->x->self, "%s: sent a malformed page", c->member[member].at);
			return false;
		}
		if (!*at || ferror(stdout))
			return true;
	}
}

/* Keys from a file */

static int export_keys(struct cli_export *e)
{
	FILE *f = fopen(e->x->keys, "re");
	char line[RECORD_MAX];
	uint8_t key[SL_STORE_KEY_MAX];
	unsigned long number = 0;
	bool good = f;

	if (!f)
		return finish_export(
			e, base_failure(e->x->self, "%s: %s", e->x->keys, strerror(errno)));
	while (good && fgets(line, sizeof(line), f)) {
		number++;
		line[strcspn(line, "\r\n")] = 0;
		if (!*line)
			continue;
		if (dta_query_key(line, key) < 0) {
			base_failure(e->x->self, "%s:%lu: invalid key", e->x->keys, number);
			good = false;
		} else {
			good = ask_for(e, line);
		}
	}
	good = good && ask_some(e);
	fclose(f);
	return finish_export(e, good ? BASE_EXIT_OK : BASE_EXIT_FAILURE);
}

/* Commands */

int cli_query_export(const struct cli_query_export *x, struct cli_query_collectors *c,
		     const char *store)
{
	struct cli_export e = {.x = x};
	int code = BASE_EXIT_OK;

	if (x->keys)
		return export_keys(&e);
	for (uint32_t m = 0; m < c->n; m++) {
		e.collector = c->n > 1 && !x->disagree ? c->member[m].at : NULL;
		/* A key is exported once per collector. */
		if (!x->disagree)
			forget_seen(&e);
		if (!export_member(&e, c, m, store))
			code = BASE_EXIT_FAILURE;
	}
	if (!ask_some(&e))
		code = BASE_EXIT_FAILURE;
	return finish_export(&e, code);
}

int cli_query_export_object(const struct cli_query_export *x, const struct cli_query_settings *set,
			    const struct dta_store_object *object)
{
	const struct dta_held held = {.count = 1, .view = {&object->view}};
	struct dta_store_epochs epochs = {0};
	struct cli_export e = {.x = x};
	char error[160];

	if (x->keys)
		return export_keys(&e);
	dta_store_epochs(&object->view, &epochs);
	if (set->has_epoch)
		epochs.epoch = epochs.oldest = set->epoch_at;
	if (object->view.config->kind == SL_STORE_APPEND)
		epochs.oldest = epochs.epoch;
	if (epochs.epoch - epochs.oldest >= SL_STORE_BANKS_MAX)
		return finish_export(&e, base_failure(x->self, "the collector did not report the "
							       "store's epochs"));
	for (uint64_t epoch = epochs.oldest; epoch <= epochs.epoch; epoch++) {
		struct dta_export page = {.epoch = epoch, .slots = x->slots};
		bool more = true;

		while (more && !ferror(stdout)) {
			json_t *j = dta_export_page(&held, NULL, &page, error, sizeof(error));
			const char *next = cli_json_text(j, "next");

			/* An epoch of a sketch may be empty. */
			if (!j && !set->has_epoch && epoch < epochs.epoch)
				break;
			if (!j)
				return finish_export(&e, base_failure(x->self, "%s", error));
			more = !dta_export_at(next, page.at);
			write_page(&e, j);
			json_decref(j);
		}
	}
	return finish_export(&e, BASE_EXIT_OK);
}
