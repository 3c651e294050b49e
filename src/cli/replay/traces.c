// SPDX-License-Identifier: Apache-2.0
/*
 * traces.c - the recorded traces that would be kept. traces.csv has one row per trace, with columns
 * trace_id, start_unix_ns, end_unix_ns, root_pod and pods (joined by |) in any order, among others;
 * root_operation is used if present. The presence or time of traces is no signal, only their
 * content. act/trace.h decides, as it does live.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/trace.h"
#include "cli/replay/replay.h"

#define HELD_ROWS 2 /* lifetime of a verdict: the fast baseline has adapted by then */

#define PODS_MAX  1024u /* per trace; with more, its route is unknown */

struct traces_trace {
	const char *id, *visited; /* pods, joined by | */
	uint64_t start, end, at;  /* ns; at: of the decision */
	uint64_t root_key, route;
	uint32_t root; /* pod, or UINT32_MAX */
	size_t line;
	float score, others, suspicion;
	enum act_trace_reason reason;
};

struct traces {
	char *text;
	struct traces_trace *v;
	size_t n;
	uint64_t malformed, unknown;
};

enum { ID, START, END, ROOT, PODS, OPERATION, FIELDS };
static const char *const names[FIELDS] = {"trace_id", "start_unix_ns", "end_unix_ns",
					  "root_pod", "pods",	       "root_operation"};

/* Splits at commas. False unless there are n fields. */
static bool split(char *line, char **fields, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		char *stop = strchrnul(line, ',');

		fields[i] = line;
		if ((*stop == 0) != (i + 1 == n))
			return false;
		*stop = 0;
		line = stop + 1;
	}
	return true;
}

static bool number(const char *s, uint64_t *v)
{
	return !base_parse_u64(s, 0, UINT64_MAX, v);
}

/* Identifies root, operation and the set of pods. 0: too many. */
static uint64_t route_of(uint64_t root_key, const char *pods)
{
	uint64_t keys[PODS_MAX];
	size_t n = 0, bytes;

	for (; *pods; pods += bytes + (pods[bytes] == '|')) {
		bytes = strcspn(pods, "|");
		if (n == PODS_MAX)
			return 0;
		keys[n++] = act_trace_key(pods, bytes);
	}
	return act_trace_route(root_key, keys, n);
}

static int name_order(const char *name, const char *text, size_t bytes)
{
	int c = strncmp(name, text, bytes);

	return c ? c : name[bytes] != 0;
}

static uint32_t pod_of(const struct cli_replay_data *d, const char *name, size_t bytes)
{
	size_t at;

	BASE_LOWER_BOUND(at, 0, d->n_pods, name_order(d->pods[at].name, name, bytes) < 0);
	return at < d->n_pods && !name_order(d->pods[at].name, name, bytes) ? (uint32_t)at
									    : UINT32_MAX;
}

static int load(struct traces *t, const struct cli_replay_data *d, const char *path)
{
	char *at, *end, *line, **fields;
	uint32_t n = 1, where[FIELDS];
	size_t bytes, lines = 1;

	t->text = base_read_file(path, REPLAY_FILE_MAX, &bytes);
	if (!t->text)
		return cli_replay_say("%s: %s", path, strerror(errno));
	at = t->text;
	end = at + bytes;
	for (char *c = at; c < end; c++)
		lines += *c == '\n';
	line = cli_replay_line(&at, end);
	for (const char *c = line; c && *c; c++)
		n += *c == ',';
	fields = calloc(n, sizeof(*fields));
	t->v = calloc(lines, sizeof(*t->v));
	if (!fields || !t->v) {
		free(fields);
		return cli_replay_say("%s: %s", path, strerror(ENOMEM));
	}
	if (!line || !split(line, fields, n))
		n = 0;
	for (int f = 0; f < FIELDS; f++) {
		for (where[f] = 0; where[f] < n && strcmp(fields[where[f]], names[f]); where[f]++)
			;
		if (where[f] == n && f != OPERATION) {
			free(fields);
			return cli_replay_say("%s: no column '%s'", path, names[f]);
		}
	}
	for (size_t k = 0; (line = cli_replay_line(&at, end)); k++) {
		struct traces_trace *v = &t->v[t->n];

		if (!*line)
			continue;
		if (!split(line, fields, n) || !number(fields[where[START]], &v->start) ||
		    !number(fields[where[END]], &v->end) || v->end < v->start ||
		    !*fields[where[ID]]) {
			t->malformed++;
			continue;
		}
		v->id = fields[where[ID]];
		v->line = k;
		v->visited = fields[where[PODS]];
		v->root_key = act_trace_key(fields[where[ROOT]], strlen(fields[where[ROOT]]));
		if (where[OPERATION] < n)
			v->root_key ^= act_trace_key(fields[where[OPERATION]],
						     strlen(fields[where[OPERATION]]))
				       << 1;
		v->route = route_of(v->root_key, v->visited);
		v->root = pod_of(d, fields[where[ROOT]], strlen(fields[where[ROOT]]));
		t->unknown += v->root == UINT32_MAX;
		t->n++;
	}
	free(fields);
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct traces_trace *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static int by_line(const void *a, const void *b)
{
	const struct traces_trace *x = a, *y = b;

	return (x->line > y->line) - (x->line < y->line);
}

/* The latest verdicts on a pod. */
struct recent {
	float score[HELD_ROWS], suspicion[HELD_ROWS];
	int64_t at[HELD_ROWS];
	uint32_t next;
};

static float largest(const struct recent *r, const float v[HELD_ROWS], int64_t since)
{
	float most = 0;

	for (uint32_t i = 0; i < HELD_ROWS; i++)
		if (r->at[i] >= since && v[i] > most)
			most = v[i];
	return most;
}

/* Verdicts of the last HELD_ROWS rows before the decision on the trace. */
static void look_up(const struct cli_replay_data *d, struct traces_trace *v,
		    const struct recent *recent, int64_t since)
{
	if (v->root != UINT32_MAX)
		v->score = largest(&recent[v->root], recent[v->root].score, since);
	for (const char *p = v->visited; *p;) {
		size_t bytes = strcspn(p, "|");
		uint32_t pod = pod_of(d, p, bytes);

		if (pod != UINT32_MAX) {
			float s = largest(&recent[pod], recent[pod].score, since);

			v->others = BASE_MAX(s, v->others);
			v->suspicion += largest(&recent[pod], recent[pod].suspicion, since);
		}
		p += bytes + (p[bytes] == '|');
	}
}

static int look_up_scores(const struct cli_replay_data *d, struct traces *t,
			  const struct cli_replay_verdict *verdicts, size_t n)
{
	struct recent *recent = calloc(d->n_pods, sizeof(*recent));
	int64_t old = d->step_ns * (HELD_ROWS + 1);
	size_t k = 0;

	if (!recent)
		return -1;
	for (size_t i = 0; i < t->n; i++) {
		struct traces_trace *v = &t->v[i];
		int64_t now = v->at < INT64_MAX ? (int64_t)v->at : INT64_MAX;

		for (; k < n && verdicts[k].unix_ns <= now; k++) {
			struct recent *r = &recent[verdicts[k].pod];
			uint32_t to = r->next++ % HELD_ROWS;

			r->score[to] = verdicts[k].score;
			r->suspicion[to] = verdicts[k].suspicion;
			r->at[to] = verdicts[k].unix_ns;
		}
		look_up(d, v, recent, now - old);
	}
	free(recent);
	return 0;
}

int cli_replay_traces(const struct cli_replay_data *d, const char *path,
		      const struct cli_replay_verdict *verdicts, size_t n, double budget,
		      bool latency, FILE *out)
{
	/*
	 * Half of the budget that verdicts leave is spent at random, and at the end all of it, so
	 * that verdicts do no harm where they say nothing: twice the share of all ids, to make up
	 * for the half.
	 */
	struct act_trace_policy_opts o = {
		.budget = budget, .at_start = !latency, .head = latency ? 0 : fmin(2 * budget, 1)};
	struct act_trace_policy *policy = NULL;
	struct act_trace_policy_stats stats;
	struct traces t = {0};
	int err = -1;

	if (load(&t, d, path))
		goto out;
	for (size_t i = 0; i < t.n; i++)
		t.v[i].at = latency ? t.v[i].end : t.v[i].start;
	qsort(t.v, t.n, sizeof(*t.v), by_time);
	if (look_up_scores(d, &t, verdicts, n)) {
		cli_replay_say("%s: %s", path, strerror(ENOMEM));
		goto out;
	}
	o.total = t.n;
	policy = act_trace_policy_new(&o);
	if (!policy) {
		cli_replay_say("%s: %s", path, strerror(errno));
		goto out;
	}
	for (size_t i = 0; i < t.n; i++) {
		struct traces_trace *v = &t.v[i];
		struct act_trace_facts f = {
			.root = v->root_key,
			.route = v->route,
			.trace_lo = act_trace_key(v->id, strlen(v->id)),
			.duration_ns = v->end - v->start,
			.score = (double)v->score,
			.others = (double)v->others,
			.suspicion = (double)v->suspicion,
		};

		v->reason = act_trace_decide(policy, &f);
	}
	qsort(t.v, t.n, sizeof(*t.v), by_line);
	fputs("trace_id,kept,reason\n", out);
	for (size_t i = 0; i < t.n; i++)
		fprintf(out, "%s,%d,%s\n", t.v[i].id, t.v[i].reason != ACT_TRACE_NO,
			act_trace_reason_name(t.v[i].reason));
	if (t.malformed)
		cli_replay_say("%" PRIu64 " rows of traces malformed", t.malformed);
	if (t.unknown)
		cli_replay_say("%" PRIu64 " traces of pods without metrics", t.unknown);
	act_trace_policy_stats(policy, &stats);
	if (stats.evicted || stats.lost)
		cli_replay_say("%" PRIu64 " routes forgotten for others",
			       stats.evicted + stats.lost);
	err = 0;
out:
	act_trace_policy_free(policy);
	free(t.text);
	free(t.v);
	return err;
}
