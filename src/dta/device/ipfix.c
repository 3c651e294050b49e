// SPDX-License-Identifier: Apache-2.0
/* ipfix.c - decoder of IPFIX over UDP (RFC 7011) */
#include "dta/device/template.h"
#include "dta/wire/endian.h"

#define HEADER	16u /* version, length, export time, sequence number, observation domain */
#define VERSION 10u

static enum dta_device_refusal take_datagram(struct dta_decoder *d, const struct dta_datagram *in,
					     uint64_t now_ns)
{
	struct dta_template_message m = dta_template_begin(d, in, now_ns);
	const uint8_t *p = in->data;

	if (in->bytes < HEADER)
		return DTA_DEVICE_TRUNCATED;
	if (dta_get16(p) != VERSION)
		return DTA_DEVICE_BAD_VERSION;
	if (dta_get16(p + 2) != in->bytes)
		return dta_get16(p + 2) > in->bytes ? DTA_DEVICE_TRUNCATED : DTA_DEVICE_BAD_LENGTH;
	m.export_ms = dta_get32(p + 4) * UINT64_C(1000);
	m.domain = dta_get32(p + 12);
	m.exporter = dta_exporters_find(m.exporters, in, m.domain, now_ns);
	dta_template_sets(&m, p + HEADER, in->bytes - HEADER);
	if (!m.exporter)
		return DTA_DEVICE_FINE;
	/*
	 * The sequence number is the number of earlier records. A message with an unknown template
	 * has an unknown number of records, so the next sequence number can't be predicted.
	 */
	dta_exporter_number(m.exporter, &d->stats, dta_get32(p + 8), m.records);
	m.exporter->numbered &= !m.unknown;
	return DTA_DEVICE_FINE;
}

const struct dta_decoder_ops dta_decoder_ipfix = {.name = "ipfix",
						  .port = 4739,
						  .make = dta_template_decoder_make,
						  .take = take_datagram,
						  .end = dta_template_decoder_end};
