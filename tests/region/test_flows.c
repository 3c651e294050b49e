// SPDX-License-Identifier: Apache-2.0
/*
 * test_flows.c - a table of connections: written slots are read; torn, mixed and lying ones are
 * refused.
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "region/flows.h"

#define SLOTS	   4u
#define LINES	   64u
#define FLOWS_AT   (SL_HEADER_SIZE + 512)
#define JOURNAL_AT (FLOWS_AT + SLOTS * SL_FLOW_SIZE)
#define SIZE	   (JOURNAL_AT + LINES * 64)

static void header_check(struct sl_region_header *h)
{
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

static void make_header(struct sl_region_header *h)
{
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, 64, SL_HEADER_SIZE, 64},
		{SL_SECTION_FLOWS, SL_FLOW_SIZE, FLOWS_AT, SLOTS * SL_FLOW_SIZE},
		{SL_SECTION_JOURNAL, 64, JOURNAL_AT, LINES * 64},
	};

	memset(h, 0, sizeof(*h));
	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = SIZE;
	h->kind = SL_REGION_FLOWS;
	h->instance = 7;
	h->section_count = 3;
	memcpy(h->section, sections, sizeof(sections));
	header_check(h);
}

static void seal(uint64_t slot[64], uint64_t tag)
{
	for (int l = 0; l < 8; l++) {
		slot[l * 8] = tag;
		slot[l * 8 + 7] = sl_folded_check(slot + l * 8);
	}
}

/* Sets every cell to a different number, except for those that must be valid. */
static void make_slot(uint64_t slot[64], uint64_t tag)
{
	for (uint64_t i = 0; i < 64; i++)
		slot[i] = (i + 1) * 0x0101010101010101ull;
	slot[SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_LIVE, 1, 4, 80, 40000);
	slot[SL_FLOW_CLOSED_NS] = 0;
	seal(slot, tag);
}

static void header_says_where_everything_is(void **state)
{
	struct sl_region_header h;
	struct region_flows_info info;
	struct region_info other;

	(void)state;
	make_header(&h);
	assert_int_equal(region_flows_info_parse(&h, SIZE, &info), REGION_FAULT_NONE);
	assert_int_equal(info.slots, SLOTS);
	assert_int_equal(info.journal_lines, LINES);
	assert_int_equal(info.flows, FLOWS_AT);
	assert_int_equal(info.journal, JOURNAL_AT);
	/* A reader of metrics does not accept it. */
	assert_int_equal(region_info_parse(&h, SIZE, &other), REGION_FAULT_VERSION);
	assert_int_equal(region_flows_info_parse(&h, SIZE - 1, &info), REGION_FAULT_SIZE);
}

static void header_that_lies_is_refused(void **state)
{
	struct sl_region_header h;
	struct region_flows_info info;

	(void)state;
#define LIE(fault, lie)                                                            \
	do {                                                                       \
		make_header(&h);                                                   \
		lie;                                                               \
		header_check(&h);                                                  \
		assert_int_equal(region_flows_info_parse(&h, SIZE, &info), fault); \
	} while (0)
	LIE(REGION_FAULT_SECTION, h.section[1].stride = 256);
	LIE(REGION_FAULT_SECTION, h.section[1].length = 0);
	LIE(REGION_FAULT_SECTION, h.section[1].length -= 64);
	LIE(REGION_FAULT_SECTION, h.section[1].length += SL_FLOW_SIZE);
	LIE(REGION_FAULT_SECTION, h.section[1].type = 99);
	LIE(REGION_FAULT_SECTION, h.section[2].stride = 512);
	LIE(REGION_FAULT_SECTION, h.section[2].length -= 64);
	LIE(REGION_FAULT_SECTION, h.section[2].length = 0);
	LIE(REGION_FAULT_SECTION, h.section[2].type = SL_SECTION_FLOWS);
	LIE(REGION_FAULT_SECTION, h.section_count = 2);
	LIE(REGION_FAULT_SECTION, h.section[2].type = SL_SECTION_ENTRIES);
	LIE(REGION_FAULT_SECTION, h.kind = SL_REGION_METRICS);
	LIE(REGION_FAULT_SECTION, h.kind = SL_REGION_DIRECTORY);
	LIE(REGION_FAULT_SECTION, h.kind = 4);
	LIE(REGION_FAULT_VERSION, h.kind = 200);
#undef LIE
}

static void every_cell_is_read_from_its_place(void **state)
{
	uint64_t slot[64];
	struct region_flow f;

	(void)state;
	make_slot(slot, 5ull << 32 | 9);
	assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_NONE);
	assert_int_equal(f.generation, 5);
	assert_int_equal(f.number, 9);
	assert_int_equal(f.state, SL_STATE_LIVE);
	assert_int_equal(f.tcp_state, 1);
	assert_int_equal(f.local_port, 80);
	assert_int_equal(f.remote_port, 40000);
	assert_int_equal(f.id, slot[1]);
	assert_memory_equal(f.local, &slot[9], 16);
	assert_memory_equal(f.remote, &slot[11], 16);
	/* One of each line, both halves of those that are shared. */
	assert_int_equal(f.netns, (uint32_t)slot[3]);
	assert_int_equal(f.pid, slot[3] >> 32);
	assert_int_equal(f.handshake_us, (uint32_t)slot[14]);
	assert_int_equal(f.flags, slot[14] >> 32);
	assert_int_equal(f.write_bytes, slot[22]);
	assert_int_equal(f.rcv_wnd, (uint32_t)slot[26]);
	assert_int_equal(f.snd_wnd, slot[26] >> 32);
	assert_int_equal(f.rtt_sum_us, slot[34]);
	assert_int_equal(f.re_tlp, (uint32_t)slot[42]);
	assert_int_equal(f.sndbuf_us, slot[53]);
	assert_int_equal(f.drops, (uint32_t)slot[59]);
	assert_int_equal(f.backoff, slot[59] >> 32 & 255);
	assert_int_equal(f.error, slot[59] >> 56);
	assert_int_equal(f.snd_wnd_max, (uint32_t)slot[61]);
	assert_int_equal(f.retrans_out, slot[61] >> 48);
	assert_int_equal(f.thought_ms, slot[62] >> 32);
	/* A listener has a queue, a connection turns. */
	slot[14] = (uint64_t)SL_FLOW_LISTENER << 32;
	seal(slot, 5ull << 32 | 9);
	assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_NONE);
	assert_true(f.backlog == (uint32_t)slot[54] && f.backlog_max == slot[54] >> 32 && !f.turns);
	slot[14] = 0;
	seal(slot, 5ull << 32 | 9);
	assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_NONE);
	assert_true(f.turns == (uint32_t)slot[54] && f.held == slot[54] >> 32 && !f.backlog);
}

static void an_idle_flow_grows_older_and_a_fin_is_no_byte(void **state)
{
	struct region_flow f = {
		.open_ns = 10, .changed_ns = 15, .bytes_received = 101, .tcp_state = 1};

	(void)state;
	assert_int_equal(region_flow_duration(&f, 0), 5);
	assert_int_equal(region_flow_duration(&f, 12), 5);
	assert_int_equal(region_flow_duration(&f, 30), 20);
	f.closed_ns = 20;
	assert_int_equal(region_flow_duration(&f, 30), 10);
	f.read_bytes = 100;
	assert_int_equal(region_flow_unread(&f), 1);
	f.tcp_state = 8; /* CLOSE_WAIT: the last one was a FIN */
	assert_int_equal(region_flow_unread(&f), 0);
	f.read_bytes = 40;
	assert_int_equal(region_flow_unread(&f), 60);
	f.tcp_state = 7; /* CLOSE, after a reset: no FIN */
	f.flags = SL_FLOW_RESET_IN;
	assert_int_equal(region_flow_unread(&f), 61);
}

static void drops_belong_to_one_flow_and_have_names(void **state)
{
	uint64_t line[8] = {7ull << 32 | 3, 5ull | 2ull << 32, 9ull | 1ull << 32}, name[8] = {4};
	struct region_flow f = {.generation = 7};
	struct region_drop_reason reason;

	(void)state;
	line[6] = 8ull << 32;
	line[7] = sl_folded_check(line);
	assert_int_equal(region_flow_drops_parse(line, &f), REGION_FAULT_NONE);
	assert_true(f.drop[0].reason == 5 && f.drop[0].segments == 2);
	assert_string_equal(f.drop[1].name, "REASON_9");
	assert_true(!f.drop[2].segments && f.drop[5].segments == 8);
	f.generation = 8; /* the line is an earlier flow's */
	assert_int_equal(region_flow_drops_parse(line, &f), REGION_FAULT_NONE);
	assert_int_equal(f.drop[0].segments, 0);
	for (size_t i = 0; i < sizeof(line); i++) {
		((uint8_t *)line)[i] ^= 0x40;
		assert_int_equal(region_flow_drops_parse(line, &f), REGION_FAULT_UNSETTLED);
		((uint8_t *)line)[i] ^= 0x40;
	}
	memset(&name[1], 'A', SL_DROP_NAME); /* no NUL, and a character that names do not contain */
	((char *)&name[1])[1] = '"';
	name[7] = sl_line_check(name);
	assert_int_equal(region_drop_reason_parse(name, 5, &reason), REGION_FAULT_NONE);
	assert_int_equal(reason.segments, 4);
	assert_int_equal(strlen(reason.name), SL_DROP_NAME - 1);
	assert_memory_equal(reason.name, "A?A", 3);
	name[0]++;
	assert_int_equal(region_drop_reason_parse(name, 5, &reason), REGION_FAULT_UNSETTLED);
}

static void no_byte_of_a_slot_may_be_another(void **state)
{
	uint64_t slot[64];
	struct region_flow f;

	(void)state;
	make_slot(slot, 5ull << 32 | 9);
	for (size_t i = 0; i < sizeof(slot); i++) {
		((uint8_t *)slot)[i] ^= 0x40;
		assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_UNSETTLED);
		((uint8_t *)slot)[i] ^= 0x40;
	}
	assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_NONE);
}

static void lines_of_two_snapshots_are_none(void **state)
{
	uint64_t slot[64], next[64];
	struct region_flow f;

	(void)state;
	for (int l = 0; l < 8; l++) {
		make_slot(slot, 5ull << 32 | 9);
		make_slot(next, 5ull << 32 | 10);
		memcpy(slot + l * 8, next + l * 8, 64);
		assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_UNSETTLED);
	}
}

static void slot_that_says_what_cannot_be_is_refused(void **state)
{
	uint64_t slot[64];
	struct region_flow f;

	(void)state;
#define LIE(fault, lie)                                               \
	do {                                                          \
		make_slot(slot, 1);                                   \
		lie;                                                  \
		seal(slot, 1);                                        \
		assert_int_equal(region_flow_parse(slot, &f), fault); \
	} while (0)
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_ID] = 0);
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_LIVE, 1, 5, 1, 1));
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_DEAD, 1, 4, 1, 1));
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_WORD] = SL_FLOW_WORD_OF(SL_STATE_CLOSED, 1, 4, 1, 1));
	LIE(REGION_FAULT_HOT, slot[SL_FLOW_CLOSED_NS] = 1);
	/* A free slot contains nothing that could be invalid. */
	LIE(REGION_FAULT_NONE, slot[SL_FLOW_WORD] = 0);
	assert_int_equal(f.state, SL_STATE_FREE);
#undef LIE
	memset(slot, 0, sizeof(slot));
	assert_int_equal(region_flow_parse(slot, &f), REGION_FAULT_NONE);
	assert_int_equal(f.state, SL_STATE_FREE);
}

static void hot_line_and_journal_are_held_against_the_header(void **state)
{
	uint64_t line[8] = {1, SLOTS, 3ull << 32 | 2, 4, 5, 6, 7};
	struct region_flows_info info = {.slots = SLOTS, .journal_lines = LINES};
	struct region_flow_record r;
	struct region_flows_hot hot;

	(void)state;
	line[7] = sl_folded_check(line);
	assert_int_equal(region_flows_hot_parse(line, &info, &hot), REGION_FAULT_NONE);
	assert_int_equal(hot.open, 2);
	assert_int_equal(hot.quarantined, 3);
	line[7]++;
	assert_int_equal(region_flows_hot_parse(line, &info, &hot), REGION_FAULT_UNSETTLED);
	line[SL_FLOWS_USED] = SLOTS + 1;
	line[7] = sl_folded_check(line);
	assert_int_equal(region_flows_hot_parse(line, &info, &hot), REGION_FAULT_HOT);

	memset(line, 0, sizeof(line));
	line[SL_JOURNAL_TAG] = 70 << 8 | SL_FLOW_EVENT_CLOSE;
	line[SL_JOURNAL_SENT] = 11;
	line[7] = sl_folded_check(line);
	assert_int_equal(region_flow_event_parse(line, 70, &r), REGION_FAULT_NONE);
	assert_int_equal(r.event, SL_FLOW_EVENT_CLOSE);
	assert_int_equal(r.sent, 11);
	/* The ring has wrapped: another line is there. */
	assert_int_equal(region_flow_event_parse(line, 70 - LINES, &r), REGION_FAULT_CHECK);
	line[SL_JOURNAL_TAG] = 70 << 8 | 9;
	assert_int_equal(region_flow_event_parse(line, 70, &r), REGION_FAULT_UNSETTLED);
	line[7] = sl_folded_check(line);
	assert_int_equal(region_flow_event_parse(line, 70, &r), REGION_FAULT_HOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_says_where_everything_is),
		cmocka_unit_test(header_that_lies_is_refused),
		cmocka_unit_test(every_cell_is_read_from_its_place),
		cmocka_unit_test(an_idle_flow_grows_older_and_a_fin_is_no_byte),
		cmocka_unit_test(drops_belong_to_one_flow_and_have_names),
		cmocka_unit_test(no_byte_of_a_slot_may_be_another),
		cmocka_unit_test(lines_of_two_snapshots_are_none),
		cmocka_unit_test(slot_that_says_what_cannot_be_is_refused),
		cmocka_unit_test(hot_line_and_journal_are_held_against_the_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
