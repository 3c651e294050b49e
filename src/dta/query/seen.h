/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seen.h - finds the flows that crossed a device or link, dropped packets, and top talkers in a
 * time range. The data comes from increment stores with a layout and a key log, which show where
 * each flow was counted. A struct dta_seen must be used by one thread at a time.
 *
 * A device is an exporter's address, or the number of an INT switch.
 */
#ifndef SL_DTA_QUERY_SEEN_H
#define SL_DTA_QUERY_SEEN_H

#include <jansson.h>

#include "dta/device/device.h"
#include "dta/store/store.h"

/* The count of a flow at one place. Rows are compared bytewise up to .ingress. */
struct dta_seen_row {
	struct in6_addr source, destination;
	uint32_t ports, protocol; /* source port << 16 | destination port */
	struct in6_addr device;	  /* for a switch, its number in the last four bytes */
	uint32_t is_switch, as;	  /* as: 1 if ingress and egress are AS numbers */
	uint32_t ingress, egress, reason, unused;
	uint64_t count;		 /* bytes; for switches and drops, packets */
	uint64_t from_ns, to_ns; /* from the start of its first epoch to the end of its last */
};

struct dta_seen {
	struct dta_seen_row *row;
	size_t rows, room;
	uint64_t from_ns, to_ns; /* requested range */
	/* range covered by the epochs used, which are always used whole; 0 if there are none */
	uint64_t began_ns, ended_ns;
	uint64_t overwritten; /* missing blocks of key logs (dta_query_logged()) */
	bool no_memory;
	struct base_budget *budget;
};

enum dta_seen_kind {
	DTA_SEEN_NONE,
	DTA_SEEN_FLOWS, /* device and 5-tuple */
	DTA_SEEN_DROPS, /* device, reason and 5-tuple */
	DTA_SEEN_AS,	/* source and destination AS */
};
/* Returns what a store counts, judging by its layout and key log. */
enum dta_seen_kind dta_seen_kind(const struct dta_held *store);
/* Adds the rows of a store for all epochs in the range. log: its key log. */
void dta_seen_take(struct dta_seen *s, const struct dta_held *store, const struct dta_held *log);

/* A device, or one of its interfaces. */
struct dta_seen_place {
	struct in6_addr device;
	bool is_switch, any; /* any: any device */
	bool has_interface;
	uint32_t interface;
};
/* Parses ADDRESS, ADDRESS/INTERFACE, NUMBER or NUMBER/INTERFACE. Returns false if invalid. */
bool dta_seen_place(const char *text, struct dta_seen_place *out);

struct dta_seen_ask {
	struct dta_seen_place place[2]; /* place[1] is the other end of a link */
	uint32_t places;
	bool has_reason;
	uint32_t reason;
	uint32_t by;	    /* enum dta_seen_by */
	uint32_t prefix[2]; /* bits of an IPv4 and an IPv6 prefix */
	uint32_t max;
	/* for paths: postcard stores, which know the order of switches; may be none */
	const struct dta_held *paths;
	size_t path_stores;
};
/* Return an array of at most max rows, greatest count first. *more: number of rows left out. */
json_t *dta_seen_paths(struct dta_seen *s, const struct dta_seen_ask *a, uint64_t *more);
json_t *dta_seen_drops(struct dta_seen *s, const struct dta_seen_ask *a, uint64_t *more);

/*
 * Values of --by, in the order of their names. An application is the protocol and the lower port. A
 * flow may pass several devices; for addresses, prefixes and applications, only the device that
 * counted most of it counts. For interfaces and AS, all counts are added.
 */
enum dta_seen_by {
	DTA_SEEN_BY_ADDRESS,
	DTA_SEEN_BY_PREFIX,
	DTA_SEEN_BY_AS,
	DTA_SEEN_BY_INTERFACE,
	DTA_SEEN_BY_APPLICATION,
};
json_t *dta_seen_top(struct dta_seen *s, const struct dta_seen_ask *a, uint64_t *more);

#endif
