/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter.h - the state that a decoder keeps per exporter. An exporter is an address, a port and
 * an observation domain (RFC 7011, sections 2 and 8.1). Their number is bounded, and anyone can
 * forge an address. An exporter is therefore *proven* once it has been active for
 * DTA_EXPORTER_PROVEN_NS; a sender that forges many addresses and sends one packet from each never
 * becomes proven. When all places are taken:
 *
 * - an address that has used up its share replaces the exporter that has been silent longest among
 *   its own unproven ones; if it has none, the new exporter is refused;
 * - otherwise the longest-silent unproven exporter is replaced;
 * - a proven exporter is replaced only after DTA_EXPORTER_IDLE_NS of silence.
 *
 * A flood of forged exporters therefore displaces only other forged exporters, never a live one.
 */
#ifndef SL_DTA_DEVICE_EXPORTER_H
#define SL_DTA_DEVICE_EXPORTER_H

#include <sys/queue.h>

#include "base/table.h"
#include "dta/device/device.h"

#define DTA_EXPORTERS	       4096u
#define DTA_EXPORTERS_SHARE    128u /* maximum number of exporters per address */
#define DTA_EXPORTER_PROVEN_NS UINT64_C(10000000000)
#define DTA_EXPORTER_IDLE_NS   UINT64_C(600000000000)
#define DTA_EXPORTER_LIFETIME_NS \
	UINT64_C(10800000000000)   /* lifetime of an exporter and its templates if not renewed */
#define DTA_EXPORTER_SELECTORS 16u /* maximum number of samplers per exporter */
#define DTA_EXPORTER_PLACES    16u /* hash buckets for an exporter's templates */

struct dta_template;

struct dta_exporter {
	struct base_node node;	       /* hash of the address */
	TAILQ_ENTRY(dta_exporter) row; /* list of proven or unproven exporters, by heard_ns */
	struct in6_addr address;
	uint16_t port;
	bool proven;
	uint32_t domain;
	uint64_t made_ns, heard_ns;
	/* Sequence numbers of datagrams. */
	bool numbered;	   /* expected is valid */
	uint32_t expected; /* sequence number of the next datagram */
	uint32_t missing;  /* units counted as lost that may still arrive late */
	bool timed;	   /* uptime is valid */
	uint32_t uptime;   /* uptime in ms in the last NetFlow datagram */
	/*
	 * Sampling rates (one in N packets) of the exporter and its samplers; 0 means not stated.
	 */
	uint32_t sampling, selectors;
	struct {
		uint64_t id;
		uint32_t sampling;
	} selector[DTA_EXPORTER_SELECTORS];
	uint64_t boot_ms; /* start of the exporter, CLOCK_REALTIME in ms; 0 means not stated */
	struct dta_template *templates[DTA_EXPORTER_PLACES];
	size_t template_bytes;
};

struct dta_exporters;

/*
 * The decoder owns stats; these functions update its gauges and refusals. Returns NULL if out of
 * memory.
 */
struct dta_exporters *dta_exporters_new(struct dta_device_stats *stats);
void dta_exporters_free(struct dta_exporters *x); /* NULL is ignored */

/* Finds an exporter and updates the time it was last heard. Returns NULL if it is not known. */
struct dta_exporter *dta_exporters_find(struct dta_exporters *x, const struct dta_datagram *d,
					uint32_t domain, uint64_t now_ns);
/* Adds a new exporter. Returns NULL and counts the refusal if there is no room or no memory. */
struct dta_exporter *dta_exporters_make(struct dta_exporters *x, const struct dta_datagram *d,
					uint32_t domain, uint64_t now_ns);

/*
 * Reserves memory for an exporter's template; other exporters may be replaced. Returns false if
 * there is no room. A negative number of bytes releases memory.
 */
bool dta_exporters_reserve(struct dta_exporters *x, struct dta_exporter *e, ptrdiff_t bytes,
			   uint64_t now_ns);
/* Frees an exporter's templates; for template.c. */
void dta_exporters_forget(struct dta_exporters *x, struct dta_exporter *e);

/*
 * Processes the sequence number of a datagram that carries the given number of units (records,
 * flows or packets). Counts the units missing before it as lost; a late datagram subtracts its
 * units from the loss. A number far from the expected one means that the numbering restarted.
 */
void dta_exporter_number(struct dta_exporter *e, struct dta_device_stats *stats, uint32_t number,
			 uint32_t units);
/* Returns true if the uptime in ms decreased, which means that the exporter restarted. */
bool dta_exporter_restarted(struct dta_exporter *e, uint32_t uptime);

/* Stores a sampler's rate. Returns false if there is no room. */
bool dta_exporter_sample(struct dta_exporter *e, bool has_id, uint64_t id, uint64_t sampling);
/*
 * Returns N if one in N packets is sampled; 1 means that all are sampled or that no rate is known.
 * A device may send its options from another UDP port. Therefore, if an exporter states no rate,
 * the rate of other exporters with the same address and domain is used, unless they contradict each
 * other.
 */
uint32_t dta_exporters_sampling(struct dta_exporters *x, const struct dta_exporter *e, bool has_id,
				uint64_t id);

#endif
