/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sent.h - which traces a receiver has: a file that outlives the process that sent them, so that
 * its successor, which finds the same traces in the rings of their pods, does not send them again.
 *
 * The file has a fixed size: 65,536 ids, of which a new one takes the place of the oldest of 16. It
 * is kept by write(), not fsync(): it outlives a process that is killed, and after a machine that
 * stops dead a few traces may go out twice.
 */
#ifndef SL_EXPORT_SENT_H
#define SL_EXPORT_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_sent;

/*
 * Opens the file, or makes it; its folder must be there. Held by one process at a time. NULL with
 * errno and one line in error: EBUSY another process has it, EINVAL it is no file of this kind.
 */
struct export_sent *export_sent_open(const char *path, char *error, size_t error_bytes);
/* Was it there before, so that what it does not know was not sent? */
bool export_sent_old(const struct export_sent *s);
/* Any thread, these two. An id of 0 is none. */
bool export_sent_has(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* False: it could not be written (disk full); it is known as long as this process lives. */
bool export_sent_add(struct export_sent *s, uint64_t trace_hi, uint64_t trace_lo);
/* NULL is let pass. */
void export_sent_close(struct export_sent *s);

#endif
