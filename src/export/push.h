/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.h - bodies that are POSTed to one URL, in order, by a thread of their own: remote write,
 * alerts, spans. Whoever has something to say never waits: a body goes into a bounded queue, and
 * what a receiver that is down, slow or hostile does to the queue is counted. Knows nothing of
 * what is in a body.
 *
 * By answer: 2xx is done; 429, 5xx (or some of them), time-outs and broken connections are tried
 * again with a doubling pause (Retry-After is honoured, up to the longest pause) until a body is
 * too old; any other answer drops the body, as trying again would not change it. Redirects are not
 * followed.
 */
#ifndef SL_EXPORT_PUSH_H
#define SL_EXPORT_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_push;

/*
 * A body was taken (2xx); answer: what the receiver said to that, cut off at EXPORT_PUSH_ANSWER
 * bytes. It is a stranger's. Returns how many of the body's items it left out after all; of these,
 * or as a warning of the receiver's, a line in why. By push's thread, not under its lock.
 */
typedef uint64_t export_push_taken_fn(void *arg, const void *body, size_t bytes, const void *answer,
				      size_t answer_bytes, char *why, size_t why_bytes);
#define EXPORT_PUSH_ANSWER 1024u

struct export_push_opts {
	const char *url;	     /* http:// or https:// */
	const char *name;	     /* of the component in log lines: "remote-write"; a literal */
	const char *content_type;    /* literals */
	const char *const *headers;  /* "Name: value", ended by NULL; NULL: none more */
	size_t max_bytes;	     /* of all bodies that wait; 0: 32 MiB */
	size_t max_bodies;	     /* 0: 4096 */
	uint64_t timeout_ns;	     /* of one try; 0: 10 s */
	uint64_t pause_min_ns;	     /* before the first further try; 0: 100 ms */
	uint64_t pause_max_ns;	     /* 0: 30 s */
	uint64_t max_age_ns;	     /* a body older than this is dropped; 0: 10 minutes */
	bool unavailable_only;	     /* of 5xx only 502, 503 and 504 are tried again */
	export_push_taken_fn *taken; /* NULL: all that is taken is taken whole */
	void *taken_arg;
};

/* Counts of bodies, and of what the caller said is in them. */
struct export_push_stats {
	uint64_t sent, sent_bytes, sent_items;
	uint64_t retries;
	uint64_t dropped_full;	   /* items, as the following: the queue had no room */
	uint64_t dropped_refused;  /* the receiver answered that it will never take it */
	uint64_t dropped_partial;  /* of bodies that it took: export_push_taken_fn */
	uint64_t dropped_old;	   /* max_age_ns */
	uint64_t dropped_stopping; /* left in the queue at the end */
	uint64_t errors_connect;   /* tries: no connection, broken connection */
	uint64_t errors_timeout, errors_status; /* ... 429 and 5xx */
	size_t waiting, waiting_bytes;
	char last_error[160]; /* "" if there was none */
};

/* Copies url. Starts the thread. NULL with errno and one line in error. */
struct export_push *export_push_new(const struct export_push_opts *opts, char *error,
				    size_t error_bytes);

/*
 * Puts body (from malloc(); taken over in any case; NULL: there was no memory) into the queue;
 * items: what it holds, for the counters. 0, or -ENOSPC after it was dropped and counted. Any
 * thread; never waits for the network.
 */
int export_push_send(struct export_push *p, void *body, size_t bytes, uint64_t items);

/* True if the queue is more than half full: whoever can should hold back. Any thread. */
bool export_push_busy(struct export_push *p);

void export_push_stats(struct export_push *p, struct export_push_stats *out);

/* Gives what waits up to linger_ns to go out, then ends the thread. NULL is let pass. */
void export_push_free(struct export_push *p, uint64_t linger_ns);

#endif
