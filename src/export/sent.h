/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sent.h - the traces that a receiver has, in a file that outlives the process: its successor finds
 * the same traces in the pods' rings and must not send them again.
 *
 * The file holds 65,536 ids; a new id replaces the oldest of its 16. It is written without fsync():
 * it survives a killed process, but after a crash of the machine a few traces may be sent twice.
 */
#ifndef SL_EXPORT_SENT_H
#define SL_EXPORT_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_sent;

/*
 * Opens or creates the file in an existing folder. One process holds it at a time. NULL with errno
 * and one line in error: EBUSY: another process has it, EINVAL: not such a file.
 */
struct export_sent *export_sent_open(const char *path, char *error, size_t error_bytes);
/* True if the file existed before, so that unknown ids were not sent. */
bool export_sent_old(const struct export_sent *s);
/* Both from any thread. Id 0 is never known. */
bool export_sent_has(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* False: the write failed (disk full); the id is known only to this process. */
bool export_sent_add(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* Accepts NULL. */
void export_sent_close(struct export_sent *s);

#endif
