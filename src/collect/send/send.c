// SPDX-License-Identifier: Apache-2.0
#include "collect/send/send.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/send/internal.h"

#define POLL_MS	  100
#define SLICE_NS  50000000u   /* time per poll for sending samples */
#define SECOND_NS 1000000000u /* maximum time for batching samples */
#define LATE_NS	  2000000000u /* a verdict arrives within this time even on a busy machine */
#define LINGER_NS 1000000000u

bool collect_send_anomaly(void *send, const struct act_anomaly *a)
{
	struct collect_send *s = send;
	bool room;

	pthread_mutex_lock(&s->lock);
	room = BASE_GROW(s->anomaly, s->anomalies, s->anomaly_room);
	if (room)
		s->anomaly[s->anomalies++] = *a;
	pthread_mutex_unlock(&s->lock);
	return room;
}

static void take_anomalies(struct collect_send *s)
{
	struct act_anomaly *anomaly;
	size_t n;

	pthread_mutex_lock(&s->lock);
	anomaly = s->anomaly;
	n = s->anomalies;
	s->anomaly = NULL;
	s->anomalies = s->anomaly_room = 0;
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < n; i++)
		collect_sender_anomaly(s->sender, &anomaly[i]);
	free(anomaly);
}

static void *send_main(void *arg)
{
	struct collect_send *s = arg;
	uint64_t second = base_now_ns();
	bool more = true;

	pthread_setname_np(pthread_self(), "send");
	while (!base_stop_wait(s->stop, more ? 0 : POLL_MS)) {
		take_anomalies(s);
		more = collect_sender_poll(s->sender, SLICE_NS);
		if (base_now_ns() >= second) {
			export_remote_write_flush(s->writer);
			second = base_now_ns() + SECOND_NS;
		}
	}
	return NULL;
}

struct collect_send *collect_send_new(const struct collect_send_opts *opts, char *error,
				      size_t error_bytes)
{
	struct collect_send *s = calloc(1, sizeof(*s));
	struct export_remote_opts remote = opts->remote;

	if (!s) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	s->o = *opts;
	pthread_mutex_init(&s->lock, NULL);
	remote.url = opts->url;
	s->stop = eventfd(0, EFD_CLOEXEC);
	if (s->stop < 0)
		snprintf(error, error_bytes, "%s", strerror(errno));
	else
		s->writer = export_remote_write_open(&remote, error, error_bytes);
	if (s->writer)
		return s;
	collect_send_free(s);
	return NULL;
}

static void stats_of(void *send, struct export_push_stats *out)
{
	const struct collect_send *s = send;
	struct export_remote_write_stats stats;

	export_remote_write_stats(s->writer, &stats);
	*out = stats.push;
}

int collect_send_attach(struct collect_send *s, struct collect_collector *c,
			struct collect_receivers *to)
{
	const struct act_sample_opts sample = {
		.every_ns = s->o.sample_every_ns,
		.around_ns = s->o.sample_around_ns,
		.late_ns = LATE_NS,
	};

	s->sender = collect_sender_new(c, s->writer, &sample, s->o.period_ns, &s->o.form);
	if (!s->sender)
		return -ENOMEM;
	collect_receivers_add(to, "remote_write", stats_of, s);
	return collect_collector_attach(c, &collect_send_part, s);
}

int collect_send_start(struct collect_send *s)
{
	int err = -pthread_create(&s->thread, NULL, send_main, s);

	s->running = !err;
	return err;
}

void collect_send_stop(struct collect_send *s)
{
	if (!s || !s->running)
		return;
	eventfd_write(s->stop, 1);
	pthread_join(s->thread, NULL);
	s->running = false;
}

void collect_send_free(struct collect_send *s)
{
	if (!s)
		return;
	collect_send_stop(s);
	collect_sender_free(s->sender);
	export_remote_write_free(s->writer, LINGER_NS);
	if (s->stop >= 0)
		close(s->stop);
	pthread_mutex_destroy(&s->lock);
	free(s->anomaly);
	free(s);
}
