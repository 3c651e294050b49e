/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - the interface between the files of 'sidelight collect': its settings, its optional
 * parts, its HTTP server and its other outputs.
 */
#ifndef SL_CLI_COLLECT_H
#define SL_CLI_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "base/base.h"
#include "base/confine.h"
#include "cli/common/common.h"
#include "collect/discover/discover.h"
#include "collect/judge/live.h"
#include "collect/read/collect.h"
#include "collect/read/receivers.h"
#include "collect/send/send.h"
#include "collect/tables/tables.h"
#include "collect/trace/trace.h"
#include "export/remote_write.h"
#include "export/serve.h"
#include "export/spool.h"
#include "http/files.h"
#include "http/http.h"

struct collect_publish;

/* A running server. */
struct cli_collect_server {
	struct http *http;
	char *token_path;	     /* file with the token for this user; NULL means none */
	struct export_source source; /* data source of /metrics */
	uint64_t refused[HTTP_REFUSALS];
};

/* Remote write. The N-th of urls, configs, queues and relabels belong together. */
struct cli_collect_remote {
	const char *protocol;
	struct base_strings urls, configs, queues, relabels, labels;
	struct collect_send_opts receiver[COLLECT_SEND_MAX];   /* made from the options above */
	struct region_text_label label[COLLECT_SENDER_LABELS]; /* parsed labels */
	uint64_t queue_bytes;
};

/* Options of the command and its parts. */
struct cli_collect_settings {
	struct base_strings agents, publish;
	const char *mode, *cpus, *realtime, *csv, *dta, *secret, *ephemeral, *kafka, *kafka_offsets,
		*kafka_flows, *ipfix, *publish_socket;
	uint64_t duration_ns, store_bytes;
	struct http_opts h;
	struct base_strings allow_hosts;
	bool as_json, unconfined, analyse;
	bool serves; /* true for --mode prometheus */
	struct collect_collector_opts c;
	struct collect_tables_opts tables;
	struct collect_live_opts l;
	struct collect_send_opts send;
	struct cli_collect_remote remote;
	struct collect_discover_opts discover;
	unsigned int max_hosts;
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
	struct cli_collect_server server;
	struct collect_receivers receivers;
	int reload; /* signalfd of SIGHUP; -1 means none */
	/* Set by parts: */
	struct collect_discover *discover;
	struct collect_live *live;
	struct collect_services *services;
	struct collect_tracer *tracer;
	struct collect_send *send;
	struct dta_store_server *stores;
	struct export_kafka *kafka;
	struct collect_reports *reports;
	struct collect_publish *publish;
	const char *dta_address; /* for the ready line */
	/* Called for each anomaly that began or ended, as in collect_live_listen(). */
	bool (*on_anomaly)(void *arg, const struct act_anomaly *a);
	void *on_anomaly_arg;
	bool unsaved; /* something that was learned or measured could not be saved */
	/* Used by the command only: */
	uint64_t ready; /* 1 + the number of hosts in the last ready line */
	uint64_t alive_ns, alive_at;
};

/*
 * An optional part. The command does not know the parts by name: meson lists those in this build,
 * and each has a file collect_NAME.c. Its functions are called in this order; each may be NULL.
 * Those that return an int return an exit code, after printing an error; attach, start and follow
 * may return -errno instead, which the command reports. A part does nothing unless its options
 * request it.
 */
struct cli_collect_part {
	/* Checks the options and completes the settings. */
	int (*check)(const struct base_command *self, struct cli_collect_settings *s);
	int (*fork)(struct cli_collect_run *r);	  /* called before secrets and threads exist */
	int (*before)(struct cli_collect_run *r); /* called before the collector is created */
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
	void (*free)(struct cli_collect_run *r); /* may set unsaved */
};

/* NULL-terminated. */
extern const struct cli_collect_part *const cli_collect_parts[];

/* Adds a path that a confined process may use; does nothing if path is NULL. */
void cli_collect_path(struct base_confine_opts *c, const char *path);

/* ---- collect_serve.c ---- */

/* Returns BASE_EXIT_OK, or an exit code after printing an error. */
int cli_collect_http_check(const struct base_command *self, const struct http_opts *o);
/* Starts r->server. Returns false after printing an error. */
bool cli_collect_serve(struct cli_collect_run *r);
void cli_collect_serve_end(struct cli_collect_server *s);

/* ---- collect_modes.c: output besides HTTP: rates, CSV, hosts and regions ---- */

#define COLLECT_SETUP_NS    10000000000u /* time for hosts to connect */
#define COLLECT_WORKERS_MAX 1024u

/*
 * Waits until the collector has tried to read all hosts or, with all_up, until all hosts are up,
 * but not longer than until end_ns. If that takes long, logs the hosts that are not up. Returns
 * false if stop became readable.
 */
bool cli_collect_wait(struct collect_collector *c, int stop, uint64_t end_ns, bool all_up);

/*
 * The next two functions run until stop is readable or --duration is over, and return an exit code.
 */

/* Prints hosts and regions when all hosts are up, or those found by the end. */
int cli_collect_setup(struct cli_collect_run *r, int stop);
/*
 * Calls every_second(), prints rates every second unless the mode is prometheus, and writes the
 * CSV.
 */
int cli_collect_until(struct cli_collect_run *r, int stop,
		      void (*every_second)(struct cli_collect_run *r));

#endif
