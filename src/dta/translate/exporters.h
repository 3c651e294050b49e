/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporters.h - counts what each exporter sent: the counters of an input's decoder and mapping, by
 * sender address. The decoder only counts for all senders together, so each datagram's sender is
 * charged with the change of the counters while the datagram was decoded. At most
 * DTA_EXPORTERS_LISTED addresses have an entry of their own; all others share one. A new address
 * takes the entry of the one that has been silent longest, by the rules of device/exporter.h, whose
 * counts then go to the shared entry. Owned by one worker.
 */
#ifndef SL_DTA_TRANSLATE_EXPORTERS_H
#define SL_DTA_TRANSLATE_EXPORTERS_H

#include <jansson.h>

#include "dta/device/map.h"

#define DTA_EXPORTERS_LISTED 256u
#define DTA_EXPORTERS_TOLD   100u /* exporters per message, each of at most about 500 bytes */

struct dta_exporter_list;

/* Returns NULL with errno ENOMEM. */
struct dta_exporter_list *dta_exporter_list_new(enum dta_device input);
void dta_exporter_list_free(struct dta_exporter_list *l); /* NULL is ignored */

/* Call before and after a datagram is decoded, with the counters of its input. */
void dta_exporter_list_before(struct dta_exporter_list *l, const struct dta_device_stats *stats,
			      const struct dta_map_stats *map);
void dta_exporter_list_after(struct dta_exporter_list *l, const struct dta_datagram *d,
			     const struct dta_device_stats *stats, const struct dta_map_stats *map,
			     uint64_t real_ns);
/* Call for each record of the datagram: records its sampling rate. */
void dta_exporter_list_record(struct dta_exporter_list *l, const struct dta_record *r);

/*
 * Adds one object per exporter to an array; that of the shared entry has the address "other", and
 * in "evicted" how often an address lost its own entry.
 * dta_exporters_checked() returns a copy of a list from a peer, with only its valid parts.
 */
void dta_exporter_list_json(json_t *to, const struct dta_exporter_list *l, uint64_t real_ns);
json_t *dta_exporters_checked(const json_t *said);

#endif
