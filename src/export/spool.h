/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h - a bounded queue of bodies in one file, which outlives its process: first in, first out,
 * and when it is full the oldest leave. Knows nothing of their contents.
 *
 * The file has its full size from the start, so a full disk is an error at the start and not later.
 * A killed process loses nothing that was added. A machine that crashes or loses its power keeps
 * what was there at the last export_spool_sync(): of what came later records may be damaged or
 * missing, those that are damaged are skipped and counted, and those that were done may be taken
 * again. One process holds it at a time, mode 0600.
 *
 * Not thread-safe but for export_spool_sync(): push.c calls it under its lock.
 */
#ifndef SL_EXPORT_SPOOL_H
#define SL_EXPORT_SPOOL_H

#include <stddef.h>
#include <stdint.h>

struct export_spool;

struct export_spool_stats {
	uint64_t bodies, bytes, items; /* that wait */
	uint64_t corrupt; /* items of damaged bodies; of one whose head is damaged: 1 */
	uint64_t errors;  /* reads, writes and synchronisations that failed */
};

/*
 * Opens the file, or creates it with this size (at least EXPORT_SPOOL_MIN); an existing one keeps
 * its size. NULL with errno and one line in error: EBUSY: another process has it, EINVAL: not such
 * a file.
 */
#define EXPORT_SPOOL_MIN (64u << 10)
struct export_spool *export_spool_open(const char *path, uint64_t size, char *error,
				       size_t error_bytes);
/*
 * Appends a body with `items`. The oldest leave for it; their items are added to *dropped. 0,
 * -ENOSPC: larger than the file, or -errno of the write: it was not appended.
 */
int export_spool_add(struct export_spool *s, const void *body, size_t bytes, uint64_t items,
		     uint64_t *dropped);
/*
 * Reads the oldest body, to be freed. It stays until export_spool_done(). 0, -ENOENT: none,
 * -ENOMEM, -EIO. One that export_spool_add() needs the room of meanwhile is not dropped: the caller
 * has it.
 */
int export_spool_take(struct export_spool *s, void **body, size_t *bytes, uint64_t *items);
void export_spool_done(struct export_spool *s);
/* The latest CLOCK_REALTIME at which a body was added, also by an earlier process; 0: none. */
uint64_t export_spool_newest_ns(const struct export_spool *s);
void export_spool_stats(const struct export_spool *s, struct export_spool_stats *out);
/*
 * Brings what changed to the disk and waits for it, at most once per second. By one thread at a
 * time, beside any call but the last one.
 */
void export_spool_sync(struct export_spool *s);
/* Accepts NULL. What waits stays in the file, and is on the disk. */
void export_spool_close(struct export_spool *s);

#endif
