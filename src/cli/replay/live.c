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

/* A pod with rows left to replay. */
struct live_pod {
	uint64_t instance;
	const struct cli_replay_pod *rows; /* rows of the pod; NULL if the pod is gone */
	uint64_t at;
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
	struct live_pod **pod;
	size_t pods, pod_room;
	struct collect_judge *judge;
	struct collect_models *models;
	int64_t every_ns;
	/* moment of the last event, until the rows of that moment are judged; then INT64_MAX */
	int64_t moment;
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
	l->moment = INT64_MAX;
	return l->judge ? 0 : cli_replay_say("%s", strerror(ENOMEM));
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

static void remove_pod(struct live *l, uint64_t instance)
{
	struct live_pod *p = collect_judge_gone(l->judge, instance);

	for (size_t i = 0; i < l->pods; i++)
		if (l->pod[i] == p)
			l->pod[i] = l->pod[--l->pods];
	free(p);
}

/*
 * Adds a pod, or changes its columns. The event is
 * "layout,MOMENT,NS,INSTANCE,COLUMNS,FILE,NAME,SERVICE[,LABEL[,OWNER]]".
 */
static int set_pod_columns(struct live *l, char **f, size_t n)
{
	struct collect_judge_pod is = {.instance = strtoull(f[3], NULL, 16),
				       .ns = strtoll(f[2], NULL, 10)};
	uint32_t columns = (uint32_t)strtoul(f[4], NULL, 10);
	struct live_pod *p = collect_judge_own(l->judge, is.instance);
	const struct cli_replay_pod *rows;

	for (size_t i = 5; i < n; i++)
		collect_record_restore(f[i]);
	is.name = f[6];
	is.service = f[7];
	is.label = n > 8 ? f[8] : f[6]; /* old recordings have no label */
	is.owner = n > 9 ? f[9] : "";
	if (!columns) /* rows without values are not recorded */
		return 0;
	rows = cli_replay_file(&l->data, f[5]);
	if (!rows || rows->n_columns < columns)
		return cli_replay_say("events.csv: there is no metrics/%s with %" PRIu32 " columns",
				      f[5], columns);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p || !BASE_GROW(l->pod, l->pods, l->pod_room)) {
			free(p);
			return cli_replay_say("%s", strerror(ENOMEM));
		}
		l->pod[l->pods++] = p;
		p->instance = is.instance;
		p->label = is.label;
	}
	p->at = p->rows == rows ? p->at : 0;
	p->rows = rows;
	is.own = p;
	if (collect_judge_layout(l->judge, &is, rows->columns, columns))
		return cli_replay_say("%s: %s", is.name, strerror(ENOMEM));
	return 0;
}

/* Returns the time of the pod's next row, in steps. */
static int64_t moment_of(const struct live *l, const struct live_pod *p)
{
	return p->at < p->rows->rows ? p->rows->t[p->at] / l->every_ns : INT64_MAX;
}

/* Judges the rows of all moments before `end`. */
static void judge_until(struct live *l, int64_t end)
{
	for (;;) {
		int64_t moment = l->moment;

		for (size_t i = 0; i < l->pods && l->moment == INT64_MAX; i++)
			moment = BASE_MIN(moment, moment_of(l, l->pod[i]));
		if (moment >= end)
			return;
		l->moment = INT64_MAX;
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

/* Applies an event of a run: a line of n fields. */
static int take_event(struct live *l, char **f, size_t n)
{
	static const struct {
		const char *name;
		size_t least, most;
	} kinds[] = {{"layout", 8, 10},
		     {"gone", 3, 3},
		     {"accept", 3, 3},
		     {"trace", 3, 3},
		     {"kept", 2, 2}};
	size_t kind = 0;
	int64_t moment;

	while (kind < 5 && strcmp(f[0], kinds[kind].name))
		kind++;
	if (kind == 5 || n < kinds[kind].least || n > kinds[kind].most)
		return cli_replay_say("events.csv: invalid line");
	if (!l->judge && begin_run(l))
		return -1;
	moment = strtoll(f[1], NULL, 10);
	judge_until(l, moment);
	l->moment = l->moment == INT64_MAX ? moment : BASE_MAX(moment, l->moment);
	switch (kind) {
	case 0:
		return set_pod_columns(l, f, n);
	case 1:
		remove_pod(l, strtoull(f[2], NULL, 16));
		return 0;
	case 2:
		collect_judge_accept(l->judge, strtoull(f[2], NULL, 16));
		return 0;
	case 3:
		return add_trace(l, f[2]);
	default:
		collect_judge_keep(l->judge);
		return 0;
	}
}

/* Ends a run: judges the rest of its rows. err: an earlier error, or 0. */
static int end_run(struct live *l, int err)
{
	if (!err && !l->judge)
		err = begin_run(l);
	if (!err)
		judge_until(l, INT64_MAX);
	collect_judge_free(l->judge);
	collect_models_free(l->models);
	l->judge = NULL;
	l->models = NULL;
	while (l->pods)
		free(l->pod[--l->pods]);
	l->began_with = NULL;
	return err;
}

static int run_all(struct live *l, size_t bytes)
{
	char *at = l->text, *line;
	bool started = false;
	int err = 0;

	while (!err && (line = cli_replay_line(&at, l->text + bytes))) {
		char *field[10];
		size_t n = cli_replay_cut(line, field, 10);

		if (!n || !*line)
			continue;
		if (!strcmp(field[0], "start") && (n == 7 || n == 8)) {
			err = started ? end_run(l, 0) : 0;
			field[7] = n == 8 ? field[7] : NULL;
			memcpy(l->recorded, field + 1, sizeof(l->recorded));
			started = true;
		} else if (!started) {
			err = cli_replay_say("events.csv: invalid line");
		} else if (n == 2 && !strcmp(field[0], "models") && !strchr(field[1], '/')) {
			l->began_with = field[1];
		} else {
			err = take_event(l, field, n);
		}
	}
	if (started)
		return end_run(l, err);
	return err ?: cli_replay_say("events.csv: nothing was recorded");
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
	free(l.pod);
	free(l.text);
	return err;
}
