// SPDX-License-Identifier: Apache-2.0
/*
 * live.c - judges a recording of sidelight collect --record (collect/judge/record.h) again: the
 * judge receives the same rows at the same times, and so reaches the same verdicts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cli/replay/replay.h"
#include "collect/judge/judge.h"
#include "collect/judge/models.h"
#include "collect/judge/record.h"

struct live_event {
	int64_t moment, ns;
	uint64_t instance;
	uint32_t columns; /* number of columns; 0 means that the pod is gone */
	char *file, *name, *service, *label;
	char *trace;   /* text of a trace, or NULL */
	bool kept;     /* true if the event only records that models were kept */
	bool accepted; /* true if the pod's behaviour was declared normal */
};

/* A pod with rows left to replay. */
struct live_pod {
	uint64_t instance;
	const struct cli_replay_pod *rows; /* rows of the pod; NULL if the pod is gone */
	uint64_t at;
	uint32_t columns;
	const char *label;
};

struct live {
	const struct cli_replay_live_opts *o;
	const char *folder;
	const char *began_with; /* file of models loaded at the start of this run, or NULL */
	struct cli_replay_data data;
	char *text;
	/* options recorded by this run of the collector; the last may be NULL */
	char *recorded[7];
	struct live_event *event;
	size_t events, event_room;
	struct live_pod **pod;
	size_t pods, pod_room;
	struct collect_judge *judge;
	struct collect_models *models;
	int64_t every_ns;
	uint64_t rows, flagged;
};

static void write_finding(void *arg, const struct collect_judge_finding *f)
{
	struct live *l = arg;
	const struct live_pod *p = f->own;
	char line[COLLECT_JUDGE_LINE];

	l->rows++;
	l->flagged += f->anomalous;
	collect_judge_line(line, sizeof(line), p->label, f, p->rows->columns);
	if (l->o->verdicts)
		fputs(line, l->o->verdicts);
}

/* Events */

static int take_event(struct live *l, char **f, size_t n)
{
	bool accepted = !strcmp(f[0], "accept"), trace = !strcmp(f[0], "trace");
	bool gone = !strcmp(f[0], "gone") || accepted;
	struct live_event e = {.kept = n == 2 && !strcmp(f[0], "kept"), .accepted = accepted};

	if (e.kept) {
		e.moment = strtoll(f[1], NULL, 10);
		goto add;
	}
	if (gone || trace ? n != 3 : strcmp(f[0], "layout") || (n != 8 && n != 9))
		return -EINVAL;
	e.moment = strtoll(f[1], NULL, 10);
	e.trace = trace ? f[2] : NULL;
	e.instance = strtoull(f[gone || trace ? 2 : 3], NULL, 16);
	if (!gone && !trace) {
		e.ns = strtoll(f[2], NULL, 10);
		e.columns = (uint32_t)strtoul(f[4], NULL, 10);
		e.file = f[5];
		e.name = f[6];
		e.service = f[7];
		e.label = n == 9 ? f[8] : f[6]; /* old recordings have no label */
		for (size_t i = 5; i < n; i++)
			collect_record_restore(f[i]);
		if (!e.columns) /* rows without values are not recorded */
			return 0;
	}
add:
	if (!BASE_GROW(l->event, l->events, l->event_room))
		return -ENOMEM;
	l->event[l->events++] = e;
	return 0;
}

/* A run of the collector */

static int read_models(struct live *l, char *error, size_t error_bytes)
{
	char path[4096];

	if (!l->o->model && !l->began_with)
		return 0;
	if (l->o->model)
		return collect_models_read(l->models, l->o->model, error, error_bytes);
	snprintf(path, sizeof(path), "%s/%s", l->folder, l->began_with);
	return collect_models_read(l->models, path, error, error_bytes);
}

static int begin_run(struct live *l)
{
	const struct cli_replay_live_opts *o = l->o;
	char *const *r = l->recorded;
	const char *shadow = o->shadow ?: *r[1] ? r[1] : NULL;
	char error[4400] = "out of memory";
	struct collect_judge_opts j = {
		.detector = analyse_detector_named(o->detector ?: r[0], error, sizeof(error)),
		.shadow = shadow ? analyse_detector_named(shadow, error, sizeof(error)) : NULL,
		.false_alarms = o->false_alarms > 0 ? o->false_alarms : strtod(r[2], NULL),
		.warm_up_ns = strtoull(r[3], NULL, 10),
		.step_ns = strtoull(r[5], NULL, 10),
		.hold_ns = r[6] ? strtoull(r[6], NULL, 10) : 0,
		.found = write_finding,
		.arg = l,
	};

	l->every_ns = strtoll(r[4], NULL, 10);
	if (!j.detector || (shadow && !j.shadow))
		return cli_replay_say("events.csv: %s", error);
	if (l->every_ns <= 0 || !j.step_ns || !(j.false_alarms > 0))
		return cli_replay_say("events.csv: invalid options");
	j.models = l->models = collect_models_new();
	if (!j.models || read_models(l, error, sizeof(error)))
		return cli_replay_say("%s", error);
	l->judge = collect_judge_new(&j);
	return l->judge ? 0 : cli_replay_say("%s", strerror(ENOMEM));
}

static void end_run(struct live *l)
{
	collect_judge_free(l->judge);
	collect_models_free(l->models);
	l->judge = NULL;
	l->models = NULL;
	while (l->pods)
		free(l->pod[--l->pods]);
	l->events = 0;
	l->began_with = NULL;
}

static struct live_pod *find_pod(const struct live *l, uint64_t instance)
{
	for (size_t i = 0; i < l->pods; i++)
		if (l->pod[i]->instance == instance)
			return l->pod[i];
	return NULL;
}

/* Adds a trace "SERVICE:PARENT;..."; traces.c parses text after another colon. */
static int add_trace(struct live *l, char *text)
{
	size_t room = 2 * strlen(text) + 8, used = 0;
	uint8_t *spans = malloc(room);
	uint32_t n = 0;
	int err;

	for (char *span; spans && (span = strsep(&text, ";")); n++) {
		char *colon = strchr(span, ':');
		uint32_t parent;

		if (!colon) {
			free(spans);
			return cli_replay_say("events.csv: invalid trace");
		}
		*colon = 0;
		parent = (uint32_t)strtoul(colon + 1, NULL, 10);
		collect_record_restore(span);
		memcpy(spans + used, &parent, sizeof(parent));
		used += sizeof(parent);
		used += (size_t)(stpcpy((char *)spans + used, span) - (char *)spans) - used + 1;
	}
	err = spans ? collect_judge_trace(l->judge, spans, n) : -ENOMEM;
	free(spans);
	return err ? cli_replay_say("%s", strerror(-err)) : 0;
}

static int apply_event(struct live *l, const struct live_event *e)
{
	struct live_pod *p = find_pod(l, e->instance);
	const struct cli_replay_pod *rows;
	struct collect_judge_pod is = {e->instance, e->ns, e->name, e->service, e->label, NULL};

	if (e->trace)
		return add_trace(l, e->trace);
	if (e->kept) {
		collect_judge_keep(l->judge);
		return 0;
	}
	if (e->accepted) {
		collect_judge_accept(l->judge, e->instance);
		return 0;
	}
	if (!e->columns) {
		collect_judge_gone(l->judge, e->instance);
		for (size_t i = 0; i < l->pods; i++)
			if (l->pod[i] == p)
				l->pod[i] = l->pod[--l->pods];
		free(p);
		return 0;
	}
	rows = cli_replay_file(&l->data, e->file);
	if (!rows || rows->n_columns < e->columns)
		return cli_replay_say("events.csv: there is no metrics/%s with %" PRIu32 " columns",
				      e->file, e->columns);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p || !BASE_GROW(l->pod, l->pods, l->pod_room)) {
			free(p);
			return cli_replay_say("%s", strerror(ENOMEM));
		}
		l->pod[l->pods++] = p;
		p->instance = e->instance;
		p->label = e->label;
	}
	p->at = p->rows == rows ? p->at : 0;
	p->rows = rows;
	p->columns = e->columns;
	is.own = p;
	if (collect_judge_layout(l->judge, &is, rows->columns, e->columns))
		return cli_replay_say("%s: %s", e->name, strerror(ENOMEM));
	return 0;
}

/* Returns the time of the pod's next row, in steps. */
static int64_t moment_of(const struct live *l, const struct live_pod *p)
{
	return p->at < p->rows->rows ? p->rows->t[p->at] / l->every_ns : INT64_MAX;
}

static int replay_run(struct live *l)
{
	size_t next = 0;

	if (begin_run(l))
		return -1;
	for (;;) {
		int64_t moment = next < l->events ? l->event[next].moment : INT64_MAX;

		for (size_t i = 0; i < l->pods; i++)
			moment = BASE_MIN(moment, moment_of(l, l->pod[i]));
		if (moment == INT64_MAX)
			return 0;
		for (; next < l->events && l->event[next].moment <= moment; next++)
			if (apply_event(l, &l->event[next]))
				return -1;
		for (size_t i = 0; i < l->pods; i++) {
			struct live_pod *p = l->pod[i];

			if (moment_of(l, p) != moment)
				continue;
			collect_judge_row(l->judge, p->instance, p->rows->t[p->at],
					  p->rows->values + p->at * p->rows->n_columns);
			p->at++;
		}
		collect_judge_moment(l->judge);
	}
}

static int run_all(struct live *l, size_t bytes)
{
	char *at = l->text, *line;
	bool started = false;
	int err = 0;

	while (!err && (line = cli_replay_line(&at, l->text + bytes))) {
		char *field[9];
		size_t n = cli_replay_cut(line, field, 9);

		if (!n || !*line)
			continue;
		if (!strcmp(field[0], "start") && (n == 7 || n == 8)) {
			err = started ? replay_run(l) : 0;
			end_run(l);
			field[7] = n == 8 ? field[7] : NULL;
			memcpy(l->recorded, field + 1, sizeof(l->recorded));
			l->began_with = NULL;
			started = true;
		} else if (started && n == 2 && !strcmp(field[0], "models") &&
			   !strchr(field[1], '/')) {
			l->began_with = field[1];
		} else if (!started || (err = take_event(l, field, n))) {
			err = cli_replay_say("events.csv: %s",
					     err == -ENOMEM ? strerror(ENOMEM) : "invalid line");
		}
	}
	if (!err)
		err = started ? replay_run(l) : cli_replay_say("events.csv: nothing was recorded");
	end_run(l);
	return err;
}

int cli_replay_live(const char *folder, const struct cli_replay_live_opts *opts)
{
	struct live l = {.o = opts, .folder = folder};
	size_t bytes;
	int err;

	l.text = cli_replay_events(folder, &bytes);
	if (!l.text)
		return -1;
	err = cli_replay_load(&l.data, folder, true);
	if (!err && opts->verdicts)
		fputs(COLLECT_JUDGE_HEAD, opts->verdicts);
	if (!err)
		err = run_all(&l, bytes);
	if (!err)
		fprintf(stderr, "%" PRIu64 " rows, %" PRIu64 " anomalous\n", l.rows, l.flagged);
	if (!l.data.n_pods || err) /* nothing was loaded, or an error occurred */
		err = -1;
	cli_replay_free(&l.data);
	free(l.event);
	free(l.pod);
	free(l.text);
	return err;
}
