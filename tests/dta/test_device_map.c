// SPDX-License-Identifier: Apache-2.0
/* test_device_map.c - the mapping of devices' records to reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/store.h>

#include "dta/device/map.h"
#include "device_drive.h"

struct blocks {
	struct dta_block b[16];
	uint8_t items[16][4096];
	uint32_t n;
};

static void keep_block(void *arg, const struct dta_block *b)
{
	struct blocks *x = arg;
	const size_t bytes = b->count * ((size_t)b->key_bytes + b->value_bytes);

	if (x->n < 16 && bytes <= sizeof(*x->items)) {
		x->b[x->n] = *b;
		memcpy(x->items[x->n], b->items, bytes);
	}
	x->n++;
}

static struct dta_map *map_of(const char *text)
{
	char error[512] = "";
	struct dta_map *m = dta_map_text("map", text, strlen(text), error, sizeof(error));

	if (!m)
		fail_msg("%s", error);
	return m;
}

static struct dta_record flow_record(bool v6)
{
	struct dta_record r = {.kind = DTA_RECORD_FLOW};

	inet_pton(AF_INET6, "::ffff:192.0.2.9", &r.address[DTA_FIELD_EXPORTER]);
	inet_pton(AF_INET6, v6 ? "2001:db8::1" : "::ffff:192.0.2.1", &r.address[DTA_FIELD_SOURCE]);
	inet_pton(AF_INET6, v6 ? "2001:db8::2" : "::ffff:192.0.2.2",
		  &r.address[DTA_FIELD_DESTINATION]);
	r.has = 7;
	dta_record_set(&r, DTA_FIELD_SOURCE_PORT, 0x1234);
	dta_record_set(&r, DTA_FIELD_DESTINATION_PORT, 443);
	dta_record_set(&r, DTA_FIELD_PROTOCOL, 6);
	dta_record_set(&r, DTA_FIELD_PACKETS, 300);
	dta_record_set(&r, DTA_FIELD_BYTES, UINT64_C(0x0102030405060708));
	return r;
}

static void a_flow_becomes_its_reports(void **state)
{
	static const uint8_t key[] = {192, 0, 2, 1, 192, 0, 2, 2, 0x12, 0x34, 1, 0xbb, 6};
	static const uint8_t addend[] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct dta_map *m = map_of(dta_map_default);
	struct blocks *out = calloc(1, sizeof(*out));
	struct dta_map_batch *b = dta_map_batch_new(m, DTA_DEVICE_IPFIX, keep_block, out);
	struct dta_record r;

	(void)state;
	assert_non_null(out);
	assert_non_null(b);
	for (int i = 0; i < 3; i++) {
		r = flow_record(i == 2);
		dta_map_take(b, &r);
	}
	assert_int_equal(out->n, 0);
	dta_map_flush(b);
	assert_int_equal(out->n, 6); /* three stores, keys of two lengths */
	assert_int_equal(out->b[0].opcode, DTA_INCREMENT);
	assert_int_equal(out->b[0].store, 10);
	assert_int_equal(out->b[0].copies, 2);
	assert_int_equal(out->b[0].count, 2);
	assert_int_equal(out->b[0].key_bytes, 13);
	assert_int_equal(out->b[0].value_bytes, 8);
	for (int i = 0; i < 2; i++) {
		assert_memory_equal(out->items[0] + (size_t)i * 21, key, sizeof(key));
		assert_memory_equal(out->items[0] + (size_t)i * 21 + 13, addend, sizeof(addend));
	}
	assert_int_equal(out->b[1].key_bytes, 37);
	assert_int_equal(out->b[1].count, 1);
	assert_int_equal(out->items[1][0], 0x20);
	assert_int_equal(out->items[1][31], 2);
	assert_memory_equal(out->items[1] + 32, key + 8, 5);
	assert_int_equal(dta_map_stats(b)->reports, 9);
	dta_map_flush(b);
	assert_int_equal(out->n, 6);
	/* Without ports, no rule applies. */
	r.has &= ~((dta_field_set)1 << DTA_FIELD_SOURCE_PORT);
	dta_map_take(b, &r);
	assert_int_equal(dta_map_stats(b)->unmapped, 1);
	/* A full block is passed on at once. */
	r = flow_record(false);
	for (uint32_t i = 0; i < DTA_MAP_ITEMS; i++)
		dta_map_take(b, &r);
	assert_int_equal(out->n, 9);
	dta_map_flush(b);
	assert_int_equal(out->n, 9);
	dta_map_batch_free(b);
	dta_map_free(m);
	free(out);
}

static void a_text_has_the_length_that_its_rule_says(void **state)
{
	struct dta_map *m = map_of(
		"reports:\n"
		"  - {kind: name, key: [interface], primitive: key-write, store: 1,\n"
		"     value: [name/4, description]}\n");
	struct blocks *out = calloc(1, sizeof(*out));
	struct dta_map_batch *b = dta_map_batch_new(m, DTA_DEVICE_IPFIX, keep_block, out);
	struct dta_record r = {.kind = DTA_RECORD_NAME};
	uint8_t item[4 + 4 + 32] = {0, 0, 0, 9, 'G', 'i', '0', '/', 'u', 'p'};

	(void)state;
	assert_non_null(out);
	assert_non_null(b);
	dta_record_set(&r, DTA_FIELD_INTERFACE, 9);
	dta_map_take(b, &r); /* no rule takes it, which is usual for names */
	assert_int_equal(dta_map_stats(b)->unmapped, 0);
	r.text[0] = (struct dta_text){(const uint8_t *)"Gi0/0/9", 7};
	r.text[1] = (struct dta_text){(const uint8_t *)"up", 2};
	r.has |= DTA_FIELD_BIT(DTA_FIELD_NAME) | DTA_FIELD_BIT(DTA_FIELD_DESCRIPTION);
	dta_map_take(b, &r);
	dta_map_flush(b);
	assert_int_equal(out->n, 1);
	assert_int_equal(out->b[0].value_bytes, 36);
	assert_memory_equal(out->items[0], item, sizeof(item));
	dta_map_batch_free(b);
	dta_map_free(m);
	free(out);
}

static void rules_say_what_a_report_holds(void **state)
{
	static const uint8_t item[] = {0, 0, 0, 5, 192, 0, 2, 1, 0xff, 0, 0, 1, 44, 6};
	struct dta_map *m = map_of(
		"tenant: 7\n"
		"reports:\n"
		"  - {kind: flow, primitive: append, store: 3, list: 5,\n"
		"     value: [source/4, bytes/1, packets/4, protocol]}\n"
		"  - {kind: flow, input: netflow, primitive: append, store: 4, value: [bytes]}\n"
		"  - {kind: flow, primitive: append, store: 5, value: [bytes],\n"
		"     where: {packets: \">300\"}}\n"
		"  - {kind: flow, primitive: append, store: 6, value: [bytes],\n"
		"     where: {packets: \">=300\", protocol: 6, source-port: \"!=5\", bytes: \"<72623859790382857\"}}\n"
		"  - {kind: hop, key: [switch], primitive: postcard, store: 7, copies: 3, hop: hop, hops: hops,\n"
		"     data: switch}\n"
		"  - {kind: drop, key: [exporter, drop-reason], primitive: key-write, store: 8, value: [source]}\n");
	struct blocks *out = calloc(1, sizeof(*out));
	struct dta_map_batch *b = dta_map_batch_new(m, DTA_DEVICE_IPFIX, keep_block, out);
	struct dta_record r = flow_record(false);

	(void)state;
	assert_non_null(out);
	assert_non_null(b);
	assert_int_equal(dta_map_tenant(m), 7);
	dta_map_take(b, &r);
	dta_map_flush(b);
	assert_int_equal(out->n, 2);
	assert_int_equal(out->b[0].store, 3);
	assert_int_equal(out->b[0].copies, 0);
	assert_int_equal(out->b[0].key_bytes, 4);
	assert_int_equal(out->b[0].value_bytes, sizeof(item) - 4);
	assert_memory_equal(out->items[0], item, sizeof(item));
	assert_int_equal(dta_map_stats(b)->saturated, 1);
	assert_int_equal(out->b[1].store, 6);
	/* A hop beyond its path makes no report, because a packet with it would be refused. */
	r = (struct dta_record){.kind = DTA_RECORD_HOP};
	dta_record_set(&r, DTA_FIELD_SWITCH, 0x0a0b0c0d);
	for (uint32_t hops = 0; hops < 70; hops++) {
		dta_record_set(&r, DTA_FIELD_HOPS, hops);
		dta_record_set(&r, DTA_FIELD_HOP, hops < 65 ? hops : 1);
		dta_map_take(b, &r);
	}
	assert_int_equal(dta_map_stats(b)->unmapped, 70);
	dta_record_set(&r, DTA_FIELD_HOP, 63);
	dta_record_set(&r, DTA_FIELD_HOPS, 64);
	dta_map_take(b, &r);
	dta_map_flush(b);
	assert_int_equal(out->b[2].copies, 3);
	assert_memory_equal(out->items[2],
			    ((uint8_t[]){10, 11, 12, 13, 63, 64, 0, 0, 10, 11, 12, 13}), 12);
	r = flow_record(true);
	r.kind = DTA_RECORD_DROP;
	dta_record_set(&r, DTA_FIELD_DROP_REASON, 0x55);
	dta_map_take(b, &r);
	dta_map_flush(b);
	/* The key has the exporter's IPv4, although the flow is IPv6. */
	assert_int_equal(out->b[3].key_bytes, 6);
	assert_int_equal(out->b[3].value_bytes, 16);
	assert_int_equal(out->n, 4);
	dta_map_batch_free(b);
	dta_map_free(m);
	free(out);
}

static void a_wrong_mapping_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *rule, *says;
	} wrong[] = {
		{"5", "a rule must be a mapping"},
		{"{kind: flow, store: 1}", "primitive"},
		{"{kind: flow, primitive: sketch, store: 1}", "primitive 'sketch'"},
		{"{kind: flaw, primitive: append, store: 1, value: [bytes]}", "kind"},
		{"{kind: flow, primitive: append, store: 1, value: [bites]}", "'bites'"},
		{"{kind: flow, primitive: append, store: 1, value: [bytes/9]}", "1 to 8 bytes"},
		{"{kind: flow, primitive: append, store: 1, value: [source/5]}", "4 or 16"},
		{"{kind: flow, primitive: append, store: 1, value: [protocol]}", "has 1 bytes"},
		{"{kind: flow, primitive: append, store: 1, value: [bytes], key: [bytes]}", "key"},
		{"{kind: flow, primitive: append, store: 70000, value: [bytes]}", "store"},
		{"{kind: flow, primitive: key-write, store: 1, key: [protocol], value: [bytes]}",
		 "the key has 1 bytes"},
		{"{kind: flow, primitive: key-write, store: 1, key: [5-tuple, 5-tuple], value: [bytes]}",
		 "74"},
		{"{kind: flow, primitive: key-write, store: 1, key: [5-tuple], value: [bytes], copies: 9}",
		 "copies"},
		{"{kind: flow, primitive: increment, store: 1, key: [5-tuple]}", "add"},
		{"{kind: flow, primitive: increment, store: 1, key: [5-tuple], add: source}",
		 "'source'"},
		{"{kind: hop, primitive: postcard, store: 1, key: [5-tuple], hop: 256, hops: 5, data: 1}",
		 "256 does not fit"},
		{"{kind: flow, primitive: append, store: 1, value: [bytes], input: gnmi}", "input"},
		{"{kind: flow, primitive: append, store: 1, value: [bytes], where: {bytes: \"~5\"}}",
		 "'~5'"},
		{"{kind: flow, primitive: append, store: 1, value: [bytes], where: {bytes: \"<0\"}}",
		 "'<0'"},
		{"{kind: flow, primitive: append, store: 1, value: [bytes], where: {source: 1}}",
		 "'source'"},
	};
	char text[512], error[512];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(text, sizeof(text), "# rules\nreports:\n  - %s\n", wrong[i].rule);
		assert_null(dta_map_text("m.yaml", text, strlen(text), error, sizeof(error)));
		if (!strstr(error, wrong[i].says) || strncmp(error, "m.yaml:3: ", 10))
			fail_msg("%s: %s", wrong[i].rule, error);
	}
	assert_null(dta_map_text("m.yaml", "", 0, error, sizeof(error)));
	assert_null(dta_map_text("m.yaml", "tenant: 1\n", 10, error, sizeof(error)));
}

static void names_are_found(void **state)
{
	(void)state;
	assert_int_equal(dta_field_find("drop-reason"), DTA_FIELD_DROP_REASON);
	assert_int_equal(dta_field_find("nothing"), DTA_FIELDS);
	assert_int_equal(dta_device_find("gnmi"), DTA_DEVICES);
	for (unsigned int d = 0; d < DTA_DEVICES; d++) {
		const struct dta_decoder_ops *o = dta_device_decoder((enum dta_device)d);

		if (o)
			assert_string_equal(o->name, dta_device_name((enum dta_device)d));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flow_becomes_its_reports),
		cmocka_unit_test(a_text_has_the_length_that_its_rule_says),
		cmocka_unit_test(rules_say_what_a_report_holds),
		cmocka_unit_test(a_wrong_mapping_is_refused_with_its_line),
		cmocka_unit_test(names_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
