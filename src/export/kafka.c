// SPDX-License-Identifier: Apache-2.0
/*
 * kafka.c - the collector's side: a queue, and a thread that writes it to a stream to the program
 * sidelight-kafka. The program opens a new stream each time it starts. When a stream closes,
 * messages without an outcome count as failed; queued messages wait for the next stream.
 */
#include "export/kafka.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/child.h"
#include "base/relaxed.h"
#include "export/kafka_wire.h"

#define PROGRAM	    "sidelight-kafka"
#define QUEUE_BYTES ((size_t)64 << 20)
#define PAUSE_MS    1000

const char *const export_kafka_names[] = {"incidents", "traces", "reports", "flows"};

struct kafka_message {
	struct kafka_message *next;
	size_t bytes, sent;
	struct export_kafka_header header;
	char text[]; /* key and body, directly after the header, as in the stream */
};

struct export_kafka {
	struct base_child_opts opts;
	struct base_child *child;
	char *argv[5];
	pthread_t thread;
	bool running, stop;
	int wake; /* eventfd: signals that the queue is no longer empty, or that stop is set */
	pthread_mutex_t lock;
	struct kafka_message *first, **last; /* under lock */
	size_t bytes;
	bool ended; /* under lock: no stream will follow */
	uint64_t sent[EXPORT_KAFKA_KINDS];
	uint64_t delivered[EXPORT_KAFKA_KINDS], failed[EXPORT_KAFKA_KINDS],
		full[EXPORT_KAFKA_KINDS], waiting[EXPORT_KAFKA_KINDS];
	uint64_t errors;
};

/* ---- counts ---- */

/*
 * Count the outcome first, so that a reader who sees no waiting messages sees all outcomes.
 */
static void count_outcome(struct export_kafka *k, size_t kind, uint64_t *counter, uint64_t n)
{
	relaxed_add(*counter, n);
	__atomic_fetch_sub(&k->waiting[kind], n, __ATOMIC_RELEASE);
}

static void settle_sent(struct export_kafka *k, size_t kind, uint64_t *counter, uint64_t n)
{
	n = BASE_MIN(n, k->sent[kind]);
	k->sent[kind] -= n;
	count_outcome(k, kind, counter, n);
}

static bool take_outcomes(struct export_kafka *k, int stream)
{
	struct export_kafka_outcomes o;

	if (recv(stream, &o, sizeof(o), MSG_WAITALL) != (ssize_t)sizeof(o))
		return false;
	for (size_t i = 0; i < EXPORT_KAFKA_KINDS; i++) {
		settle_sent(k, i, &k->delivered[i], o.delivered[i]);
		settle_sent(k, i, &k->failed[i], o.failed[i]);
		settle_sent(k, i, &k->full[i], o.full[i]);
	}
	relaxed_add(k->errors, o.errors);
	return true;
}

static void fail_sent(struct export_kafka *k)
{
	for (size_t i = 0; i < EXPORT_KAFKA_KINDS; i++)
		settle_sent(k, i, &k->failed[i], k->sent[i]);
}

/* ---- the queue ---- */

static void wake_thread(struct export_kafka *k)
{
	const uint64_t one = 1;

	while (write(k->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static struct kafka_message *pop_message(struct export_kafka *k)
{
	struct kafka_message *m;

	pthread_mutex_lock(&k->lock);
	m = k->first;
	if (m) {
		k->first = m->next;
		k->bytes -= m->bytes;
		if (!k->first)
			k->last = &k->first;
	}
	pthread_mutex_unlock(&k->lock);
	return m;
}

static int push_message(struct export_kafka *k, struct kafka_message *m)
{
	bool was_empty, ended;

	pthread_mutex_lock(&k->lock);
	ended = k->ended;
	was_empty = !k->first;
	if (ended || k->bytes + m->bytes > QUEUE_BYTES) {
		pthread_mutex_unlock(&k->lock);
		return ended ? -EIO : -ENOSPC;
	}
	*k->last = m;
	k->last = &m->next;
	k->bytes += m->bytes;
	pthread_mutex_unlock(&k->lock);
	if (was_empty)
		wake_thread(k);
	return 0;
}

int export_kafka_send(struct export_kafka *k, enum export_kafka_kind kind, const char *key,
		      const void *body, size_t bytes)
{
	const size_t key_bytes = strlen(key);
	struct kafka_message *m = NULL;
	int err = -EMSGSIZE;

	relaxed_add(k->waiting[kind], 1);
	if (key_bytes <= EXPORT_KAFKA_KEY_MAX && bytes <= EXPORT_KAFKA_BODY_MAX) {
		m = malloc(sizeof(*m) + key_bytes + bytes);
		err = -ENOMEM;
	}
	if (m) {
		*m = (struct kafka_message){
			.bytes = sizeof(m->header) + key_bytes + bytes,
			.header = {kind, (uint32_t)key_bytes, (uint32_t)bytes},
		};
		memcpy(m->text, key, key_bytes);
		memcpy(m->text + key_bytes, body, bytes);
		err = push_message(k, m);
	}
	if (!err)
		return 0;
	free(m);
	count_outcome(k, kind, err == -ENOSPC ? &k->full[kind] : &k->failed[kind], 1);
	base_log_limited(BASE_WARN, "kafka", "message dropped kind=%s error=\"%s\"",
			 export_kafka_names[kind], strerror(-err));
	return err == -ENOSPC ? -ENOSPC : -EIO;
}

/* ---- the thread ---- */

static struct kafka_message *next_message(struct export_kafka *k)
{
	struct kafka_message *m = pop_message(k);

	if (m)
		k->sent[m->header.kind]++;
	return m;
}

/*
 * Returns false if the stream is broken. *m: the message being sent, or NULL if no message is left.
 */
static bool send_messages(struct export_kafka *k, int stream, struct kafka_message **m)
{
	while (*m || (*m = next_message(k))) {
		const char *from = (const char *)&(*m)->header + (*m)->sent;
		ssize_t n = send(stream, from, (*m)->bytes - (*m)->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		(*m)->sent += (size_t)n;
		if ((*m)->sent < (*m)->bytes)
			return true;
		free(*m);
		*m = NULL;
	}
	return true;
}

/* Serves a stream until it ends, or until stop is set. */
static void serve_stream(struct export_kafka *k, int stream)
{
	struct kafka_message *m = NULL;
	uint64_t count;

	while (!relaxed_load(k->stop) && send_messages(k, stream, &m)) {
		struct pollfd p[] = {{stream, m ? POLLIN | POLLOUT : POLLIN, 0},
				     {k->wake, POLLIN, 0}};

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents && read(k->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
			break;
		if (p[0].revents & ~POLLOUT && !take_outcomes(k, stream))
			break;
	}
	free(m);
	close(stream);
	fail_sent(k);
}

/*
 * The kernel has closed the stream, so the program exits and is started again, which may fail in
 * the same way.
 */
static void pause_without_descriptor(struct export_kafka *k)
{
	struct pollfd p = {k->wake, POLLIN, 0};

	relaxed_add(k->errors, 1);
	base_log_limited(BASE_ERROR, "kafka",
			 "no descriptor is left for the stream to " PROGRAM
			 ", which is restarted: raise LimitNOFILE");
	poll(&p, 1, PAUSE_MS);
}

/*
 * Waits for the stream of the next program. Returns -1 if stopped, or if the program can't run and
 * this process is therefore exiting.
 */
static int next_stream(struct export_kafka *k)
{
	while (!relaxed_load(k->stop)) {
		struct pollfd p[] = {{base_child_sock(k->child), POLLIN, 0}, {k->wake, POLLIN, 0}};
		uint64_t count;
		ssize_t got;
		char byte;
		int fd = -1;

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents && read(k->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
			return -1;
		if (!p[0].revents)
			continue;
		got = base_receive_fd(p[0].fd, &byte, 1, 0, &fd);
		if (fd >= 0)
			return fd;
		if (got == -EMFILE)
			pause_without_descriptor(k);
		else if (got <= 0 && !base_child_again(k->child, NULL))
			return -1;
	}
	return -1;
}

static void fail_queued(struct export_kafka *k)
{
	struct kafka_message *m;

	pthread_mutex_lock(&k->lock);
	k->ended = true;
	pthread_mutex_unlock(&k->lock);
	while ((m = pop_message(k))) {
		count_outcome(k, m->header.kind, &k->failed[m->header.kind], 1);
		free(m);
	}
}

static void *kafka_main(void *arg)
{
	struct export_kafka *k = arg;
	int stream;

	while ((stream = next_stream(k)) >= 0)
		serve_stream(k, stream);
	fail_queued(k);
	return NULL;
}

/* ---- start and end ---- */

static void run_program(void *arg, const struct base_child_start *with)
{
	struct export_kafka *k = arg;

	(void)with;
	base_child_exec("kafka", PROGRAM, k->argv);
}

struct export_kafka *export_kafka_fork(const char *path, bool unconfined, char *error,
				       size_t error_bytes)
{
	struct export_kafka *k = NULL;
	char program[PATH_MAX];

	if (base_program_find(PROGRAM, program)) {
		base_fail(error, error_bytes, -ENOENT,
			  "--kafka-config requires the package sidelight-kafka");
		return NULL;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		base_fail(error, error_bytes, -ENOMEM, "out of memory");
		return NULL;
	}
	k->argv[1] = (char *)(uintptr_t) "--kafka-config";
	k->argv[2] = (char *)(uintptr_t)path;
	k->argv[3] = unconfined ? (char *)(uintptr_t) "--unconfined" : NULL;
	pthread_mutex_init(&k->lock, NULL);
	k->last = &k->first;
	k->wake = -1;
	k->opts = (struct base_child_opts){
		.name = "kafka", .what = PROGRAM, .log = "kafka", .run = run_program, .arg = k};
	k->child = base_child_fork(&k->opts);
	if (k->child)
		return k;
	base_fail(error, error_bytes, -errno, "cannot start sidelight-kafka: %s", strerror(errno));
	export_kafka_free(k, 0);
	return NULL;
}

int export_kafka_open(struct export_kafka *k, char *error, size_t error_bytes)
{
	int err = base_child_start(k->child, NULL);

	*error = 0;
	if (err)
		return base_fail(error, error_bytes, err, "cannot start sidelight-kafka: %s",
				 strerror(-err));
	if (base_child_await(k->child))
		return -EINVAL;
	k->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return k->wake >= 0 ? 0
			    : base_fail(error, error_bytes, -errno, "eventfd: %s", strerror(errno));
}

int export_kafka_start(struct export_kafka *k, char *error, size_t error_bytes)
{
	int err = pthread_create(&k->thread, NULL, kafka_main, k);

	if (err)
		return base_fail(error, error_bytes, -err, "thread: %s", strerror(err));
	pthread_setname_np(k->thread, "kafka");
	k->running = true;
	return 0;
}

void export_kafka_stats(struct export_kafka *k, enum export_kafka_kind kind,
			struct export_kafka_stats *out)
{
	*out = (struct export_kafka_stats){0};
	if (!k)
		return;
	*out = (struct export_kafka_stats){
		.waiting = __atomic_load_n(&k->waiting[kind], __ATOMIC_ACQUIRE)};
	out->delivered = relaxed_load(k->delivered[kind]);
	out->dropped_full = relaxed_load(k->full[kind]);
	out->dropped_failed = relaxed_load(k->failed[kind]);
}

uint64_t export_kafka_errors(struct export_kafka *k)
{
	return relaxed_load(k->errors);
}

static bool any_waiting(const struct export_kafka *k)
{
	for (size_t i = 0; i < EXPORT_KAFKA_KINDS; i++)
		if (__atomic_load_n(&k->waiting[i], __ATOMIC_ACQUIRE))
			return true;
	return false;
}

void export_kafka_free(struct export_kafka *k, uint64_t linger_ns)
{
	if (!k)
		return;
	if (k->running) {
		for (uint64_t end = base_now_ns() + linger_ns;
		     any_waiting(k) && base_now_ns() < end;)
			usleep(5000);
		relaxed_store(k->stop, true);
		wake_thread(k);
		pthread_join(k->thread, NULL);
	}
	base_child_free(k->child);
	if (k->wake >= 0)
		close(k->wake);
	pthread_mutex_destroy(&k->lock);
	free(k);
}
