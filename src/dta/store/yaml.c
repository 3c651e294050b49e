// SPDX-License-Identifier: Apache-2.0
/*
 * yaml.c - parses the stores file (docs/dta-store.md). Every error is one line with the file name
 * and line number.
 */
#include "base/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/secret.h"
#include "dta/store/stores.h"
#include "dta/wire/text.h"

#define LAYOUT_BYTES 512u /* maximum size of a layout's list of names */
#define VALUES_MAX   (1u << 24)

struct dta_yaml_reader {
	struct base_yaml *y;
	struct dta_stores_config *c;
	bool files; /* whether other files may be opened */
	size_t series;
};

static void name_of(struct dta_yaml_reader *r, base_yaml_node mapping, const char *key, char to[64])
{
	base_yaml_node node = base_yaml_get(r->y, mapping, key);
	const char *s = "";

	if (!node)
		return;
	base_yaml_string(r->y, node, key, &s);
	if (!dta_name_fits(s))
		base_yaml_wrong(r->y, node,
				"%s '%.64s' must consist of 1 to 63 letters, digits, '_', '.' or "
				"'-'",
				key, s);
	else
		memcpy(to, s, strlen(s) + 1);
}

static void read_wide(struct dta_yaml_reader *r, base_yaml_node mapping, const char *key,
		      uint64_t min, uint64_t max, uint64_t *out)
{
	base_yaml_u64(r->y, base_yaml_get(r->y, mapping, key), key, min, max, out);
}

static uint32_t read_number(struct dta_yaml_reader *r, base_yaml_node mapping, const char *key,
			    uint64_t max, uint64_t otherwise)
{
	uint64_t v = otherwise;

	read_wide(r, mapping, key, 0, max, &v);
	return (uint32_t)v;
}

/* ---- tenants ---- */

static void key_file(struct dta_yaml_reader *r, base_yaml_node node, struct dta_key_spec *k)
{
	const char *path = NULL;
	int err;

	base_yaml_string(r->y, node, "key", &path);
	if (!path || !r->files || base_yaml_error(r->y))
		return;
	err = dta_key_read(path, k->key);
	if (err == -EINVAL)
		base_yaml_wrong(r->y, node, "key %s must have 32 hexadecimal digits", path);
	else if (err)
		base_yaml_wrong(r->y, node, "key %s: %s", path, strerror(-err));
	base_secret_warn("dta", path);
}

/* Parses N or FIRST-LAST. */
static void read_reporters(struct dta_yaml_reader *r, base_yaml_node node, struct dta_key_spec *k)
{
	const char *s = NULL, *dash;
	char first[16];
	uint64_t from, to;

	base_yaml_string(r->y, node, "reporter", &s);
	if (!s)
		return;
	dash = strchr(s, '-');
	snprintf(first, sizeof(first), "%.*s", (int)(dash ? dash - s : 15), s);
	if (base_parse_u64(first, 0, UINT32_MAX, &from) ||
	    base_parse_u64(dash ? dash + 1 : first, from, UINT32_MAX, &to)) {
		base_yaml_wrong(r->y, node, "reporter '%.32s' must be a number or FIRST-LAST", s);
		return;
	}
	k->own = true;
	k->first = (uint32_t)from;
	k->last = (uint32_t)to;
}

static void read_until(struct dta_yaml_reader *r, base_yaml_node node, struct dta_key_spec *k)
{
	struct tm tm = {0};
	const char *s = NULL, *end;

	base_yaml_string(r->y, node, "until", &s);
	if (!s)
		return;
	end = strptime(s, "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (!end || *end || timegm(&tm) <= 0)
		base_yaml_wrong(r->y, node,
				"until '%.32s' is not a time such as "
				"2026-12-31T23:59:59Z",
				s);
	else
		k->until_ns = (uint64_t)timegm(&tm) * 1000000000;
}

/*
 * `key` is the key of the tenant. `keys` lists keys of individual reporters, and keys used in a key
 * exchange.
 */
static void tenant_keys(struct dta_yaml_reader *r, base_yaml_node node, struct dta_tenant_spec *t)
{
	static const char *const names[] = {"reporter", "key", "until", NULL};
	base_yaml_node one = base_yaml_get(r->y, node, "key"),
		       list = base_yaml_get(r->y, node, "keys");
	const size_t n = base_yaml_count(r->y, list);
	const char *wrong;

	if (n > DTA_KEYS_TENANT_MAX - 1)
		base_yaml_wrong(r->y, list, "more than %u keys", DTA_KEYS_TENANT_MAX - 1);
	t->keys = calloc(n + 1, sizeof(*t->keys));
	if (!t->keys)
		base_yaml_wrong(r->y, node, "out of memory");
	if (base_yaml_error(r->y))
		return;
	if (one)
		key_file(r, one, &t->keys[t->key_count++]);
	for (size_t i = 0; i < n; i++) {
		base_yaml_node item = base_yaml_at(r->y, list, i);
		struct dta_key_spec *k = &t->keys[t->key_count++];

		if (!base_yaml_mapping(r->y, item, names))
			return;
		read_reporters(r, base_yaml_get(r->y, item, "reporter"), k);
		read_until(r, base_yaml_get(r->y, item, "until"), k);
		key_file(r, base_yaml_need(r->y, item, "key"), k);
	}
	wrong = dta_keys_check(t->keys, t->key_count);
	if (wrong)
		base_yaml_wrong(r->y, list, "%s", wrong);
}

static void read_tenant(struct dta_yaml_reader *r, base_yaml_node node, struct dta_tenant_spec *t)
{
	static const char *const keys[] = {"number", "name",  "key",	  "keys",
					   "rate",   "burst", "required", NULL};

	if (!base_yaml_mapping(r->y, node, keys))
		return;
	base_yaml_need(r->y, node, "number");
	t->number = (uint16_t)read_number(r, node, "number", 65535, 0);
	name_of(r, node, "name", t->name);
	read_wide(r, node, "rate", 0, UINT64_MAX >> 1, &t->rate);
	t->burst = t->rate / 10 > 64 ? t->rate / 10 : 64;
	read_wide(r, node, "burst", 1, UINT64_MAX >> 1, &t->burst);
	tenant_keys(r, node, t);
	t->required = t->key_count > 0;
	base_yaml_bool(r->y, base_yaml_get(r->y, node, "required"), "required", &t->required);
	if (t->required && !t->key_count)
		base_yaml_wrong(r->y, node,
				"required: true needs a key, otherwise every report "
				"would be refused");
	for (size_t i = 0; &r->c->tenants[i] < t; i++)
		if (r->c->tenants[i].number == t->number)
			base_yaml_wrong(r->y, node, "duplicate tenant %u", t->number);
}

/* ---- stores ---- */

/* Reads the values that a hop may report, one per line; '#' starts a comment. */
static void read_values(struct dta_yaml_reader *r, base_yaml_node node, struct dta_store_spec *s)
{
	const char *path = NULL;
	char *line = NULL;
	size_t room = 0, at = 0, line_room = 0;
	FILE *f;

	base_yaml_string(r->y, node, "values", &path);
	if (!path || !r->files)
		return;
	f = fopen(path, "re");
	if (!f) {
		base_yaml_wrong(r->y, node, "values %s: %s", path, strerror(errno));
		return;
	}
	while (!base_yaml_error(r->y) && getline(&line, &line_room, f) >= 0) {
		uint64_t v;

		at++;
		line[strcspn(line, "#\r\n")] = 0;
		for (size_t n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t');)
			line[--n] = 0;
		if (!*line)
			continue;
		if (base_parse_u64(line, 0, UINT32_MAX, &v) || s->value_count == VALUES_MAX) {
			base_yaml_wrong(r->y, node,
					"values %s: line %zu is not a number below 2^32", path, at);
			break;
		}
		if (!BASE_GROW(s->values, s->value_count, room)) {
			base_yaml_wrong(r->y, node, "out of memory");
			break;
		}
		s->values[s->value_count++] = (uint32_t)v;
	}
	free(line);
	fclose(f);
	if (!s->value_count)
		base_yaml_wrong(r->y, node, "values %s: the file contains no values", path);
	else
		qsort(s->values, s->value_count, 4, dta_store_by_value);
}

/* Parses {key: KEY, name: NAME, at: BYTE, bytes: N}. */
static void one_series(struct dta_yaml_reader *r, base_yaml_node node,
		       const struct dta_store_spec *s, struct dta_series_spec *to)
{
	static const char *const keys[] = {"key", "name", "at", "bytes", NULL};
	const uint32_t value = s->config.value_bytes;
	const bool counts = s->config.kind == SL_STORE_INCREMENT;
	base_yaml_node key;
	const char *word = "";
	int n;

	if (!base_yaml_mapping(r->y, node, keys))
		return;
	key = base_yaml_need(r->y, node, "key");
	base_yaml_need(r->y, node, "name");
	name_of(r, node, "name", to->name);
	base_yaml_string(r->y, key, "key", &word);
	n = dta_text(word, to->key, sizeof(to->key));
	if (n < (int)SL_STORE_KEY_MIN)
		base_yaml_wrong(r->y, key, "'%.80s' is not a key of 4 to 64 bytes", word);
	to->key_bytes = n > 0 ? (uint32_t)n : 0;
	to->at = read_number(r, node, "at", SL_STORE_VALUE_MAX, 0);
	to->bytes = read_number(r, node, "bytes", 8, value < 8 ? value : 8);
	if (counts ? to->at || base_yaml_get(r->y, node, "bytes")
		   : !to->bytes || to->at + to->bytes > value)
		base_yaml_wrong(r->y, node,
				"at and bytes must select 1 to 8 bytes of a value of %u bytes",
				value);
	for (size_t i = 0; &s->series[i] < to; i++)
		if (!strcmp(s->series[i].name, to->name))
			base_yaml_wrong(r->y, node, "duplicate series '%s'", to->name);
}

static void read_series(struct dta_yaml_reader *r, base_yaml_node node, struct dta_store_spec *s)
{
	const size_t n = base_yaml_count(r->y, node);

	if (!n)
		return;
	if (r->series + n > DTA_SERIES_MAX) {
		base_yaml_wrong(r->y, node, "more than %u series", DTA_SERIES_MAX);
		return;
	}
	r->series += n;
	s->series = calloc(n, sizeof(*s->series));
	if (!s->series)
		base_yaml_wrong(r->y, node, "out of memory");
	for (size_t i = 0; s->series && i < n && !base_yaml_error(r->y); i++)
		one_series(r, base_yaml_at(r->y, node, i), s, &s->series[s->series_count++]);
}

/* Reads a list of field names. The store server checks them, because it knows the fields. */
static char *read_layout(struct dta_yaml_reader *r, base_yaml_node node, const char *what)
{
	const size_t n = base_yaml_count(r->y, node);
	char names[LAYOUT_BYTES] = "";
	const char *name;
	size_t used = 0;

	for (size_t i = 0; i < n && used < sizeof(names); i++) {
		name = "";
		base_yaml_string(r->y, base_yaml_at(r->y, node, i), what, &name);
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? "," : "",
					 name);
	}
	if (used >= sizeof(names))
		base_yaml_wrong(r->y, node, "%s: the names take more than %u bytes", what,
				LAYOUT_BYTES);
	return n ? strdup(names) : NULL;
}

/* The YAML keys of a store, by kind. */
#define COMMON "name", "tenant", "number", "kind", "seed"
static const char *const *keys_of(uint32_t kind)
{
	static const char *const none[] = {COMMON, NULL};
	static const char *const keywrite[] = {COMMON,	 "slots",  "value",  "copies",
					       "epochs", "epoch",  "keylog", "series",
					       "key",	 "fields", NULL};
	static const char *const append[] = {COMMON,  "lists", "items",	 "value",
					     "batch", "lanes", "fields", NULL};
	static const char *const increment[] = {COMMON,	 "rows",   "columns", "copies", "epochs",
						"epoch", "keylog", "series",  "key",	NULL};
	static const char *const postcard[] = {COMMON,	 "slots", "hops",   "copies", "values",
					       "epochs", "epoch", "keylog", "key",    NULL};
	static const char *const sketch[] = {COMMON,	  "sketch", "rows",  "columns", "lanes",
					     "reporters", "epochs", "epoch", NULL};
	static const char *const *const of[] = {none,	   keywrite, append,
						increment, postcard, sketch};

	return of[kind];
}

static void read_store(struct dta_yaml_reader *r, base_yaml_node node, struct dta_store_spec *s)
{
	struct sl_store_config *c = &s->config;
	base_yaml_node kind, type;
	uint64_t items = 0;
	const char *word = "";
	char error[160];

	if (!base_yaml_is_mapping(r->y, node)) {
		base_yaml_wrong(r->y, node,
				"a store must be a mapping, as in {name: flows, number: 1, ...}");
		return;
	}
	kind = base_yaml_need(r->y, node, "kind");
	base_yaml_need(r->y, node, "name");
	base_yaml_need(r->y, node, "number");
	base_yaml_string(r->y, kind, "kind", &word);
	c->kind = dta_store_kind_of(word);
	if (!c->kind)
		base_yaml_wrong(
			r->y, kind,
			"kind '%.32s' is not one of key-write, append, increment, postcard, sketch",
			word);
	if (!base_yaml_mapping(r->y, node, keys_of(c->kind)) || base_yaml_error(r->y))
		return;
	name_of(r, node, "name", s->name);
	name_of(r, node, "keylog", s->keylog);
	s->layout[0] = read_layout(r, base_yaml_get(r->y, node, "key"), "key");
	s->layout[1] = read_layout(r, base_yaml_get(r->y, node, "fields"), "fields");
	c->tenant = (uint16_t)read_number(r, node, "tenant", 65535, 0);
	c->id = (uint16_t)read_number(r, node, "number", 65535, 0);
	c->rows = read_number(r, node, "rows", UINT32_MAX, c->kind == SL_STORE_INCREMENT ? 4 : 1);
	c->value_bytes = read_number(r, node, "value", UINT32_MAX, 0);
	c->lists = read_number(r, node, "lists", UINT32_MAX, c->kind == SL_STORE_APPEND);
	c->lanes = read_number(r, node, "lanes", UINT32_MAX,
			       c->kind == SL_STORE_APPEND || c->kind == SL_STORE_SKETCH ? 4 : 1);
	c->hops = read_number(r, node, "hops", UINT32_MAX, 0);
	c->reporters = read_number(r, node, "reporters", UINT32_MAX, 0);
	c->batch = read_number(r, node, "batch", UINT32_MAX, c->kind == SL_STORE_APPEND ? 16 : 0);
	c->banks = read_number(r, node, "epochs", UINT32_MAX, c->kind == SL_STORE_APPEND ? 1 : 2);
	c->copies = read_number(r, node, "copies", UINT32_MAX,
				c->kind == SL_STORE_KEYWRITE || c->kind == SL_STORE_POSTCARD ? 2
				: c->kind == SL_STORE_INCREMENT ? c->rows > 1 ? 2 : 1
								: 0);
	read_wide(r, node, "slots", 1, SL_STORE_SIZE_MAX, &c->slots);
	read_wide(r, node, "columns", 1, SL_STORE_SIZE_MAX, &c->slots);
	read_wide(r, node, "items", 1, SL_STORE_SIZE_MAX, &items);
	if (c->kind == SL_STORE_APPEND && c->batch)
		c->slots = (items + c->batch - 1) / c->batch;
	if (c->kind == SL_STORE_SKETCH) {
		type = base_yaml_need(r->y, node, "sketch");
		base_yaml_string(r->y, type, "sketch", &word);
		c->sketch = dta_store_sketch_of(word);
		if (!c->sketch)
			base_yaml_wrong(
				r->y, type,
				"sketch '%.32s' is not one of count-min, count-sketch, hyperloglog",
				word);
		/* Fixed by default, because all reporters must place keys in the same columns. */
		s->seeded = true;
	}
	read_wide(r, node, "seed", 0, UINT64_MAX, &c->seed);
	s->seeded |= base_yaml_get(r->y, node, "seed") != 0;
	if (!s->seeded && getrandom(&c->seed, sizeof(c->seed), 0) != sizeof(c->seed))
		c->seed = base_now_ns();
	base_yaml_duration(r->y, base_yaml_get(r->y, node, "epoch"), "epoch", &s->epoch_ns);
	if (s->epoch_ns && s->epoch_ns < 10000000)
		base_yaml_wrong(r->y, node,
				"epoch must be at least 10ms, or 0 to rotate only on request");
	if (s->epoch_ns && c->banks < 2)
		base_yaml_wrong(
			r->y, node,
			"epochs must be 2 or more if epoch is set, so that the previous epoch "
			"stays readable");
	if (base_yaml_error(r->y))
		return;
	if (dta_store_config_check(c, error, sizeof(error))) {
		base_yaml_wrong(r->y, node, "%s", error);
		return;
	}
	read_values(r, base_yaml_get(r->y, node, "values"), s);
	read_series(r, base_yaml_get(r->y, node, "series"), s);
	for (const struct dta_store_spec *o = r->c->stores; o < s; o++) {
		if (!strcmp(o->name, s->name))
			base_yaml_wrong(r->y, node, "duplicate store '%s'", s->name);
		if (o->config.tenant == c->tenant && o->config.id == c->id)
			base_yaml_wrong(r->y, node,
					"another store already has number %u of "
					"tenant %u",
					c->id, c->tenant);
	}
}

/*
 * Stores that share a key log use its lists in the order of the stores file, so that each list
 * contains the keys of only one store.
 */
static uint32_t list_of_log(const struct dta_yaml_reader *r, const struct dta_store_spec *s)
{
	uint32_t before = 0;

	for (const struct dta_store_spec *o = r->c->stores; o < s; o++)
		before += !strcmp(o->keylog, s->keylog);
	return before;
}

static void read_keylog(struct dta_yaml_reader *r, base_yaml_node node, struct dta_store_spec *s)
{
	if (!*s->keylog || base_yaml_error(r->y))
		return;
	for (size_t i = 0; i < r->c->store_count; i++) {
		const struct sl_store_config *c = &r->c->stores[i].config;

		if (strcmp(r->c->stores[i].name, s->keylog))
			continue;
		if (c->kind != SL_STORE_APPEND || c->tenant != s->config.tenant)
			base_yaml_wrong(r->y, node,
					"keylog '%s' is not an append store of tenant %u",
					s->keylog, s->config.tenant);
		s->config.keylog = 1u + c->id;
		s->config.keylog_list = list_of_log(r, s);
		if (s->config.keylog_list >= c->lists)
			base_yaml_wrong(
				r->y, node,
				"keylog '%s' has %u list%s, and each store that logs keys to "
				"it needs its own list: set lists to at least %u",
				s->keylog, c->lists, c->lists == 1 ? "" : "s",
				s->config.keylog_list + 1);
		return;
	}
	base_yaml_wrong(r->y, node, "keylog '%s' is not a store in this file", s->keylog);
}

/* ---- the stores file ---- */

static void read_secret(struct dta_yaml_reader *r, base_yaml_node node)
{
	const char *path = NULL;
	ssize_t n;

	base_yaml_string(r->y, node, "secret", &path);
	if (!path || !r->files || base_yaml_error(r->y))
		return;
	r->c->secret = malloc(BASE_SHARED_MAX);
	n = r->c->secret ? base_secret_shared(path, r->c->secret) : -ENOMEM;
	base_secret_warn("dta", path);
	if (n < 0)
		base_yaml_wrong(r->y, node, "secret %s: %s", path,
				n == -EINVAL ? "is not 16 to 4096 bytes long" : strerror((int)-n));
	else
		r->c->secret_bytes = (size_t)n;
}

/* Called after rdma and secret are parsed, because a peer on another host requires them. */
static void read_peer(struct dta_yaml_reader *r, base_yaml_node node, base_yaml_node secret_node)
{
	const char *peer = NULL;
	char host[256];
	uint16_t port = 0;

	base_yaml_string(r->y, node, "peer", &peer);
	r->c->peer = peer;
	if (!peer || strchr(peer, '/'))
		return;
	if (base_parse_address(peer, host, sizeof(host), &port) || !*host || !port)
		base_yaml_wrong(r->y, node, "peer '%.64s' must be a socket path or HOST:PORT",
				peer);
	else if (!r->c->rdma.enabled || !secret_node)
		base_yaml_wrong(r->y, node,
				"peer '%.64s' is on another host: it needs rdma and a secret",
				peer);
}

static void read_rdma(struct dta_yaml_reader *r, base_yaml_node node)
{
	static const char *const keys[] = {"device", "address", "port", "gid", "ib-port", NULL};

	if (!node || !base_yaml_mapping(r->y, node, keys))
		return;
	r->c->rdma.enabled = true;
	base_yaml_string_of(r->y, node, "device", &r->c->rdma.device);
	base_yaml_string_of(r->y, node, "address", &r->c->rdma.address);
	r->c->rdma.port = (uint16_t)read_number(r, node, "port", 65535, 0);
	r->c->rdma.ib_port = (int)read_number(r, node, "ib-port", 255, 1);
	r->c->rdma.gid_index = base_yaml_get(r->y, node, "gid")
				       ? (int)read_number(r, node, "gid", 255, 0)
				       : -1;
}

static void read_document(struct dta_yaml_reader *r)
{
	static const char *const keys[] = {
		"listen", "directory", "hugepages", "drain", "secret", "insecure_listen",
		"rdma",	  "tenants",   "stores",    "peer",  NULL};
	static const char *const huge[] = {"auto", "always", "never", NULL};
	struct dta_stores_config *c = r->c;
	base_yaml_node root = base_yaml_root(r->y), node;
	size_t n;
	int i = 0;

	if (!root) {
		base_yaml_wrong(r->y, root, "the file is empty: it must declare stores");
		return;
	}
	if (!base_yaml_mapping(r->y, root, keys))
		return;
	node = base_yaml_get(r->y, root, "listen");
	n = base_yaml_count(r->y, node);
	c->listen.v = calloc(n + 1, sizeof(*c->listen.v));
	for (; c->listen.v && c->listen.n < n; c->listen.n++)
		base_yaml_string(r->y, base_yaml_at(r->y, node, c->listen.n), "listen",
				 &c->listen.v[c->listen.n]);
	base_yaml_string_of(r->y, root, "directory", &c->directory);
	base_yaml_choice(r->y, base_yaml_get(r->y, root, "hugepages"), "hugepages", huge, &i);
	c->hugepages = (enum dta_stores_hugepages)i;
	base_yaml_duration(r->y, base_yaml_get(r->y, root, "drain"), "drain", &c->drain_ns);
	read_secret(r, base_yaml_get(r->y, root, "secret"));
	base_yaml_bool(r->y, base_yaml_get(r->y, root, "insecure_listen"), "insecure_listen",
		       &c->insecure_listen);
	read_rdma(r, base_yaml_get(r->y, root, "rdma"));
	read_peer(r, base_yaml_get(r->y, root, "peer"), base_yaml_get(r->y, root, "secret"));
	node = base_yaml_get(r->y, root, "tenants");
	n = base_yaml_count(r->y, node);
	if (n > DTA_TENANTS_MAX)
		base_yaml_wrong(r->y, node, "more than %u tenants", DTA_TENANTS_MAX);
	c->tenants = calloc(n + 1, sizeof(*c->tenants));
	for (size_t k = 0; c->tenants && k < n && !base_yaml_error(r->y); k++)
		read_tenant(r, base_yaml_at(r->y, node, k), &c->tenants[c->tenant_count++]);
	node = base_yaml_need(r->y, root, "stores");
	n = base_yaml_count(r->y, node);
	if (n > DTA_STORES_MAX)
		base_yaml_wrong(r->y, node, "more than %u stores", DTA_STORES_MAX);
	c->stores = calloc(n + 1, sizeof(*c->stores));
	for (size_t k = 0; c->stores && k < n && !base_yaml_error(r->y); k++)
		read_store(r, base_yaml_at(r->y, node, k), &c->stores[c->store_count++]);
	if (!c->listen.v || !c->tenants || !c->stores)
		base_yaml_wrong(r->y, root, "out of memory");
	for (size_t k = 0; k < c->store_count && !base_yaml_error(r->y); k++)
		read_keylog(r, base_yaml_at(r->y, node, k), &c->stores[k]);
}

static struct dta_stores_config *read_all(struct base_yaml *y, bool files, char *error,
					  size_t bytes)
{
	struct dta_yaml_reader r = {.y = y, .files = files};

	if (y)
		r.c = calloc(1, sizeof(*r.c));
	if (!r.c) {
		snprintf(error, bytes, "out of memory");
		base_yaml_close(y);
		return NULL;
	}
	r.c->yaml = y;
	r.c->drain_ns = 5000000000;
	r.c->rdma.gid_index = -1;
	r.c->rdma.ib_port = 1;
	if (!base_yaml_error(y))
		read_document(&r);
	if (base_yaml_error(y)) {
		snprintf(error, bytes, "%s", base_yaml_error(y));
		dta_stores_config_free(r.c);
		r.c = NULL;
	}
	return r.c;
}

struct dta_stores_config *dta_stores_read(const char *path, char *error, size_t error_bytes)
{
	return read_all(base_yaml_open(path), true, error, error_bytes);
}

struct dta_stores_config *dta_stores_text(const char *path, const char *text, size_t bytes,
					  char *error, size_t error_bytes)
{
	return read_all(base_yaml_text(path, text, bytes), false, error, error_bytes);
}

void dta_stores_config_free(struct dta_stores_config *c)
{
	if (!c)
		return;
	base_yaml_close(c->yaml);
	free(c->listen.v);
	free(c->secret);
	for (size_t i = 0; i < c->tenant_count; i++) {
		struct dta_tenant_spec *t = &c->tenants[i];

		if (t->keys)
			explicit_bzero(t->keys, t->key_count * sizeof(*t->keys));
		free(t->keys);
	}
	free(c->tenants);
	for (size_t i = 0; i < c->store_count; i++) {
		free(c->stores[i].values);
		free(c->stores[i].series);
		free(c->stores[i].layout[0]);
		free(c->stores[i].layout[1]);
	}
	free(c->stores);
	free(c);
}
