// SPDX-License-Identifier: Apache-2.0
/*
 * kafka.c - the program's only thread: handles messages from the collector and reports from
 * brokers.
 */
#include "kafka/kafka.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/child.h"
#include "base/confine.h"
#include "kafka/internal.h"

#define LOG	"kafka"
#define PAUSE_S 1 /* pause after a producer has failed, because the next one may fail, too */

/* ---- outcomes of messages ---- */

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *arg)
{
	const size_t kind = (size_t)(uintptr_t)m->_private;
	struct kafka_producer *k = arg;

	(void)rk;
	if (!m->err) {
		k->outcomes.delivered[kind]++;
		return;
	}
	k->outcomes.failed[kind]++;
	base_log_each(BASE_WARN, LOG, k->topic[kind], "message not delivered topic=%s error=%s",
		      k->topic[kind], rd_kafka_err2str(m->err));
}

static void on_error(rd_kafka_t *rk, int err, const char *reason, void *arg)
{
	struct kafka_producer *k = arg;

	(void)rk;
	k->outcomes.errors++;
	base_log_limited(BASE_WARN, LOG, "%s error=\"%s\"",
			 rd_kafka_err2str((rd_kafka_resp_err_t)err), reason);
}

/* Logs librdkafka's own messages, which may contain host names but no secrets. */
static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	(void)rk;
	base_log_limited(level <= 4 ? BASE_WARN : BASE_DEBUG, LOG, "%s %s", facility, text);
}

/* Sends the collector new outcomes. Returns false if the collector is gone. */
static bool send_outcomes(struct kafka_producer *k, int sock)
{
	static const struct export_kafka_outcomes none;
	const struct export_kafka_outcomes now = k->outcomes;

	if (!memcmp(&now, &none, sizeof(now)))
		return true;
	k->outcomes = none;
	return send(sock, &now, sizeof(now), MSG_NOSIGNAL) == (ssize_t)sizeof(now);
}

/* ---- messages ---- */

static void produce_message(struct kafka_producer *k, const struct export_kafka_header *h,
			    const char *text)
{
	const rd_kafka_resp_err_t err = rd_kafka_producev(
		k->rk, RD_KAFKA_V_TOPIC(k->topic[h->kind]), RD_KAFKA_V_KEY(text, h->key_bytes),
		RD_KAFKA_V_VALUE((void *)(uintptr_t)(text + h->key_bytes), h->body_bytes),
		RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
		RD_KAFKA_V_OPAQUE((void *)(uintptr_t)h->kind), RD_KAFKA_V_END);

	if (!err)
		return;
	if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		k->outcomes.full[h->kind]++;
	else
		k->outcomes.failed[h->kind]++;
	base_log_limited(BASE_WARN, LOG, "message dropped topic=%s error=%s", k->topic[h->kind],
			 rd_kafka_err2str(err));
}

static bool receive_bytes(int sock, void *to, size_t bytes)
{
	return !bytes || recv(sock, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* Receives a message and hands it to librdkafka. Returns false at the end of the stream. */
static bool take_message(struct kafka_producer *k, int sock)
{
	struct export_kafka_header h;
	char *text;
	bool good;

	if (!receive_bytes(sock, &h, sizeof(h)) || h.kind >= EXPORT_KAFKA_KINDS ||
	    h.key_bytes > EXPORT_KAFKA_KEY_MAX || h.body_bytes > EXPORT_KAFKA_BODY_MAX)
		return false;
	text = malloc(h.key_bytes + h.body_bytes + 1);
	good = text && receive_bytes(sock, text, h.key_bytes + h.body_bytes);
	if (good)
		produce_message(k, &h, text);
	free(text);
	return good;
}

/* ---- the worker ---- */

static rd_kafka_t *open_producer(struct kafka_producer *k, char *error, size_t bytes)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_dup(k->conf);
	rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, bytes);

	if (!rk)
		rd_kafka_conf_destroy(conf);
	return rk;
}

/* Sends the collector the other end of a new stream. Returns this worker's end, or -errno. */
static int offer_stream(int sock)
{
	const struct iovec one = {.iov_base = (char[]){0}, .iov_len = 1};
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = base_send_fds(sock, &one, 1, &pair[1], 1, 0);
	close(pair[1]);
	if (err >= 0)
		return pair[0];
	close(pair[0]);
	return err;
}

/*
 * Call it before librdkafka starts its threads, because they block the signal that confines
 * threads.
 */
static int drop_privileges(const struct kafka_producer *k)
{
	struct base_confine_opts c = {.role = BASE_ROLE_COLLECTOR, .single = true};
	char why[160];

	for (size_t i = 0; i < k->files; i++)
		c.folder_of[i] = k->file[i];

	if (k->unconfined || !base_confine(&c, why, sizeof(why)))
		return 0;
	base_logf(BASE_ERROR, LOG, "%s", why);
	return -EPERM;
}

int kafka_producer_run(struct kafka_producer *k, int sock)
{
	int stream, reports = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const uint64_t one = 1;
	uint64_t count;
	rd_kafka_queue_t *queue;
	char error[512] = "eventfd";

	if (drop_privileges(k))
		return 1;
	k->rk = reports < 0 ? NULL : open_producer(k, error, sizeof(error));
	if (!k->rk) {
		base_logf(BASE_ERROR, LOG, "%s", error);
		return 1;
	}
	queue = rd_kafka_queue_get_main(k->rk);
	rd_kafka_queue_io_event_enable(queue, reports, &one, sizeof(one));
	stream = offer_stream(sock);
	if (stream < 0)
		return 1;
	do {
		struct pollfd p[] = {{stream, POLLIN, 0}, {reports, POLLIN, 0}};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents && !take_message(k, stream))
			break;
		if (p[1].revents && read(reports, &count, sizeof(count)) < 0 && errno != EAGAIN)
			break;
		while (rd_kafka_poll(k->rk, 0) > 0)
			;
	} while (send_outcomes(k, stream) && !rd_kafka_fatal_error(k->rk, error, sizeof(error)));
	/* This producer will deliver nothing more, but a new one may: exit to be restarted. */
	if (rd_kafka_fatal_error(k->rk, error, sizeof(error))) {
		base_logf(BASE_WARN, LOG, "the producer has failed, restarting error=\"%s\"",
			  error);
		sleep(PAUSE_S);
	}
	rd_kafka_queue_destroy(queue);
	rd_kafka_destroy(k->rk);
	return 0;
}

struct kafka_producer *kafka_producer_new(const char *path, bool unconfined, char *error,
					  size_t error_bytes)
{
	struct kafka_producer *k = calloc(1, sizeof(*k));
	rd_kafka_t *try = NULL;

	if (!k) {
		base_fail(error, error_bytes, -ENOMEM, "out of memory");
		return NULL;
	}
	k->unconfined = unconfined;
	if (!kafka_properties_read(k, path, error, error_bytes)) {
		rd_kafka_conf_set_opaque(k->conf, k);
		rd_kafka_conf_set_dr_msg_cb(k->conf, on_delivery);
		rd_kafka_conf_set_error_cb(k->conf, on_error);
		rd_kafka_conf_set_log_cb(k->conf, on_log);
		/*
		 * Try the configuration now, so that an error is reported on startup and not by a
		 * worker.
		 */
		try = open_producer(k, error, error_bytes);
	}
	if (try) {
		rd_kafka_destroy(try);
		return k;
	}
	kafka_producer_free(k);
	return NULL;
}

void kafka_producer_free(struct kafka_producer *k)
{
	if (!k)
		return;
	if (k->conf)
		rd_kafka_conf_destroy(k->conf);
	for (size_t i = 0; i < EXPORT_KAFKA_KINDS; i++)
		free(k->topic[i]);
	for (size_t i = 0; i < k->files; i++)
		free(k->file[i]);
	free(k);
}
