/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the bridges' processes. A supervisor, forked by the agent, starts a worker and starts it
 * again when it ends; the worker reads what others say, and publishes it as any publisher does. It
 * has no privileges, and of the agent only the socket that all publishers use.
 */
#ifndef SL_BRIDGE_RUN_H
#define SL_BRIDGE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRIDGE_SCALE	 3 /* of exponential histograms, by default */
#define BRIDGE_SCALE_MAX 8

struct bridge_opts {
	const char *const *scrapes; /* "URL[,job=NAME][,interval=TIME][,timeout=TIME]" */
	size_t scrape_count;
	uint64_t interval_ns; /* of those that say none */
	const char *textfile; /* a folder; or NULL */
	bool host;	      /* this machine, and its containers */
	uint64_t host_interval_ns;
	const char *const *statsd; /* "HOST:PORT", "unix:/PATH" */
	size_t statsd_count;
	const char *web_config, *roles_file; /* of otlp by TCP: http.h; or NULL */
	bool insecure;
	const char *otlp;   /* "HOST:PORT" or "unix:/PATH"; or NULL */
	uint64_t scale;	    /* of exponential histograms */
	uint64_t expire_ns; /* a StatsD series that is not updated for this long ends */
	const char *socket; /* the agent's */
	bool unconfined;
};

struct bridge_process;

/* True if there is something to bridge. */
bool bridge_wanted(const struct bridge_opts *o);
/* 0, or -EINVAL with one line in error. */
int bridge_check(const struct bridge_opts *o, char *error, size_t bytes);
/*
 * Forks, before threads and secrets: the processes close all other descriptors. The options must
 * stay until the end. NULL with errno.
 */
struct bridge_process *bridge_start(const struct bridge_opts *o);
void bridge_stop(struct bridge_process *b); /* waits for them; NULL is fine */

#endif
