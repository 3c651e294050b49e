// SPDX-License-Identifier: Apache-2.0
/* map_yaml.c - compiles a mapping file (docs/dta-devices.md). Errors name the file and line. */
#include "dta/device/map_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include <sidelight/store.h>

#include "base/base.h"
#include "base/yaml.h"
#include "dta/store/store.h"

const char dta_map_default[] =
	"# Each record is given to every rule whose kind and input match and whose fields are all present.\n"
	"# For the stores see examples/dta/devices.yaml.\n"
	"reports:\n"
	"  # Bytes and packets of each flow, added up.\n"
	"  - {kind: flow, key: [5-tuple], primitive: increment, store: 10, copies: 2, add: bytes}\n"
	"  - {kind: flow, key: [5-tuple], primitive: increment, store: 11, copies: 2, add: packets}\n"
	"  # The same, estimated from sampled packets.\n"
	"  - {kind: sample, key: [5-tuple], primitive: increment, store: 10, copies: 2, add: bytes}\n"
	"  - {kind: sample, key: [5-tuple], primitive: increment, store: 11, copies: 2, add: packets}\n"
	"  # The counters of each interface, as last reported by the device.\n"
	"  - {kind: counters, key: [exporter, interface], primitive: key-write, store: 12, copies: 2,\n"
	"     value: [in-bytes, in-packets, in-drops, in-errors, out-bytes, out-packets, out-drops, out-errors]}\n"
	"  # What the device calls its interfaces.\n"
	"  - {kind: name, key: [exporter, interface], primitive: key-write, store: 24, copies: 2, value: [name/32]}\n"
	"  # The switches that a flow passed, and the latest measurements of each switch.\n"
	"  - {kind: hop, key: [5-tuple], primitive: postcard, store: 13, copies: 2, hop: hop, hops: hops, data: switch}\n"
	"  - {kind: hop, key: [5-tuple, switch], primitive: key-write, store: 14, copies: 2,\n"
	"     value: [queue-depth, latency-ns]}\n"
	"  # Where each flow passed: bytes per exporter, reports per INT switch. An unknown interface is 0.\n"
	"  - {kind: flow, key: [exporter, ingress?, egress?, 5-tuple], primitive: increment, store: 18, copies: 2, add: bytes}\n"
	"  - {kind: sample, key: [exporter, ingress?, egress?, 5-tuple], primitive: increment, store: 18, copies: 2, add: bytes}\n"
	"  - {kind: hop, key: [switch, ingress?, egress?, 5-tuple], primitive: increment, store: 19, copies: 2, add: 1}\n"
	"  # Bytes between autonomous systems.\n"
	"  - {kind: flow, key: [source-as, destination-as], primitive: increment, store: 22, copies: 2, add: bytes}\n"
	"  - {kind: sample, key: [source-as, destination-as], primitive: increment, store: 22, copies: 2, add: bytes}\n"
	"  # Packets that each device dropped, by the device's drop reason.\n"
	"  - {kind: drop, key: [exporter, drop-reason], primitive: increment, store: 15, copies: 2, add: 1}\n"
	"  # The same by flow and interface.\n"
	"  - {kind: drop, input: int, key: [switch, ingress?, egress?, drop-reason?, 5-tuple], primitive: increment,\n"
	"     store: 20, copies: 2, add: 1}\n"
	"  - {kind: drop, input: sflow, key: [exporter, ingress?, egress?, drop-reason?, 5-tuple], primitive: increment,\n"
	"     store: 21, copies: 2, add: 1}\n"
	"tenant: 0\n";

static uint32_t most_bytes(enum dta_field f)
{
	return f < DTA_FIELD_ADDRESSES ? 16 : f < DTA_FIELD_NUMBERS ? 8 : 128;
}

static bool is_number(enum dta_field f)
{
	return f >= DTA_FIELD_ADDRESSES && f < DTA_FIELD_NUMBERS;
}

struct map_reader {
	struct base_yaml *y;
	struct dta_map *m;
	struct dta_map_rule *r;
	uint32_t bytes[2]; /* bytes of the current key or value so far */
};

static void append_put(struct map_reader *r, base_yaml_node node, const struct dta_map_put *p)
{
	if (r->r->puts == DTA_MAP_PUTS) {
		base_yaml_wrong(r->y, node, "more than %u fields in a report", DTA_MAP_PUTS);
		return;
	}
	r->r->put[r->r->puts++] = *p;
	r->bytes[0] += p->bytes ? p->bytes : 4;
	r->bytes[1] += p->bytes ? p->bytes : 16;
	if (p->field < DTA_FIELDS && !p->optional)
		r->r->need |= DTA_FIELD_BIT(p->field);
}

static void append_number(struct map_reader *r, base_yaml_node node, enum dta_field f,
			  uint32_t bytes, uint64_t constant, bool optional)
{
	const uint8_t shift = (uint8_t)(64 - 8 * bytes);
	const uint64_t most = UINT64_MAX >> shift;

	if (f == DTA_FIELDS && constant > most)
		base_yaml_wrong(r->y, node, "%llu does not fit into %u bytes",
				(unsigned long long)constant, bytes);
	append_put(r, node,
		   &(struct dta_map_put){.number = f == DTA_FIELDS ? constant : most,
					 .field = (uint8_t)f,
					 .bytes = (uint8_t)bytes,
					 .optional = optional,
					 .shift = shift});
}

/*
 * Parses "FIELD" or "FIELD/BYTES". A "?" after FIELD means that a record may lack it. key: the
 * field is part of a key, where an address takes only as many bytes as it needs.
 */
static void parse_field(struct map_reader *r, base_yaml_node node, const char *text, bool key)
{
	const char *slash = strchr(text, '/');
	const size_t length = strcspn(text, "?/");
	const bool optional = text[length] == '?';
	char name[32] = "";
	uint64_t bytes = 0;
	enum dta_field f;

	if (length < sizeof(name) && (!optional || !text[length + 1] || text[length + 1] == '/'))
		snprintf(name, sizeof(name), "%.*s", (int)length, text);
	f = dta_field_find(name);
	if (f == DTA_FIELDS) {
		base_yaml_wrong(r->y, node, "'%.64s' is not a field of a record", text);
		return;
	}
	if (slash && base_parse_u64(slash + 1, 1, most_bytes(f), &bytes)) {
		base_yaml_wrong(r->y, node, "'%.64s': this field must have 1 to %u bytes", text,
				most_bytes(f));
		return;
	}
	if (f >= DTA_FIELD_NUMBERS) {
		append_put(r, node,
			   &(struct dta_map_put){
				   .field = (uint8_t)f,
				   .bytes = (uint8_t)(bytes ? bytes : dta_field_bytes(f))});
		return;
	}
	if (f >= DTA_FIELD_ADDRESSES) {
		append_number(r, node, f, bytes ? (uint32_t)bytes : dta_field_bytes(f), 0,
			      optional);
		return;
	}
	if (optional)
		base_yaml_wrong(r->y, node, "'%.64s': only a number may be missing", text);
	if (bytes && (key || (bytes != 4 && bytes != 16)))
		base_yaml_wrong(r->y, node, "'%.64s': an address must have %s", text,
				key ? "4 or 16 bytes in keys, chosen automatically"
				    : "4 or 16 bytes");
	append_put(r, node,
		   &(struct dta_map_put){.field = (uint8_t)f,
					 .bytes = key	  ? 0
						  : bytes ? (uint8_t)bytes
							  : 16});
	if (key)
		r->r->addresses |= (uint8_t)(1u << f);
}

/* Parses the field list of a key or a value. */
static void parse_fields(struct map_reader *r, base_yaml_node node, const char *what, bool key)
{
	static const char *const tuple[] = {"source", "destination", "source-port",
					    "destination-port", "protocol"};
	const size_t n = base_yaml_count(r->y, node);
	const char *text;

	r->bytes[0] = r->bytes[1] = 0;
	for (size_t i = 0; i < n && !base_yaml_error(r->y); i++) {
		text = "";
		base_yaml_string(r->y, base_yaml_at(r->y, node, i), what, &text);
		if (strcmp(text, "5-tuple")) {
			parse_field(r, node, text, key);
			continue;
		}
		for (size_t k = 0; k < sizeof(tuple) / sizeof(*tuple); k++)
			parse_field(r, node, tuple[k], key);
	}
}

/* Parses a field or a constant as a number of the given size. */
static void parse_operand(struct map_reader *r, base_yaml_node node, const char *what,
			  uint32_t bytes)
{
	const char *text = "";
	uint64_t constant;
	enum dta_field f;

	base_yaml_string(r->y, node, what, &text);
	if (!base_parse_u64(text, 0, UINT64_MAX, &constant)) {
		append_number(r, node, DTA_FIELDS, bytes, constant, false);
		return;
	}
	f = dta_field_find(text);
	if (!is_number(f))
		base_yaml_wrong(r->y, node, "%s: '%.64s' must be a number or a numeric field", what,
				text);
	else
		append_number(r, node, f, bytes, 0, false);
}

/* Parses a condition on a field: 5, "!=5", ">=5", ">5", "<=5", "<5" or "=5". */
static void parse_test(struct map_reader *r, const char *name, base_yaml_node where,
		       base_yaml_node value)
{
	static const struct {
		const char *sign;
		enum dta_map_order order;
		int more;
	} signs[] = {{">=", DTA_MAP_LEAST, 0}, {"<=", DTA_MAP_MOST, 0}, {"!=", DTA_MAP_UNEQUAL, 0},
		     {">", DTA_MAP_LEAST, 1},  {"<", DTA_MAP_MOST, -1}, {"=", DTA_MAP_EQUAL, 0},
		     {"", DTA_MAP_EQUAL, 0}};
	const enum dta_field f = dta_field_find(name);
	const char *text = "";
	struct dta_map_test *t;
	uint64_t n = 0;
	size_t i = 0;

	if (!is_number(f)) {
		base_yaml_wrong(r->y, where, "where: '%.64s' is not a numeric field", name);
		return;
	}
	if (r->r->tests == DTA_MAP_TESTS) {
		base_yaml_wrong(r->y, where, "more than %u conditions", DTA_MAP_TESTS);
		return;
	}
	base_yaml_string(r->y, value, name, &text);
	while (strncmp(text, signs[i].sign, strlen(signs[i].sign)))
		i++;
	if (base_parse_u64(text + strlen(signs[i].sign), signs[i].more < 0,
			   UINT64_MAX - (signs[i].more > 0), &n)) {
		base_yaml_wrong(r->y, where,
				"%s: '%.64s' is not a number after =, !=, <, <=, > or >=", name,
				text);
		return;
	}
	t = &r->r->test[r->r->tests++];
	*t = (struct dta_map_test){n + (uint64_t)(int64_t)signs[i].more, (uint8_t)f,
				   signs[i].order};
	r->r->need |= DTA_FIELD_BIT(f);
}

static void parse_where(struct map_reader *r, base_yaml_node node)
{
	base_yaml_node at, value;
	const char *name;

	if (node && !base_yaml_is_mapping(r->y, node))
		base_yaml_wrong(r->y, node,
				"where must be a mapping, as in {queue-depth: \">=1000\"}");
	for (size_t i = 0;
	     !base_yaml_error(r->y) && base_yaml_pair(r->y, node, i, &name, &at, &value); i++)
		parse_test(r, name, at, value);
}

/* The keys that a rule may have, by primitive. */
#define COMMON "kind", "input", "primitive", "store", "where"
static const char *const *keys_of(uint32_t opcode)
{
	static const char *const none[] = {COMMON, NULL};
	static const char *const keywrite[] = {COMMON, "key", "value", "copies", NULL};
	static const char *const list[] = {COMMON, "list", "value", NULL};
	static const char *const increment[] = {COMMON, "key", "add", "copies", NULL};
	static const char *const postcard[] = {COMMON, "key",	 "hop", "hops",
					       "data", "copies", NULL};
	static const char *const *const of[] = {none, keywrite, list, increment, postcard};

	return of[opcode];
}

static void key_and_value(struct map_reader *r, base_yaml_node node)
{
	struct dta_map_rule *rule = r->r;
	base_yaml_node list = base_yaml_get(r->y, node, "list");

	if (rule->opcode == DTA_APPEND) {
		r->bytes[0] = r->bytes[1] = 0;
		if (list)
			parse_operand(r, list, "list", 4);
		else
			append_number(r, node, DTA_FIELDS, 4, 0, false);
	} else {
		parse_fields(r, base_yaml_need(r->y, node, "key"), "key", true);
	}
	if (base_yaml_error(r->y))
		return;
	if (r->bytes[0] < 4 || r->bytes[1] > SL_STORE_KEY_MAX)
		base_yaml_wrong(r->y, node,
				"the key has %u bytes, or %u with IPv6, but must have 4 to %u",
				r->bytes[0], r->bytes[1], SL_STORE_KEY_MAX);
	rule->key_bytes[0] = (uint8_t)r->bytes[0];
	rule->key_bytes[1] = (uint8_t)r->bytes[1];
	r->bytes[0] = 0;
	switch (rule->opcode) {
	case DTA_INCREMENT:
		parse_operand(r, base_yaml_need(r->y, node, "add"), "add", 8);
		break;
	case DTA_POSTCARD:
		parse_operand(r, base_yaml_need(r->y, node, "hop"), "hop", 1);
		parse_operand(r, base_yaml_need(r->y, node, "hops"), "hops", 1);
		append_number(r, node, DTA_FIELDS, 2, 0, false);
		parse_operand(r, base_yaml_need(r->y, node, "data"), "data", 4);
		break;
	default:
		parse_fields(r, base_yaml_need(r->y, node, "value"), "value", false);
	}
	if (!base_yaml_error(r->y) && (r->bytes[0] < 4 || r->bytes[0] > SL_STORE_VALUE_MAX))
		base_yaml_wrong(r->y, node, "the value has %u bytes, but must have 4 to %u",
				r->bytes[0], SL_STORE_VALUE_MAX);
	rule->value_bytes = (uint16_t)r->bytes[0];
}

static void parse_rule(struct map_reader *r, base_yaml_node node)
{
	static const char *kinds[DTA_RECORD_KINDS + 1], *inputs[DTA_DEVICES + 1];
	uint64_t store = 0, copies = 2;
	const char *word = "";
	int kind = 0, input = DTA_DEVICES;

	if (!base_yaml_is_mapping(r->y, node)) {
		base_yaml_wrong(r->y, node, "a rule must be a mapping, as in {kind: flow, ...}");
		return;
	}
	for (int i = 0; i < DTA_RECORD_KINDS; i++)
		kinds[i] = dta_record_kind_name((enum dta_record_kind)i);
	for (int i = 0; i < DTA_DEVICES; i++)
		inputs[i] = dta_device_name((enum dta_device)i);
	base_yaml_string(r->y, base_yaml_need(r->y, node, "primitive"), "primitive", &word);
	r->r->opcode = (uint8_t)dta_store_kind_of(word);
	if (!r->r->opcode || r->r->opcode == DTA_SKETCH) {
		base_yaml_wrong(r->y, node,
				"primitive '%.32s' is not one of key-write, append, increment, "
				"postcard",
				word);
		return;
	}
	if (!base_yaml_mapping(r->y, node, keys_of(r->r->opcode)))
		return;
	base_yaml_choice(r->y, base_yaml_need(r->y, node, "kind"), "kind", kinds, &kind);
	base_yaml_choice(r->y, base_yaml_get(r->y, node, "input"), "input", inputs, &input);
	base_yaml_u64(r->y, base_yaml_need(r->y, node, "store"), "store", 0, 65535, &store);
	base_yaml_u64(r->y, base_yaml_get(r->y, node, "copies"), "copies", 1, SL_STORE_COPIES_MAX,
		      &copies);
	r->r->kind = (enum dta_record_kind)kind;
	r->r->input = (enum dta_device)input;
	r->r->store = (uint16_t)store;
	r->r->copies = r->r->opcode == DTA_APPEND ? 0 : (uint8_t)copies;
	if (base_yaml_error(r->y))
		return;
	key_and_value(r, node);
	parse_where(r, base_yaml_get(r->y, node, "where"));
}

static void parse_document(struct map_reader *r)
{
	static const char *const keys[] = {"reports", "tenant", NULL};
	const base_yaml_node root = base_yaml_root(r->y);
	base_yaml_node node;
	uint64_t tenant = 0;
	size_t n;

	if (!root) {
		base_yaml_wrong(r->y, root, "the file is empty: it must contain reports");
		return;
	}
	if (!base_yaml_mapping(r->y, root, keys))
		return;
	base_yaml_u64(r->y, base_yaml_get(r->y, root, "tenant"), "tenant", 0, 65535, &tenant);
	r->m->tenant = (uint16_t)tenant;
	node = base_yaml_need(r->y, root, "reports");
	n = base_yaml_count(r->y, node);
	if (n > DTA_MAP_RULES)
		base_yaml_wrong(r->y, node, "more than %u reports", DTA_MAP_RULES);
	for (size_t i = 0; i < n && !base_yaml_error(r->y); i++) {
		r->r = &r->m->rule[r->m->rules++];
		parse_rule(r, base_yaml_at(r->y, node, i));
	}
}

static struct dta_map *read_all(struct base_yaml *y, char *error, size_t bytes)
{
	struct map_reader r = {.y = y};

	if (y)
		r.m = calloc(1, sizeof(*r.m));
	if (!r.m) {
		snprintf(error, bytes, "out of memory");
		base_yaml_close(y);
		return NULL;
	}
	if (!base_yaml_error(y))
		parse_document(&r);
	if (base_yaml_error(y)) {
		snprintf(error, bytes, "%s", base_yaml_error(y));
		dta_map_free(r.m);
		r.m = NULL;
	}
	base_yaml_close(y);
	return r.m;
}

struct dta_map *dta_map_read(const char *path, char *error, size_t error_bytes)
{
	return read_all(base_yaml_open(path), error, error_bytes);
}

struct dta_map *dta_map_text(const char *path, const char *text, size_t bytes, char *error,
			     size_t error_bytes)
{
	return read_all(base_yaml_text(path, text, bytes), error, error_bytes);
}
