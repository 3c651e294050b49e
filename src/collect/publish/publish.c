// SPDX-License-Identifier: Apache-2.0
/*
 * publish.c - the thread that publishes series, the publisher of libsidelight, and the collector's
 * own series about it
 */
#include "collect/publish/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "collect/publish/internal.h"
#include "collect/read/self.h"

#define CELLS			 4096u /* of the first region; the library adds regions as needed */
#define RECORD_BYTES		 512u  /* of a record with the labels of a pod */
#define SHARE			 4u    /* publishing takes at most 1/SHARE of a CPU */
#define PERIOD_MIN_NS		 10000000u

#define OF_PUBLISH(label, field) OF(label, ATTACHED, collect_publish, field)

static const struct collect_self_family publish_families[] = {
	{"sidelight_publish_left_out", GAUGE, "",
	 "Selected series that --publish does not publish, by cause.",
	 BY_LABEL("cause", OF_PUBLISH("selector", left_out[COLLECT_PUBLISH_SELECTOR]),
		  OF_PUBLISH("type", left_out[COLLECT_PUBLISH_TYPE]),
		  OF_PUBLISH("labels", left_out[COLLECT_PUBLISH_LABELS]),
		  OF_PUBLISH("regex", left_out[COLLECT_PUBLISH_REGEX]),
		  OF_PUBLISH("own", left_out[COLLECT_PUBLISH_OWN]),
		  OF_PUBLISH("room", left_out[COLLECT_PUBLISH_ROOM]),
		  OF_PUBLISH("agent", left_out[COLLECT_PUBLISH_AGENT]))},
	{"sidelight_publish_passes", COUNTER, "", "Times that all series were published.",
	 SINGLE(OF_PUBLISH(NULL, passes))},
	{"sidelight_publish_seconds", COUNTER, "seconds", "Time spent on publishing series.",
	 SINGLE(OF_PUBLISH(NULL, spent_ns))},
	{"sidelight_publish_series", GAUGE, "", "Series published by --publish.",
	 SINGLE(OF_PUBLISH(NULL, published))},
};

static const struct collect_part publish_part = {COLLECT_SELF_FAMILIES(publish)};

/* Ignores times from before the clock was set back. */
static void take_newest(const struct collect_host_view *h, void *arg)
{
	uint64_t *newest = arg;

	if (h->last_read_ns <= base_realtime_ns())
		*newest = BASE_MAX(*newest, h->last_read_ns);
}

static void *publish_main(void *arg)
{
	struct collect_publish *p = arg;
	uint64_t pause, spent, start, newest;
	int err;

	do {
		start = base_now_ns();
		newest = 0;
		/* Before the values, which are then at least as new. */
		collect_collector_hosts(p->c, take_newest, &newest);
		err = collect_publish_pass(p);
		if (!err)
			sl_publisher_set_time(p->publisher, newest);
		else
			base_log_limited(BASE_ERROR, "publish", "series not published: %s",
					 strerror(-err));
		spent = base_now_ns() - start;
		relaxed_store(p->spent_ns, p->spent_ns + spent);
		relaxed_store(p->passes, p->passes + 1);
		pause = BASE_MAX(spent * SHARE, (uint64_t)PERIOD_MIN_NS);
		pause = BASE_MAX(pause, p->o.period_ns) - spent;
	} while (!base_stop_wait(p->thread.stop, (int)(pause / 1000000)));
	return NULL;
}

static void log_line(enum sl_log_level level, const char *line, void *arg)
{
	(void)arg;
	base_logf((enum base_level)level, "publish", "%s", line);
}

struct collect_publish *collect_publish_new(struct collect_collector *c,
					    const struct collect_publish_opts *o)
{
	struct collect_publish *p = calloc(1, sizeof(*p));
	int err = ENOMEM;

	if (!p)
		return NULL;
	p->c = c;
	p->o = *o;
	if (gethostname(p->host, sizeof(p->host) - 1))
		strcpy(p->host, "localhost");
	snprintf(p->pid, sizeof(p->pid), "%d", (int)getpid());
	if (base_table_init(&p->series) && base_table_init(&p->targets))
		err = -collect_collector_attach(c, &publish_part, p);
	if (!err)
		return p;
	collect_publish_free(p);
	errno = err;
	return NULL;
}

int collect_publish_start(struct collect_publish *p)
{
	sl_set_log(log_line, NULL);
	p->publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "sidelight-collect",
						  .pod = p->host, .socket = p->o.socket,
						  .max_cells = CELLS, .max_threads = 1,
						  .schema_bytes = CELLS * RECORD_BYTES,
						  .exemplars = 1, .flags = SL_PUBLISHER_ORIGIN));
	return p->publisher ? base_thread_start(&p->thread, publish_main, p) : -errno;
}

void collect_publish_stop(struct collect_publish *p)
{
	if (!p)
		return;
	base_thread_stop(&p->thread);
	sl_publisher_close(p->publisher);
	p->publisher = NULL;
}

void collect_publish_free(struct collect_publish *p)
{
	if (!p)
		return;
	collect_publish_forget(p);
	free(p);
}
