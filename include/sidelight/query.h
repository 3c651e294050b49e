/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/query.h - what stores of reports say (docs/dta-store.md): values, counts, paths, lists,
 * sketches. The code is that of the collector and of 'sidelight query'.
 *
 * 	char why[256];
 * 	struct sl_store *s = sl_store_open("/var/lib/sidelight/flows.0.0.store", why, sizeof(why));
 * 	struct sl_keywrite_answer a = {.sz = sizeof(a)};
 * 	...
 * 	if (sl_query_keywrite(s, &tuple, sizeof(tuple), NULL, &a) == SL_QUERY_FOUND)
 * 		use(a.value, a.bytes);
 * 	...
 * 	sl_store_close(s);
 *
 * Rules that hold everywhere:
 *  - A store is looked into, and never written. Its collector need not run; while it does, and
 *    translators write, what is torn is told apart from what is there.
 *  - Any number of threads may ask one store at a time; a reader of a list belongs to one thread at
 *    a time. Nobody may ask while it is closed. After fork() both processes may ask.
 *  - Questions allocate nothing, take no lock and make no system call, but sl_query_sketch(), which
 *    allocates, and sl_query_append(), which sleeps if it is told to wait.
 *  - What a store holds is not trusted: any bytes at all give an answer, and no access beyond the
 *    store. But a FILE that somebody cuts short while it is mapped raises SIGBUS, as any mapping
 *    does: let nobody but the collector write to its directory. A memfd is refused unless it is
 *    sealed against that.
 *  - Bytes of keys and values are those of the reporter; numbers are in its byte order.
 *
 * C11 and C++17. Link with -lsidelight (pkg-config sidelight).
 */
#ifndef SIDELIGHT_QUERY_H
#define SIDELIGHT_QUERY_H

#include <sidelight/sidelight.h>
#include <sidelight/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- stores ---- */

struct sl_store;

/*
 * A file of a collector's directory (NAME.TENANT.EPOCH.store): one of a store's, which has several
 * after it was resized, the one with the highest EPOCH being written. NULL with errno, and with one
 * line in why (NULL: none is wanted): EINVAL: what there is is no store, is cut short, of another
 * version or contradicts itself; ENOMEM; others of open(2), mmap(2).
 */
SL_API struct sl_store *sl_store_open(const char *path, char *why, size_t why_bytes);
/* The same of a descriptor, as a collector hands out with SCM_RIGHTS; it stays the caller's, and
 * may be closed. */
SL_API struct sl_store *sl_store_open_fd(int fd, char *why, size_t why_bytes);
SL_API void sl_store_close(struct sl_store *s); /* NULL is nothing */

/* Kind, sizes and numbers, which never change; and its name. NULL for NULL. Valid until it is
 * closed. */
SL_API const struct sl_store_config *sl_store_geometry(const struct sl_store *s);
SL_API const char *sl_store_name(const struct sl_store *s);

struct sl_store_time {
	size_t sz;	   /* in: sizeof */
	uint64_t epoch;	   /* that is written now */
	uint64_t oldest;   /* that can be asked for */
	uint64_t since_ns; /* CLOCK_REALTIME of the start of the one that is written now */
	uint32_t state;	   /* enum sl_region_state: SL_STATE_LIVE, or SL_STATE_CLOSED by a collector
			      that ended */
	uint32_t reserved;
};
/* 0; -EINVAL; -EAGAIN: it is being changed, or its owner died amid a change. */
SL_API int sl_store_now(const struct sl_store *s, struct sl_store_time *out);

/* ---- questions ---- */

/* What questions return, if it is not a negative errno: -EINVAL for a store of another kind, or a
 * key that is none. */
enum sl_query_result {
	SL_QUERY_FOUND = 0,
	SL_QUERY_EMPTY,	   /* no copy is there: never written, or every copy overwritten:
			      sl_query_reach() */
	SL_QUERY_CONFLICT, /* copies that verify disagree and the policy can't choose; a path with a
			    * hop's value that none may have; a sketch that never settles */
	SL_QUERY_UNKNOWN,  /* no such epoch, or it went while it was looked at */
};

enum sl_query_policy {
	SL_QUERY_FIRST = 0, /* the first copy that verifies */
	SL_QUERY_PLURALITY, /* what most copies say; a tie is a conflict */
	SL_QUERY_CONSENSUS, /* what at least `consensus` copies say; else conflict, or empty */
};

#define SL_QUERY_OF_EPOCH 1u /* flag: of `epoch` alone; else of the newest that has it */

/* Zero, and NULL for all of it, means the default. sz makes the structure extensible: set it to its
 * sizeof. */
struct sl_query_opts {
	size_t sz;
	uint32_t flags;
	uint32_t copies;    /* that are looked at: as the reporter wrote. Default: the store's. Of
			     * increments:    rows, whose minimum is taken */
	uint64_t epoch;	    /* with SL_QUERY_OF_EPOCH */
	uint32_t policy;    /* enum sl_query_policy */
	uint32_t consensus; /* T of SL_QUERY_CONSENSUS; default 2 */
	const uint32_t *values; /* paths: what a hop may say, ascending. Default: anything */
	size_t value_count;
};

struct sl_keywrite_answer {
	size_t sz; /* in: sizeof, in this and all below */
	uint64_t epoch;
	double wrong;	 /* probability that the value is another key's: copies / 2^64 */
	uint32_t bytes;	 /* of the value; 0 unless it was found */
	uint32_t agreed; /* copies that say so */
	uint32_t verified, occupied,
		asked; /* copies whose check fits; that are not empty; looked at */
	uint8_t value[SL_STORE_VALUE_MAX];
};
/* Key-Write: the value of a key. */
SL_API int sl_query_keywrite(const struct sl_store *s, const void *key, size_t key_bytes,
			     const struct sl_query_opts *opts, struct sl_keywrite_answer *out);
/*
 * Many keys of one length, one behind the other, with their cache misses overlapping: by the first
 * copy that verifies, whatever the policy. values: count times the store's value_bytes; results:
 * count of enum sl_query_result; a value is written where it was found. Returns how many were, or
 * -EINVAL.
 */
SL_API int64_t sl_query_keywrite_many(const struct sl_store *s, const void *keys, size_t key_bytes,
				      size_t count, const struct sl_query_opts *opts, void *values,
				      uint8_t *results);

struct sl_increment_answer {
	size_t sz;
	uint64_t epoch;
	uint64_t value;	    /* never below the truth of what arrived */
	double error;	    /* above it by no more than this ... */
	double probability; /* ... with this probability: 1 - e^-rows (G. Cormode, S. Muthukrishnan,
			       2005) */
};
/*
 * Key-Increment: the count of a key, of one epoch. For the error a row is added up, up to a million
 * cells: give SL_QUERY_NO_ERROR where many keys are asked for.
 */
#define SL_QUERY_NO_ERROR 2u /* flag: error and probability are left 0 */
SL_API int sl_query_increment(const struct sl_store *s, const void *key, size_t key_bytes,
			      const struct sl_query_opts *opts, struct sl_increment_answer *out);

struct sl_postcard_answer {
	size_t sz;
	uint64_t epoch;
	uint64_t present; /* bit h: hop h is known */
	double wrong;	  /* as of key-write */
	uint32_t hops;	  /* of the path; 0 unless it was found */
	uint32_t agreed;
	uint32_t value[SL_STORE_HOPS_MAX];
};
/* Postcarding: what each hop said of a key. */
SL_API int sl_query_postcard(const struct sl_store *s, const void *key, size_t key_bytes,
			     const struct sl_query_opts *opts, struct sl_postcard_answer *out);

struct sl_sketch_answer {
	size_t sz;
	uint64_t epoch;
	uint64_t cells_merged; /* over all reporters */
	uint32_t expected,
		ended;	    /* reporters: of a whole epoch; that said that they have sent all */
	uint32_t complete;  /* 1: they all did */
	uint32_t estimated; /* 1: value and error are there */
	double value;	    /* count-min, count-sketch: of the key; HyperLogLog: how many keys */
	double error;	    /* of count-min the bound, else the standard error */
};
/*
 * Sketch-Merge: the merged cells of an epoch, and what they say of a key (NULL: of no key; of a
 * HyperLogLog none is needed). cells: NULL, or where they are to go, rows * slots of
 * sl_store_cell_bytes() each, in cells_bytes (-ENOSPC). There is an estimate if reporters made
 * their cells as docs/sketches.md says. -ENOMEM; -EFBIG: above 64 MiB.
 */
SL_API int sl_query_sketch(const struct sl_store *s, const void *key, size_t key_bytes,
			   const struct sl_query_opts *opts, void *cells, size_t cells_bytes,
			   struct sl_sketch_answer *out);

/* ---- empty ---- */

/*
 * What EMPTY is worth, of key-write and postcard: a key that `reports` others of its epoch came
 * after, is found with probability 1 - (1 - e^-aN)^N, a = reports / slots, N = copies (0: the
 * store's). And the other way round: so many may have come after it, that it is found with this
 * probability (above 0, below 1) all the same. NaN and 0 for other kinds.
 */
SL_API double sl_query_within(const struct sl_store *s, uint32_t copies, uint64_t reports);
SL_API uint64_t sl_query_reach(const struct sl_store *s, uint32_t copies, double probability);

/* ---- append: readers ---- */

/* A reader of one list, as one translator (lane) wrote it. Not to be changed but by the functions
 * below. */
struct sl_append_reader {
	uint32_t list, lane;
	uint64_t block; /* the next one: may be kept, and set after sl_append_begin() to go on there
			 */
	uint64_t items; /* read */
	uint64_t overrun; /* blocks that were overwritten before they were read */
	uint64_t torn;	  /* looks at a block that was being written */
	uint64_t reserved[3];
};

enum sl_append_from {
	SL_APPEND_OLDEST = 0, /* what the ring still has */
	SL_APPEND_NEWEST,     /* what comes from now on */
};
/* 0; -EINVAL: no such list or lane. Looks through the whole ring for where it ends. */
SL_API int sl_append_begin(const struct sl_store *s, struct sl_append_reader *r, uint32_t list,
			   uint32_t lane, enum sl_append_from from);
/*
 * The next items, oldest first, in whole blocks, each once: max is at least the store's batch
 * (-EINVAL). items: room for max of value_bytes. Returns their number; 0: none came within
 * timeout_ns (0: looks once; ~0: waits for ever); -EOVERFLOW: the writer has gone round: overrun is
 * higher by what was lost, and the next call goes on with the oldest there is. A write wakes
 * nobody: waiting is looking, 5 ms apart at most.
 */
SL_API int sl_query_append(const struct sl_store *s, struct sl_append_reader *r, void *items,
			   uint32_t max, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
