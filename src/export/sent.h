/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sent.h - remembers which traces a receiver has, in a file that outlives the process. The next
 * process finds the same traces in the pods' rings and must not send them again.
 *
 * The file holds 65,536 IDs; a new ID replaces the oldest of the 16 in its set. It is written
 * without fsync(): it survives if the process is killed, but after a machine crash a few traces may
 * be sent twice.
 */
#ifndef SL_EXPORT_SENT_H
#define SL_EXPORT_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_sent;

/*
 * Opens or creates the file in an existing directory. Only one process may use it at a time.
 * Returns NULL with errno and one line in error. EBUSY means that another process uses it, EINVAL
 * that it is a different kind of file.
 */
struct export_sent *export_sent_open(const char *path, char *error, size_t error_bytes);
/* Whether the file existed before, in which case unknown IDs were definitely not sent. */
bool export_sent_old(const struct export_sent *s);
/* Any thread may call these two functions. ID 0 is never known. */
bool export_sent_has(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* Returns false if the write failed (disk full); then only this process knows the ID. */
bool export_sent_add(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* NULL is ignored. */
void export_sent_close(struct export_sent *s);

#endif
