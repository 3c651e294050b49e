/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the processes of the program sidelight-bridge. The agent starts a supervisor, which
 * starts a worker and restarts it when it exits. The worker reads data from other programs and
 * publishes it like any publisher. It has no privileges, and its only access to the agent is the
 * publishers' socket.
 */
#ifndef SL_BRIDGE_RUN_H
#define SL_BRIDGE_RUN_H

#include "base/base.h"

#define BRIDGE_SCALE	 3 /* default scale of exponential histograms */
#define BRIDGE_SCALE_MAX 8

#define BRIDGE_DOGSTATSD "dogstatsd"

struct bridge_opts {
	/* targets to scrape: "URL[,job=NAME][,interval=TIME][,timeout=TIME]" */
	struct base_strings scrapes;
	uint64_t interval_ns; /* default interval of scrapes */
	const char *textfile; /* directory of *.prom files, or NULL */
	bool host;	      /* publish metrics of this machine and its containers */
	uint64_t host_interval_ns;
	/* addresses to listen on: "[tcp:]HOST:PORT", "unix:/PATH", "unix-stream:/PATH" */
	struct base_strings statsd;
	const char *dialect; /* StatsD dialect: "statsd" or BRIDGE_DOGSTATSD; NULL means "statsd" */
	const char *mapping; /* file with mapping rules for StatsD, or NULL */
	const char *web_config, *roles_file; /* access to OTLP over TCP, see http.h; or NULL */
	bool insecure;
	const char *otlp; /* address to listen on, "HOST:PORT" or "unix:/PATH"; or NULL */
	/* keys of resource attributes that become labels, separated by ","; or NULL */
	const char *otlp_labels;
	bool otlp_utf8;	    /* keep OTLP names unchanged */
	uint64_t scale;	    /* scale of exponential histograms */
	uint64_t expire_ns; /* time after which a StatsD series that is not updated is removed */
	const char *socket; /* path of the agent's socket */
	bool unconfined;
	bool restarted; /* the agent checked the options when it started the first worker */
};

/* Checks the options and the files. Returns 0, or -EINVAL with one line in error. */
int bridge_check(const struct bridge_opts *o, char *error, size_t bytes);
/* Runs the bridges until the agent closes its end of the socket. Returns an exit code. */
int bridge_run(const struct bridge_opts *o, int sock);

#endif
