// SPDX-License-Identifier: Apache-2.0
/*
 * netflow.c - decoder of NetFlow 9 (RFC 3954), which uses IPFIX templates, and of NetFlow 5 (Cisco,
 * "NetFlow Export Datagram Format"), whose records have a fixed form.
 */
#include "dta/device/frame.h"
#include "dta/device/template.h"
#include "dta/wire/endian.h"

#define HEADER9 20u /* version, count, uptime, seconds, sequence number, source ID */
#define HEADER5 24u
#define RECORD5 48u

/* ---- version 9 ---- */

/* An exporter that restarted defines its templates and sampling rates again. */
static void start_again(struct dta_template_message *m)
{
	struct dta_exporter *e = m->exporter;

	dta_exporters_forget(m->exporters, e);
	m->stats->restarts++;
	e->numbered = false;
	e->sampling = e->selectors = 0;
	e->boot_ms = 0;
}

static enum dta_device_refusal take_version9(struct dta_template_message *m)
{
	const uint8_t *p = m->in->data;

	if (m->in->bytes < HEADER9)
		return DTA_DEVICE_TRUNCATED;
	m->uptime = dta_get32(p + 4);
	m->export_ms = dta_get32(p + 8) * UINT64_C(1000);
	m->domain = dta_get32(p + 16);
	m->exporter = dta_exporters_find(m->exporters, m->in, m->domain, m->now_ns);
	if (m->exporter && dta_exporter_restarted(m->exporter, m->uptime))
		start_again(m);
	dta_template_sets(m, p + HEADER9, m->in->bytes - HEADER9);
	if (m->exporter) {
		dta_exporter_restarted(m->exporter, m->uptime);
		dta_exporter_number(m->exporter, m->stats, dta_get32(p + 12), 1);
	}
	return DTA_DEVICE_FINE;
}

/* ---- version 5 ---- */

static void give_version5(struct dta_template_message *m, const uint8_t *p, uint64_t sampling)
{
	struct dta_record *r = &m->work->r;

	dta_record_set_address(r, DTA_FIELD_SOURCE, p, 4);
	dta_record_set_address(r, DTA_FIELD_DESTINATION, p + 4, 4);
	dta_record_set_address(r, DTA_FIELD_NEXT_HOP, p + 8, 4);
	dta_record_set(r, DTA_FIELD_INGRESS, dta_get16(p + 12));
	dta_record_set(r, DTA_FIELD_EGRESS, dta_get16(p + 14));
	dta_record_set(r, DTA_FIELD_PACKETS, dta_get32(p + 16) * sampling);
	dta_record_set(r, DTA_FIELD_BYTES, dta_get32(p + 20) * sampling);
	dta_record_set(r, DTA_FIELD_START_NS,
		       dta_template_uptime_ns(m->export_ms, m->uptime, dta_get32(p + 24)));
	dta_record_set(r, DTA_FIELD_END_NS,
		       dta_template_uptime_ns(m->export_ms, m->uptime, dta_get32(p + 28)));
	dta_record_set(r, DTA_FIELD_SOURCE_PORT, dta_get16(p + 32));
	dta_record_set(r, DTA_FIELD_DESTINATION_PORT, dta_get16(p + 34));
	dta_record_set(r, DTA_FIELD_TCP_FLAGS, p[37]);
	r->has &= ~DTA_FIELD_BIT(DTA_FIELD_ICMP);
	dta_record_set_flow_protocol(r, p[38]);
	dta_record_set(r, DTA_FIELD_TOS, p[39]);
	dta_record_set(r, DTA_FIELD_DSCP, p[39] >> 2);
	dta_record_set(r, DTA_FIELD_SOURCE_AS, dta_get16(p + 40));
	dta_record_set(r, DTA_FIELD_DESTINATION_AS, dta_get16(p + 42));
	dta_record_set(r, DTA_FIELD_SOURCE_PREFIX, p[44]);
	dta_record_set(r, DTA_FIELD_DESTINATION_PREFIX, p[45]);
	dta_decoder_give(m->decoder, r);
}

static enum dta_device_refusal take_version5(struct dta_template_message *m)
{
	const uint8_t *p = m->in->data;
	struct dta_record *r = &m->work->r;
	uint32_t count, sampling;

	if (m->in->bytes < HEADER5)
		return DTA_DEVICE_TRUNCATED;
	count = dta_get16(p + 2);
	if (m->in->bytes != HEADER5 + count * RECORD5)
		return m->in->bytes < HEADER5 + count * RECORD5 ? DTA_DEVICE_TRUNCATED
								: DTA_DEVICE_BAD_LENGTH;
	m->uptime = dta_get32(p + 4);
	m->export_ms = dta_get32(p + 8) * UINT64_C(1000) + dta_get32(p + 12) / 1000000;
	m->domain = dta_get16(p + 20); /* engine type and engine number */
	sampling = dta_get16(p + 22) & 0x3fff;
	sampling = sampling ? sampling : 1;
	m->exporter = dta_exporters_find(m->exporters, m->in, m->domain, m->now_ns);
	if (!m->exporter)
		m->exporter = dta_exporters_make(m->exporters, m->in, m->domain, m->now_ns);
	if (m->exporter) {
		if (dta_exporter_restarted(m->exporter, m->uptime))
			start_again(m);
		dta_exporter_number(m->exporter, m->stats, dta_get32(p + 16), count);
	}
	r->address[DTA_FIELD_EXPORTER] = m->in->address;
	r->kind = DTA_RECORD_FLOW;
	r->has = DTA_FIELD_BIT(DTA_FIELD_EXPORTER);
	dta_record_set(r, DTA_FIELD_DOMAIN, m->domain);
	dta_record_set(r, DTA_FIELD_IP_VERSION, 4);
	dta_record_set(r, DTA_FIELD_SAMPLING, sampling);
	for (uint32_t i = 0; i < count; i++)
		give_version5(m, p + HEADER5 + (size_t)i * RECORD5, sampling);
	return DTA_DEVICE_FINE;
}

/* ---- both versions ---- */

static enum dta_device_refusal take_datagram(struct dta_decoder *d, const struct dta_datagram *in,
					     uint64_t now_ns)
{
	struct dta_template_message m = dta_template_begin(d, in, now_ns);

	m.netflow = true;
	if (in->bytes < 2)
		return DTA_DEVICE_TRUNCATED;
	switch (dta_get16(in->data)) {
	case 9:
		return take_version9(&m);
	case 5:
		return take_version5(&m);
	default:
		return DTA_DEVICE_BAD_VERSION;
	}
}

const struct dta_decoder_ops dta_decoder_netflow = {.name = "netflow",
						    .port = 2055,
						    .make = dta_template_decoder_make,
						    .take = take_datagram,
						    .end = dta_template_decoder_end};
