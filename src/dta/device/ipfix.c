// SPDX-License-Identifier: Apache-2.0
/* ipfix.c - decoder of IPFIX over UDP (RFC 7011) */
#include "dta/device/template.h"
#include "dta/wire/endian.h"

#define HEADER	16u /* version, length, export time, sequence number, observation domain */
#define VERSION 10u

static void take_datagram(struct dta_decoder *d, const struct dta_datagram *in, uint64_t now_ns,
			  dta_record_fn *fn, void *arg)
{
	struct dta_template_message m = dta_template_begin(d, in, now_ns, fn, arg);
	const uint8_t *p = in->data;

	if (in->bytes < HEADER) {
		d->stats.refused[DTA_DEVICE_TRUNCATED]++;
		return;
	}
	if (dta_get16(p) != VERSION) {
		d->stats.refused[DTA_DEVICE_BAD_VERSION]++;
		return;
	}
	if (dta_get16(p + 2) != in->bytes) {
		d->stats.refused[dta_get16(p + 2) > in->bytes ? DTA_DEVICE_TRUNCATED
							      : DTA_DEVICE_BAD_LENGTH]++;
		return;
	}
	m.export_ms = dta_get32(p + 4) * UINT64_C(1000);
	m.domain = dta_get32(p + 12);
	m.exporter = dta_exporters_find(m.exporters, in, m.domain, now_ns);
	dta_template_sets(&m, p + HEADER, in->bytes - HEADER);
	if (!m.exporter)
		return;
	/*
	 * The sequence number is the number of earlier records. A message with an unknown template
	 * has an unknown number of records, so the next sequence number can't be predicted.
	 */
	dta_exporter_number(m.exporter, &d->stats, dta_get32(p + 8), m.records);
	m.exporter->numbered &= !m.unknown;
}

const struct dta_decoder_ops dta_decoder_ipfix = {.name = "ipfix",
						  .port = 4739,
						  .make = dta_template_decoder_make,
						  .take = take_datagram,
						  .end = dta_template_decoder_end};
