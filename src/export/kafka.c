// SPDX-License-Identifier: Apache-2.0
#include "export/kafka.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librdkafka/rdkafka.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "base/secret.h"

#define FILE_MAX_BYTES 65536u
#define SECRET_MAX     4096u
#define POLL_MS	       100

const char *const export_kafka_names[] = {"anomalies", "traces", "reports"};

struct export_kafka {
	rd_kafka_conf_t *conf; /* owned by this structure until the producer is created */
	rd_kafka_t *rk;
	char *topic[EXPORT_KAFKA_KINDS];
	pthread_t thread; /* polls for delivery reports */
	bool running, stop;
	uint64_t delivered[EXPORT_KAFKA_KINDS], failed[EXPORT_KAFKA_KINDS],
		full[EXPORT_KAFKA_KINDS], waiting[EXPORT_KAFKA_KINDS];
	uint64_t errors;
};

/* ---- delivery reports ---- */

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *arg)
{
	const size_t kind = (size_t)(uintptr_t)m->_private;
	struct export_kafka *k = arg;

	(void)rk;
	/*
	 * Count the outcome first, so that a reader who sees no waiting messages sees all outcomes.
	 */
	if (m->err) {
		relaxed_add(k->failed[kind], 1);
		base_log_limited(BASE_WARN, "kafka", "message not delivered topic=%s error=%s",
				 k->topic[kind], rd_kafka_err2str(m->err));
	} else {
		relaxed_add(k->delivered[kind], 1);
	}
	__atomic_fetch_sub(&k->waiting[kind], 1, __ATOMIC_RELEASE);
}

static void on_error(rd_kafka_t *rk, int err, const char *reason, void *arg)
{
	struct export_kafka *k = arg;

	(void)rk;
	relaxed_add(k->errors, 1);
	base_log_limited(BASE_WARN, "kafka", "%s error=\"%s\"",
			 rd_kafka_err2str((rd_kafka_resp_err_t)err), reason);
}

/* Logs librdkafka's own messages, which may contain host names but no secrets. */
static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	(void)rk;
	base_log_limited(level <= 4 ? BASE_WARN : BASE_DEBUG, "kafka", "%s %s", facility, text);
}

static void *poll_main(void *arg)
{
	struct export_kafka *k = arg;

	while (!relaxed_load(k->stop))
		rd_kafka_poll(k->rk, POLL_MS);
	return NULL;
}

/* ---- the file ---- */

static char *trim_blanks(char *s)
{
	char *end = s + strlen(s);

	while (*s == ' ' || *s == '\t')
		s++;
	while (end > s && strchr(BASE_SECRET_SPACE, end[-1]))
		*--end = 0;
	return s;
}

/*
 * Sets a property. Returns 0, or -EINVAL with one line in error, which does not contain the value.
 */
static int set_property(struct export_kafka *k, const char *name, const char *value, char *error,
			size_t error_bytes)
{
	char why[256];

	for (size_t i = 0; i < EXPORT_KAFKA_KINDS; i++) {
		char own[64];

		snprintf(own, sizeof(own), "sidelight.topic.%s", export_kafka_names[i]);
		if (strcmp(name, own))
			continue;
		free(k->topic[i]);
		k->topic[i] = strdup(value);
		return k->topic[i] ? 0 : -ENOMEM;
	}
	if ((!strcmp(name, "acks") || !strcmp(name, "request.required.acks")) &&
	    strcmp(value, "all") && strcmp(value, "-1")) {
		snprintf(error, error_bytes, "%s is always 'all'", name);
		return -EINVAL;
	}
	if (!strcmp(name, "enable.idempotence") && strcmp(value, "true")) {
		snprintf(error, error_bytes, "%s must be true", name);
		return -EINVAL;
	}
	if (rd_kafka_conf_set(k->conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return 0;
	snprintf(error, error_bytes, "property %s is unknown or has a bad value", name);
	return -EINVAL;
}

static int set_from_file(struct export_kafka *k, char *name, const char *path, char *error,
			 size_t error_bytes)
{
	char value[SECRET_MAX + 1];
	ssize_t n = base_secret_read(path, value, SECRET_MAX);
	int err;

	name[strlen(name) - strlen(".file")] = 0;
	if (n < 0) {
		snprintf(error, error_bytes, "%s of %s: %s", path, name, strerror((int)-n));
		return -EINVAL;
	}
	base_secret_warn("kafka", path);
	value[n] = 0;
	err = set_property(k, name, value, error, error_bytes);
	explicit_bzero(value, sizeof(value));
	return err;
}

static bool ends_in_file(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && !strcmp(name + n - 5, ".file");
}

static int read_properties(struct export_kafka *k, char *text, char *error, size_t error_bytes)
{
	char *line, *save = NULL;
	int err = 0;

	for (line = strtok_r(text, "\n", &save); line && !err; line = strtok_r(NULL, "\n", &save)) {
		char *name = trim_blanks(line), *value = strchr(name, '=');

		if (!*name || *name == '#')
			continue;
		if (!value) {
			snprintf(error, error_bytes, "'%.40s' is not name=value", name);
			return -EINVAL;
		}
		*value++ = 0;
		name = trim_blanks(name);
		value = trim_blanks(value);
		err = ends_in_file(name) ? set_from_file(k, name, value, error, error_bytes)
					 : set_property(k, name, value, error, error_bytes);
	}
	return err;
}

/* ---- start and end ---- */

struct export_kafka *export_kafka_new(const char *path, char *error, size_t error_bytes)
{
	/* Defaults that the file may override: a bounded queue, and no message sent twice. */
	static const char *const first[][2] = {
		{"enable.idempotence", "true"},
		{"acks", "all"},
		{"client.id", "sidelight"},
		{"queue.buffering.max.messages", "100000"},
		{"queue.buffering.max.kbytes", "65536"},
		{"linger.ms", "20"},
		{"compression.type", "snappy"},
		{"log.connection.close", "false"},
	};
	struct export_kafka *k = calloc(1, sizeof(*k));
	char why[512] = "out of memory", *text;
	size_t bytes;
	int err = 0;

	if (!k)
		goto fail;
	k->conf = rd_kafka_conf_new();
	for (size_t i = 0; i < sizeof(first) / sizeof(*first) && !err; i++)
		err = set_property(k, first[i][0], first[i][1], why, sizeof(why));
	for (size_t i = 0; i < EXPORT_KAFKA_KINDS && !err; i++) {
		err = asprintf(&k->topic[i], "sidelight-%s", export_kafka_names[i]) < 0 ? -ENOMEM
											: 0;
		if (err)
			k->topic[i] = NULL;
	}
	text = err ? NULL : base_read_file(path, FILE_MAX_BYTES, &bytes);
	if (!err && !text) {
		snprintf(why, sizeof(why), "%s", strerror(errno));
		err = -EINVAL;
	}
	if (text)
		err = read_properties(k, text, why, sizeof(why));
	free(text);
	if (!err)
		return k;
fail:
	snprintf(error, error_bytes, "%s: %s", path, why);
	export_kafka_free(k, 0);
	errno = EINVAL;
	return NULL;
}

int export_kafka_start(struct export_kafka *k, char *error, size_t error_bytes)
{
	int err;

	rd_kafka_conf_set_opaque(k->conf, k);
	rd_kafka_conf_set_dr_msg_cb(k->conf, on_delivery);
	rd_kafka_conf_set_error_cb(k->conf, on_error);
	rd_kafka_conf_set_log_cb(k->conf, on_log);
	k->rk = rd_kafka_new(RD_KAFKA_PRODUCER, k->conf, error, error_bytes);
	if (!k->rk)
		return -EINVAL;
	k->conf = NULL; /* now owned by the producer */
	err = pthread_create(&k->thread, NULL, poll_main, k);
	if (err) {
		snprintf(error, error_bytes, "thread: %s", strerror(err));
		return -err;
	}
	pthread_setname_np(k->thread, "kafka");
	k->running = true;
	return 0;
}

int export_kafka_send(struct export_kafka *k, enum export_kafka_kind kind, const char *key,
		      const void *body, size_t bytes)
{
	rd_kafka_resp_err_t err;

	relaxed_add(k->waiting[kind], 1);
	err = rd_kafka_producev(k->rk, RD_KAFKA_V_TOPIC(k->topic[kind]),
				RD_KAFKA_V_KEY(key, strlen(key)),
				RD_KAFKA_V_VALUE((void *)(uintptr_t)body, bytes),
				RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
				RD_KAFKA_V_OPAQUE((void *)(uintptr_t)kind), RD_KAFKA_V_END);
	if (!err)
		return 0;
	relaxed_sub(k->waiting[kind], 1);
	if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		relaxed_add(k->full[kind], 1);
	else
		relaxed_add(k->failed[kind], 1);
	base_log_limited(BASE_WARN, "kafka", "message dropped topic=%s error=%s", k->topic[kind],
			 rd_kafka_err2str(err));
	return err == RD_KAFKA_RESP_ERR__QUEUE_FULL ? -ENOSPC : -EIO;
}

void export_kafka_stats(struct export_kafka *k, enum export_kafka_kind kind,
			struct export_kafka_stats *out)
{
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

void export_kafka_free(struct export_kafka *k, uint64_t linger_ns)
{
	if (!k)
		return;
	if (k->rk) {
		relaxed_store(k->stop, true);
		if (k->running)
			pthread_join(k->thread, NULL);
		rd_kafka_flush(k->rk, (int)(linger_ns / 1000000u));
		rd_kafka_destroy(k->rk);
	}
	if (k->conf)
		rd_kafka_conf_destroy(k->conf);
	for (size_t i = 0; i < EXPORT_KAFKA_KINDS; i++)
		free(k->topic[i]);
	free(k);
}
