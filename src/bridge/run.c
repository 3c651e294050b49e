// SPDX-License-Identifier: Apache-2.0
/* run.c - the worker. It exits with the agent, or when the agent closes its socket. */
#include "bridge/run.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/child.h"
#include "base/confine.h"
#include "bridge/source.h"
#include "bridge/statsd.h"
#include "http/files.h"
#include "http/http.h"

#define LOG	       "bridge"
#define SECOND_NS      1000000000ull
#define PREDECESSOR_NS (2 * SECOND_NS)
/* Each scrape needs a publisher, and the other sources need up to five. */
#define SCRAPES_MAX (SL_PUBLISHER_SLOTS - 5u)
#define SOURCES	    4 /* --textfile, --host, --statsd and --otlp */

/* ---- options ---- */

int bridge_check(const struct bridge_opts *o, char *error, size_t bytes)
{
	struct bridge_scrape_opts s;

	if (o->scrapes.n > SCRAPES_MAX)
		return base_fail(error, bytes, -EINVAL, "--scrape is given more than %u times",
				 SCRAPES_MAX);
	for (size_t i = 0; i < o->scrapes.n; i++) {
		int err = bridge_scrape_parse(o->scrapes.v[i], o->interval_ns, &s, error, bytes);

		if (err)
			return err;
		err = bridge_scrape_check(&s, error, bytes);
		bridge_scrape_release(&s);
		if (err)
			return err;
	}
	for (size_t i = 0; i < o->statsd.n; i++)
		if (bridge_statsd_check(o->statsd.v[i], error, bytes))
			return -EINVAL;
	if (o->dialect && strcmp(o->dialect, "statsd") && strcmp(o->dialect, BRIDGE_DOGSTATSD))
		return base_fail(error, bytes, -EINVAL,
				 "--statsd-dialect is statsd or dogstatsd, not '%s'", o->dialect);
	if (o->mapping) {
		struct bridge_statsd_map *map = bridge_statsd_map_open(o->mapping, error, bytes);

		bridge_statsd_map_free(map);
		if (!map)
			return -EINVAL;
	}
	return o->otlp ? bridge_otlp_check(o, error, bytes) : 0;
}

/* ---- the worker ---- */

bool bridge_sleep(const struct bridge_worker *w, uint64_t until_ns)
{
	struct pollfd p = {w->stop_fd, POLLIN, 0};

	for (;;) {
		uint64_t now = base_now_ns();
		struct timespec left = {0};

		if (now < until_ns)
			left = (struct timespec){(time_t)((until_ns - now) / SECOND_NS),
						 (long)((until_ns - now) % SECOND_NS)};
		if (ppoll(&p, 1, &left, NULL) > 0)
			return false;
		if (base_now_ns() >= until_ns)
			return true;
	}
}

bool bridge_stopping(const struct bridge_worker *w)
{
	struct pollfd p = {w->stop_fd, POLLIN, 0};

	return poll(&p, 1, 0) > 0;
}

struct sl_counter bridge_counter(const struct bridge_worker *w, const char *name, const char *help,
				 const struct sl_label *labels, size_t n)
{
	return sl_counter_create(w->own, &SL_OPTS(sl_metric_opts, .name = name, .help = help,
						  .labels = labels, .label_count = n));
}

/* A source and its thread. */
struct part {
	pthread_t thread;
	bool started;
	const struct bridge_worker *w;
	void (*run)(const struct bridge_worker *w); /* NULL: scrapes a target */
	struct bridge_scrape_opts scrape;
};

static void *part_main(void *arg)
{
	struct part *p = arg;

	if (p->run)
		p->run(p->w);
	else
		bridge_scrape_run(p->w, &p->scrape);
	return NULL;
}

static void start_thread(struct part *p, const struct bridge_worker *w,
			 void (*run)(const struct bridge_worker *w))
{
	int err;

	p->w = w;
	p->run = run;
	err = pthread_create(&p->thread, NULL, part_main, p);
	p->started = !err;
	if (err)
		base_logf(BASE_ERROR, LOG, "cannot start a bridge thread error=%s", strerror(err));
}

static int drop_privileges(const struct bridge_opts *o, const struct part *scrapes)
{
	struct base_confine_opts c = {
		.role = BASE_ROLE_BRIDGE, .read = o->textfile, .single = !o->otlp};
	struct http_files files = {0};
	char why[256];
	int err;

	http_web_files(&files, o->web_config, o->roles_file);
	for (size_t i = 0; i < o->scrapes.n; i++)
		http_client_files(&files, scrapes[i].scrape.config);
	if (!o->unconfined)
		http_files_allow(&files, &c);
	err = o->unconfined ? 0 : base_confine(&c, why, sizeof(why));
	http_files_free(&files);
	if (err)
		base_logf(BASE_ERROR, LOG, "%s", why);
	return err;
}

/*
 * Waits before the next attempt to listen, because the child processes of a killed bridge process
 * may keep its sockets open for a moment. Returns false once until_ns has passed.
 */
static bool may_try_again(uint64_t until_ns)
{
	return base_now_ns() < until_ns && !usleep(20000);
}

/*
 * Reads the file of --statsd-mapping. If the file has become invalid since the agent started,
 * StatsD is not served, because series would get other names without the file's rules.
 */
static bool read_mapping(struct bridge_worker *w)
{
	char error[256];

	if (!w->o->mapping)
		return true;
	w->map = bridge_statsd_map_open(w->o->mapping, error, sizeof(error));
	if (!w->map)
		base_logf(BASE_ERROR, LOG,
			  "StatsD is not served: correct the file and restart the agent "
			  "error=%s",
			  error);
	return w->map;
}

/* Logs the sockets that can't be opened and serves the others. */
static void listen_all(struct bridge_worker *w, int *fds, struct http_front *front)
{
	const struct bridge_opts *o = w->o;
	const bool serves_statsd = read_mapping(w);
	const uint64_t until_ns = base_now_ns() + PREDECESSOR_NS;
	char error[256];

	for (size_t i = 0; i < o->statsd.n && serves_statsd; i++) {
		int fd;

		do
			fd = bridge_statsd_listen(o->statsd.v[i], error, sizeof(error));
		while (fd < 0 && may_try_again(until_ns));
		if (fd < 0)
			base_logf(BASE_ERROR, LOG, "%s", error);
		else
			fds[w->statsd_count++] = fd;
	}
	w->statsd = fds;
	if (front)
		do
			w->otlp = bridge_otlp_listen(o, front, error, sizeof(error));
		while (!w->otlp && may_try_again(until_ns));
	if (o->otlp && !w->otlp)
		base_logf(BASE_ERROR, LOG, "%s",
			  front ? error : "--otlp: cannot start its process");
}

/*
 * Waits until the worker must stop, and meanwhile replaces helper processes of the OTLP server.
 * Returns an exit code.
 */
static int stay(const struct bridge_worker *w, bool serves)
{
	const char *name[2];
	struct sl_counter restarts[2];
	uint64_t n, counted[2] = {0};

	for (size_t i = 0; i < 2 && base_children_restarts(i, &name[i], &n); i++)
		restarts[i] =
			bridge_counter(w, "sidelight_bridge_helper_restarts_total",
				       "Helper processes restarted after they exited, by helper",
				       &(struct sl_label){"helper", name[i]}, 1);
	while (bridge_sleep(w, serves ? base_now_ns() + SECOND_NS : UINT64_MAX) &&
	       !base_children_failed()) {
		base_children_check();
		for (size_t i = 0; i < 2 && base_children_restarts(i, &name[i], &n); i++) {
			sl_counter_add(restarts[i], n - counted[i]);
			counted[i] = n;
		}
	}
	return base_children_failed() ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

int bridge_run(const struct bridge_opts *o, int sock)
{
	const size_t scrapes = o->scrapes.n;
	struct bridge_worker w = {.o = o, .stop_fd = sock};
	struct part *parts = calloc(scrapes + SOURCES, sizeof(*parts)), *next = parts + scrapes;
	int *fds = calloc(o->statsd.n + 1, sizeof(*fds));
	/* Fork first, so that the HTTP processes inherit nothing that they should not have. */
	struct http_front *front = o->otlp ? http_front_fork(o->unconfined) : NULL;
	char error[256];
	int code;

	if (!parts || !fds || curl_global_init(CURL_GLOBAL_DEFAULT))
		return 1;
	for (size_t i = 0; i < scrapes; i++)
		if (bridge_scrape_parse(o->scrapes.v[i], o->interval_ns, &parts[i].scrape, error,
					sizeof(error)))
			base_logf(BASE_ERROR, LOG, "%s", error);
	listen_all(&w, fds, front);
	if (drop_privileges(o, parts))
		return 1;
	w.own = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "sidelight-bridge",
					   .socket = o->socket, .max_cells = 1024));
	if (o->mapping)
		sl_counter_add(bridge_counter(&w, "sidelight_bridge_statsd_mapping_errors_total",
					      "Starts without StatsD because --statsd-mapping was "
					      "invalid.",
					      NULL, 0),
			       !w.map);
	for (size_t i = 0; i < scrapes; i++)
		if (parts[i].scrape.url)
			start_thread(&parts[i], &w, NULL);
	if (o->textfile)
		start_thread(next++, &w, bridge_textfile_run);
	if (o->host)
		start_thread(next++, &w, bridge_host_run);
	if (w.statsd_count)
		start_thread(next++, &w, bridge_statsd_run);
	if (w.otlp)
		start_thread(next++, &w, bridge_otlp_run);
	code = stay(&w, w.otlp);
	if (code) /* the process exits without joining its threads */
		return code;
	for (struct part *p = parts; p < next; p++) {
		if (p->started)
			pthread_join(p->thread, NULL);
		bridge_scrape_release(&p->scrape);
	}
	bridge_otlp_close(w.otlp);
	http_front_end(front);
	sl_publisher_close(w.own);
	free(parts);
	bridge_statsd_map_free(w.map);
	free(fds);
	return code;
}
