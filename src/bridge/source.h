/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - the worker's sources, each of which has its own thread, and the worker's counters,
 * which are published as service "sidelight-bridge".
 */
#ifndef SL_BRIDGE_SOURCE_H
#define SL_BRIDGE_SOURCE_H

#include <sidelight/sidelight.h>

#include "bridge/publish.h"
#include "bridge/run.h"

struct bridge_worker {
	const struct bridge_opts *o;
	struct sl_publisher *own; /* publishes the bridges' own counters */
	int stop_fd;		  /* readable when the worker must stop */
	const int *statsd;	  /* sockets of --statsd */
	size_t statsd_count;
	struct bridge_statsd_map *map;	 /* of --statsd-mapping, or NULL */
	struct bridge_otlp_server *otlp; /* NULL: OTLP is not served */
};

/* Waits until until_ns, a time of base_now_ns(). Returns false if the worker must stop. */
bool bridge_sleep(const struct bridge_worker *w, uint64_t until_ns);
bool bridge_stopping(const struct bridge_worker *w);

/* Returns a counter for the bridges, with these labels. */
struct sl_counter bridge_counter(const struct bridge_worker *w, const char *name, const char *help,
				 const struct sl_label *labels, size_t n);

/* ---- scrape.c ---- */

struct bridge_scrape_opts {
	char *url, *instance;	  /* these two own the memory of all strings */
	const char *job, *config; /* config: settings file of http/client.h, or NULL */
	uint64_t interval_ns, timeout_ns;
	bool native; /* request protobuf, which can transport native histograms */
};
/* Returns 0, or -EINVAL with one line in error. */
int bridge_scrape_parse(const char *text, uint64_t interval_ns, struct bridge_scrape_opts *out,
			char *error, size_t bytes);
/* Reads the settings file. Returns 0, or -EINVAL with one line in error. */
int bridge_scrape_check(const struct bridge_scrape_opts *s, char *error, size_t bytes);
void bridge_scrape_release(struct bridge_scrape_opts *s);
/* Runs until the worker stops. */
void bridge_scrape_run(const struct bridge_worker *w, const struct bridge_scrape_opts *s);

/* ---- textfile.c ---- */

void bridge_textfile_run(const struct bridge_worker *w);

/* ---- host.c ---- */

void bridge_host_run(const struct bridge_worker *w);

/* ---- statsd_serve.c ---- */

/* Returns a descriptor, or -errno with one line in error. */
int bridge_statsd_listen(const char *at, char *error, size_t bytes);
int bridge_statsd_check(const char *at, char *error, size_t bytes);
void bridge_statsd_run(const struct bridge_worker *w);

/* ---- otlp_serve.c ---- */

struct http_front;

int bridge_otlp_check(const struct bridge_opts *o, char *error, size_t bytes);
/*
 * Listens, and answers 503 until bridge_otlp_run() is called. Returns NULL with one line in error.
 */
struct bridge_otlp_server *bridge_otlp_listen(const struct bridge_opts *opts,
					      struct http_front *front, char *error, size_t bytes);
void bridge_otlp_run(const struct bridge_worker *w);
void bridge_otlp_close(struct bridge_otlp_server *o); /* NULL is ignored */

#endif
