/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_parts.h - how parts of 'sidelight collect' take part in it. The command knows no part:
 * meson makes the list of those in this build, and each has a file collect_NAME.c.
 */
#ifndef SL_CLI_COLLECT_PARTS_H
#define SL_CLI_COLLECT_PARTS_H

#include "base/base.h"
#include "base/confine.h"
#include "cli/collect_discover.h"
#include "cli/collect_remote.h"
#include "cli/collect_serve.h"
#include "cli/common/common.h"
#include "collect/judge/live.h"
#include "collect/read/collect.h"
#include "collect/read/receivers.h"
#include "collect/send/send.h"
#include "collect/tables/tables.h"
#include "collect/trace/trace.h"
#include "http/files.h"

/* The options. */
struct cli_collect_settings {
	struct base_strings agents;
	const char *mode, *cpus, *realtime, *csv, *dta, *secret, *ephemeral, *kafka, *kafka_offsets;
	uint64_t duration_ns, store_bytes;
	struct cli_collect_http h;
	bool as_json, unconfined, analyse;
	bool serves; /* true for --mode prometheus */
	struct collect_collector_opts c;
	struct collect_tables_opts tables;
	struct collect_live_opts l;
	struct collect_send_opts send;
	struct cli_collect_remote remote;
	struct cli_collect_discover discover;
	struct collect_tracer_opts t;
};

/* A collector that is being made or runs. NULL: not requested, or not in this build. */
struct cli_collect_run {
	struct cli_collect_settings *set;
	struct collect_collector *c;
	struct collect_past *past;
	struct collect_discover *discover;
	struct cli_collect_server server;
	struct collect_receivers receivers;
	int reload; /* descriptor of SIGHUP; -1: none */
	/* Set by parts. */
	struct collect_live *live;
	struct collect_services *services;
	struct collect_tracer *tracer;
	struct collect_send *send;
	struct dta_store_server *stores;
	struct export_kafka *kafka;
	struct collect_reports *reports;
	const char *dta_address; /* shown when ready */
	/* Called for each anomaly that began or ended, as in collect_live_listen(). */
	bool (*on_anomaly)(void *arg, const struct act_anomaly *a);
	void *on_anomaly_arg;
	/* Of the command. */
	uint64_t ready; /* 1 + the number of hosts in the last ready line */
	uint64_t alive_ns, alive_at;
};

/*
 * A part, in the order of calls; each function may be NULL. Functions that return an int return an
 * exit code after printing an error. A part does nothing unless its options ask for it.
 */
struct cli_collect_part {
	/* Checks the options and completes the settings. */
	int (*check)(const struct base_command *self, struct cli_collect_settings *s);
	int (*fork)(struct cli_collect_run *r);	  /* before there are secrets and threads */
	int (*before)(struct cli_collect_run *r); /* before there is a collector */
	int (*attach)(struct cli_collect_run *r); /* before the collector starts */
	int (*routes)(struct cli_collect_run *r, struct http *http); /* 0 or -errno */
	/* Adds the files that a confined process needs. */
	void (*paths)(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files);
	/*
	 * These start threads, which connect to other hosts: with RDMA, only after the change of
	 * credentials (agent.h). start: before the collector starts; follow: after it.
	 */
	int (*start)(struct cli_collect_run *r);
	int (*follow)(struct cli_collect_run *r);
	/* In reverse order of the list. stop: before the collector is freed; free: after it. */
	void (*stop)(struct cli_collect_run *r);
	bool (*free)(struct cli_collect_run *r); /* false: something could not be saved */
};

/* Ends with NULL. */
extern const struct cli_collect_part *const cli_collect_parts[];

/* Adds a path that a confined process may use; does nothing if path is NULL. */
void cli_collect_path(struct base_confine_opts *c, const char *path);

#endif
