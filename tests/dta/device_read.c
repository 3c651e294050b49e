// SPDX-License-Identifier: Apache-2.0
/*
 * device_read.c KIND - decodes the datagrams of standard input, one per line: source port and
 * hexadecimal bytes. Prints a line of JSON per record, and at last the refusals. For
 * test_exporters.py.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dta/device/device.h"

static void print_field(const struct dta_record *r, enum dta_field f)
{
	char text[INET6_ADDRSTRLEN];

	printf(", \"%s\": ", dta_field_name(f));
	if (f >= DTA_FIELD_NUMBERS) {
		const struct dta_text *t = &r->text[f - DTA_FIELD_NUMBERS];

		printf("\"%.*s\"", (int)t->bytes, (const char *)t->at);
	} else if (f >= DTA_FIELD_ADDRESSES) {
		printf("%" PRIu64, r->number[f]);
	} else if (IN6_IS_ADDR_V4MAPPED(&r->address[f])) {
		printf("\"%s\"",
		       inet_ntop(AF_INET, r->address[f].s6_addr + 12, text, sizeof(text)));
	} else {
		printf("\"%s\"", inet_ntop(AF_INET6, &r->address[f], text, sizeof(text)));
	}
}

static void print_record(void *arg, const struct dta_record *r)
{
	(void)arg;
	printf("{\"kind\": \"%s\"", dta_record_kind_name(r->kind));
	for (int f = 0; f < DTA_FIELDS; f++)
		if (r->has >> f & 1)
			print_field(r, (enum dta_field)f);
	printf("}\n");
}

static size_t read_hex(const char *text, uint8_t *to, size_t max)
{
	unsigned int byte;
	size_t n = 0;

	for (; n < max && sscanf(text, "%2x", &byte) == 1; text += 2)
		to[n++] = (uint8_t)byte;
	return n;
}

int main(int argc, char **argv)
{
	const struct dta_decoder_ops *ops = argc == 2 ? dta_device_decoder(dta_device_find(argv[1]))
						      : NULL;
	struct dta_decoder *d = ops ? dta_decoder_new(ops, NULL, print_record, NULL) : NULL;
	static char line[140000];
	uint64_t now = 1000000000;

	if (!d)
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		char *at;
		const unsigned long port = strtoul(line, &at, 10);
		uint8_t *data = malloc(65536);
		const struct dta_datagram in = {
			.data = data,
			.bytes = (uint32_t)read_hex(at + 1, data, 65536),
			.port = (uint16_t)port,
			.address = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 9}}};

		dta_decoder_take(d, &in, now++);
		free(data);
	}
	printf("{\"refused\": {");
	for (int i = DTA_DEVICE_FINE + 1; i < DTA_DEVICE_REFUSALS; i++)
		printf("%s\"%s\": %" PRIu64, i > 1 ? ", " : "",
		       dta_device_refusal_name((enum dta_device_refusal)i), d->stats.refused[i]);
	printf("}, \"lost\": %" PRIu64 "}\n", d->stats.lost);
	ops->end(d);
	return 0;
}
