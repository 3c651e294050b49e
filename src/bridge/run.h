/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the processes of the bridges. The agent forks a supervisor, which starts a worker and
 * restarts it when it ends. The worker reads data of other programs and publishes it like any
 * publisher. It has no privileges, and its only access to the agent is the publishers' socket.
 */
#ifndef SL_BRIDGE_RUN_H
#define SL_BRIDGE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRIDGE_SCALE	 3 /* default scale of exponential histograms */
#define BRIDGE_SCALE_MAX 8

struct bridge_opts {
	/* targets to scrape: "URL[,job=NAME][,interval=TIME][,timeout=TIME]" */
	const char *const *scrapes;
	size_t scrape_count;
	uint64_t interval_ns; /* default interval of scrapes */
	const char *textfile; /* directory of *.prom files, or NULL */
	bool host;	      /* publish metrics of this machine and its containers */
	uint64_t host_interval_ns;
	const char *const *statsd; /* addresses to listen on: "HOST:PORT", "unix:/PATH" */
	size_t statsd_count;
	const char *web_config, *roles_file; /* access to otlp by TCP, see http.h; or NULL */
	bool insecure;
	const char *otlp;   /* address to listen on, "HOST:PORT" or "unix:/PATH"; or NULL */
	uint64_t scale;	    /* scale of exponential histograms */
	uint64_t expire_ns; /* age at which a StatsD series that is not updated ends */
	const char *socket; /* path of the agent's socket */
	bool unconfined;
};

struct bridge_process;

/* True if any bridge is configured. */
bool bridge_wanted(const struct bridge_opts *o);
/* Checks the options. Returns 0, or -EINVAL with one line in error. */
int bridge_check(const struct bridge_opts *o, char *error, size_t bytes);
/*
 * Forks the processes. Call it before creating threads or loading secrets; the processes close all
 * other descriptors. o must stay valid until bridge_stop(). Returns NULL with errno.
 */
struct bridge_process *bridge_start(const struct bridge_opts *o);
void bridge_stop(struct bridge_process *b); /* waits for the processes to end; NULL is fine */

#endif
