// SPDX-License-Identifier: Apache-2.0
/*
 * test_device.c - decoding of template-based datagrams: messages of RFC 7011's Appendix A and
 * hand-made ones; lost datagrams and sampling.
 */
#include "dta/device/exporter.h"
#include "template_drive.h"

/* ---- IPFIX ---- */

/* RFC 7011, Appendix A.1 to A.4: a message of 152 bytes. */
static void rfc7011_examples(void **state)
{
	static const struct {
		const char *from, *to, *next;
		uint32_t packets, bytes;
	} flows[] = {{"192.0.2.12", "192.0.2.254", "192.0.2.1", 5009, 5344385},
		     {"192.0.2.27", "192.0.2.23", "192.0.2.2", 748, 388934},
		     {"192.0.2.56", "192.0.2.65", "192.0.2.3", 5, 6534}};
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 12345);
	begin_set(&m, 2);
	PUT16(&m, 256, 5, 8, 4, 12, 4, 15, 4, 2, 4, 1, 4);
	end_set(&m);
	begin_set(&m, 256);
	for (int i = 0; i < 3; i++) {
		put_address(&m, flows[i].from);
		put_address(&m, flows[i].to);
		put_address(&m, flows[i].next);
		put(&m, 4, flows[i].packets);
		put(&m, 4, flows[i].bytes);
	}
	end_set(&m);
	begin_set(&m, 3); /* lineCardId; exportedMessageTotalCount, exportedFlowRecordTotalCount */
	PUT16(&m, 258, 3, 1, 141, 4, 41, 2, 42, 2, 0);
	end_set(&m);
	begin_set(&m, 258);
	put(&m, 4, 1);
	PUT16(&m, 345, 10201);
	put(&m, 4, 2);
	PUT16(&m, 690, 20402);
	end_set(&m);
	assert_int_equal(m.bytes, 152);
	assert_int_equal(give(x, &m), 3);
	for (int i = 0; i < 3; i++) {
		const struct dta_record *r = &x->got[i];

		assert_int_equal(r->kind, DTA_RECORD_FLOW);
		check_address(r, DTA_FIELD_EXPORTER, "192.0.2.100");
		check_address(r, DTA_FIELD_SOURCE, flows[i].from);
		check_address(r, DTA_FIELD_DESTINATION, flows[i].to);
		check_address(r, DTA_FIELD_NEXT_HOP, flows[i].next);
		has_number(r, DTA_FIELD_PACKETS, flows[i].packets);
		has_number(r, DTA_FIELD_BYTES, flows[i].bytes);
		has_number(r, DTA_FIELD_DOMAIN, 12345);
		has_number(r, DTA_FIELD_IP_VERSION, 4);
		has_number(r, DTA_FIELD_SAMPLING, 1);
		assert_false(r->has >> DTA_FIELD_SOURCE_PORT & 1);
	}
	assert_int_equal(x->d->stats.options, 2);
	assert_int_equal(x->d->stats.templates, 2);
	assert_int_equal(x->d->stats.exporters, 1);
	/* Five records arrived: three flows and two options records. */
	ipfix(&m, 5, 12345);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 0);
	for (int r = 1; r < DTA_DEVICE_REFUSALS; r++)
		assert_int_equal(x->d->stats.refused[r], 0);
	run_end(x);
}

/* A.2.2 and A.5: elements of an enterprise, and of variable length, in both forms. */
static void fields_of_others_and_of_any_length(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 257, 5, 8, 4, 12, 4, 0x8000 | 1, 4);
	put(&m, 4, 9); /* field 1 of an enterprise, not IANA's octets */
	PUT16(&m, 2, 4, 1, 4);
	PUT16(&m, 300, 4, 82, 65535, 1, 65535, 0x8000 | 12, 65535);
	put(&m, 4, 9);
	PUT16(&m, 2, 4);
	end_set(&m);
	begin_set(&m, 257);
	put_address(&m, "192.0.2.12");
	put_address(&m, "192.0.2.254");
	put(&m, 4, 0xffffffff);
	put(&m, 4, 17);
	put(&m, 4, 91);
	end_set(&m);
	begin_set(&m, 300);
	put(&m, 1,
	    5); /* "eth0." of interfaceName, octets of 3 bytes, 5 and 1000 of the enterprise */
	for (int i = 0; i < 5; i++)
		put(&m, 1, 'e');
	put(&m, 1, 3);
	put(&m, 3, 70000);
	put(&m, 1, 5);
	put(&m, 5, 0);
	put(&m, 4, 7);
	put(&m, 1, 0);
	put(&m, 1, 2);
	put(&m, 2, 600);
	put(&m, 1, 255);
	put(&m, 2, 1000);
	for (int i = 0; i < 1000; i++)
		put(&m, 1, 0xee);
	put(&m, 4, 8);
	end_set(&m);
	assert_int_equal(give(x, &m), 3);
	has_number(&x->got[0], DTA_FIELD_BYTES, 91);
	has_number(&x->got[0], DTA_FIELD_PACKETS, 17);
	has_number(&x->got[1], DTA_FIELD_BYTES, 70000);
	has_number(&x->got[1], DTA_FIELD_PACKETS, 7);
	has_number(&x->got[2], DTA_FIELD_BYTES, 600);
	has_number(&x->got[2], DTA_FIELD_PACKETS, 8);
	/* A length that goes beyond the set. */
	ipfix(&m, 3, 1);
	begin_set(&m, 300);
	put(&m, 1, 0);
	put(&m, 1, 1);
	put(&m, 1, 5);
	put(&m, 1, 255);
	put(&m, 2, 1000);
	put(&m, 4, 8);
	end_set(&m);
	assert_int_equal(give(x, &m), 0);
	assert_int_equal(refused(x, DTA_DEVICE_BAD_LENGTH), 1);
	run_end(x);
}

static void both_versions_and_times(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 1);
	begin_set(&m, 2); /* IPv4 or IPv6, times as NTP has them, and the type of service */
	PUT16(&m, 256, 8, 8, 4, 12, 4, 27, 16, 28, 16, 154, 8, 153, 8, 5, 1, 4, 1);
	end_set(&m);
	begin_set(&m, 256);
	for (int v6 = 1; v6 >= 0; v6--) {
		put_address(&m, v6 ? "0.0.0.0" : "192.0.2.1");
		put_address(&m, v6 ? "0.0.0.0" : "192.0.2.2");
		put_address(&m, v6 ? "2001:db8::1" : "::");
		put_address(&m, v6 ? "2001:db8::2" : "::");
		put(&m, 4, 1700000000 + 2208988800u);
		put(&m, 4, 0x80000000);
		put(&m, 8, 1700000002250);
		put(&m, 1, 46 << 2 | 1);
		put(&m, 1, v6 ? 58 : 6);
	}
	end_set(&m);
	assert_int_equal(give(x, &m), 2);
	check_address(&x->got[0], DTA_FIELD_SOURCE, "2001:db8::1");
	check_address(&x->got[0], DTA_FIELD_DESTINATION, "2001:db8::2");
	check_address(&x->got[1], DTA_FIELD_SOURCE, "192.0.2.1");
	check_address(&x->got[1], DTA_FIELD_DESTINATION, "192.0.2.2");
	has_number(&x->got[0], DTA_FIELD_IP_VERSION, 6);
	has_number(&x->got[1], DTA_FIELD_IP_VERSION, 4);
	has_number(&x->got[0], DTA_FIELD_START_NS, UINT64_C(1700000000500000000));
	has_number(&x->got[0], DTA_FIELD_END_NS, UINT64_C(1700000002250000000));
	has_number(&x->got[0], DTA_FIELD_DSCP, 46);
	/* ICMP has no ports; a TCP flow without ports in its record does not have port 0. */
	has_number(&x->got[0], DTA_FIELD_SOURCE_PORT, 0);
	assert_false(x->got[1].has >> DTA_FIELD_SOURCE_PORT & 1);
	run_end(x);
}

static void templates_come_and_go(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 1); /* data before its template */
	usual_data(&m, 256, 2);
	assert_int_equal(give(x, &m), 0);
	assert_int_equal(refused(x, DTA_DEVICE_NO_TEMPLATE), 1);
	assert_int_equal(x->d->stats.exporters, 0);
	ipfix(&m, 0, 1);
	usual_template(&m, 256);
	put(&m, 0, 0);
	usual_data(&m, 256, 2);
	assert_int_equal(give(x, &m), 2);
	has_number(last(x), DTA_FIELD_PACKETS, 11);
	/* Another domain, port or address has separate templates. */
	ipfix(&m, 0, 2);
	usual_data(&m, 256, 1);
	assert_int_equal(give(x, &m), 0);
	ipfix(&m, 2, 1);
	usual_data(&m, 256, 1);
	x->port++;
	assert_int_equal(give(x, &m), 0);
	x->port--;
	x->sender = "192.0.2.101";
	assert_int_equal(give(x, &m), 0);
	x->sender = "192.0.2.100";
	assert_int_equal(refused(x, DTA_DEVICE_NO_TEMPLATE), 4);
	/* The same template number with other fields: only packets. */
	ipfix(&m, 2, 1);
	begin_set(&m, 2);
	PUT16(&m, 256, 1, 2, 2);
	end_set(&m);
	begin_set(&m, 256);
	PUT16(&m, 4711, 4712);
	end_set(&m);
	assert_int_equal(give(x, &m), 2);
	has_number(last(x), DTA_FIELD_PACKETS, 4712);
	assert_false(last(x)->has >> DTA_FIELD_BYTES & 1);
	assert_int_equal(x->d->stats.templates, 1);
	/* Withdrawn, alone and with all. */
	ipfix(&m, 4, 1);
	begin_set(&m, 2);
	PUT16(&m, 256, 0);
	end_set(&m);
	begin_set(&m, 256);
	PUT16(&m, 1);
	end_set(&m);
	assert_int_equal(give(x, &m), 0);
	assert_int_equal(x->d->stats.templates, 0);
	ipfix(&m, 4, 1);
	usual_template(&m, 300);
	usual_template(&m, 316); /* at the same place of the table */
	begin_set(&m, 3);
	PUT16(&m, 301, 2, 1, 149, 4, 34, 4);
	end_set(&m);
	begin_set(&m, 2);
	PUT16(&m, 2, 0);
	end_set(&m);
	give(x, &m);
	assert_int_equal(x->d->stats.templates, 1);
	begin_set(&m, 3);
	PUT16(&m, 3, 0);
	end_set(&m);
	give(x, &m);
	assert_int_equal(x->d->stats.templates, 0);
	/* A template that was not renewed for hours. */
	ipfix(&m, 4, 1);
	usual_template(&m, 256);
	give(x, &m);
	x->now_ns += DTA_EXPORTER_LIFETIME_NS;
	ipfix(&m, 4, 1);
	usual_data(&m, 256, 1);
	assert_int_equal(give(x, &m), 1);
	x->now_ns += SECOND;
	ipfix(&m, 5, 1);
	usual_data(&m, 256, 1);
	assert_int_equal(give(x, &m), 0);
	run_end(x);
}

static void padding_is_no_record(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 256, 1, 2, 4, 0); /* two bytes that no template has */
	end_set(&m);
	begin_set(&m, 256);
	put(&m, 4, 5);
	put(&m, 3, 0);
	end_set(&m);
	assert_int_equal(give(x, &m), 1);
	for (int r = 1; r < DTA_DEVICE_REFUSALS; r++)
		assert_int_equal(x->d->stats.refused[r], 0);
	run_end(x);
}

static void wrong_messages_are_refused_by_cause(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 1);
	usual_template(&m, 256);
	usual_data(&m, 256, 3);
	dta_put16(m.at + 2, (uint32_t)m.bytes);
	for (size_t n = 0; n < m.bytes; n++)
		assert_int_equal(drive_bytes(x, m.at, n), 0);
	assert_int_equal(refused(x, DTA_DEVICE_TRUNCATED), m.bytes);
	assert_int_equal(drive_bytes(x, m.at, m.bytes + 1), 0);
	assert_int_equal(refused(x, DTA_DEVICE_BAD_LENGTH), 1);
	m.at[1] = 9;
	drive_bytes(x, m.at, m.bytes);
	assert_int_equal(refused(x, DTA_DEVICE_BAD_VERSION), 1);
	assert_int_equal(x->d->stats.exporters, 0);
	/* A set that is longer than its message, and one of no length at all. */
	for (uint32_t length = 0; length < 4; length++) {
		ipfix(&m, 0, 1);
		PUT16(&m, 256, length == 3 ? 5 : length);
		give(x, &m);
	}
	assert_int_equal(refused(x, DTA_DEVICE_BAD_LENGTH), 5);
	/* Numbers of sets that are reserved. */
	ipfix(&m, 0, 1);
	for (uint32_t id = 0; id < 256; id++)
		if (id != 2 && id != 3)
			PUT16(&m, id, 4);
	give(x, &m);
	assert_int_equal(refused(x, DTA_DEVICE_UNSUPPORTED), 254);
	/* Templates: of a reserved number, without a byte, without a scope, beyond their set. */
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 255, 1, 2, 4, 256, 1, 2, 0, 256, 2, 2, 4, 1);
	end_set(&m);
	begin_set(&m, 3);
	PUT16(&m, 256, 1, 0, 2, 4, 256, 1, 2, 2, 4);
	end_set(&m);
	give(x, &m);
	assert_int_equal(refused(x, DTA_DEVICE_BAD_TEMPLATE), 5);
	assert_int_equal(x->d->stats.templates, 0);
	run_end(x);
}

/* ---- numbers ---- */

static void lost_records_are_counted(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, UINT32_MAX - 3, 1); /* the numbers wrap */
	usual_template(&m, 256);
	usual_data(&m, 256, 4);
	give(x, &m);
	ipfix(&m, 7, 1); /* 0 to 6 are missing */
	usual_data(&m, 256, 2);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 7);
	ipfix(&m, 0, 1); /* a number of 0 is a restart, not a late datagram */
	assert_int_equal(x->d->stats.restarts, 0);
	give(x, &m);
	assert_int_equal(x->d->stats.restarts, 1);
	ipfix(&m, 10, 1);
	usual_data(&m, 256, 2);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 17);
	ipfix(&m, 4, 1); /* late */
	usual_data(&m, 256, 6);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 11);
	ipfix(&m, 12, 1);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 11);
	/* A jump does not count as a loss of a billion. */
	ipfix(&m, 0x40000000, 1);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 11);
	assert_int_equal(x->d->stats.restarts, 2);
	/* Records of an unknown template cannot be counted, so the next number says nothing. */
	ipfix(&m, 0x40000000, 1);
	usual_data(&m, 999, 2);
	give(x, &m);
	ipfix(&m, 0x40000050, 1);
	give(x, &m);
	assert_int_equal(x->d->stats.lost, 11);
	run_end(x);
}

static void netflow9_counts_packets_and_starts_again(void **state)
{
	struct drive *x = run_new("netflow");
	struct built m;

	(void)state;
	netflow9(&m, 100000, 0, 5);
	usual_template(&m, 256);
	usual_data(&m, 256, 4);
	assert_int_equal(give(x, &m), 4);
	has_number(last(x), DTA_FIELD_DOMAIN, 5);
	netflow9(&m, 101000, 3, 5);
	usual_data(&m, 256, 2);
	assert_int_equal(give(x, &m), 2);
	assert_int_equal(x->d->stats.lost, 2);
	/*
	 * Its uptime drops from more than a minute to a second: it has restarted, and has other
	 * templates.
	 */
	netflow9(&m, 1000, 0, 5);
	usual_data(&m, 256, 2);
	assert_int_equal(give(x, &m), 0);
	assert_int_equal(x->d->stats.restarts, 1);
	assert_int_equal(x->d->stats.lost, 2);
	assert_int_equal(refused(x, DTA_DEVICE_NO_TEMPLATE), 1);
	/* Its uptime wraps after 49 days; this is not a restart. */
	netflow9(&m, UINT32_MAX - 10, 1, 6);
	usual_template(&m, 256);
	give(x, &m);
	netflow9(&m, 500, 2, 6);
	usual_data(&m, 256, 1);
	assert_int_equal(give(x, &m), 1);
	assert_int_equal(x->d->stats.restarts, 1);
	run_end(x);
}

static void netflow5_is_read_as_it_is_laid_out(void **state)
{
	struct drive *x = run_new("netflow");
	const struct dta_record *r;
	struct built m = {.bytes = 0};

	(void)state;
	for (uint32_t sequence = 100; sequence < 108; sequence += 4) { /* 102 and 103 are lost */
		m.bytes = 0;
		PUT16(&m, 5, 2);
		put(&m, 4, 50000);
		put(&m, 4, 1700000000);
		put(&m, 4, 250000000);
		put(&m, 4, sequence);
		put(&m, 1, 1);
		put(&m, 1, 2);
		PUT16(&m, 1 << 14 | 100);
		for (int i = 0; i < 2; i++) {
			put_address(&m, "192.0.2.1");
			put_address(&m, "198.51.100.2");
			put_address(&m, "192.0.2.254");
			PUT16(&m, 3, 4);
			put(&m, 4, 10);
			put(&m, 4, 0xffffffff);
			put(&m, 4, 40000);
			put(&m, 4, 45000);
			if (i)
				PUT16(&m, 443, 50000, 0x0012, 0x06b8);
			else /* ICMP: its type and code */
				PUT16(&m, 0, 0x0301, 0x0000, 0x01b8);
			PUT16(&m, 65001, 65002, 0x1818, 0);
		}
		assert_int_equal(give(x, &m), 2);
	}
	r = last(x);
	check_address(r, DTA_FIELD_SOURCE, "192.0.2.1");
	check_address(r, DTA_FIELD_DESTINATION, "198.51.100.2");
	check_address(r, DTA_FIELD_NEXT_HOP, "192.0.2.254");
	has_number(r, DTA_FIELD_INGRESS, 3);
	has_number(r, DTA_FIELD_EGRESS, 4);
	has_number(r, DTA_FIELD_SAMPLING, 100);
	has_number(r, DTA_FIELD_PACKETS, 1000);
	has_number(r, DTA_FIELD_BYTES, UINT64_C(429496729500));
	has_number(r, DTA_FIELD_START_NS, UINT64_C(1699999990250000000));
	has_number(r, DTA_FIELD_END_NS, UINT64_C(1699999995250000000));
	has_number(r, DTA_FIELD_SOURCE_PORT, 443);
	has_number(r, DTA_FIELD_DESTINATION_PORT, 50000);
	has_number(r, DTA_FIELD_TCP_FLAGS, 0x12);
	has_number(r, DTA_FIELD_PROTOCOL, 6);
	has_number(r, DTA_FIELD_DSCP, 46);
	has_number(r, DTA_FIELD_SOURCE_AS, 65001);
	has_number(r, DTA_FIELD_DESTINATION_AS, 65002);
	has_number(r, DTA_FIELD_DOMAIN, 0x102);
	assert_false(r->has >> DTA_FIELD_ICMP & 1);
	has_number(r - 1, DTA_FIELD_ICMP, 0x0301);
	has_number(r - 1, DTA_FIELD_SOURCE_PORT, 0);
	has_number(r - 1, DTA_FIELD_DESTINATION_PORT, 0);
	assert_int_equal(x->d->stats.lost, 2);
	for (size_t n = 0; n < m.bytes; n++)
		assert_int_equal(drive_bytes(x, m.at, n), 0);
	assert_int_equal(refused(x, DTA_DEVICE_TRUNCATED), m.bytes);
	for (uint32_t v = 0; v < 12; v++) {
		m.at[1] = (uint8_t)v;
		if (v != 5 && v != 9)
			drive_bytes(x, m.at, m.bytes);
	}
	assert_int_equal(refused(x, DTA_DEVICE_BAD_VERSION), 10);
	run_end(x);
}

/* ---- sampling ---- */

static void options_of(struct drive *x, uint32_t id, const uint32_t *fields, uint32_t n,
		       const uint32_t *values)
{
	struct built m;

	ipfix(&m, 0, 1);
	begin_set(&m, 3);
	PUT16(&m, id, n, 1);
	for (uint32_t i = 0; i < n; i++)
		PUT16(&m, fields[i], 4);
	end_set(&m);
	begin_set(&m, id);
	for (uint32_t i = 0; i < n; i++)
		put(&m, 4, values[i]);
	end_set(&m);
	give(x, &m);
}

static uint64_t sampled_bytes(struct drive *x)
{
	struct built m;

	ipfix(&m, 0, 1);
	usual_template(&m, 256);
	usual_data(&m, 256, 1);
	assert_int_equal(give(x, &m), 1);
	assert_int_equal(last(x)->number[DTA_FIELD_BYTES],
			 1000 * last(x)->number[DTA_FIELD_SAMPLING]);
	return last(x)->number[DTA_FIELD_BYTES];
}

static void sampled_flows_are_scaled(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	assert_int_equal(sampled_bytes(x), 1000);
	options_of(x, 400, (uint32_t[]){149, 34}, 2, (uint32_t[]){1, 64});
	assert_int_equal(sampled_bytes(x), 64000);
	/* One packet is sampled, then 99 are not. */
	options_of(x, 401, (uint32_t[]){149, 305, 306}, 3, (uint32_t[]){1, 1, 99});
	assert_int_equal(sampled_bytes(x), 100000);
	/* 2 of 50; and by a probability, which is a float: 1/128. */
	options_of(x, 402, (uint32_t[]){149, 309, 310}, 3, (uint32_t[]){1, 2, 50});
	assert_int_equal(sampled_bytes(x), 25000);
	options_of(x, 403, (uint32_t[]){149, 311}, 2, (uint32_t[]){1, 0x3c000000});
	assert_int_equal(sampled_bytes(x), 128000);
	/* By selector: records that name one have its rate. */
	options_of(x, 404, (uint32_t[]){302, 305, 306}, 3, (uint32_t[]){7, 1, 9});
	options_of(x, 404, (uint32_t[]){302, 305, 306}, 3, (uint32_t[]){8, 1, 19});
	assert_int_equal(sampled_bytes(x), 128000);
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 257, 2, 302, 8, 1, 8);
	end_set(&m);
	begin_set(&m, 257);
	put(&m, 8, 7);
	put(&m, 8, 100);
	put(&m, 8, 8);
	put(&m, 8, UINT64_MAX / 2); /* does not wrap */
	end_set(&m);
	assert_int_equal(give(x, &m), 2);
	has_number(&x->got[x->n - 2], DTA_FIELD_BYTES, 1000);
	has_number(last(x), DTA_FIELD_BYTES, UINT64_MAX);
	/* A record that states its rate itself. */
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 258, 2, 34, 4, 2, 4);
	end_set(&m);
	begin_set(&m, 258);
	put(&m, 4, 3);
	put(&m, 4, 5);
	end_set(&m);
	assert_int_equal(give(x, &m), 1);
	has_number(last(x), DTA_FIELD_PACKETS, 15);
	run_end(x);
}

/* Scopes precede the options, and both lengths are in bytes, not in fields. */
static void netflow9_options_have_scopes(void **state)
{
	struct drive *x = run_new("netflow");
	struct built m;

	(void)state;
	netflow9(&m, 1000, 0, 1);
	begin_set(&m, 1);
	PUT16(&m, 257, 4, 8, 2, 2, 48, 1, 50, 4);
	put(&m, 2, 0);
	end_set(&m);
	begin_set(&m, 257);
	put(&m, 2, 9);
	put(&m, 1, 3);
	put(&m, 4, 1000);
	put(&m, 1, 0);
	end_set(&m);
	begin_set(&m, 0);
	PUT16(&m, 258, 5, 48, 1, 1, 4, 22, 4, 21, 4, 23, 4);
	end_set(&m);
	begin_set(&m, 258);
	put(&m, 1, 3);
	put(&m, 4, 77);
	put(&m, 4, 400);
	put(&m, 4, 900);
	put(&m, 4, 1);
	end_set(&m);
	assert_int_equal(give(x, &m), 1);
	assert_int_equal(x->d->stats.options, 1);
	has_number(last(x), DTA_FIELD_BYTES, 77000);
	has_number(last(x), DTA_FIELD_START_NS, UINT64_C(1699999999400000000));
	has_number(last(x), DTA_FIELD_END_NS, UINT64_C(1699999999900000000));
	run_end(x);
}

static void uptimes_may_be_later_than_the_header_and_wrap(void **state)
{
	struct drive *x = run_new("netflow");
	struct built m;

	(void)state;
	netflow9(&m, 1000, 0, 1);
	begin_set(&m, 0);
	PUT16(&m, 256, 3, 22, 4, 21, 4, 1, 4);
	end_set(&m);
	begin_set(&m, 256);
	put(&m, 4, UINT32_MAX);
	put(&m, 4, 1005);
	put(&m, 4, 77);
	end_set(&m);
	assert_int_equal(give(x, &m), 1);
	has_number(last(x), DTA_FIELD_START_NS, UINT64_C(1699999998999000000));
	has_number(last(x), DTA_FIELD_END_NS, UINT64_C(1700000000005000000));
	run_end(x);

	/* This exporter has run for 2^32 ms and 5 s. */
	x = run_new("ipfix");
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 256, 4, 160, 8, 22, 4, 21, 4, 1, 4);
	end_set(&m);
	begin_set(&m, 256);
	put(&m, 8, UINT64_C(1700000000000) - (UINT64_C(1) << 32) - 5000);
	put(&m, 4, 3000);
	put(&m, 4, 5250);
	put(&m, 4, 77);
	end_set(&m);
	assert_int_equal(give(x, &m), 1);
	has_number(last(x), DTA_FIELD_START_NS, UINT64_C(1699999998000000000));
	has_number(last(x), DTA_FIELD_END_NS, UINT64_C(1700000000250000000));
	run_end(x);
}

/* Many devices send the type and code as the destination port. */
static void a_flow_of_icmp_has_no_ports(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 256, 6, 8, 4, 12, 4, 4, 1, 7, 2, 11, 2, 1, 4);
	end_set(&m);
	begin_set(&m, 256);
	put_address(&m, "192.0.2.1");
	put_address(&m, "192.0.2.2");
	put(&m, 1, 1);
	put(&m, 2, 0);
	put(&m, 2, 0x0301);
	put(&m, 4, 77);
	end_set(&m);
	assert_int_equal(give(x, &m), 1);
	has_number(last(x), DTA_FIELD_ICMP, 0x0301);
	has_number(last(x), DTA_FIELD_SOURCE_PORT, 0);
	has_number(last(x), DTA_FIELD_DESTINATION_PORT, 0);
	run_end(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rfc7011_examples),
		cmocka_unit_test(fields_of_others_and_of_any_length),
		cmocka_unit_test(both_versions_and_times),
		cmocka_unit_test(templates_come_and_go),
		cmocka_unit_test(padding_is_no_record),
		cmocka_unit_test(wrong_messages_are_refused_by_cause),
		cmocka_unit_test(lost_records_are_counted),
		cmocka_unit_test(netflow9_counts_packets_and_starts_again),
		cmocka_unit_test(netflow5_is_read_as_it_is_laid_out),
		cmocka_unit_test(sampled_flows_are_scaled),
		cmocka_unit_test(netflow9_options_have_scopes),
		cmocka_unit_test(a_flow_of_icmp_has_no_ports),
		cmocka_unit_test(uptimes_may_be_later_than_the_header_and_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
