/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.h - POSTs bodies to one URL, in order, from its own thread: remote write, alerts, spans.
 * Callers never wait: bodies go into a bounded queue, and bodies dropped because of a slow, dead or
 * hostile receiver are counted. Independent of what the bodies contain.
 *
 * How answers are handled: 2xx completes a body. After 429, 5xx (or some of them), a timeout or a
 * broken connection, the body is retried with a doubling pause (Retry-After is honoured up to the
 * maximum pause) until it is too old. Any other answer drops the body, because a retry would not
 * help. Redirects are not followed.
 */
#ifndef SL_EXPORT_PUSH_H
#define SL_EXPORT_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_push;

/*
 * Called by push's thread, without its lock, when a body was accepted (2xx). answer: the receiver's
 * untrusted answer, truncated to EXPORT_PUSH_ANSWER bytes. Returns how many of the body's items the
 * receiver rejected; why receives a line about these items, or the receiver's warning.
 */
typedef uint64_t export_push_taken_fn(void *arg, const void *body, size_t bytes, const void *answer,
				      size_t answer_bytes, char *why, size_t why_bytes);
#define EXPORT_PUSH_ANSWER 1024u

/*
 * One attempt to send a body, which hooks may change. A body may be queued in one form and sent in
 * another: make() points `send` at a part of it, or at a buffer that it allocated.
 */
struct export_push_try {
	const void *body, *send; /* body as queued; part to be sent, initially the whole body */
	size_t bytes, send_bytes;
	uint64_t items;
	void *made;		    /* allocated with malloc() and freed by push, or NULL */
	const char *const *replace; /* headers that replace those with the same name, or NULL */
	unsigned int form;	    /* private to the hooks */
	/* private to the hooks: number of items that the receiver should report */
	uint64_t expected;
};

#define EXPORT_PUSH_NUMBERS 3 /* HTTP_FETCH_NUMBERS */

enum export_push_outcome { EXPORT_PUSH_DONE, EXPORT_PUSH_AGAIN, EXPORT_PUSH_NEVER };

/* Called by push's thread, without its lock. */
struct export_push_hooks {
	void *arg;
	const char *numbers[EXPORT_PUSH_NUMBERS]; /* answer headers that contain numbers */
	/* Called before each try. Returns false if this body can't be sent. */
	bool (*make)(void *arg, struct export_push_try *t);
	/*
	 * Called after an answer, with its status and the numbers in its headers (-1 means
	 * missing). Returns what to do, and in *rejected the number of items that the receiver
	 * rejected. EXPORT_PUSH_AGAIN retries immediately, without a pause.
	 */
	enum export_push_outcome (*judge)(void *arg, const struct export_push_try *t, long status,
					  const int64_t number[EXPORT_PUSH_NUMBERS],
					  enum export_push_outcome usual, uint64_t *rejected);
};

struct export_spool;

struct export_push_opts {
	const char *url;	  /* http:// or https:// */
	const char *config;	  /* settings file of http/client.h; NULL means none */
	const char *name;	  /* component in log messages, such as "remote-write"; a literal */
	const char *content_type; /* a literal */
	/* array of "Name: value" literals, terminated by NULL; NULL means none */
	const char *const *headers;
	size_t max_bytes;	     /* maximum total size of queued bodies; 0 means 32 MiB */
	size_t max_bodies;	     /* maximum number of queued bodies; 0 means 4096 */
	uint64_t timeout_ns;	     /* time limit of one try; 0 means 10 s */
	uint64_t pause_min_ns;	     /* pause before the first retry; 0 means 100 ms */
	uint64_t pause_max_ns;	     /* maximum pause; 0 means 30 s */
	uint64_t max_age_ns;	     /* age at which bodies are dropped; 0 means 10 minutes */
	bool unavailable_only;	     /* of the 5xx errors, retry only 502, 503 and 504 */
	export_push_taken_fn *taken; /* if NULL, 2xx means that the whole body was accepted */
	void *taken_arg;
	struct export_push_hooks hooks; /* all zero means no hooks */
	/*
	 * Queue on disk, which push closes even on failure; NULL means a queue in memory. With a
	 * queue on disk, max_bytes, max_bodies and max_age_ns have no effect: when the queue is
	 * full, the oldest bodies are dropped, and bodies left at the end stay for the next
	 * process.
	 */
	struct export_spool *spool;
};

/* Counts of bodies, and of their items as stated by the caller. */
struct export_push_stats {
	uint64_t sent, sent_bytes, sent_items;
	uint64_t retries;
	/* items dropped because the queue was full; the following fields also count items */
	uint64_t dropped_full;
	uint64_t dropped_refused; /* items permanently refused by the receiver */
	/* items rejected from bodies that were otherwise accepted: export_push_taken_fn */
	uint64_t dropped_partial;
	uint64_t dropped_old;	   /* items in bodies older than max_age_ns */
	uint64_t dropped_stopping; /* items left in the queue at the end */
	uint64_t dropped_corrupt;  /* items damaged on disk */
	uint64_t errors_connect;   /* tries without a connection, or whose connection broke */
	uint64_t errors_timeout, errors_status; /* errors_status: answers 429 and 5xx */
	uint64_t errors_secret; /* tries that failed because a secret could not be read */
	uint64_t waiting, waiting_bytes;
	char last_error[160]; /* "" if there is none */
};

/* Copies url and starts the thread. Returns NULL with errno and one line in error. */
struct export_push *export_push_new(const struct export_push_opts *opts, char *error,
				    size_t error_bytes);

/*
 * Queues a body allocated with malloc(), or NULL if the caller was out of memory; always takes
 * ownership. items: number of items, for the counters. Returns 0, or -ENOSPC after dropping and
 * counting the body. Any thread may call it; never waits for the network.
 */
int export_push_send(struct export_push *p, void *body, size_t bytes, uint64_t items);

/*
 * Whether the queue is more than half full, in which case callers should hold back if they can.
 * Always false for a queue on disk. Any thread may call it.
 */
bool export_push_busy(struct export_push *p);

void export_push_stats(struct export_push *p, struct export_push_stats *out);
/* Adds the numbers of `s` to those of `sum`, and takes its last_error if `sum` has none. */
void export_push_add(struct export_push_stats *sum, const struct export_push_stats *s);

/* Waits up to linger_ns until the queue is sent, then stops the thread. NULL is ignored. */
void export_push_free(struct export_push *p, uint64_t linger_ns);

#endif
