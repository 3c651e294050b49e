/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/query.h - query stores of reports (docs/dta-store.md): values, counts, paths, lists and
 * sketches. The collector and 'sidelight query' use the same code.
 *
 * 	char why[256];
 * 	struct sl_store *s = sl_store_open("/var/lib/sidelight/flows.0.0.store", why, sizeof(why));
 * 	struct sl_keywrite_answer a = SL_OPTS(sl_keywrite_answer);
 * 	...
 * 	if (!sl_query_keywrite(s, &tuple, sizeof(tuple), NULL, &a) && a.result == SL_QUERY_FOUND)
 * 		use(a.value, a.bytes);
 * 	...
 * 	sl_store_close(s);
 *
 * Rules for all functions:
 *  - A function that can fail returns 0 or a negative errno, and its answer in a structure.
 *  - A store is read, never written. Its collector need not run. While translators write, a torn
 *    value is told from a whole one.
 *  - Any number of threads may query one store at a time. A reader of a list belongs to one thread
 *    at a time. No thread may query a store that is being closed. After fork() both processes may
 *    query.
 *  - Queries allocate nothing, take no lock and make no system call. Exceptions: sl_query_sketch()
 *    allocates, and sl_query_append() sleeps if told to wait.
 *  - The contents of a store are not trusted: any bytes give an answer, and no access leaves the
 *    store. A file that is truncated while it is mapped raises SIGBUS, as any mapping does: make
 *    its directory writable by the collector only. A memfd is refused unless it is sealed against
 *    shrinking.
 *  - Bytes of keys and values are those of the reporter. Numbers are in its byte order.
 *
 * C11 and C++17. Link with -lsidelight-dta (pkg-config sidelight-dta).
 */
#ifndef SIDELIGHT_QUERY_H
#define SIDELIGHT_QUERY_H

#include <sidelight/common.h>
#include <sidelight/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- stores ---- */

struct sl_store;

/*
 * Maps a file of a collector's directory, NAME.TENANT.EPOCH.store. A store that was resized has
 * several files; the one with the highest EPOCH is written now. Returns NULL with errno, and one
 * line in why unless that is NULL: EINVAL (not a store, truncated, of another version, or
 * inconsistent), ENOMEM, or an errno of open(2) or mmap(2).
 */
SL_API struct sl_store *sl_store_open(const char *path, char *why, size_t why_bytes);
/* The same for a descriptor, which stays the caller's and may be closed. */
SL_API struct sl_store *sl_store_open_fd(int fd, char *why, size_t why_bytes);
SL_API void sl_store_close(struct sl_store *s); /* NULL: nothing */

/* Kind and sizes, which never change, and the name. NULL for NULL. Valid until sl_store_close(). */
SL_API const struct sl_store_config *sl_store_config_get(const struct sl_store *s);
SL_API const char *sl_store_name(const struct sl_store *s);

struct sl_store_time {
	size_t sz;
	uint64_t epoch;	   /* being written */
	uint64_t oldest;   /* the oldest that can be queried */
	uint64_t since_ns; /* start of `epoch`, CLOCK_REALTIME */
	uint32_t state; /* enum sl_region_state: SL_STATE_LIVE, or SL_STATE_CLOSED after a shutdown
			 */
	uint32_t reserved;
};
/* 0; -EINVAL; -EAGAIN: it is being changed, or the collector died during a change. */
SL_API int sl_store_now(const struct sl_store *s, struct sl_store_time *out);

/* ---- queries ---- */

/* The outcome of a query that returned 0. */
enum sl_query_result {
	SL_QUERY_FOUND = 0,
	SL_QUERY_EMPTY,	   /* no copy is there: never written, or all overwritten, see
			    * sl_query_found_probability() */
	SL_QUERY_CONFLICT, /* copies that verify disagree and the policy decides for none; a path
			    * has a value outside the expected ones; a sketch kept changing */
	SL_QUERY_UNKNOWN,  /* no such epoch, or it was retired during the query */
};

enum sl_query_policy {
	SL_QUERY_FIRST = 0, /* the first copy that verifies */
	SL_QUERY_PLURALITY, /* the value of most copies; a tie is a conflict */
	SL_QUERY_CONSENSUS, /* the value of at least `consensus` copies; else a conflict, or empty
			     */
};

/* Flags of a query. */
#define SL_QUERY_OF_EPOCH 1u /* `epoch` only; otherwise the newest epoch that has the key */
#define SL_QUERY_NO_ERROR 2u /* sl_query_increment(): leave error and probability 0 */

/* 0 is the default, and NULL in place of the structure is all defaults. */
struct sl_query_opts {
	size_t sz;
	uint32_t flags;	    /* SL_QUERY_... */
	uint32_t copies;    /* to look at, as many as the reporter wrote; default: the store's. Of
			     * increments: rows, of which the minimum counts */
	uint64_t epoch;	    /* with SL_QUERY_OF_EPOCH */
	uint32_t policy;    /* enum sl_query_policy */
	uint32_t consensus; /* for SL_QUERY_CONSENSUS; default 2 */
	const uint32_t *values; /* paths: the values that hops may have, ascending; default: any */
	size_t value_count;
};

/*
 * All queries return 0 and an answer, or -EINVAL: s or out is NULL, the store is of another kind,
 * the key is not SL_STORE_KEY_MIN to SL_STORE_KEY_MAX bytes long, or the options are invalid.
 */

struct sl_keywrite_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t bytes; /* of the value; 0 unless found */
	uint64_t epoch;
	double error_probability; /* that the value is another key's: copies / 2^64 */
	uint32_t agreed;	  /* copies with this value */
	uint32_t verified;	  /* copies whose check word fits the key */
	uint32_t occupied;	  /* copies that are not empty */
	uint32_t asked;		  /* copies looked at */
	uint8_t value[SL_STORE_VALUE_MAX];
};
/* Key-Write: the value of a key. */
SL_API int sl_query_keywrite(const struct sl_store *s, const void *key, size_t key_bytes,
			     const struct sl_query_opts *opts, struct sl_keywrite_answer *out);
/*
 * Key-Write: the values of `count` keys of one length, which follow each other in `keys`. Their
 * cache misses overlap. The first copy that verifies counts, whatever the policy. values: count
 * times the store's value_bytes, each written if its key is found. results: count times enum
 * sl_query_result. found, unless NULL: how many were found.
 */
SL_API int sl_query_keywrite_many(const struct sl_store *s, const void *keys, size_t key_bytes,
				  size_t count, const struct sl_query_opts *opts, void *values,
				  uint8_t *results, size_t *found);

struct sl_increment_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t reserved;
	uint64_t epoch;
	uint64_t value;	    /* never below the sum that arrived */
	double error;	    /* the value exceeds that sum by at most this ... */
	double probability; /* ... with this probability: 1 - e^-rows (G. Cormode, S. Muthukrishnan,
			     * J. Algorithms 55, 2005) */
};
/*
 * Key-Increment: the count of a key within one epoch. The error costs the sum of a row, up to a
 * million cells; SL_QUERY_NO_ERROR omits it for queries of many keys.
 */
SL_API int sl_query_increment(const struct sl_store *s, const void *key, size_t key_bytes,
			      const struct sl_query_opts *opts, struct sl_increment_answer *out);

struct sl_postcard_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t hops; /* of the path; 0 unless found */
	uint64_t epoch;
	uint64_t present;	  /* bit h: the value of hop h is known */
	double error_probability; /* as of Key-Write */
	uint32_t agreed;	  /* copies with this path */
	uint32_t reserved;
	uint32_t value[SL_STORE_HOPS_MAX];
};
/* Postcarding: the value of each hop of a key's path. */
SL_API int sl_query_postcard(const struct sl_store *s, const void *key, size_t key_bytes,
			     const struct sl_query_opts *opts, struct sl_postcard_answer *out);

struct sl_sketch_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t estimated; /* 1: value and error are set */
	uint64_t epoch;
	uint64_t cells_merged; /* of all reporters */
	uint32_t expected;     /* reporters of a complete epoch */
	uint32_t ended;	       /* reporters that sent their whole sketch */
	uint32_t complete;     /* 1: as many ended as expected, and every lane could be read */
	uint32_t reserved;
	double value; /* count-min, count-sketch: of the key; HyperLogLog: number of keys */
	double error; /* count-min: bound; others: standard error */
};
/*
 * Sketch-Merge: the merged cells of an epoch, and their estimate for a key. key: NULL for none, or
 * for a HyperLogLog. cells: NULL, or room for rows * slots cells of sl_store_cell_bytes() each, of
 * cells_bytes bytes. An estimate needs cells as docs/sketches.md defines them. Also returns -ENOSPC
 * (cells_bytes is too small), -EFBIG (a sketch above 64 MiB) and -ENOMEM.
 */
SL_API int sl_query_sketch(const struct sl_store *s, const void *key, size_t key_bytes,
			   const struct sl_query_opts *opts, void *cells, size_t cells_bytes,
			   struct sl_sketch_answer *out);

/* ---- the meaning of SL_QUERY_EMPTY ---- */

/*
 * Key-Write and Postcarding: a key is still found after `reports` other keys of its epoch with
 * probability 1 - (1 - e^-aN)^N, where a = reports / slots and N = copies (0: the store's). The
 * second function is the inverse: how many other keys leave it found with this probability, which
 * is above 0 and below 1. 0, or -EINVAL: NULL, another kind of store, or no such probability.
 */
SL_API int sl_query_found_probability(const struct sl_store *s, uint32_t copies, uint64_t reports,
				      double *probability);
SL_API int sl_query_reports_until(const struct sl_store *s, uint32_t copies, double probability,
				  uint64_t *reports);

/* ---- append ---- */

/* A reader of one list as one translator (lane) writes it. Changed by the functions below only. */
struct sl_query_append_reader {
	uint32_t list, lane;
	uint64_t
		block; /* the next; may be saved, and set after sl_query_append_begin() to resume */
	uint64_t items;	  /* read so far */
	uint64_t overrun; /* blocks overwritten before they were read */
	uint64_t torn;	  /* times that a block was found half-written */
	uint64_t reserved[3];
};

enum sl_query_append_from {
	SL_QUERY_APPEND_OLDEST = 0, /* the oldest item in the ring */
	SL_QUERY_APPEND_NEWEST,	    /* the next item to come */
};
/* 0, or -EINVAL: no such list or lane. Searches the whole ring for its end. */
SL_API int sl_query_append_begin(const struct sl_store *s, struct sl_query_append_reader *r,
				 uint32_t list, uint32_t lane, enum sl_query_append_from from);
/*
 * Reads the next items, oldest first, each once, in whole blocks: max is at least the store's
 * batch. items: room for max values of value_bytes. count: how many were read, 0 if none came
 * within timeout_ns (0: do not wait; ~0: no limit). Waiting polls, every 5 ms at most, as one-sided
 * writes wake no reader. 0; -EINVAL; -EOVERFLOW: the writer has lapped the reader, overrun has
 * grown by the loss, and the next call continues with the oldest item.
 */
SL_API int sl_query_append(const struct sl_store *s, struct sl_query_append_reader *r, void *items,
			   uint32_t max, uint64_t timeout_ns, uint32_t *count);

#ifdef __cplusplus
}
#endif
#endif
