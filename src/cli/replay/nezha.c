// SPDX-License-Identifier: Apache-2.0
/*
 * nezha.c - the layout of the Nezha data set (G. Yu et al., FSE 2023): metrics/POD.csv with a
 * header "TimeStamp,NAME,..." and about a row per minute. Times are unix seconds, perhaps with
 * decimals; names with the suffix of an OpenMetrics counter are counters. One of its files has a
 * broken clock: a text replacement damaged its times. Rows of all pods were written together: if
 * the times of a file go backwards or have none in common with the others, and it has as many rows
 * as most others, each row takes the others' time of that row. This is counted and reported.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cli/replay/replay.h"

#define DAY_NS 86400000000000

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

static uint32_t count_fields(const char *line)
{
	uint32_t n = 1;

	for (; *line; line++)
		n += *line == ',';
	return n;
}

/* One field, up to its comma; advances *at. NaN: missing or no number. */
static double field(char **at, struct cli_replay_losses *losses)
{
	char *start = *at, *stop = strchrnul(start, ','), *end;
	double v;

	*at = *stop ? stop + 1 : stop;
	*stop = 0;
	if (!*start || !strcasecmp(start, "nan")) {
		losses->values_missing++;
		return NAN;
	}
	v = strtod(start, &end);
	if (*end || !isfinite(v)) {
		losses->values_malformed++;
		return NAN;
	}
	return v;
}

/* Unix seconds below 9e9, to the nanosecond; advances *at. False: it is no time. */
static bool time_field(char **at, int64_t *ns)
{
	char *start = *at, *stop = strchrnul(start, ','), *end;
	unsigned long long seconds;
	int64_t part = 0, unit = 100000000;

	*at = *stop ? stop + 1 : stop;
	*stop = 0;
	if (*start < '0' || *start > '9')
		return false;
	seconds = strtoull(start, &end, 10);
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
			part += unit * (*end - '0');
	if (*end || seconds >= 9000000000u)
		return false;
	*ns = (int64_t)seconds * 1000000000 + part;
	return true;
}

/* Whether the name, without labels, ends in _total, _count, _sum or _bucket. */
static bool is_counter(const char *name)
{
	static const char *const ends[] = {"_total", "_count", "_sum", "_bucket"};
	size_t n = strcspn(name, "{");

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t k = strlen(ends[i]);

		if (n > k && !memcmp(name + n - k, ends[i], k))
			return true;
	}
	return false;
}

static int parse(struct cli_replay_pod *p, size_t bytes, struct cli_replay_losses *losses)
{
	char *at = p->text, *end = at + bytes, *line = cli_replay_line(&at, end);
	uint32_t fields;
	uint64_t lines = 1;

	if (!line || !*line)
		return 0;
	fields = count_fields(line);
	if (fields < 2 || fields > ANALYSE_ROW_MAX)
		return 0;
	p->n_columns = fields - 1;
	p->columns = calloc(p->n_columns, sizeof(*p->columns));
	for (char *c = at; c < end; c++)
		lines += *c == '\n';
	p->t = calloc(lines, sizeof(*p->t));
	p->values = calloc(lines * p->n_columns, sizeof(*p->values));
	if (!p->columns || !p->t || !p->values)
		return -ENOMEM;
	line = strchr(line, ',') + 1;
	for (uint32_t i = 0; i < p->n_columns; i++) {
		char *stop = strchrnul(line, ',');

		p->columns[i].name = line;
		line = *stop ? stop + 1 : stop;
		*stop = 0;
		p->columns[i].counter = is_counter(p->columns[i].name);
	}
	while ((line = cli_replay_line(&at, end))) {
		double *v = p->values + p->rows * p->n_columns;

		if (!*line)
			continue;
		if (count_fields(line) != fields) {
			losses->rows_malformed++;
			continue;
		}
		if (!time_field(&line, &p->t[p->rows])) {
			losses->rows_malformed++;
			continue;
		}
		for (uint32_t i = 0; i < p->n_columns; i++)
			v[i] = field(&line, losses);
		p->rows++;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct cli_replay_pod *p = a, *q = b;

	return strcmp(p->name, q->name);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static bool ascends(const struct cli_replay_pod *p)
{
	for (uint64_t i = 1; i < p->rows; i++)
		if (p->t[i] <= p->t[i - 1])
			return false;
	return true;
}

/* The pod with a good clock and as many rows that agrees with most others to within a step. */
static void repair_clocks(struct cli_replay_data *d)
{
	for (uint32_t i = 0; i < d->n_pods; i++) {
		struct cli_replay_pod *p = &d->pods[i], *model = NULL;
		uint32_t alike = 0;
		bool meets = false;

		for (uint32_t k = 0; k < d->n_pods; k++) {
			struct cli_replay_pod *q = &d->pods[k];

			if (k == i || !q->rows || !ascends(q))
				continue;
			meets |= p->rows && p->t[0] <= q->t[q->rows - 1] &&
				 p->t[p->rows - 1] >= q->t[0];
			if (q->rows == p->rows) {
				alike++;
				model = model ? model : q;
			}
		}
		if (!p->rows || (ascends(p) && meets) || 2 * alike < d->n_pods || !model ||
		    d->n_pods == 1)
			continue;
		memcpy(p->t, model->t, p->rows * sizeof(*p->t));
		d->losses.clocks_repaired++;
		cli_replay_say("%s: its clock is broken; its rows take the times of %s", p->name,
			       model->name);
	}
}

static void drop_backwards(struct cli_replay_pod *p, struct cli_replay_losses *losses)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < p->rows; i++) {
		if (kept && p->t[i] <= p->t[kept - 1]) {
			losses->rows_backwards++;
			continue;
		}
		p->t[kept] = p->t[i];
		memmove(p->values + kept * p->n_columns, p->values + i * p->n_columns,
			p->n_columns * sizeof(double));
		kept++;
	}
	p->rows = kept;
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
	/* The sum of a few steps stays in range whatever the times are. */
	d->step_ns = !n ? 60000000000 : dt[n / 2] < DAY_NS ? dt[n / 2] : DAY_NS;
	free(dt);
	return 0;
}

/* One file of metrics/. 0, or -1 after one line. */
static int load_pod(struct cli_replay_data *d, const char *folder, const char *file, size_t *room)
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
	if (parse(p, bytes, &d->losses))
		return cli_replay_say("%s: %s", folder, strerror(ENOMEM));
	if (!p->rows) {
		d->losses.files_empty++;
		cli_replay_say("%s: no row of values in it; the pod is left out", path);
	}
	return 0;
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
			err = load_pod(d, folder, e->d_name, &room);
	}
	closedir(dir);
	if (err)
		goto fail;
	if (d->n_pods)
		qsort(d->pods, d->n_pods, sizeof(*d->pods), by_name);
	if (!live)
		repair_clocks(d);
	for (uint32_t i = 0; !live && i < d->n_pods; i++)
		drop_backwards(&d->pods[i], &d->losses);
	if (d->n_pods == d->losses.files_empty) {
		cli_replay_say("%s: no pod with values in metrics/*.csv", folder);
		goto fail;
	}
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
		free(d->pods[i].text);
		free(d->pods[i].columns);
		free(d->pods[i].t);
		free(d->pods[i].values);
	}
	free(d->pods);
	*d = (struct cli_replay_data){0};
}
