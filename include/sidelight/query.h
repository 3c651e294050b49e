/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/query.h - query stores of reports (docs/dta-store.md): values, counts, paths, lists and
 * sketches. The collector and 'sidelight query' use this code.
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
 *  - A function that can fail returns 0 or a negative errno, and stores its answer in a structure.
 *  - A store is read, never written. Its collector need not be running. Values torn by a concurrent
 *    write of a translator are detected.
 *  - Any number of threads may query one store at a time. A list reader belongs to one thread at a
 *    time. No thread may query a store that is being closed. Both processes may query after fork().
 *  - Queries allocate nothing, take no lock and make no system call. Exceptions: sl_query_sketch()
 *    allocates, and sl_query_append() sleeps if told to wait.
 *  - The contents of a store are not trusted: any bytes give an answer, and no access is outside
 *    the store. A file that is truncated while it is mapped raises SIGBUS, as any mapping does:
 *    make its directory writable by the collector only. A memfd is refused unless it is sealed
 *    against shrinking.
 *  - Keys and values are bytes as reported; numbers are in the reporter's byte order.
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
 * Maps a file NAME.TENANT.EPOCH.store of a collector's directory. A store that was resized has
 * several files; the one with the highest EPOCH is being written. On failure returns NULL with
 * errno set, and stores one line in why unless it is NULL: EINVAL (not a store, truncated, of
 * another version, or inconsistent), ENOMEM, or an errno of open(2) or mmap(2).
 */
SL_API struct sl_store *sl_store_open(const char *path, char *why, size_t why_bytes);
/* Like sl_store_open(), for a descriptor, which the caller keeps and may close at once. */
SL_API struct sl_store *sl_store_open_fd(int fd, char *why, size_t why_bytes);
SL_API void sl_store_close(struct sl_store *s); /* NULL is ignored */

/* Kind and sizes, and the name; both never change. NULL for NULL. Valid until sl_store_close(). */
SL_API const struct sl_store_config *sl_store_config_get(const struct sl_store *s);
SL_API const char *sl_store_name(const struct sl_store *s);

struct sl_store_time {
	size_t sz;
	uint64_t epoch;	   /* the epoch being written */
	uint64_t oldest;   /* the oldest epoch that can be queried */
	uint64_t since_ns; /* start of `epoch`, CLOCK_REALTIME */
	uint32_t state;	   /* enum sl_region_state: LIVE, or CLOSED after a shutdown */
	uint32_t reserved;
};
/* Returns 0, -EINVAL, or -EAGAIN if a change is in progress or the collector died during one. */
SL_API int sl_store_now(const struct sl_store *s, struct sl_store_time *out);

/* ---- queries ---- */

/* Outcome of a query that returned 0. */
enum sl_query_result {
	SL_QUERY_FOUND = 0,
	/* no copy found: never written, or all overwritten, see sl_query_found_probability() */
	SL_QUERY_EMPTY,
	/*
	 * verified copies disagree and the policy selects none; a path contains an unexpected
	 * value; a sketch kept changing
	 */
	SL_QUERY_CONFLICT,
	SL_QUERY_UNKNOWN, /* no such epoch, or it was retired during the query */
};

enum sl_query_policy {
	SL_QUERY_FIRST = 0, /* take the first copy that verifies */
	/*
	 * A value in earlier copies is newer than one in later copies, however many these are. Only
	 * if copies of two values are mixed (a b a), take the value of most; a tie is a conflict
	 */
	SL_QUERY_PLURALITY,
	/* the same, if at least `consensus` copies have the value; else a conflict, or empty */
	SL_QUERY_CONSENSUS,
};

/* Flags of a query. */
#define SL_QUERY_OF_EPOCH 1u /* search `epoch` only, not the newest epoch that has the key */
#define SL_QUERY_NO_ERROR 2u /* sl_query_increment(): skip error and probability, which stay 0 */

/* Options of a query. 0 is the default; NULL instead of the structure means all defaults. */
struct sl_query_opts {
	size_t sz;
	uint32_t flags; /* SL_QUERY_... */
	/*
	 * number of copies to consider, as many as the reporter wrote; default: the store's.
	 * Increments: number of rows, whose minimum is the result
	 */
	uint32_t copies;
	uint64_t epoch;		/* the epoch to query, used with SL_QUERY_OF_EPOCH */
	uint32_t policy;	/* enum sl_query_policy */
	uint32_t consensus;	/* minimum number of copies for SL_QUERY_CONSENSUS; default 2 */
	const uint32_t *values; /* paths: allowed values of hops, ascending; default: any */
	size_t value_count;
};

/*
 * All queries return 0 and an answer, or -EINVAL if s or out is NULL, the store is of another kind,
 * the key is not SL_STORE_KEY_MIN to SL_STORE_KEY_MAX bytes long, or the options are invalid.
 */

struct sl_keywrite_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t bytes; /* length of the value; 0 unless found */
	uint64_t epoch;
	/* probability that the value belongs to another key: copies / 2^64 */
	double error_probability;
	uint32_t agreed;   /* number of copies with this value */
	uint32_t verified; /* number of copies whose check word matches the key */
	uint32_t occupied; /* number of copies that are not empty */
	uint32_t asked;	   /* number of copies examined */
	uint8_t value[SL_STORE_VALUE_MAX];
};
/* Key-Write: queries the value of a key. */
SL_API int sl_query_keywrite(const struct sl_store *s, const void *key, size_t key_bytes,
			     const struct sl_query_opts *opts, struct sl_keywrite_answer *out);
/*
 * Key-Write: the values of `count` keys of the same length, stored one after another in `keys`.
 * Looking them up together overlaps their cache misses. Takes the first copy that verifies,
 * whatever the policy. values: count times the store's value_bytes; each is written if its key is
 * found. results: count times enum sl_query_result. found, unless NULL: number of keys found.
 */
SL_API int sl_query_keywrite_many(const struct sl_store *s, const void *keys, size_t key_bytes,
				  size_t count, const struct sl_query_opts *opts, void *values,
				  uint8_t *results, size_t *found);

struct sl_increment_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t reserved;
	uint64_t epoch;
	uint64_t value; /* never below the true sum of the reports that arrived */
	double error;	/* maximum excess over the true sum, with the probability below */
	/*
	 * probability of that maximum: 1 - e^-rows (Cormode, Muthukrishnan, J. Algorithms 55, 2005)
	 */
	double probability;
};
/*
 * Key-Increment: the count of a key within one epoch. Computing the error reads the whole of a row,
 * up to a million cells; SL_QUERY_NO_ERROR skips it for queries of many keys.
 */
SL_API int sl_query_increment(const struct sl_store *s, const void *key, size_t key_bytes,
			      const struct sl_query_opts *opts, struct sl_increment_answer *out);

struct sl_postcard_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t hops; /* number of hops of the path; 0 unless found */
	uint64_t epoch;
	uint64_t present;	  /* bit h is set if the value of hop h is known */
	double error_probability; /* as for Key-Write */
	uint32_t agreed;	  /* number of copies with this path */
	uint32_t reserved;
	uint32_t value[SL_STORE_HOPS_MAX];
};
/* Postcarding: queries the value of each hop on a key's path. */
SL_API int sl_query_postcard(const struct sl_store *s, const void *key, size_t key_bytes,
			     const struct sl_query_opts *opts, struct sl_postcard_answer *out);

struct sl_sketch_answer {
	size_t sz;
	enum sl_query_result result;
	uint32_t estimated; /* 1 if value and error are set */
	uint64_t epoch;
	uint64_t cells_merged; /* number of cells merged, over all reporters */
	uint32_t expected;     /* number of reporters in a complete epoch */
	uint32_t ended;	       /* number of reporters that sent their whole sketch */
	/* 1 if as many reporters ended as expected, and every lane could be read */
	uint32_t complete;
	uint32_t reserved;
	/* count-min, count-sketch: estimate for the key; HyperLogLog: number of keys */
	double value;
	double error; /* count-min: upper bound; others: standard error */
};
/*
 * Sketch-Merge: the merged cells of an epoch, and their estimate for a key. key: NULL for none, or
 * for a HyperLogLog. cells: NULL, or a buffer of cells_bytes bytes for rows * slots cells of
 * sl_store_cell_bytes() each. An estimate requires cells as docs/sketches.md defines them. Also
 * returns -ENOSPC (cells_bytes is too small), -EFBIG (the sketch exceeds 64 MiB) and -ENOMEM.
 */
SL_API int sl_query_sketch(const struct sl_store *s, const void *key, size_t key_bytes,
			   const struct sl_query_opts *opts, void *cells, size_t cells_bytes,
			   struct sl_sketch_answer *out);

/* ---- the meaning of SL_QUERY_EMPTY ---- */

/*
 * Key-Write and Postcarding: the probability that a key is still found after `reports` other keys
 * of its epoch, 1 - (1 - e^-aN)^N, where a = reports / slots and N = copies (0 means the store's).
 * The second function is the inverse: the number of other keys after which the key is still found
 * with this probability, which is above 0 and below 1. Both return 0, or -EINVAL for NULL, another
 * kind of store, or a probability out of range.
 */
SL_API int sl_query_found_probability(const struct sl_store *s, uint32_t copies, uint64_t reports,
				      double *probability);
SL_API int sl_query_reports_until(const struct sl_store *s, uint32_t copies, double probability,
				  uint64_t *reports);

/* ---- append ---- */

/* A reader of one list as written by one translator (lane). Only the functions below change it. */
struct sl_query_append_reader {
	uint32_t list, lane;
	/* number of the next block; may be saved, and restored after sl_query_append_begin() */
	uint64_t block;
	uint64_t items;	  /* items read so far */
	uint64_t overrun; /* number of blocks overwritten before they were read */
	uint64_t torn;	  /* number of times a half-written block was found */
	uint64_t reserved[3];
};

enum sl_query_append_from {
	SL_QUERY_APPEND_OLDEST = 0, /* start with the oldest item in the ring */
	SL_QUERY_APPEND_NEWEST,	    /* start with the next item to be written */
};
/* Returns 0, or -EINVAL if there is no such list or lane. Searches the whole ring for its end. */
SL_API int sl_query_append_begin(const struct sl_store *s, struct sl_query_append_reader *r,
				 uint32_t list, uint32_t lane, enum sl_query_append_from from);
/*
 * Reads the next items, the oldest first, each once, in whole blocks: max is at least the store's
 * batch. items: space for max values of value_bytes. count: number of items read, 0 if none arrived
 * within timeout_ns (0 means do not wait, ~0 no limit). Waiting polls at least every 5 ms, as
 * one-sided writes wake no reader. Returns 0; -EINVAL; or -EOVERFLOW if the writer has lapped the
 * reader: overrun has grown by the loss, and the next call continues with the oldest item.
 */
SL_API int sl_query_append(const struct sl_store *s, struct sl_query_append_reader *r, void *items,
			   uint32_t max, uint64_t timeout_ns, uint32_t *count);

#ifdef __cplusplus
}
#endif
#endif
