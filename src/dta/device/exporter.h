/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter.h - what a decoder keeps of those who send to it. An exporter is an address, a port and
 * an observation domain (RFC 7011, sections 2 and 8.1). Their number is bounded, and anyone can
 * forge an address. So an exporter is *proven* once it went on for DTA_EXPORTER_PROVEN_NS, which a
 * sender of one packet each from many addresses does not. When all places are taken,
 *
 *  - an address that has its share gives up its own exporter that is not proven and was silent
 *    longest, or gets no further place;
 *  - else that one of all which is not proven and was silent longest gives way;
 *  - a proven one gives way only after DTA_EXPORTER_IDLE_NS of silence.
 *
 * So a flood of forged exporters displaces its own and no live one.
 */
#ifndef SL_DTA_DEVICE_EXPORTER_H
#define SL_DTA_DEVICE_EXPORTER_H

#include "dta/device/device.h"

#define DTA_EXPORTERS	       4096u
#define DTA_EXPORTERS_SHARE    128u /* of an address */
#define DTA_EXPORTER_PROVEN_NS UINT64_C(10000000000)
#define DTA_EXPORTER_IDLE_NS   UINT64_C(600000000000)
#define DTA_EXPORTER_LIFETIME_NS \
	UINT64_C(10800000000000)   /* of it and its templates, unless renewed */
#define DTA_EXPORTER_SELECTORS 16u /* samplers that it tells apart */
#define DTA_EXPORTER_PLACES    16u /* of templates, by their number */

struct dta_template;

struct dta_exporter {
	struct dta_exporter *older, *newer; /* of the proven, or of the others: when it was heard */
	struct dta_exporter *next;	    /* of the same hash of the address */
	struct in6_addr address;
	uint16_t port;
	bool proven;
	uint32_t domain;
	uint64_t made_ns, heard_ns;
	/* Numbers of datagrams. */
	bool numbered;	   /* expected is known */
	uint32_t expected; /* of the next datagram */
	uint32_t missing;  /* units counted as lost, which may come late */
	bool timed;	   /* uptime is known */
	uint32_t uptime;   /* ms, of the last datagram; NetFlow */
	/* Sampling rates, one in N packets: of the exporter, and by sampler. 0: not told. */
	uint32_t sampling, selectors;
	struct {
		uint64_t id;
		uint32_t sampling;
	} selector[DTA_EXPORTER_SELECTORS];
	uint64_t boot_ms; /* CLOCK_REALTIME of its start; 0: not told */
	struct dta_template *templates[DTA_EXPORTER_PLACES];
	size_t template_bytes;
};

struct dta_exporters;

/* stats: of the decoder, whose gauges and refusals it counts. NULL with errno ENOMEM. */
struct dta_exporters *dta_exporters_new(struct dta_device_stats *stats);
void dta_exporters_free(struct dta_exporters *x); /* NULL is ignored */

/* NULL: it is not known. Notes that it was heard. */
struct dta_exporter *dta_exporters_find(struct dta_exporters *x, const struct dta_datagram *d,
					uint32_t domain, uint64_t now_ns);
/* Makes one that is not known. NULL: no room, or no memory; counted. */
struct dta_exporter *dta_exporters_make(struct dta_exporters *x, const struct dta_datagram *d,
					uint32_t domain, uint64_t now_ns);

/*
 * Reserves bytes for a template of an exporter, for which others may give way. False: no room.
 * Negative: gives them back.
 */
bool dta_exporters_reserve(struct dta_exporters *x, struct dta_exporter *e, ptrdiff_t bytes,
			   uint64_t now_ns);
/* Frees an exporter's templates: template.c. */
void dta_exporters_forget(struct dta_exporters *x, struct dta_exporter *e);

/*
 * Takes the number of a datagram, and how many units (records, flows or packets) it brings; counts
 * what is missing before it. What comes late takes back what was counted for it. A number far from
 * the expected one is a restart.
 */
void dta_exporter_number(struct dta_exporter *e, struct dta_device_stats *stats, uint32_t number,
			 uint32_t units);
/* True: the time since the exporter's start, in ms, has gone back: it has started again. */
bool dta_exporter_restarted(struct dta_exporter *e, uint32_t uptime);

/* Notes a sampler's rate. False: no room. */
bool dta_exporter_sample(struct dta_exporter *e, bool has_id, uint64_t id, uint64_t sampling);
/* N of one in N; 1: all, or not told. */
uint32_t dta_exporter_sampling(const struct dta_exporter *e, bool has_id, uint64_t id);

#endif
