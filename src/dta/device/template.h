/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - templates of IPFIX (RFC 7011) and NetFlow 9 (RFC 3954). When a template arrives, it
 * is compiled into copy operations that extract the known fields of a record.
 */
#ifndef SL_DTA_DEVICE_TEMPLATE_H
#define SL_DTA_DEVICE_TEMPLATE_H

#include "dta/device/element.h"
#include "dta/device/exporter.h"

/*
 * Places that elements of a template set: IPv4 addresses and numbers by field, then extras, texts
 * and IPv6 addresses. Several elements may set the same place.
 */
#define DTA_TEMPLATE_EXTRA  DTA_FIELD_NUMBERS
#define DTA_TEMPLATE_TEXT   (DTA_TEMPLATE_EXTRA + DTA_EXTRAS)
#define DTA_TEMPLATE_V6	    (DTA_TEMPLATE_TEXT + DTA_FIELDS - DTA_FIELD_NUMBERS)
#define DTA_TEMPLATE_PLACES (DTA_TEMPLATE_V6 + DTA_FIELD_ADDRESSES)

/* The record that is being decoded. */
struct dta_template_work {
	struct dta_record r;
	uint64_t extra[DTA_EXTRAS];
	/* IPv6 addresses in records that may have either version */
	struct in6_addr v6[DTA_FIELD_ADDRESSES];
	uint8_t rank[DTA_TEMPLATE_PLACES]; /* rank of the element that set each place */
};

/* The decoder of a protocol with templates. */
struct dta_template_decoder {
	struct dta_decoder d;
	struct dta_exporters *exporters;
	struct dta_template_work work;
};
struct dta_decoder *dta_template_decoder_make(struct dta_paths *none);
void dta_template_decoder_end(struct dta_decoder *d); /* NULL is ignored */

/* A message. The times and sampling rates in its records are relative to it. */
struct dta_template_message {
	struct dta_decoder *decoder;
	struct dta_exporters *exporters;
	struct dta_exporter *exporter; /* NULL if it is not known yet */
	struct dta_device_stats *stats;
	const struct dta_datagram *in;
	uint32_t domain;
	uint64_t now_ns;
	uint64_t export_ms; /* CLOCK_REALTIME in ms when the message was sent */
	uint32_t uptime;   /* NetFlow: ms from the exporter's start to the sending of the message */
	uint32_t sampling; /* sampling rate of records that do not state one */
	bool netflow;
	/* a template was unknown, so the number of records is unknown too */
	bool unknown;
	uint32_t records; /* number of records, including options */
	struct dta_template_work *work;
};

/* Begins a message. */
struct dta_template_message dta_template_begin(struct dta_decoder *d, const struct dta_datagram *in,
					       uint64_t now_ns);
/*
 * Converts an uptime in ms to a time. export_ms and now are the message's own time and uptime. An
 * uptime wraps after 49 days, and may be later than now, because a device reads now before it fills
 * the message.
 */
static inline uint64_t dta_template_uptime_ns(uint64_t export_ms, uint32_t now, uint32_t uptime)
{
	const uint32_t ago = now - uptime, later = uptime - now;

	return (later < 60000 ? export_ms + later : export_ms - ago) * 1000000;
}

/* Decodes the sets of a message: templates, options and data. */
void dta_template_sets(struct dta_template_message *m, const uint8_t *p, size_t bytes);

/* Frees an exporter's templates and returns their number. Only exporter.c calls it. */
uint64_t dta_templates_free(struct dta_exporter *e);

#endif
