/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the processes of the program sidelight-bridge. A supervisor, started by the agent, starts
 * a worker and starts it again when it ends; the worker reads what others say, and publishes it as
 * any publisher does. It has no privileges, and of the agent only the socket that all publishers
 * use.
 */
#ifndef SL_BRIDGE_RUN_H
#define SL_BRIDGE_RUN_H

#include "base/base.h"

#define BRIDGE_SCALE	 3 /* of exponential histograms, by default */
#define BRIDGE_SCALE_MAX 8

struct bridge_opts {
	struct base_strings scrapes; /* "URL[,job=NAME][,interval=TIME][,timeout=TIME]" */
	uint64_t interval_ns;	     /* of those that say none */
	const char *textfile;	     /* a folder; or NULL */
	bool host;		     /* this machine, and its containers */
	uint64_t host_interval_ns;
	struct base_strings statsd;	     /* "HOST:PORT", "unix:/PATH" */
	const char *web_config, *roles_file; /* of otlp by TCP: http.h; or NULL */
	bool insecure;
	const char *otlp;   /* "HOST:PORT" or "unix:/PATH"; or NULL */
	uint64_t scale;	    /* of exponential histograms */
	uint64_t expire_ns; /* a StatsD series that is not updated for this long ends */
	const char *socket; /* the agent's */
	bool unconfined;
};

/* 0, or -EINVAL with one line in error. */
int bridge_check(const struct bridge_opts *o, char *error, size_t bytes);
/* The supervisor: runs until the other end of the socket is closed. */
void bridge_supervise(const struct bridge_opts *o, int sock);

#endif
