// SPDX-License-Identifier: Apache-2.0
/*
 * test_frame.c - a packet truncated anywhere gives the fields of each complete header, and no field
 * is invented.
 */
#include "device_drive.h"
#include "dta/device/frame.h"

static struct dta_record r;

/* Returns the length stated by the packet. */
static uint32_t read_frame(const struct built *b, size_t bytes)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	struct dta_frame f;

	assert_non_null(exact);
	memcpy(exact, b->at, bytes);
	r.has = 0;
	dta_frame_parse(&r, DTA_ETHERTYPE_ETHERNET, exact, bytes, &f);
	free(exact);
	return f.length;
}

/* A shorter piece gives a subset of the same fields. */
static void each_piece_says_less(const struct built *b)
{
	struct dta_record whole;

	read_frame(b, b->bytes);
	whole = r;
	for (size_t bytes = 0; bytes < b->bytes; bytes++) {
		read_frame(b, bytes);
		assert_int_equal(r.has & ~whole.has, 0);
		for (int f = 0; f < DTA_FIELDS; f++) {
			if (!(r.has >> f & 1))
				continue;
			if (f < DTA_FIELD_ADDRESSES)
				assert_memory_equal(&r.address[f], &whole.address[f], 16);
			else
				assert_int_equal(r.number[f], whole.number[f]);
		}
	}
}

static void reads_vlan_tags_and_ipv4(void **state)
{
	struct built b = {.bytes = 0};

	(void)state;
	put_bytes(&b, "\x02\0\0\0\0\x01\x02\0\0\0\0\x02", 12);
	PUT32(&b, 0x88a8e000 | 100, 0x81000000 | 7); /* a priority is not part of the VLAN number */
	put16(&b, 0x0800);
	put_ipv4(&b, 46 << 2 | 1, 6, 0x4000, "198.51.100.1", "203.0.113.2", 20);
	put_tcp(&b, 443, 50000, 0x12);
	assert_int_equal(read_frame(&b, b.bytes), 40);
	check_address(&r, DTA_FIELD_SOURCE, "198.51.100.1");
	check_address(&r, DTA_FIELD_DESTINATION, "203.0.113.2");
	check_numbers(&r,
		      NUMBERS(ETHERNET_NUMBERS, {DTA_FIELD_VLAN, 100}, {DTA_FIELD_CUSTOMER_VLAN, 7},
			      {DTA_FIELD_IP_VERSION, 4}, IP_NUMBERS(46 << 2 | 1, 64),
			      {DTA_FIELD_PROTOCOL, 6}, {DTA_FIELD_SOURCE_PORT, 443},
			      {DTA_FIELD_DESTINATION_PORT, 50000}, {DTA_FIELD_TCP_FLAGS, 0x12}));
	each_piece_says_less(&b);
	/* Ports are included, flags are not. */
	assert_int_equal(read_frame(&b, b.bytes - 12), 40);
	assert_true(dta_record_has(&r, DTA_FIELD_SOURCE_PORT));
	assert_false(dta_record_has(&r, DTA_FIELD_TCP_FLAGS));
}

/* Numbers of a flow without ports, for check_numbers(). */
#define NO_PORTS                              \
	{DTA_FIELD_SOURCE_PORT, 0},           \
	{                                     \
		DTA_FIELD_DESTINATION_PORT, 0 \
	}

static void reads_options_padding_and_icmp(void **state)
{
	struct built b = {.bytes = 0};

	(void)state;
	put_ethernet(&b, 0x0800);
	PUT32(&b, 0x46000000 | 28, 0, 64u << 24 | 1u << 16);
	put_address(&b, "192.0.2.1");
	put_address(&b, "192.0.2.2");
	put32(&b, 0x94040000); /* router alert */
	put32(&b, 0x03010000); /* port unreachable would be 3, 3 */
	put_bytes(&b, "padding!", 8);
	assert_int_equal(read_frame(&b, b.bytes), 28);
	check_numbers(&r, NUMBERS(ETHERNET_NUMBERS, {DTA_FIELD_IP_VERSION, 4}, IP_NUMBERS(0, 64),
				  {DTA_FIELD_PROTOCOL, 1}, NO_PORTS, {DTA_FIELD_ICMP, 0x0301}));
	each_piece_says_less(&b);
	b.at[14 + 3] = 25; /* the packet ends behind ICMP's type, the frame does not */
	read_frame(&b, b.bytes);
	assert_false(dta_record_has(&r, DTA_FIELD_ICMP));
}

/* A flow has a 5-tuple, whatever its protocol. */
static void a_protocol_without_ports_has_ports_0(void **state)
{
	static const uint8_t protocols[] = {2, 47, 50, 51, 89, 112}; /* IGMP, GRE, ESP, AH, ... */

	(void)state;
	for (size_t i = 0; i < sizeof(protocols); i++)
		for (uint16_t fragment = 0; fragment < 2; fragment++) {
			struct built b = {.bytes = 0};

			put_ethernet(&b, 0x0800);
			put_ipv4(&b, 0, protocols[i], fragment, "192.0.2.1", "192.0.2.2", 8);
			PUT32(&b, 0x12345678, 0x9abcdef0);
			read_frame(&b, b.bytes);
			check_numbers(&r, NUMBERS(ETHERNET_NUMBERS, {DTA_FIELD_IP_VERSION, 4},
						  IP_NUMBERS(0, 64),
						  {DTA_FIELD_PROTOCOL, protocols[i]}, NO_PORTS));
			each_piece_says_less(&b);
		}
}

static void the_ports_of_a_fragment_are_not_known(void **state)
{
	struct built b = {.bytes = 0};

	(void)state;
	put_ethernet(&b, 0x0800);
	put_ipv4(&b, 0, 17, 0x2000, "192.0.2.1", "192.0.2.2", 8);
	put_udp(&b, 53, 1234, 0);
	read_frame(&b, b.bytes);
	assert_int_equal(r.number[DTA_FIELD_SOURCE_PORT], 53);
	dta_put16(b.at + 14 + 6, 1); /* the second one */
	read_frame(&b, b.bytes);
	check_numbers(&r, NUMBERS(ETHERNET_NUMBERS, {DTA_FIELD_IP_VERSION, 4}, IP_NUMBERS(0, 64),
				  {DTA_FIELD_PROTOCOL, 17}));
}

static void put_ipv6(struct built *b, uint8_t next, size_t above)
{
	PUT32(b, 0x60000000 | 10u << 22, (uint32_t)above << 16 | (uint32_t)next << 8 | 64);
	put_address(b, "2001:db8::1");
	put_address(b, "2001:db8::2");
}

static void follows_extension_headers(void **state)
{
	struct built b = {.bytes = 0};

	(void)state;
	put_ethernet(&b, 0x86dd);
	put_ipv6(&b, 0, 8 + 16 + 12 + 8 + 8);
	PUT32(&b, 43u << 24, 0);		  /* hop by hop */
	PUT32(&b, 51u << 24 | 1u << 16, 0, 0, 0); /* routing, of 16 bytes */
	PUT32(&b, 44u << 24 | 1u << 16, 0, 0);	  /* authentication, of 12 */
	PUT32(&b, 17u << 24 | 0x0001, 77);	  /* the first fragment */
	put_udp(&b, 5353, 5354, 0);
	assert_int_equal(read_frame(&b, b.bytes), 40 + 52);
	check_address(&r, DTA_FIELD_SOURCE, "2001:db8::1");
	check_address(&r, DTA_FIELD_DESTINATION, "2001:db8::2");
	check_numbers(&r, NUMBERS(ETHERNET_NUMBERS, {DTA_FIELD_IP_VERSION, 6}, IP_NUMBERS(40, 64),
				  {DTA_FIELD_PROTOCOL, 17}, {DTA_FIELD_SOURCE_PORT, 5353},
				  {DTA_FIELD_DESTINATION_PORT, 5354}));
	each_piece_says_less(&b);
	dta_put16(b.at + 14 + 40 + 36 + 2, 8 << 3 | 1);
	read_frame(&b, b.bytes);
	assert_false(dta_record_has(&r, DTA_FIELD_SOURCE_PORT));
	assert_int_equal(r.number[DTA_FIELD_PROTOCOL], 17);
}

static void no_packet_is_no_fields(void **state)
{
	struct built b = {.bytes = 0};

	(void)state;
	put_ethernet(&b, 0x0806);
	put_bytes(&b, "0123456789012345678901234567890123456789", 40);
	assert_int_equal(read_frame(&b, b.bytes), 0);
	check_numbers(&r, NUMBERS(ETHERNET_NUMBERS));
	b.bytes = 0;
	put_ethernet(&b, 0x0800);
	put_ipv4(&b, 0, 17, 0, "192.0.2.1", "192.0.2.2", 8);
	put_udp(&b, 53, 1234, 0);
	b.at[14] = 0x44; /* a header of 16 bytes */
	assert_int_equal(read_frame(&b, b.bytes), 0);
	check_numbers(&r, NUMBERS(ETHERNET_NUMBERS));
	b.at[14] = 0x46; /* one longer than the packet */
	dta_put16(b.at + 16, 20);
	assert_int_equal(read_frame(&b, b.bytes), 0);
	/* Tags and extension headers without end. */
	b.bytes = 12;
	for (int i = 0; i < 100; i++)
		PUT32(&b, 0x81000001);
	assert_int_equal(read_frame(&b, b.bytes), 0);
	b.bytes = 0;
	put_ethernet(&b, 0x86dd);
	put_ipv6(&b, 60, 1000);
	for (int i = 0; i < 100; i++)
		PUT32(&b, 60u << 24, 0);
	assert_int_equal(read_frame(&b, b.bytes), 1040);
	assert_false(dta_record_has(&r, DTA_FIELD_PROTOCOL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_vlan_tags_and_ipv4),
		cmocka_unit_test(reads_options_padding_and_icmp),
		cmocka_unit_test(a_protocol_without_ports_has_ports_0),
		cmocka_unit_test(the_ports_of_a_fragment_are_not_known),
		cmocka_unit_test(follows_extension_headers),
		cmocka_unit_test(no_packet_is_no_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
