/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reports.h - a thread that follows the lists of append stores in place and produces each item to
 * Kafka, in order per lane. Where it is is kept in a file, written once Kafka has acknowledged what
 * is before it: after a restart it resumes there. A message may then come again; its block and
 * index tell.
 */
#ifndef SL_COLLECT_SELF_REPORTS_H
#define SL_COLLECT_SELF_REPORTS_H

#include <stddef.h>
#include <stdint.h>

struct collect_reports;
struct dta_store_server;
struct export_kafka;

/* offsets: the file, or NULL: it begins at the oldest item. NULL with one line in error. */
struct collect_reports *collect_reports_new(struct dta_store_server *stores,
					    struct export_kafka *kafka, const char *offsets,
					    char *error, size_t error_bytes);
int collect_reports_start(struct collect_reports *r); /* 0 or -errno */
/* Blocks that were overwritten before they were read. Any thread; NULL: 0. */
uint64_t collect_reports_overrun(const struct collect_reports *r);
/* Before the stores and Kafka are freed. NULL is fine. */
void collect_reports_free(struct collect_reports *r);

#endif
