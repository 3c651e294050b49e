/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.h - POSTs bodies to one URL, in order, from a thread of its own: remote write, alerts,
 * spans. Callers never wait: bodies go into a bounded queue, and what it drops for a slow, dead or
 * hostile receiver is counted. Knows nothing of the bodies' contents.
 *
 * By answer: 2xx is done; 429, 5xx (or some of them), time-outs and broken connections are retried
 * with a doubling pause (Retry-After is honoured up to the longest pause) until a body is too old;
 * any other answer drops the body, as a retry would not change it. Redirects are not followed.
 */
#ifndef SL_EXPORT_PUSH_H
#define SL_EXPORT_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_push;

/*
 * Called when a body was taken (2xx), by push's thread, not under its lock. answer: the receiver's
 * answer, untrusted, cut off at EXPORT_PUSH_ANSWER bytes. Returns how many of the body's items the
 * receiver rejected; why gets a line about these, or the receiver's warning.
 */
typedef uint64_t export_push_taken_fn(void *arg, const void *body, size_t bytes, const void *answer,
				      size_t answer_bytes, char *why, size_t why_bytes);
#define EXPORT_PUSH_ANSWER 1024u

/*
 * One try, as hooks see and change it. A body may be queued in one form and sent in another: make()
 * points `send` at a part of it, or at what it made.
 */
struct export_push_try {
	const void *body, *send; /* as queued; what is sent, at first all of it */
	size_t bytes, send_bytes;
	uint64_t items;
	void *made;		    /* from malloc(), for push to free; or NULL */
	const char *const *replace; /* headers in place of those of the same name; or NULL */
	unsigned int form;	    /* the hooks' own */
	uint64_t expected;	    /* the hooks' own: what the receiver is to count */
};

#define EXPORT_PUSH_NUMBERS 3

enum export_push_outcome { EXPORT_PUSH_DONE, EXPORT_PUSH_AGAIN, EXPORT_PUSH_NEVER };

/* Called by push's thread, not under its lock. */
struct export_push_hooks {
	void *arg;
	const char *numbers[EXPORT_PUSH_NUMBERS]; /* headers of an answer that hold numbers */
	/* Before each try. False: this body cannot be sent. */
	bool (*make)(void *arg, struct export_push_try *t);
	/*
	 * After an answer: its status, and what it says of numbers (-1: nothing). Returns what to
	 * do, and at *rejected the items that the receiver did not take. EXPORT_PUSH_AGAIN is at
	 * once, without a pause.
	 */
	enum export_push_outcome (*judge)(void *arg, const struct export_push_try *t, long status,
					  const int64_t number[EXPORT_PUSH_NUMBERS],
					  enum export_push_outcome usual, uint64_t *rejected);
};

struct export_spool;

struct export_push_opts {
	const char *url;	     /* http:// or https:// */
	const char *config;	     /* file of http/client.h; NULL: none */
	const char *name;	     /* component in log lines, as "remote-write"; a literal */
	const char *content_type;    /* literals */
	const char *const *headers;  /* "Name: value", ended by NULL; NULL: none */
	size_t max_bytes;	     /* of all queued bodies; 0: 32 MiB */
	size_t max_bodies;	     /* 0: 4096 */
	uint64_t timeout_ns;	     /* of one try; 0: 10 s */
	uint64_t pause_min_ns;	     /* before the first retry; 0: 100 ms */
	uint64_t pause_max_ns;	     /* 0: 30 s */
	uint64_t max_age_ns;	     /* older bodies are dropped; 0: 10 minutes */
	bool unavailable_only;	     /* of 5xx retry only 502, 503 and 504 */
	export_push_taken_fn *taken; /* NULL: every 2xx takes the whole body */
	void *taken_arg;
	struct export_push_hooks hooks; /* zero: none */
	/*
	 * The queue, which push closes in any case; NULL: in memory. Of one on disk max_bytes,
	 * max_bodies and max_age_ns do not count: the oldest leave when it is full, and what waits
	 * at the end waits for the next process.
	 */
	struct export_spool *spool;
};

/* Counts of bodies, and of items as given by the caller. */
struct export_push_stats {
	uint64_t sent, sent_bytes, sent_items;
	uint64_t retries;
	uint64_t dropped_full;	   /* items, as the following: the queue was full */
	uint64_t dropped_refused;  /* refused by the receiver for good */
	uint64_t dropped_partial;  /* rejected from bodies that it took: export_push_taken_fn */
	uint64_t dropped_old;	   /* max_age_ns */
	uint64_t dropped_stopping; /* left in the queue at the end */
	uint64_t dropped_corrupt;  /* damaged on disk */
	uint64_t errors_connect;   /* tries: no connection, broken connection */
	uint64_t errors_timeout, errors_status; /* errors_status: 429 and 5xx */
	uint64_t errors_secret;			/* a secret could not be read */
	size_t waiting, waiting_bytes;
	char last_error[160]; /* "" if none */
};

/* Copies url and starts the thread. NULL with errno and one line in error. */
struct export_push *export_push_new(const struct export_push_opts *opts, char *error,
				    size_t error_bytes);

/*
 * Queues body (from malloc(); taken over in any case; NULL: the caller was out of memory) with
 * `items` for the counters. 0, or -ENOSPC after dropping and counting it. Any thread; never waits
 * for the network.
 */
int export_push_send(struct export_push *p, void *body, size_t bytes, uint64_t items);

/*
 * True if the queue is more than half full: callers that can should hold back. A queue on disk
 * takes what comes. Any thread.
 */
bool export_push_busy(struct export_push *p);

void export_push_stats(struct export_push *p, struct export_push_stats *out);

/* Gives the queue up to linger_ns to be sent, then ends the thread. Accepts NULL. */
void export_push_free(struct export_push *p, uint64_t linger_ns);

#endif
