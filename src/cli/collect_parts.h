/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_parts.h - the optional parts of 'sidelight collect'. The command does not know them by
 * name: meson lists those in this build, and each has a file collect_NAME.c.
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

/* Options of the command and its parts. */
struct cli_collect_settings {
	struct base_strings agents;
	const char *mode, *cpus, *realtime, *csv, *dta, *secret, *ephemeral, *kafka, *kafka_offsets,
		*kafka_flows, *ipfix;
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

/*
 * A collector, from its creation to its end. A NULL member means not requested, or not in this
 * build.
 */
struct cli_collect_run {
	struct cli_collect_settings *set;
	struct collect_collector *c;
	struct collect_past *past;
	struct collect_discover *discover;
	struct cli_collect_server server;
	struct collect_receivers receivers;
	int reload; /* signalfd of SIGHUP; -1 means none */
	/* Set by parts: */
	struct collect_live *live;
	struct collect_services *services;
	struct collect_tracer *tracer;
	struct collect_send *send;
	struct dta_store_server *stores;
	struct export_kafka *kafka;
	struct collect_reports *reports;
	const char *dta_address; /* for the ready line */
	/* Called for each anomaly that began or ended, as in collect_live_listen(). */
	bool (*on_anomaly)(void *arg, const struct act_anomaly *a);
	void *on_anomaly_arg;
	/* Used by the command only: */
	uint64_t ready; /* 1 + the number of hosts in the last ready line */
	uint64_t alive_ns, alive_at;
};

/*
 * A part. Its functions are called in this order; each may be NULL. Those that return an int return
 * an exit code, after printing an error. A part does nothing unless its options request it.
 */
struct cli_collect_part {
	/* Checks the options and completes the settings. */
	int (*check)(const struct base_command *self, struct cli_collect_settings *s);
	int (*fork)(struct cli_collect_run *r);	  /* called before there are secrets and threads */
	int (*before)(struct cli_collect_run *r); /* called before there is a collector */
	int (*attach)(struct cli_collect_run *r); /* called before the collector starts */
	int (*routes)(struct cli_collect_run *r, struct http *http); /* returns 0 or -errno */
	/* Adds the files that a confined process needs. */
	void (*paths)(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files);
	/*
	 * Start threads that connect to other hosts. With RDMA, this is possible only after the
	 * change of credentials (agent.h). start: before the collector starts; follow: after it.
	 */
	int (*start)(struct cli_collect_run *r);
	int (*follow)(struct cli_collect_run *r);
	/*
	 * Called in reverse order of the parts. stop: before the collector is freed; free: after
	 * it.
	 */
	void (*stop)(struct cli_collect_run *r);
	bool (*free)(struct cli_collect_run *r); /* returns false if something could not be saved */
};

/* NULL-terminated. */
extern const struct cli_collect_part *const cli_collect_parts[];

/* Adds a path that a confined process may use; does nothing if path is NULL. */
void cli_collect_path(struct base_confine_opts *c, const char *path);

#endif
