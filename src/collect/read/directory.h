/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_DIRECTORY_H
#define SL_COLLECT_READ_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

struct collect_link;

/* Returns true if the directory was read within its lease, so that its addresses may be used. */
bool collect_directory_lease_holds(const struct collect_link *l, uint64_t now_ns);
/* Reads the hot line, or the header if it has not been read; one READ at a time. */
void collect_directory_read(struct collect_link *l, uint64_t now_ns);
/* Reads the entries if they changed. */
void collect_directory_read_entries(struct collect_link *l, uint64_t now_ns);
void collect_directory_forget(struct collect_link *l);
/*
 * Removes regions that a restarted agent does not list: their publishers have exited in the
 * meantime.
 */
void collect_directory_expire_orphans(struct collect_link *l, uint64_t now_ns);

#endif
