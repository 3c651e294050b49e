// SPDX-License-Identifier: Apache-2.0
/*
 * test_sflow.c - samples of sFlow version 5 become scaled records, samples dropped by a device are
 * counted, and a datagram truncated or forged anywhere is refused with its cause.
 */
#include "device_drive.h"

#define AGENT "198.51.100.7"

static void put_head(struct built *b, uint32_t sub_agent, uint32_t number, uint32_t samples)
{
	b->bytes = 0;
	PUT32(b, 5, 1);
	put_address(b, AGENT);
	PUT32(b, sub_agent, number, 123456, samples);
}

/* Begins a structure; the length is put in at its end. */
static size_t begin(struct built *b, uint32_t format)
{
	PUT32(b, format, 0);
	return b->bytes;
}

static void end(struct built *b, size_t from)
{
	dta_put32(b->at + from - 4, (uint32_t)(b->bytes - from));
}

/* 74 bytes of a frame of 1518, in a record. */
static void put_raw(struct built *b)
{
	struct built f = {.bytes = 0};
	size_t at;

	put_ethernet(&f, 0x8100);
	PUT32(&f, 42u << 16 | 0x0800);
	put_ipv4(&f, 0, 6, 0, "10.0.0.1", "10.0.0.2", 1480);
	put_tcp(&f, 5201, 40000, 0x18);
	put8(&f, 'x');
	at = begin(b, 1);
	PUT32(b, 1, 1518, 4, (uint32_t)f.bytes);
	put_bytes(b, f.at, f.bytes);
	while (b->bytes % 4)
		put8(b, 0);
	end(b, at);
}

static void put_flow(struct built *b, uint32_t number, uint32_t source, uint32_t rate,
		     uint32_t drops)
{
	const size_t at = begin(b, 1);

	PUT32(b, number, source, rate, 1000000, drops, 3, 4, 1);
	put_raw(b);
	end(b, at);
}

static void a_sample_counts_for_all_that_it_stands_for(void **state)
{
	struct built b;
	struct drive v;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	put_head(&b, 2, 1, 1);
	put_flow(&b, 1, 3, 400, 0);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.got->kind, DTA_RECORD_SAMPLE);
	check_address(v.got, DTA_FIELD_EXPORTER, AGENT);
	check_address(v.got, DTA_FIELD_SOURCE, "10.0.0.1");
	check_address(v.got, DTA_FIELD_DESTINATION, "10.0.0.2");
	check_numbers(v.got,
		      NUMBERS({DTA_FIELD_DOMAIN, 2}, {DTA_FIELD_INGRESS, 3}, {DTA_FIELD_EGRESS, 4},
			      ETHERNET_NUMBERS, {DTA_FIELD_VLAN, 42}, {DTA_FIELD_IP_VERSION, 4},
			      IP_NUMBERS(0, 64), {DTA_FIELD_PROTOCOL, 6},
			      {DTA_FIELD_SOURCE_PORT, 5201}, {DTA_FIELD_DESTINATION_PORT, 40000},
			      {DTA_FIELD_TCP_FLAGS, 0x18}, {DTA_FIELD_SAMPLING, 400},
			      {DTA_FIELD_PACKETS, 400}, {DTA_FIELD_BYTES, 400 * 1518}));
	assert_int_equal(drive_refused(&v), 0);
	assert_int_equal(v.d->stats.records, 1);
	assert_int_equal(v.d->stats.exporters, 1);
	drive_end(&v);
}

static void reads_wide_samples_and_what_the_switch_adds(void **state)
{
	struct built b;
	struct drive v;
	size_t sample, at;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	put_head(&b, 0, 1, 1);
	sample = begin(&b, 3);
	PUT32(&b, 1, 0, 0x12345678, 10, 100, 0, 0, 0x1234567, 1, 262, 6);
	at = begin(&b, 4413 << 12 | 1); /* a vendor's */
	PUT32(&b, 1, 2, 3);
	end(&b, at);
	at = begin(&b, 1001);
	PUT32(&b, 12, 0, 13, 0);
	end(&b, at);
	at = begin(&b, 1002);
	put32(&b, 2);
	put_address(&b, "2001:db8::7");
	PUT32(&b, 24, 24);
	end(&b, at);
	at = begin(&b, 1003);
	put32(&b, 1);
	put_address(&b, "192.0.2.77");
	PUT32(&b, 65000, 65001, 65001, 2, 2, 2, 100, 200, 1, 1, 300, 0, 7);
	end(&b, at);
	at = begin(&b, 4);
	PUT32(&b, 100, 17);
	put_address(&b, "2001:db8::1");
	put_address(&b, "2001:db8::2");
	PUT32(&b, 53, 54, 0, 46 << 2);
	end(&b, at);
	at = begin(&b, 2);
	PUT32(&b, 118, 0, 0, 0, 0, 0x86dd);
	end(&b, at);
	end(&b, sample);
	assert_int_equal(drive_take(&v, &b), 1);
	check_address(v.got, DTA_FIELD_SOURCE, "2001:db8::1");
	check_address(v.got, DTA_FIELD_DESTINATION, "2001:db8::2");
	check_address(v.got, DTA_FIELD_NEXT_HOP, "192.0.2.77");
	check_numbers(v.got,
		      NUMBERS({DTA_FIELD_DOMAIN, 0}, {DTA_FIELD_INGRESS, 0x1234567},
			      {DTA_FIELD_DROP_REASON, 262}, {DTA_FIELD_VLAN, 12},
			      {DTA_FIELD_SOURCE_AS, 65001}, {DTA_FIELD_DESTINATION_AS, 300},
			      {DTA_FIELD_PREVIOUS_AS, 65001}, {DTA_FIELD_NEXT_AS, 100},
			      {DTA_FIELD_SOURCE_PREFIX, 24}, {DTA_FIELD_DESTINATION_PREFIX, 24},
			      {DTA_FIELD_SOURCE_MAC, 0}, {DTA_FIELD_DESTINATION_MAC, 0},
			      {DTA_FIELD_IP_VERSION, 6}, {DTA_FIELD_TOS, 46 << 2},
			      {DTA_FIELD_DSCP, 46}, {DTA_FIELD_PROTOCOL, 17},
			      {DTA_FIELD_SOURCE_PORT, 53}, {DTA_FIELD_DESTINATION_PORT, 54},
			      {DTA_FIELD_TCP_FLAGS, 0}, {DTA_FIELD_SAMPLING, 10},
			      {DTA_FIELD_PACKETS, 10}, {DTA_FIELD_BYTES, 1000}));
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_UNSUPPORTED], 1);
	assert_int_equal(drive_refused(&v), 1);
	drive_end(&v);
}

/* A device may send the type and code in place of the port, as NetFlow does. */
static void a_sampled_packet_of_icmp_has_no_ports(void **state)
{
	struct built b;
	struct drive v;
	size_t sample, at;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	put_head(&b, 0, 1, 1);
	sample = begin(&b, 1);
	PUT32(&b, 1, 3, 400, 1000000, 0, 3, 4, 1);
	at = begin(&b, 3);
	PUT32(&b, 100, 1);
	put_address(&b, "192.0.2.1");
	put_address(&b, "192.0.2.2");
	PUT32(&b, 0, 0x0800, 0, 0);
	end(&b, at);
	end(&b, sample);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.got->number[DTA_FIELD_PROTOCOL], 1);
	assert_true(v.got->has >> DTA_FIELD_DESTINATION_PORT & 1);
	assert_int_equal(v.got->number[DTA_FIELD_DESTINATION_PORT], 0);
	drive_end(&v);
}

static void counters_are_there_if_the_device_has_them(void **state)
{
	struct built b;
	struct drive v;
	size_t sample, at;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	for (int wide = 0; wide < 2; wide++) {
		put_head(&b, 0, 1, 1);
		sample = begin(&b, wide ? 4 : 2);
		put32(&b, 1);
		if (wide)
			put32(&b, 0);
		PUT32(&b, 7, 3);
		at = begin(&b, 1);
		PUT32(&b, 7, 6);
		put64(&b, UINT64_C(10000000000));
		PUT32(&b, 1, 3);
		put64(&b, UINT64_C(1) << 40);
		PUT32(&b, 1000, 20, UINT32_MAX, 5, UINT32_MAX, UINT32_MAX);
		put64(&b, 99);
		PUT32(&b, UINT32_MAX, 0, 0, 6, 8, 0);
		end(&b, at);
		at = begin(&b, 2);
		PUT32(&b, 1, 2, 50, 50, 3, 50, 4, 5, 6, 7, 8, 9, 10);
		end(&b, at);
		at = begin(&b, 1005);
		PUT32(&b, 4, 0x65746830);
		end(&b, at);
		end(&b, sample);
		assert_int_equal(drive_take(&v, &b), 1);
		assert_int_equal(v.got->kind, DTA_RECORD_COUNTERS);
		check_address(v.got, DTA_FIELD_EXPORTER, AGENT);
		check_numbers(v.got, NUMBERS({DTA_FIELD_DOMAIN, 0}, {DTA_FIELD_INTERFACE, 7},
					     {DTA_FIELD_SPEED, UINT64_C(10000000000)},
					     {DTA_FIELD_IN_BYTES, UINT64_C(1) << 40},
					     {DTA_FIELD_IN_PACKETS, 1020}, {DTA_FIELD_IN_DROPS, 5},
					     {DTA_FIELD_IN_ERRORS, 1 + 2 + 8 + 9 + 10},
					     {DTA_FIELD_OUT_BYTES, 99}, {DTA_FIELD_OUT_DROPS, 6},
					     {DTA_FIELD_OUT_ERRORS, 8}));
	}
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_UNSUPPORTED], 2);
	assert_int_equal(v.d->stats.lost, 0);
	drive_end(&v);
}

/* Sums of 32-bit counters wrap like these, and each direction has its own unknown counters. */
static void sums_of_counters_wrap_and_are_known_apart(void **state)
{
	struct built b;
	struct drive v;
	size_t sample, at;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	put_head(&b, 0, 1, 1);
	sample = begin(&b, 2);
	PUT32(&b, 1, 7, 2);
	at = begin(&b, 1);
	PUT32(&b, 7, 6);
	put64(&b, 0);
	PUT32(&b, 1, 3);
	put64(&b, 1);
	PUT32(&b, UINT32_MAX - 9, 20, 5, 0, UINT32_MAX, 0);
	put64(&b, 2);
	PUT32(&b, 1, 2, 3, 0, UINT32_MAX, 0);
	end(&b, at);
	at = begin(&b, 2);
	PUT32(&b, 1, UINT32_MAX, 50, 50, UINT32_MAX - 9, 50, 4, 5, 6, 7, 8, 9, 10);
	end(&b, at);
	end(&b, sample);
	assert_int_equal(drive_take(&v, &b), 1);
	check_numbers(v.got, NUMBERS({DTA_FIELD_DOMAIN, 0}, {DTA_FIELD_INTERFACE, 7},
				     {DTA_FIELD_IN_BYTES, 1}, {DTA_FIELD_IN_PACKETS, 15},
				     {DTA_FIELD_IN_DROPS, 0}, {DTA_FIELD_OUT_BYTES, 2},
				     {DTA_FIELD_OUT_PACKETS, 6}, {DTA_FIELD_OUT_DROPS, 0},
				     {DTA_FIELD_OUT_ERRORS, 4 + 5 + 6 + 7 - 10}));
	drive_end(&v);
}

static void a_discarded_packet_is_a_drop(void **state)
{
	struct built b;
	struct drive v;
	size_t sample;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	put_head(&b, 0, 1, 1);
	sample = begin(&b, 5);
	PUT32(&b, 1, 0, 3, 0, 3, 0, 263, 1);
	put_raw(&b);
	end(&b, sample);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.got->kind, DTA_RECORD_DROP);
	assert_int_equal(v.got->number[DTA_FIELD_DROP_REASON], 263);
	assert_int_equal(v.got->number[DTA_FIELD_INGRESS], 3);
	assert_false(v.got->has >> DTA_FIELD_EGRESS & 1);
	assert_int_equal(v.got->number[DTA_FIELD_PACKETS], 1);
	assert_int_equal(v.got->number[DTA_FIELD_BYTES], 1518);
	check_address(v.got, DTA_FIELD_DESTINATION, "10.0.0.2");
	drive_end(&v);
}

static uint64_t lost_after(struct drive *v, uint32_t sub_agent, uint32_t datagram, uint32_t number,
			   uint32_t source, uint32_t drops)
{
	struct built b;

	put_head(&b, sub_agent, datagram, 1);
	put_flow(&b, number, source, 1, drops);
	assert_int_equal(drive_take(v, &b), 1);
	return v->d->stats.lost;
}

static void samples_that_never_came_are_counted(void **state)
{
	struct drive v;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	assert_int_equal(lost_after(&v, 0, 110, 500, 1, 7), 0); /* earlier losses are not counted */
	assert_int_equal(lost_after(&v, 0, 111, 501, 1, 7), 0);
	assert_int_equal(lost_after(&v, 0, 114, 505, 1, 7), 3);
	assert_int_equal(lost_after(&v, 0, 112, 503, 1, 7), 2); /* late */
	assert_int_equal(lost_after(&v, 0, 112, 503, 1, 7), 2); /* and twice */
	assert_int_equal(lost_after(&v, 0, 115, 506, 1, 9), 4); /* two had no room in the device */
	assert_int_equal(lost_after(&v, 0, 116, 90, 2, 0), 4);	/* another port's numbers */
	assert_int_equal(lost_after(&v, 1, 3, 70, 1, 0), 4);	/* another sub-agent's */
	assert_int_equal(lost_after(&v, 0, 117, 507, 1, 9), 4);
	assert_int_equal(v.d->stats.restarts, 0);
	assert_int_equal(v.d->stats.exporters, 2);
	assert_int_equal(lost_after(&v, 0, 1, 1, 1, 0), 4); /* began anew */
	assert_int_equal(lost_after(&v, 0, 2, 1, 2, 0), 4);
	assert_int_equal(v.d->stats.restarts, 1);
	/* A number far away does not count as a billion lost. */
	assert_int_equal(lost_after(&v, 0, 0x80000000, 0x80000000, 1, 0), 4);
	assert_int_equal(lost_after(&v, 0, UINT32_MAX, UINT32_MAX, 1, 0), 4);
	assert_int_equal(lost_after(&v, 0, 0, 0, 1, 0), 4); /* round the end */
	assert_int_equal(lost_after(&v, 0, 2, 2, 1, 0), 5);
	/* Streams of sub-agents with large numbers are separate, too. */
	assert_int_equal(lost_after(&v, 0, 3, 10, 1 << 24 | 1, 0), 5);
	assert_int_equal(lost_after(&v, 1 << 16, 1, 5000, 1, 0), 5);
	drive_end(&v);
}

static void strangers_take_no_place_for_long(void **state)
{
	struct built b;
	struct drive v;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	assert_int_equal(lost_after(&v, 0, 1, 1, 1, 0), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		put_head(&b, 0, 1, 0);
		dta_put32(b.at + 8, i);
		drive_take(&v, &b);
	}
	assert_true(v.d->stats.exporters <= 1024);
	assert_true(v.d->stats.refused[DTA_DEVICE_NO_ROOM] > 90000);
	/* Records are unaffected, and losses are known again once the others have been silent. */
	v.now_ns += UINT64_C(11000000000);
	lost_after(&v, 0, 2, 2, 1, 0);
	assert_int_equal(lost_after(&v, 0, 4, 4, 1, 0), 1);
	v.now_ns += UINT64_C(700000000000);
	lost_after(&v, 0, 5, 5, 1, 0);
	assert_int_equal(v.d->stats.exporters, 1);
	drive_end(&v);
}

/* A datagram with all kinds of samples. */
static void build_all(struct built *b)
{
	size_t sample, at;

	put_head(b, 1, 1, 4);
	put_flow(b, 1, 1, 10, 0);
	sample = begin(b, 3);
	PUT32(b, 1, 0, 1, 10, 100, 0, 0, 1, 0, 2, 2);
	put_raw(b);
	at = begin(b, 1003);
	put32(b, 1);
	put_address(b, "192.0.2.77");
	PUT32(b, 65000, 65001, 65001, 1, 2, 2, 100, 200, 0, 7);
	end(b, at);
	end(b, sample);
	sample = begin(b, 2);
	PUT32(b, 1, 7, 1);
	at = begin(b, 1);
	for (int i = 0; i < 22; i++)
		put32(b, 3);
	end(b, at);
	end(b, sample);
	sample = begin(b, 5);
	PUT32(b, 1, 0, 3, 0, 3, 0, 263, 1);
	put_raw(b);
	end(b, sample);
}

static void a_cut_datagram_gives_its_whole_samples(void **state)
{
	struct built b = {.bytes = 0};
	size_t before = 0;

	(void)state;
	build_all(&b);
	for (size_t bytes = 0; bytes <= b.bytes; bytes++) {
		struct drive v;

		drive_begin(&v, &dta_decoder_sflow);
		drive_bytes(&v, b.at, bytes);
		assert_true(v.n >= before); /* a longer piece has no less */
		before = v.n;
		assert_int_equal(drive_refused(&v), bytes < b.bytes);
		drive_end(&v);
	}
	assert_int_equal(before, 4);
}

static void a_changed_word_does_no_harm(void **state)
{
	static const uint32_t values[] = {0,	     1, 3, 0x7fffffff, 0x80000000, UINT32_MAX - 3,
					  UINT32_MAX};
	struct built b = {.bytes = 0};
	struct drive v;

	(void)state;
	build_all(&b);
	drive_begin(&v, &dta_decoder_sflow);
	for (size_t at = 0; at + 4 <= b.bytes; at += 4)
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			const uint32_t was = dta_get32(b.at + at);

			dta_put32(b.at + at, values[i]);
			drive_take(&v, &b);
			dta_put32(b.at + at, was);
		}
	drive_end(&v);
}

static void refuses_for_the_cause(void **state)
{
	struct built b;
	struct drive v;
	size_t sample;

	(void)state;
	drive_begin(&v, &dta_decoder_sflow);
	put_head(&b, 0, 1, 0);
	dta_put32(b.at, 4);
	drive_take(&v, &b);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_BAD_VERSION], 1);
	put_head(&b, 0, 1, 1);
	put_flow(&b, 1, 1, 1, 0);
	dta_put32(b.at + 28 + 4, 100000); /* the sample's length */
	assert_int_equal(drive_take(&v, &b), 0);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_BAD_LENGTH], 1);
	/* A refused sample does not affect the others. */
	put_head(&b, 0, 2, 3);
	sample = begin(&b, 77);
	put32(&b, 1);
	end(&b, sample);
	sample = begin(&b, 1);
	PUT32(&b, 2, 1, 1, 1, 0, 0, 0);
	end(&b, sample);
	put_flow(&b, 3, 1, 1, 0);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_UNSUPPORTED], 1);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_TRUNCATED], 1);
	drive_end(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample_counts_for_all_that_it_stands_for),
		cmocka_unit_test(reads_wide_samples_and_what_the_switch_adds),
		cmocka_unit_test(counters_are_there_if_the_device_has_them),
		cmocka_unit_test(a_sampled_packet_of_icmp_has_no_ports),
		cmocka_unit_test(sums_of_counters_wrap_and_are_known_apart),
		cmocka_unit_test(a_discarded_packet_is_a_drop),
		cmocka_unit_test(samples_that_never_came_are_counted),
		cmocka_unit_test(strangers_take_no_place_for_long),
		cmocka_unit_test(a_cut_datagram_gives_its_whole_samples),
		cmocka_unit_test(a_changed_word_does_no_harm),
		cmocka_unit_test(refuses_for_the_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
