// SPDX-License-Identifier: Apache-2.0
/*
 * test_int.c - telemetry reports of switches become hops in the order in which the packet passed
 * them. The packets follow the examples of the specifications (Telemetry Report 2.0, section 4).
 */
#include "device_drive.h"

#define NODE 0x03

/* Flags of an individual report. */
#define DROPPED	     0x80u
#define TRACKED	     0x20u
#define INTERMEDIATE 0x10u

static void put_group(struct built *b, uint32_t hardware, uint32_t number)
{
	b->bytes = 0;
	PUT32(b, 2u << 28 | hardware << 22 | number, NODE);
}

/* Begins a report; its length is filled in at the end. */
static size_t begin(struct built *b, uint32_t type, uint32_t inner, uint32_t flags)
{
	put32(b, type << 28 | inner << 24 | flags);
	return b->bytes;
}

static void end(struct built *b, size_t from)
{
	while (b->bytes % 4)
		put8(b, 0);
	b->at[from - 3] = (uint8_t)((b->bytes - from) / 4);
}

static void put_main(struct built *b, uint32_t bits, const uint32_t *words, size_t n)
{
	PUT32(b, bits << 16, 0);
	put_many32(b, words, n);
	b->at[b->bytes - 8 - 4 * n - 2] = (uint8_t)n;
}
#define MAIN(b, bits, ...)                                 \
	put_main(b, bits, (const uint32_t[]){__VA_ARGS__}, \
		 sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* INT-MD of node and queue occupancy, of hops 2 and 1, behind a shim of the given last bytes. */
static void put_stack(struct built *b, uint32_t next, uint32_t original, uint32_t flags)
{
	PUT32(b, 1u << 28 | next << 26 | 7u << 16 | original, 2u << 28 | flags << 25 | 2u << 8 | 6,
	      0x9000u << 16, 0, 2, 5u << 24 | 2000, 1, 6u << 24 | 1000);
}

/* A TCP packet with a new UDP header for INT before TCP's. */
static void put_path(struct built *b, uint32_t flags)
{
	put_ipv4(b, 0, 17, 0, "10.0.1.1", "10.0.2.2", 8 + 32 + 20);
	put_udp(b, 9999, 5000, 32 + 20);
	put_stack(b, 2, 6, flags);
	put_tcp(b, 80, 40000, 0x10);
}

static void check_flow(const struct dta_record *r, uint64_t source, uint64_t destination,
		       uint64_t protocol)
{
	check_address(r, DTA_FIELD_EXPORTER, "192.0.2.9");
	check_address(r, DTA_FIELD_SOURCE, "10.0.1.1");
	check_address(r, DTA_FIELD_DESTINATION, "10.0.2.2");
	assert_int_equal(r->number[DTA_FIELD_SOURCE_PORT], source);
	assert_int_equal(r->number[DTA_FIELD_DESTINATION_PORT], destination);
	assert_int_equal(r->number[DTA_FIELD_PROTOCOL], protocol);
}

static void check_hop(const struct dta_record *r, uint64_t node, int hop, int hops, uint64_t depth)
{
	assert_int_equal(r->kind, DTA_RECORD_HOP);
	assert_int_equal(r->number[DTA_FIELD_SWITCH], node);
	assert_int_equal(r->has >> DTA_FIELD_HOP & 1, hop >= 0);
	assert_int_equal(r->has >> DTA_FIELD_HOPS & 1, hops >= 0);
	if (hop >= 0)
		assert_int_equal(r->number[DTA_FIELD_HOP], hop);
	if (hops >= 0)
		assert_int_equal(r->number[DTA_FIELD_HOPS], hops);
	assert_true(r->has >> DTA_FIELD_QUEUE_DEPTH & 1);
	assert_int_equal(r->number[DTA_FIELD_QUEUE_DEPTH], depth);
}

/* Section 4.3: the sink is in the report's header, the two before it in the packet. */
static void a_stack_is_a_path_from_its_end(void **state)
{
	struct built b;
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 5, 77);
	at = begin(&b, 1, 4, TRACKED);
	MAIN(&b, 0x1000, 7u << 24 | 3000);
	put_path(&b, 0);
	end(&b, at);
	assert_int_equal(b.at[at - 3], 23); /* as the specification counts it */
	assert_int_equal(drive_take(&v, &b), 3);
	for (size_t i = 0; i < 3; i++) {
		check_flow(&v.got[i], 80, 40000, 6);
		check_hop(&v.got[i], i + 1, (int)i, 3, (i + 1) * 1000);
		check_numbers(&v.got[i],
			      NUMBERS({DTA_FIELD_SWITCH, i + 1}, {DTA_FIELD_HOP, i},
				      {DTA_FIELD_HOPS, 3}, {DTA_FIELD_QUEUE_DEPTH, (i + 1) * 1000},
				      {DTA_FIELD_QUEUE, i == 2 ? 7 : 6 - i},
				      {DTA_FIELD_IP_VERSION, 4}, IP_NUMBERS(0, 64),
				      {DTA_FIELD_PROTOCOL, 6}, {DTA_FIELD_SOURCE_PORT, 80},
				      {DTA_FIELD_DESTINATION_PORT, 40000},
				      {DTA_FIELD_TCP_FLAGS, 0x10}));
	}
	assert_int_equal(drive_refused(&v), 0);
	drive_end(&v);
}

static void a_path_that_is_not_whole_has_no_length(void **state)
{
	struct built b;
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	for (int which = 0; which < 4; which++) {
		static const uint32_t flags[] = {TRACKED | INTERMEDIATE, TRACKED, TRACKED,
						 TRACKED | DROPPED};
		static const uint32_t int_flags[] = {0, 2, 1, 0}; /* too many hops, too long */
		const bool gaps = which == 1 || which == 2;

		put_group(&b, 0, (uint32_t)which);
		at = begin(&b, 1, 4, flags[which]);
		MAIN(&b, 0x1000, 3000);
		put_path(&b, int_flags[which]);
		end(&b, at);
		assert_int_equal(drive_take(&v, &b), 3);
		check_hop(&v.got[0], 1, gaps ? -1 : 0, -1, 1000);
		check_hop(&v.got[1], 2, gaps ? -1 : 1, -1, 2000);
		if (which < 3)
			check_hop(&v.got[2], 3, gaps ? -1 : 2, -1, 3000);
		else
			assert_int_equal(v.got[2].kind, DTA_RECORD_DROP);
	}
	/* Not tracked: nothing is embedded, whatever the content looks like. */
	put_group(&b, 0, 4);
	at = begin(&b, 1, 4, 0);
	MAIN(&b, 0x1000, 3000);
	put_path(&b, 0);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 1);
	check_flow(&v.got[0], 9999, 5000, 17);
	check_hop(&v.got[0], 3, -1, -1, 3000);
	drive_end(&v);
}

/* A sink can add itself to the stack, to its report, or to both. */
static void the_sink_counts_once(void **state)
{
	struct built b;
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 0, 0);
	at = begin(&b, 0, 4, TRACKED);
	put_path(&b, 0);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 2);
	check_hop(&v.got[0], 1, 0, 2, 1000);
	check_hop(&v.got[1], 2, 1, 2, 2000);
	put_group(&b, 0, 1);
	dta_put32(b.at + 4, 2);
	at = begin(&b, 1, 4, TRACKED);
	MAIN(&b, 0x2000, 55);
	put_path(&b, 0);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 2);
	check_hop(&v.got[0], 1, 0, 2, 1000);
	assert_false(v.got[0].has >> DTA_FIELD_LATENCY_NS & 1);
	check_hop(&v.got[1], 2, 1, 2, 2000);
	assert_int_equal(v.got[1].number[DTA_FIELD_LATENCY_NS], 55);
	drive_end(&v);
}

static void skips_instructions_that_it_does_not_know(void **state)
{
	struct built b;
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 0, 0);
	at = begin(&b, 1, 3,
		   TRACKED); /* all that INT-XD may say, two reserved bits, domain's own */
	MAIN(&b, 0xffc1, 0xaaaaaaaa, 11u << 16 | 12, 333, 4u << 24 | 444, 1, 2, 3, 4, 55, 66, 777,
	     8u << 24 | 888, 0xbbbbbbbb, 9u << 24 | 26u << 16, 0xcccccccc, 0xdddddddd);
	put_ethernet(&b, 0x0800);
	put_ipv4(&b, 0, 17, 0, "10.0.1.1", "10.0.2.2", 8);
	put_udp(&b, 1, 2, 0);
	end(&b, at);
	at = begin(&b, 1, 0, 0); /* the latency is computed from the times */
	MAIN(&b, 0x0e00, 0, 1000, 0, 3500, 0x10001, 0x10002);
	end(&b, at);
	at = begin(&b, 1, 2, 0); /* ones: not available */
	MAIN(&b, 0x7f80, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u);
	put32(&b, 0x12345678);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 3);
	check_flow(&v.got[0], 1, 2, 17);
	check_numbers(&v.got[0],
		      NUMBERS({DTA_FIELD_SWITCH, NODE}, {DTA_FIELD_INGRESS, 11},
			      {DTA_FIELD_EGRESS, 12}, {DTA_FIELD_LATENCY_NS, 333},
			      {DTA_FIELD_QUEUE, 9}, {DTA_FIELD_QUEUE_DEPTH, 444},
			      {DTA_FIELD_UTILIZATION, 777}, {DTA_FIELD_BUFFER, 888},
			      {DTA_FIELD_DROP_REASON, 26}, {DTA_FIELD_IP_VERSION, 4},
			      ETHERNET_NUMBERS, IP_NUMBERS(0, 64), {DTA_FIELD_PROTOCOL, 17},
			      {DTA_FIELD_SOURCE_PORT, 1}, {DTA_FIELD_DESTINATION_PORT, 2}));
	check_numbers(&v.got[1],
		      NUMBERS({DTA_FIELD_SWITCH, NODE}, {DTA_FIELD_LATENCY_NS, 2500},
			      {DTA_FIELD_INGRESS, 0x10001}, {DTA_FIELD_EGRESS, 0x10002}));
	check_numbers(&v.got[2], NUMBERS({DTA_FIELD_SWITCH, NODE}));
	assert_int_equal(drive_refused(&v), 0);
	drive_end(&v);
}

static void a_dropped_packet_has_its_reason(void **state)
{
	struct built b;
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 0, 0);
	at = begin(&b, 1, 4, DROPPED);
	MAIN(&b, 0x4001, 11u << 16 | 12, 9u << 24 | 26u << 16);
	put_ipv4(&b, 0, 6, 0, "10.0.1.1", "10.0.2.2", 20);
	put_tcp(&b, 80, 40000, 2);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.got->kind, DTA_RECORD_DROP);
	check_flow(v.got, 80, 40000, 6);
	assert_int_equal(v.got->number[DTA_FIELD_SWITCH], NODE);
	assert_int_equal(v.got->number[DTA_FIELD_DROP_REASON], 26);
	assert_int_equal(v.got->number[DTA_FIELD_QUEUE], 9);
	drive_end(&v);
}

/* Section 4.2: a packet among other contents; and an INT header after a separate port. */
static void finds_the_packet_among_contents(void **state)
{
	struct built b;
	struct drive v;
	size_t at, packet;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 0, 0);
	at = begin(&b, 1, 1, TRACKED);
	MAIN(&b, 0x1000, 3000);
	PUT32(&b, 1u << 16, 0xdddddddd); /* the domain's */
	put32(&b, 2u << 28);
	packet = b.bytes;
	put_ipv4(&b, 0, 17, 0, "10.0.1.1", "10.0.2.2", 8 + 32);
	put_udp(&b, 68, 5000, 32);
	put_stack(&b, 1, 67, 0);
	b.at[packet - 3] = (uint8_t)((b.bytes - packet) / 4);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 3);
	check_flow(&v.got[0], 68, 67, 17);
	check_hop(&v.got[0], 1, 0, 3, 1000);
	check_hop(&v.got[2], 3, 2, 3, 3000);
	/* After TCP, with DSCP: the original DSCP is restored; options may precede or follow. */
	for (int options = 0; options < 2; options++) {
		put_group(&b, 0, 1);
		at = begin(&b, 1, 4, TRACKED);
		MAIN(&b, 0x1000, 3000);
		put_ipv4(&b, 0x17 << 2, 6, 0, "10.0.1.1", "10.0.2.2", 20 + 4 + 32);
		put_tcp(&b, 80, 40000, 0x10);
		b.at[b.bytes - 8] = 0x60;
		if (options)
			put32(&b, 0x01010101);
		put_stack(&b, 0, 10 << 2, 0);
		end(&b, at);
		assert_int_equal(drive_take(&v, &b), 3);
		check_flow(&v.got[0], 80, 40000, 6);
		assert_int_equal(v.got[0].number[DTA_FIELD_DSCP], 10);
		check_hop(&v.got[1], 2, 1, 3, 2000);
	}
	assert_int_equal(drive_refused(&v), 0);
	drive_end(&v);
}

/* Report 1.0 with INT 1.0: times have 4 bytes, and the length of a shim includes the shim. */
static void reads_version_1(void **state)
{
	struct built b = {.bytes = 0};
	struct drive v;
	size_t head;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	PUT32(&b, 1u << 28 | 6u << 24 | 0x24u << 15 | 1u << 6 | 9, NODE, 100, 5000, 11u << 16 | 12,
	      7250);
	head = b.bytes;
	put_ethernet(&b, 0x0800);
	put_ipv4(&b, 0x17 << 2, 17, 0, "10.0.1.1", "10.0.2.2", 8 + 12 + 2 * 28 + 1);
	put_udp(&b, 68, 67, 12 + 2 * 28 + 1);
	PUT32(&b, 1u << 24 | 17u << 8 | 10 << 2, 1u << 28 | 7u << 8 | 6, 0x9e00u << 16);
	for (uint32_t node = 2; node; node--)
		PUT32(&b, node, node << 24 | node * 1000, 500, 510 + node, 0, node, 0);
	put8(&b, 'x');
	/*
	 * The bitmap says node, queue, two times and level 2 interfaces: 1 + 1 + 1 + 1 + 2 words,
	 * and a seventh is reserved.
	 */
	assert_int_equal(drive_take(&v, &b), 3);
	for (size_t i = 0; i < 2; i++) {
		check_flow(&v.got[i], 68, 67, 17);
		check_hop(&v.got[i], i + 1, (int)i, 3, (i + 1) * 1000);
		assert_int_equal(v.got[i].number[DTA_FIELD_LATENCY_NS], 11 + i);
		assert_int_equal(v.got[i].number[DTA_FIELD_DSCP], 10);
		assert_int_equal(v.got[i].number[DTA_FIELD_EGRESS], i + 1);
	}
	assert_int_equal(v.got[2].number[DTA_FIELD_SWITCH], NODE);
	assert_int_equal(v.got[2].number[DTA_FIELD_HOP], 2);
	assert_int_equal(v.got[2].number[DTA_FIELD_INGRESS], 11);
	assert_int_equal(v.got[2].number[DTA_FIELD_LATENCY_NS], 2250);
	/*
	 * A sink without metadata of its own is part of the path, whether it is in the stack or
	 * not.
	 */
	dta_put32(b.at, 1u << 28 | 4u << 24 | 1u << 6 | 9);
	memmove(b.at + 16, b.at + head, b.bytes - head);
	b.bytes -= head - 16;
	dta_put32(b.at + 8, 102);
	assert_int_equal(drive_take(&v, &b), 3);
	check_hop(&v.got[1], 2, 1, 3, 2000);
	assert_int_equal(v.got[2].number[DTA_FIELD_SWITCH], NODE);
	assert_int_equal(v.got[2].number[DTA_FIELD_HOP], 2);
	assert_int_equal(v.got[2].number[DTA_FIELD_HOPS], 3);
	assert_false(v.got[2].has >> DTA_FIELD_QUEUE_DEPTH & 1);
	assert_int_equal(v.d->stats.lost, 1);
	dta_put32(b.at + 4, 2);
	assert_int_equal(drive_take(&v, &b), 2);
	check_hop(&v.got[1], 2, 1, 2, 2000);
	assert_int_equal(drive_refused(&v), 0);
	/* A drop: queue and reason are the fifth bit of six. */
	b.bytes = 0;
	PUT32(&b, 1u << 28 | 5u << 24 | 1u << 21 | 2u << 15 | 1u << 8 | 9, NODE, 103, 5000,
	      6u << 24 | 71u << 16);
	put_ipv4(&b, 0, 17, 0, "10.0.1.1", "10.0.2.2", 8);
	put_udp(&b, 68, 67, 0);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.got->kind, DTA_RECORD_DROP);
	assert_int_equal(v.got->number[DTA_FIELD_DROP_REASON], 71);
	check_flow(v.got, 68, 67, 17);
	drive_end(&v);
}

/* A report of INT-XD: a packet as it is at one switch. */
static void put_single(struct built *b, uint32_t node, uint16_t id, uint8_t ttl, uint32_t depth)
{
	size_t at;

	b->bytes = 0;
	PUT32(b, 2u << 28, node);
	at = begin(b, 1, 4, TRACKED);
	MAIN(b, 0x1000, depth);
	PUT32(b, 0x45000000u | 40, (uint32_t)id << 16, (uint32_t)ttl << 24 | 6u << 16);
	put_address(b, "10.0.1.1");
	put_address(b, "10.0.2.2");
	put_tcp(b, 80, 40000, 2);
	end(b, at);
}

static void take_single(struct drive *v, uint32_t node, uint16_t id, uint8_t ttl, size_t given)
{
	struct built b;

	put_single(&b, node, id, ttl, node * 1000);
	assert_int_equal(drive_take(v, &b), given);
}

static void reports_of_single_switches_become_a_path(void **state)
{
	struct drive v;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	/* Two packets of a flow, whose reports arrive out of order and from several senders. */
	v.sender = "192.0.2.9";
	take_single(&v, 2, 77, 63, 0);
	take_single(&v, 1, 78, 64, 0);
	take_single(&v, 3, 77, 62, 0);
	v.now_ns += 5000000;
	take_single(&v, 1, 77, 64, 0);
	take_single(&v, 1, 77, 64, 1); /* a duplicate is no hop of the path */
	check_hop(v.got, 1, -1, -1, 1000);
	assert_int_equal(drive_flush(&v), 0);
	v.now_ns += 5000000;
	assert_int_equal(drive_flush(&v), 4);
	for (int i = 0; i < 3; i++) {
		check_hop(&v.got[i], (uint64_t)i + 1, i, 3, (uint64_t)(i + 1) * 1000);
		check_flow(&v.got[i], 80, 40000, 6);
	}
	check_hop(&v.got[3], 1, -1, -1, 1000); /* one switch is no path */
	/* A router between both did not report. */
	take_single(&v, 1, 79, 64, 0);
	take_single(&v, 3, 79, 62, 0);
	v.now_ns += 10000000;
	assert_int_equal(drive_flush(&v), 2);
	check_hop(&v.got[1], 3, -1, -1, 3000);
	/* Without an identification, TCP's sequence number distinguishes packets. */
	take_single(&v, 2, 0, 63, 0);
	take_single(&v, 1, 0, 64, 0);
	v.now_ns += 10000000;
	assert_int_equal(drive_flush(&v), 2);
	check_hop(&v.got[0], 1, 0, 2, 1000);
	assert_int_equal(drive_refused(&v), 0);
	drive_end(&v);
}

/* The ports of the previous report are not those of a fragment, which has none. */
static void reports_of_a_fragment_become_a_path(void **state)
{
	struct drive v;
	struct built b;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	for (uint32_t node = 1; node < 3; node++) {
		put_single(&b, node, 70, 64, 0);
		dta_put16(b.at + b.bytes - 20, (uint16_t)node); /* source port */
		assert_int_equal(drive_take(&v, &b), 0);
		put_single(&b, node, 80, (uint8_t)(65 - node), node * 1000);
		dta_put16(b.at + b.bytes - 34, 1); /* fragment offset */
		assert_int_equal(drive_take(&v, &b), 0);
	}
	v.now_ns += 10000000;
	assert_int_equal(drive_flush(&v), 4);
	for (size_t i = 0, hop = 0; i < 4; i++)
		if (!(v.got[i].has >> DTA_FIELD_SOURCE_PORT & 1)) {
			check_hop(&v.got[i], hop + 1, (int)hop, 2, (hop + 1) * 1000);
			hop++;
		}
	drive_end(&v);
}

/* INT-MX: the packet has the instructions, and each switch reports what they ask for. */
static void reports_of_instructed_packets_become_a_path(void **state)
{
	struct built b;
	struct drive v;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	for (uint32_t node = 1; node <= 3; node++) {
		size_t at;

		b.bytes = 0;
		PUT32(&b, 2u << 28, node);
		at = begin(&b, 1, 4, TRACKED);
		MAIN(&b, 0x1000, node * 1000);
		PUT32(&b, 0x45000000u | 60, 77u << 16, (65 - node) << 24 | 17u << 16);
		put_address(&b, "10.0.1.1");
		put_address(&b, "10.0.2.2");
		put_udp(&b, 40000, 5000, 0);
		/* Type 3, a port that INT's replaced; version 2 and the instructions. */
		PUT32(&b, 3u << 28 | 1u << 26 | 3u << 16 | 443, 2u << 28, 0x10000000u, 0);
		end(&b, at);
		assert_int_equal(drive_take(&v, &b), 0);
	}
	v.now_ns += 10000000;
	assert_int_equal(drive_flush(&v), 3);
	for (int i = 0; i < 3; i++) {
		check_hop(&v.got[i], (uint64_t)i + 1, i, 3, (uint64_t)(i + 1) * 1000);
		check_flow(&v.got[i], 40000, 443, 17);
	}
	assert_int_equal(drive_refused(&v), 0);
	drive_end(&v);
}

static void count_record(void *arg, const struct dta_record *r)
{
	(void)r;
	++*(size_t *)arg;
}

/* Forged reports displace those that wait, but each is given once. */
static void a_flood_of_packets_is_given_early(void **state)
{
	struct drive v;
	size_t given = 0;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	for (uint32_t i = 1; i <= 6000; i++) {
		struct built b;

		put_single(&b, i % 7, (uint16_t)i, 64, 1);
		given += drive_take(&v, &b);
	}
	assert_int_equal(given, 6000 - 1024);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_NO_ROOM], given);
	v.d->fn = count_record;
	v.d->arg = &given;
	v.d->ops->flush(v.d, UINT64_MAX);
	assert_int_equal(given, 6000);
	drive_end(&v);
}

static void a_cut_stack_gives_the_hops_that_are_there(void **state)
{
	struct built b;
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 0, 0);
	at = begin(&b, 1, 4, TRACKED);
	MAIN(&b, 0x1000, 3000);
	put_path(&b, 0);
	b.bytes -= 20 + 4; /* TCP's header and the last word of the first switch */
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 2);
	check_hop(&v.got[0], 2, 1, 3, 2000);
	check_hop(&v.got[1], 3, 2, 3, 3000);
	assert_false(v.got[0].has >> DTA_FIELD_SOURCE_PORT & 1); /* INT's own are no flow's */
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_TRUNCATED], 1);
	drive_end(&v);
}

static void packets_that_never_came_are_counted(void **state)
{
	static const struct {
		uint32_t hardware, number, lost, restarts;
	} steps[] = {{1, 0x3ffffe, 0, 0}, {1, 0x3fffff, 0, 0}, {1, 2, 2, 0},	   {2, 500, 2, 0},
		     {1, 1, 1, 0},	  {1, 0x200000, 1, 1}, {1, 0x200001, 1, 1}};
	struct built b;
	struct drive v;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		put_group(&b, steps[i].hardware, steps[i].number);
		drive_take(&v, &b);
		assert_int_equal(v.d->stats.lost, steps[i].lost);
		assert_int_equal(v.d->stats.restarts, steps[i].restarts);
	}
	assert_int_equal(v.d->stats.exporters, 2);
	drive_end(&v);
}

static void any_cut_or_change_does_no_harm(void **state)
{
	static const uint8_t values[] = {0, 1, 0x0f, 0x10, 0x7f, 0x80, 0xff};
	struct built b;
	struct drive v;
	size_t at, before = 0;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put_group(&b, 0, 0);
	at = begin(&b, 1, 4, TRACKED);
	MAIN(&b, 0x1000, 3000);
	put_path(&b, 0);
	end(&b, at);
	at = begin(&b, 1, 4, DROPPED);
	MAIN(&b, 0x4001, 1, 2);
	end(&b, at);
	for (size_t bytes = 0; bytes <= b.bytes; bytes++) {
		const uint64_t refused = drive_refused(&v);

		assert_true(drive_bytes(&v, b.at, bytes) >= before);
		before = v.n;
		assert_true(drive_refused(&v) > refused || v.n == 4 || v.n == 3 || bytes == 8);
	}
	assert_int_equal(before, 4);
	for (size_t i = 0; i < b.bytes; i++)
		for (size_t k = 0; k < sizeof(values); k++) {
			const uint8_t was = b.at[i];

			b.at[i] = values[k];
			drive_take(&v, &b);
			b.at[i] = was;
		}
	drive_end(&v);
}

static void refuses_for_the_cause(void **state)
{
	struct built b = {.bytes = 0};
	struct drive v;
	size_t at;

	(void)state;
	drive_begin(&v, &dta_decoder_int);
	put32(&b, 3u << 28);
	drive_take(&v, &b);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_BAD_VERSION], 1);
	put_group(&b, 0, 0);
	at = begin(&b, 2, 0, 0); /* IOAM */
	put32(&b, 0);
	end(&b, at);
	at = begin(&b, 1, 0, 0);
	MAIN(&b, 0x1000, 1);
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 1);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_UNSUPPORTED], 1);
	put_group(&b, 0, 1);
	at = begin(&b, 1, 0, 0);
	MAIN(&b, 0x1800, 1); /* a queue and a time, but one word */
	end(&b, at);
	assert_int_equal(drive_take(&v, &b), 0);
	assert_int_equal(v.d->stats.refused[DTA_DEVICE_BAD_LENGTH], 1);
	drive_end(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_is_a_path_from_its_end),
		cmocka_unit_test(a_path_that_is_not_whole_has_no_length),
		cmocka_unit_test(the_sink_counts_once),
		cmocka_unit_test(skips_instructions_that_it_does_not_know),
		cmocka_unit_test(a_dropped_packet_has_its_reason),
		cmocka_unit_test(finds_the_packet_among_contents),
		cmocka_unit_test(reads_version_1),
		cmocka_unit_test(reports_of_single_switches_become_a_path),
		cmocka_unit_test(reports_of_a_fragment_become_a_path),
		cmocka_unit_test(reports_of_instructed_packets_become_a_path),
		cmocka_unit_test(a_flood_of_packets_is_given_early),
		cmocka_unit_test(a_cut_stack_gives_the_hops_that_are_there),
		cmocka_unit_test(packets_that_never_came_are_counted),
		cmocka_unit_test(any_cut_or_change_does_no_harm),
		cmocka_unit_test(refuses_for_the_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
