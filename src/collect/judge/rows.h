/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - a queue of rows, from a worker to the judge, or from the judge to the record. The writer
 * never waits: rows for which there is no room are lost, and the caller counts them. One writer,
 * one reader.
 */
#ifndef SL_COLLECT_JUDGE_ROWS_H
#define SL_COLLECT_JUDGE_ROWS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum collect_rows_kind {
	/*
	 * a struct act_pod_name; then, for each column, '0' or '1' (a counter) and its name,
	 * NUL-terminated; record.h defines the content for records
	 */
	COLLECT_ROWS_LAYOUT,
	COLLECT_ROWS_VALUES, /* one double per column */
	COLLECT_ROWS_GONE,
	COLLECT_ROWS_ACCEPT,  /* the pod's present behaviour is normal */
	COLLECT_ROWS_TRACE,   /* `columns` spans: a parent (u32), and a service, NUL-terminated */
	COLLECT_ROWS_VERDICT, /* only for records: a line of verdicts */
	COLLECT_ROWS_KEPT,    /* only for records: models were kept for future pods */
};

struct collect_rows_entry {
	uint64_t instance;
	int64_t ns, moment;
	enum collect_rows_kind kind;
	uint32_t columns;
	bool again;   /* a layout that the judge has refused before */
	size_t bytes; /* number of bytes that follow */
};

struct collect_rows_buffer {
	uint8_t *at;
	size_t used, room, read;
};

struct collect_rows {
	struct collect_rows_buffer own; /* used by the writer */
	pthread_mutex_t lock;
	struct collect_rows_buffer given; /* entries handed over; protected by lock */
	int64_t passed; /* rows before this moment were handed over; protected by lock */
	struct collect_rows_buffer taken; /* used by the reader */
	int64_t taken_passed;
};

void collect_rows_init(struct collect_rows *q);
void collect_rows_fini(struct collect_rows *q);

/* ---- the writer ---- */

/*
 * Returns room for an entry's bytes, which must be filled in at once. Returns NULL if the reader is
 * far behind, or if out of memory. An entry without bytes is refused only if out of memory.
 */
uint8_t *collect_rows_put(struct collect_rows *q, const struct collect_rows_entry *e);
/*
 * Hands all entries to the reader and tells it that moments before this one are complete. If it
 * returns false, try again soon: the reader is far behind, memory is short or, unless wait is set,
 * the reader holds the lock.
 */
bool collect_rows_give(struct collect_rows *q, int64_t passed, bool wait);

/* ---- the reader ---- */

void collect_rows_take(struct collect_rows *q);
/*
 * Returns the next entry without removing it, or false if there is none. Its bytes are valid until
 * the next call to collect_rows_take() or collect_rows_next().
 */
bool collect_rows_peek(const struct collect_rows *q, struct collect_rows_entry *e,
		       const uint8_t **bytes);
void collect_rows_next(struct collect_rows *q);

#endif
