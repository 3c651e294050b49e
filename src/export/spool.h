/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h - a bounded FIFO queue of bodies in one file, which outlives its process; when it is
 * full, the oldest bodies are dropped. Independent of the bodies' contents.
 *
 * The file has its full size from the start, so that a full disk causes an error on startup and not
 * later. Nothing that was added is lost if the process is killed. After a machine crash or power
 * failure, everything up to the last export_spool_sync() is intact. Later records may be damaged or
 * missing; damaged records are skipped and counted, and completed records may be returned again.
 * Only one process may use the file at a time; its mode is 0600.
 *
 * Not thread-safe except for export_spool_sync(): push.c calls it under its lock.
 */
#ifndef SL_EXPORT_SPOOL_H
#define SL_EXPORT_SPOOL_H

#include <stddef.h>
#include <stdint.h>

struct export_spool;

struct export_spool_stats {
	uint64_t bodies, bytes, items; /* waiting bodies, their size, and the items in them */
	uint64_t corrupt; /* items in damaged bodies; a body with a damaged header counts as 1 */
	uint64_t errors;  /* failed reads, writes and synchronisations */
};

/*
 * Opens the file, or creates it with this size (at least EXPORT_SPOOL_MIN); an existing file keeps
 * its size. Returns NULL with errno and one line in error. EBUSY means that another process uses
 * the file, EINVAL that it is a different kind of file.
 */
#define EXPORT_SPOOL_MIN (64u << 10)
struct export_spool *export_spool_open(const char *path, uint64_t size, char *error,
				       size_t error_bytes);
/*
 * Appends a body with `items` items. The oldest bodies are dropped to make room, and their items
 * are added to *dropped. Returns 0; -ENOSPC if the body is larger than the file; or -errno if a
 * read or write failed and nothing was appended.
 */
int export_spool_add(struct export_spool *s, const void *body, size_t bytes, uint64_t items,
		     uint64_t *dropped);
/*
 * Reads the oldest body, which the caller frees. It stays in the queue until export_spool_done().
 * Returns 0, -ENOENT if there is none, -ENOMEM, or -EIO if a read failed: it is repeated by the
 * next call, and after ten failures in a row, what can't be read counts as damaged. If
 * export_spool_add() overwrites the body in the meantime, it does not count as dropped, because the
 * caller has it.
 */
int export_spool_take(struct export_spool *s, void **body, size_t *bytes, uint64_t *items);
void export_spool_done(struct export_spool *s);
/*
 * Returns the latest time (CLOCK_REALTIME) at which a body was added, possibly by an earlier
 * process. Returns 0 if there is none, or if that time was more than an hour in the future when the
 * file was opened.
 */
uint64_t export_spool_newest_ns(const struct export_spool *s);
void export_spool_stats(const struct export_spool *s, struct export_spool_stats *out);
/*
 * Writes changes to the disk and waits for completion, at most once per second. One thread at a
 * time may call it, concurrently with any other function except export_spool_close().
 */
void export_spool_sync(struct export_spool *s);
/* Writes the file to disk and closes it; waiting bodies stay in the file. NULL is ignored. */
void export_spool_close(struct export_spool *s);

#endif
