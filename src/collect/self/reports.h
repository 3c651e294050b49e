/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reports.h - a thread that follows the lists of append stores in place and produces each item to
 * Kafka, in order per lane. Its position is kept in a file, written once Kafka has acknowledged
 * everything before the position, and the thread resumes there after a restart. A message may then
 * be repeated; its block and index identify it.
 */
#ifndef SL_COLLECT_SELF_REPORTS_H
#define SL_COLLECT_SELF_REPORTS_H

#include <stddef.h>
#include <stdint.h>

struct collect_reports;
struct dta_store_server;
struct export_kafka;

/*
 * offsets: path of the file; NULL means start at the oldest item. Returns NULL with a one-line
 * message in error.
 */
struct collect_reports *collect_reports_new(struct dta_store_server *stores,
					    struct export_kafka *kafka, const char *offsets,
					    char *error, size_t error_bytes);
int collect_reports_start(struct collect_reports *r); /* returns 0 or -errno */
/* Returns the number of blocks overwritten before they were read; 0 if r is NULL. Thread-safe. */
uint64_t collect_reports_overrun(const struct collect_reports *r);
/* Must be called before the stores and Kafka are freed. r may be NULL. */
void collect_reports_free(struct collect_reports *r);

#endif
