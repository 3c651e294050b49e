/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows.h - writes flows for other collectors: as goflow2's protobuf message, as JSON and as IPFIX.
 * Bytes and packets of a record are already scaled by its sampling rate. This file does not know
 * where the flows come from or where they go.
 */
#ifndef SL_COLLECT_SELF_FLOWS_H
#define SL_COLLECT_SELF_FLOWS_H

#include <jansson.h>

#include "dta/query/layout.h"

/* Whether a store with these fields has flows. */
bool collect_flows_has(const struct dta_layout *l);

#define COLLECT_FLOWS_MESSAGE_MAX 1024u
/*
 * Writes FlowMessage of goflow2 2.x (pb/flow.proto), preceded by its length, as ClickHouse's format
 * Protobuf expects it. Returns the size.
 */
size_t collect_flows_protobuf(const struct dta_record *r, uint64_t real_ns,
			      uint8_t out[COLLECT_FLOWS_MESSAGE_MAX]);
/* Returns the fields under IANA's names of their information elements. NULL if out of memory. */
json_t *collect_flows_json(const struct dta_record *r);

/* An IPFIX message (RFC 7011) under construction: a template and its records. */
#define COLLECT_FLOWS_IPFIX_MAX 1400u
struct collect_flows_ipfix {
	uint32_t sequence; /* number of records in earlier messages */
	uint32_t records, bytes;
	dta_field_set has;
	uint32_t ipv6; /* bit i: address i is IPv6 */
	size_t data;   /* offset of the data set */
	uint8_t at[COLLECT_FLOWS_IPFIX_MAX];
};
/* Returns false if the record needs another template or more space: take the message first. */
bool collect_flows_ipfix_add(struct collect_flows_ipfix *m, const struct dta_record *r,
			     uint64_t real_ns);
/* Completes the message, and begins the next one. Returns the size of at, 0 if it is empty. */
size_t collect_flows_ipfix_take(struct collect_flows_ipfix *m);

#endif
