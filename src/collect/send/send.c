// SPDX-License-Identifier: Apache-2.0
#include "collect/send/send.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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
	bool all = true;

	for (struct collect_send *s = send; s; s = s->next) {
		bool room;

		pthread_mutex_lock(&s->lock);
		room = BASE_GROW(s->anomaly, s->anomalies, s->anomaly_room);
		if (room)
			s->anomaly[s->anomalies++] = *a;
		pthread_mutex_unlock(&s->lock);
		all = all && room;
	}
	return all;
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
	while (!base_stop_wait(s->thread.stop, more ? 0 : POLL_MS)) {
		take_anomalies(s);
		more = collect_sender_poll(s->sender, SLICE_NS);
		if (base_now_ns() >= second) {
			export_remote_write_flush(s->writer);
			second = base_now_ns() + SECOND_NS;
		}
	}
	return NULL;
}

/* Writes the path of the queue of a shard: that of shard 0 is `queue` itself. */
static void queue_path(const char *queue, unsigned int shard, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, shard ? "%s.%u" : "%s", queue, shard);
}

static struct collect_send *new_sender(const struct collect_send_opts *opts, unsigned int shard,
				       char *error, size_t error_bytes)
{
	struct collect_send *s = calloc(1, sizeof(*s));
	struct export_remote_opts remote = opts->remote;
	char path[PATH_MAX];

	if (!s) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	s->o = *opts;
	s->o.form.shard = shard;
	if (remote.queue) {
		queue_path(remote.queue, shard, path);
		remote.queue = path;
	}
	pthread_mutex_init(&s->lock, NULL);
	if (opts->relabel) {
		s->relabel = collect_relabel_load(opts->relabel, error, error_bytes);
		s->o.form.relabel = s->relabel;
	}
	remote.url = opts->url;
	if (!opts->relabel || s->relabel)
		s->writer = export_remote_write_open(&remote, error, error_bytes);
	if (s->writer)
		return s;
	collect_send_free(s);
	return NULL;
}

/* With fewer shards than before, no shard would send the requests in the other queues. */
static bool has_other_queues(const struct collect_send_opts *opts, char *error, size_t error_bytes)
{
	char path[PATH_MAX];

	for (unsigned int i = opts->form.shards; opts->remote.queue && i < COLLECT_SEND_SHARDS;
	     i++) {
		queue_path(opts->remote.queue, i, path);
		if (access(path, F_OK))
			continue;
		snprintf(error, error_bytes,
			 "%s is the queue of another shard: set --remote-shards to at least %u "
			 "until everything is sent, and then delete this file",
			 path, i + 1);
		return true;
	}
	return false;
}

struct collect_send *collect_send_new(const struct collect_send_opts *opts, size_t n, char *error,
				      size_t error_bytes)
{
	struct collect_send *first = NULL;

	while (n--) {
		bool ok = !has_other_queues(&opts[n], error, error_bytes);

		for (unsigned int i = opts[n].form.shards; ok && i--;) {
			struct collect_send *s = new_sender(&opts[n], i, error, error_bytes);

			ok = s != NULL;
			if (ok) {
				s->next = first;
				first = s;
			}
		}
		if (!ok) {
			collect_send_free(first);
			return NULL;
		}
	}
	return first;
}

/* Adds up the statistics of all shards of a receiver. send: its first shard. */
static void stats_of(void *send, struct export_push_stats *out)
{
	const struct collect_send *s = send;
	const unsigned int shards = s->o.form.shards;

	*out = (struct export_push_stats){0};
	for (unsigned int i = 0; i < shards; i++, s = s->next) {
		struct export_remote_write_stats one;

		export_remote_write_stats(s->writer, &one);
		export_push_add(out, &one.push);
	}
}

int collect_send_attach(struct collect_send *s, struct collect_collector *c,
			struct collect_receivers *to)
{
	static const char *const names[COLLECT_SEND_MAX] = {
		"remote_write",	  "remote_write_2", "remote_write_3", "remote_write_4",
		"remote_write_5", "remote_write_6", "remote_write_7", "remote_write_8"};
	size_t n = 0;

	for (struct collect_send *at = s; at; at = at->next) {
		const struct act_sample_opts sample = {
			.every_ns = at->o.sample_every_ns,
			.around_ns = at->o.sample_around_ns,
			.late_ns = LATE_NS,
		};

		at->sender = collect_sender_new(c, at->writer, &sample, at->o.period_ns,
						&at->o.form);
		if (!at->sender)
			return -ENOMEM;
		if (!at->o.form.shard)
			collect_receivers_add(to, names[n++], stats_of, at);
	}
	return collect_collector_attach(c, &collect_send_part, s);
}

int collect_send_start(struct collect_send *s)
{
	int err = 0;

	for (; s && !err; s = s->next)
		err = base_thread_start(&s->thread, send_main, s);
	return err;
}

void collect_send_stop(struct collect_send *s)
{
	for (; s; s = s->next)
		base_thread_stop(&s->thread);
}

void collect_send_free(struct collect_send *s)
{
	const uint64_t end = base_now_ns() + LINGER_NS;

	collect_send_stop(s);
	/* Flush all first, so that one second in total is enough for every receiver. */
	for (struct collect_send *at = s; at; at = at->next)
		if (at->writer)
			export_remote_write_flush(at->writer);
	while (s) {
		struct collect_send *next = s->next;
		const uint64_t now = base_now_ns();

		collect_sender_free(s->sender);
		export_remote_write_free(s->writer, now < end ? end - now : 0);
		collect_relabel_free(s->relabel);
		pthread_mutex_destroy(&s->lock);
		free(s->anomaly);
		free(s);
		s = next;
	}
}
