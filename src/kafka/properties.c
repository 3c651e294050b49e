// SPDX-License-Identifier: Apache-2.0
/* properties.c - the --kafka-config file, which contains librdkafka properties and topic names. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/secret.h"
#include "kafka/internal.h"

#define FILE_MAX_BYTES 65536u
#define SECRET_MAX     4096u

static char *trim_blanks(char *s)
{
	char *end = s + strlen(s);

	while (*s == ' ' || *s == '\t')
		s++;
	while (end > s && strchr(BASE_SECRET_SPACE, end[-1]))
		*--end = 0;
	return s;
}

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && !strcmp(name + n - m, end);
}

/*
 * Records the file named by a property such as "ssl.ca.location", because the worker may read only
 * the folders of these files.
 */
static int note_file(struct kafka_producer *k, const char *name, const char *value, char *error,
		     size_t error_bytes)
{
	if (!ends_in(name, ".location") && !ends_in(name, ".keytab"))
		return 0;
	if (k->files == KAFKA_FILES)
		return base_fail(error, error_bytes, -EINVAL, "more than %d properties name files",
				 KAFKA_FILES);
	k->file[k->files] = strdup(value);
	return k->file[k->files++] ? 0 : -ENOMEM;
}

/*
 * Sets a property. Returns 0, or -EINVAL with one line in error, which does not contain the value.
 */
static int set_property(struct kafka_producer *k, const char *name, const char *value, char *error,
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
	    strcmp(value, "all") && strcmp(value, "-1"))
		return base_fail(error, error_bytes, -EINVAL, "%s can only be 'all'", name);
	if (!strcmp(name, "enable.idempotence") && strcmp(value, "true"))
		return base_fail(error, error_bytes, -EINVAL, "%s must be true", name);
	if (rd_kafka_conf_set(k->conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return note_file(k, name, value, error, error_bytes);
	return base_fail(error, error_bytes, -EINVAL,
			 "property %s is unknown or has an invalid value", name);
}

static int set_from_file(struct kafka_producer *k, char *name, const char *path, char *error,
			 size_t error_bytes)
{
	char value[SECRET_MAX + 1];
	ssize_t n = base_secret_read(path, value, SECRET_MAX);
	int err;

	name[strlen(name) - strlen(".file")] = 0;
	if (n < 0)
		return base_fail(error, error_bytes, -EINVAL, "%s of %s: %s", path, name,
				 strerror((int)-n));
	base_secret_warn("kafka", path);
	value[n] = 0;
	err = set_property(k, name, value, error, error_bytes);
	explicit_bzero(value, sizeof(value));
	return err;
}

static int read_properties(struct kafka_producer *k, char *text, char *error, size_t error_bytes)
{
	char *line, *save = NULL;
	int err = 0;

	for (line = strtok_r(text, "\n", &save); line && !err; line = strtok_r(NULL, "\n", &save)) {
		char *name = trim_blanks(line), *value = strchr(name, '=');

		if (!*name || *name == '#')
			continue;
		if (!value)
			return base_fail(error, error_bytes, -EINVAL,
					 "expected name=value, not '%.40s'", name);
		*value++ = 0;
		name = trim_blanks(name);
		value = trim_blanks(value);
		err = ends_in(name, ".file") ? set_from_file(k, name, value, error, error_bytes)
					     : set_property(k, name, value, error, error_bytes);
	}
	return err;
}

int kafka_properties_read(struct kafka_producer *k, const char *path, char *error,
			  size_t error_bytes)
{
	/*
	 * Defaults that the file may override: the queue is bounded, and no message is stored
	 * twice.
	 */
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
	char why[512] = "out of memory", *text;
	size_t bytes;
	int err = 0;

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
	return err ? base_fail(error, error_bytes, err, "%s: %s", path, why) : 0;
}
