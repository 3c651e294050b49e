/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reports.h - a thread that follows the lists of append stores in place and produces each item to
 * Kafka, in order per lane. Its position is kept in a file, written once Kafka has acknowledged
 * everything before the position, and the thread resumes there after a restart. A message may then
 * be repeated; its epoch, block and index identify it. Items of a store whose fields are a flow's
 * become messages of their own kind (flows.h), and are also sent as IPFIX.
 */
#ifndef SL_COLLECT_SELF_REPORTS_H
#define SL_COLLECT_SELF_REPORTS_H

#include <stdbool.h>
#include <stddef.h>

struct collect_reports;
struct dta_store_server;
struct export_kafka;

struct collect_reports_opts {
	struct dta_store_server *stores;
	struct export_kafka *kafka; /* NULL: IPFIX only */
	const char *offsets;	    /* path of the file; NULL means start at the oldest item */
	bool json;		    /* send flows to Kafka as JSON instead of goflow2's messages */
	const char *ipfix;	    /* HOST:PORT of a collector of IPFIX, or NULL */
};
/* Returns NULL with a one-line message in error. */
struct collect_reports *collect_reports_new(const struct collect_reports_opts *opts, char *error,
					    size_t error_bytes);
int collect_reports_start(struct collect_reports *r); /* returns 0 or -errno */
/* Must be called before the stores and Kafka are freed. r may be NULL. */
void collect_reports_free(struct collect_reports *r);

#endif
