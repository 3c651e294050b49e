// SPDX-License-Identifier: Apache-2.0
/*
 * recording.c - reads a recording of sidelight collect (collect/judge/record.h): the rows in
 * metrics/POD.csv, and the pods' services and the traces in events.csv. A column is a counter if
 * its name has the suffix of an OpenMetrics counter.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cli/replay/replay.h"
#include "collect/judge/record.h"

#define EVENTS_MAX ((size_t)1 << 30)
#define DAY_NS	   86400000000000

char *cli_replay_line(char **at, const char *end)
{
	char *line = *at, *stop;

	if (line >= end)
		return NULL;
	stop = memchr(line, '\n', (size_t)(end - line));
	if (!stop)
		stop = (char *)(uintptr_t)end;
	*at = stop + 1;
	if (stop > line && stop[-1] == '\r')
		stop[-1] = 0;
	*stop = 0;
	return line;
}

/* Parses a value. Returns NaN if it is missing or not a number. */
static double parse_value(const char *text, struct cli_replay_losses *losses)
{
	char *end;
	double v;

	if (!*text || !strcasecmp(text, "nan")) {
		losses->values_missing++;
		return NAN;
	}
	v = strtod(text, &end);
	if (*end || !isfinite(v)) {
		losses->values_malformed++;
		return NAN;
	}
	return v;
}

/* Parses Unix seconds below 9e9 to the nanosecond. Returns false if invalid. */
static bool parse_time(const char *text, int64_t *ns)
{
	unsigned long long seconds;
	int64_t part = 0, unit = 100000000;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	seconds = strtoull(text, &end, 10);
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
			part += unit * (*end - '0');
	if (*end || seconds >= 9000000000u)
		return false;
	*ns = (int64_t)seconds * 1000000000 + part;
	return true;
}

/*
 * Parses a file of rows. live: keep rows that go back in time, because the judge received them too.
 */
static int parse_rows(struct cli_replay_pod *p, size_t bytes, bool live,
		      struct cli_replay_losses *losses)
{
	char *at = p->text, *end = at + bytes, *line = cli_replay_line(&at, end);
	char *field[ANALYSE_ROW_MAX];
	size_t fields = cli_replay_cut(line, field, ANALYSE_ROW_MAX);
	uint64_t lines = 1;

	if (fields < 2 || fields > ANALYSE_ROW_MAX)
		return 0;
	p->n_columns = (uint32_t)fields - 1;
	p->columns = calloc(p->n_columns, sizeof(*p->columns));
	for (char *c = at; c < end; c++)
		lines += *c == '\n';
	p->t = calloc(lines, sizeof(*p->t));
	p->values = calloc(lines * p->n_columns, sizeof(*p->values));
	if (!p->columns || !p->t || !p->values)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_columns; i++) {
		p->columns[i].name = field[i + 1];
		p->columns[i].counter = collect_record_is_counter(p->columns[i].name);
	}
	while ((line = cli_replay_line(&at, end))) {
		double *v = p->values + p->rows * p->n_columns;

		if (!*line)
			continue;
		if (cli_replay_cut(line, field, fields) != fields ||
		    !parse_time(field[0], &p->t[p->rows])) {
			losses->rows_malformed++;
			continue;
		}
		if (!live && p->rows && p->t[p->rows] <= p->t[p->rows - 1]) {
			losses->rows_backwards++;
			continue;
		}
		for (uint32_t i = 0; i < p->n_columns; i++)
			v[i] = parse_value(field[i + 1], losses);
		p->rows++;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct cli_replay_pod *p = a, *q = b;

	return strcmp(p->name, q->name);
}

/* Compares a name with the first bytes of a text. */
static int compare_name(const char *name, const char *text, size_t bytes)
{
	int c = strncmp(name, text, bytes);

	return c ? c : name[bytes] != 0;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int find_step(struct cli_replay_data *d)
{
	uint64_t n = 0, total = 0;
	int64_t *dt;

	for (uint32_t i = 0; i < d->n_pods; i++)
		total += d->pods[i].rows;
	dt = malloc((total + 1) * sizeof(*dt));
	if (!dt)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->n_pods; i++)
		for (uint64_t k = 1; k < d->pods[i].rows; k++)
			dt[n++] = d->pods[i].t[k] - d->pods[i].t[k - 1];
	qsort(dt, n, sizeof(*dt), by_value);
	/* Limit the step to a day, so that the sum of a few steps cannot overflow. */
	d->step_ns = !n ? 60000000000 : dt[n / 2] < DAY_NS ? dt[n / 2] : DAY_NS;
	free(dt);
	return 0;
}

/* Loads one file of metrics/. Returns 0, or -1 after printing an error. */
static int load_pod(struct cli_replay_data *d, const char *folder, const char *file, bool live,
		    size_t *room)
{
	struct cli_replay_pod *p;
	char path[4096];
	size_t bytes;

	if (d->n_pods == REPLAY_PODS_MAX || !BASE_GROW(d->pods, d->n_pods, *room))
		return cli_replay_say("%s: %s", folder, strerror(ENOMEM));
	p = &d->pods[d->n_pods++];
	*p = (struct cli_replay_pod){.name = strndup(file, strlen(file) - 4)};
	if (!p->name)
		return cli_replay_say("%s: %s", folder, strerror(ENOMEM));
	if (snprintf(path, sizeof(path), "%s/metrics/%s", folder, file) >= (int)sizeof(path))
		return cli_replay_say("%s: %s", folder, strerror(ENAMETOOLONG));
	p->text = base_read_file(path, REPLAY_FILE_MAX, &bytes);
	if (!p->text)
		return cli_replay_say("%s: %s", path, strerror(errno));
	if (parse_rows(p, bytes, live, &d->losses))
		return cli_replay_say("%s: %s", folder, strerror(ENOMEM));
	if (!p->rows) {
		d->losses.files_empty++;
		cli_replay_say("%s: the file has no rows of values; skipping the pod", path);
	}
	return 0;
}

struct cli_replay_pod *cli_replay_file(const struct cli_replay_data *d, const char *file)
{
	size_t n = strlen(file), at;

	if (n <= 4)
		return NULL;
	BASE_LOWER_BOUND(at, 0, d->n_pods, compare_name(d->pods[at].name, file, n - 4) < 0);
	return at < d->n_pods && !compare_name(d->pods[at].name, file, n - 4) ? &d->pods[at] : NULL;
}

size_t cli_replay_cut(char *line, char **field, size_t n)
{
	size_t count = 0;

	while (line && count < n) {
		field[count++] = line;
		line = strchr(line, ',');
		if (line)
			*line++ = 0;
	}
	return line ? n + 1 : count;
}

char *cli_replay_events(const char *folder, size_t *bytes)
{
	char path[4096], *text;

	snprintf(path, sizeof(path), "%s/events.csv", folder);
	text = base_read_file(path, EVENTS_MAX, bytes);
	if (!text)
		cli_replay_say("%s: %s", path, strerror(errno));
	return text;
}

static int set_service(struct cli_replay_pod *p, const char *service, const char *owner)
{
	free(p->service);
	if (asprintf(&p->service, "%s%s%s", owner, *owner ? "/" : "", service) >= 0)
		return 0;
	p->service = NULL;
	return -ENOMEM;
}

/* Loads the services of pods and the traces. */
static int load_events(struct cli_replay_data *d, const char *folder)
{
	size_t bytes, room = 0;
	char *at = d->events = cli_replay_events(folder, &bytes), *line;

	while (at && (line = cli_replay_line(&at, d->events + bytes))) {
		char *field[10];
		size_t n = cli_replay_cut(line, field, 10);
		struct cli_replay_pod *p;

		if (n == 3 && !strcmp(field[0], "trace")) {
			if (!BASE_GROW(d->trace, d->traces, room))
				return cli_replay_say("%s: %s", folder, strerror(ENOMEM));
			d->trace[d->traces++] = field[2];
		} else if (n >= 8 && n <= 10 && !strcmp(field[0], "layout")) {
			collect_record_restore(field[5]);
			collect_record_restore(field[7]);
			p = cli_replay_file(d, field[5]);
			if (n == 10)
				collect_record_restore(field[9]);
			if (p && set_service(p, field[7], n == 10 ? field[9] : ""))
				return cli_replay_say("%s: %s", folder, strerror(ENOMEM));
		}
	}
	return d->events ? 0 : -1;
}

int cli_replay_load(struct cli_replay_data *d, const char *folder, bool live)
{
	char path[4096];
	struct dirent *e;
	size_t room = 0;
	int err = 0;
	DIR *dir;

	*d = (struct cli_replay_data){0};
	if (snprintf(path, sizeof(path), "%s/metrics", folder) >= (int)sizeof(path))
		return cli_replay_say("%s: %s", folder, strerror(ENAMETOOLONG));
	dir = opendir(path);
	if (!dir)
		return cli_replay_say("%s: %s", path, strerror(errno));
	while (!err && (e = readdir(dir))) {
		size_t n = strlen(e->d_name);

		if (n > 4 && !strcmp(e->d_name + n - 4, ".csv"))
			err = load_pod(d, folder, e->d_name, live, &room);
	}
	closedir(dir);
	if (err)
		goto fail;
	if (d->n_pods)
		qsort(d->pods, d->n_pods, sizeof(*d->pods), by_name);
	if (d->n_pods == d->losses.files_empty) {
		cli_replay_say("%s: no pod has values in metrics/*.csv", folder);
		goto fail;
	}
	if (!live && load_events(d, folder))
		goto fail;
	if (!find_step(d))
		return 0;
	cli_replay_say("%s: %s", folder, strerror(ENOMEM));
fail:
	cli_replay_free(d);
	return -1;
}

void cli_replay_free(struct cli_replay_data *d)
{
	for (uint32_t i = 0; i < d->n_pods; i++) {
		free(d->pods[i].name);
		free(d->pods[i].service);
		free(d->pods[i].text);
		free(d->pods[i].columns);
		free(d->pods[i].t);
		free(d->pods[i].values);
	}
	free(d->pods);
	free(d->events);
	free(d->trace);
	*d = (struct cli_replay_data){0};
}
