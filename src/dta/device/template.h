/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - templates of IPFIX (RFC 7011) and NetFlow 9 (RFC 3954): each is compiled when it
 * comes, into the copies that take the known fields out of a record.
 */
#ifndef SL_DTA_DEVICE_TEMPLATE_H
#define SL_DTA_DEVICE_TEMPLATE_H

#include "dta/device/exporter.h"

/* What a record may have beside the fields of struct dta_record. */
enum dta_template_extra {
	DTA_EXTRA_START_S,
	DTA_EXTRA_END_S,
	DTA_EXTRA_START_MS,
	DTA_EXTRA_END_MS,
	DTA_EXTRA_START_NTP, /* seconds since 1900, 32 bits behind the point */
	DTA_EXTRA_END_NTP,
	DTA_EXTRA_START_BEFORE, /* us before the message */
	DTA_EXTRA_END_BEFORE,
	DTA_EXTRA_START_UP, /* ms since the exporter's start */
	DTA_EXTRA_END_UP,
	DTA_EXTRA_BOOT_MS,
	DTA_EXTRA_SELECTOR,
	DTA_EXTRA_SAMPLING,    /* one in N */
	DTA_EXTRA_SAMPLED,     /* of N packets in a row, */
	DTA_EXTRA_SPACE,       /* followed by M that are not */
	DTA_EXTRA_SAMPLE_SIZE, /* n packets */
	DTA_EXTRA_POPULATION,  /* of N */
	DTA_EXTRA_PROBABILITY, /* a float or double, as its bits */
	DTA_EXTRA_TOS,
	DTA_EXTRA_ICMP_TYPE,
	DTA_EXTRA_ICMP_CODE,
	DTA_EXTRA_TOTAL_BYTES,
	DTA_EXTRA_TOTAL_PACKETS,
	DTA_EXTRA_OUT_BYTES,
	DTA_EXTRA_OUT_PACKETS,
	DTA_EXTRAS
};

/* A record while it is read. */
struct dta_template_work {
	struct dta_record r;
	uint64_t extra[DTA_EXTRAS];
	struct in6_addr v6[DTA_FIELD_ADDRESSES]; /* of records that may have either version */
};

/* A decoder of a protocol that has templates. */
struct dta_template_decoder {
	struct dta_decoder d;
	struct dta_exporters *exporters;
	struct dta_template_work work;
};
/* NULL with errno ENOMEM. */
struct dta_decoder *dta_template_decoder_make(const struct dta_decoder_ops *ops);
void dta_template_decoder_end(struct dta_decoder *d); /* NULL is ignored */

/* A message, to which times and sampling of its records refer. */
struct dta_template_message {
	struct dta_exporters *exporters;
	struct dta_exporter *exporter; /* NULL: not known */
	struct dta_device_stats *stats;
	const struct dta_datagram *in;
	uint32_t domain;
	uint64_t now_ns;
	uint64_t export_ms; /* CLOCK_REALTIME, when it was sent */
	uint32_t uptime;    /* ms since the exporter's start, then; NetFlow */
	uint32_t sampling;  /* of the exporter's records that say nothing else */
	bool netflow;
	bool unknown;	  /* a set's template was not: its records are not counted */
	uint32_t records; /* with those of options */
	dta_record_fn *fn;
	void *arg;
	struct dta_template_work *work;
};

/* The sets of a message: templates, options and data. */
void dta_template_sets(struct dta_template_message *m, const uint8_t *p, size_t bytes);

/* How many there were. For exporter.c alone. */
uint64_t dta_templates_free(struct dta_exporter *e);

#endif
