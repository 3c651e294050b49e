/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - a queue of rows, from a worker to the judge, or from the judge to the record. The writer
 * never waits: what finds no room is lost, and counted by the caller. One writer, one reader.
 */
#ifndef SL_COLLECT_JUDGE_ROWS_H
#define SL_COLLECT_JUDGE_ROWS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum collect_rows_kind {
	COLLECT_ROWS_LAYOUT, /* a struct act_pod_name; for each column '0' or '1' (a counter) and
				its name, NUL-terminated; of a record: see there */
	COLLECT_ROWS_VALUES, /* a double for each column */
	COLLECT_ROWS_GONE,
	COLLECT_ROWS_TRACE,   /* of columns spans: a parent (u32), and a service, NUL-terminated */
	COLLECT_ROWS_VERDICT, /* of a record: a line */
	COLLECT_ROWS_KEPT,    /* of a record: models were kept for pods to come */
};

struct collect_rows_entry {
	uint64_t instance;
	int64_t ns, moment;
	enum collect_rows_kind kind;
	uint32_t columns;
	size_t bytes; /* that follow */
};

struct collect_rows_buffer {
	uint8_t *at;
	size_t used, room, read;
};

struct collect_rows {
	struct collect_rows_buffer own; /* the writer's */
	pthread_mutex_t lock;
	struct collect_rows_buffer given; /* under the lock */
	int64_t passed;			  /* under the lock: rows before this moment were given */
	struct collect_rows_buffer taken; /* the reader's */
	int64_t taken_passed;
};

void collect_rows_init(struct collect_rows *q);
void collect_rows_fini(struct collect_rows *q);

/* ---- the writer ---- */

/*
 * Room for an entry's bytes, to be filled in at once; they may be cut by collect_rows_cut(). NULL:
 * the reader is far behind, or out of memory. An entry without bytes always has room but for
 * memory.
 */
uint8_t *collect_rows_put(struct collect_rows *q, const struct collect_rows_entry *e);
/* Shortens the last entry. */
void collect_rows_cut(struct collect_rows *q, size_t bytes);
/*
 * Gives all to the reader, and that moments before this one are complete. False: try again soon;
 * the reader is far behind, out of memory, or, without wait, it holds the lock.
 */
bool collect_rows_give(struct collect_rows *q, int64_t passed, bool wait);

/* ---- the reader ---- */

void collect_rows_take(struct collect_rows *q);
/* The next entry, which stays; false: none. bytes are valid until the next call of take or next. */
bool collect_rows_peek(const struct collect_rows *q, struct collect_rows_entry *e,
		       const uint8_t **bytes);
void collect_rows_next(struct collect_rows *q);

#endif
