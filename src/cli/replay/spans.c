// SPDX-License-Identifier: Apache-2.0
/*
 * spans.c - a file of spans: TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,
 * EndTimeUnixNano,Duration with a header, in any order; the parent of a root span is "root". Files
 * of several minutes may follow each other, with their headers and with spans that two of them
 * have. Names give the call graph; times are evidence only if that is asked for.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "act/trace.h"
#include "analyse/graph.h"
#include "analyse/selftime.h"
#include "base/grow.h"
#include "cli/replay/replay.h"

#define HEADER "TraceID,SpanID,ParentID,PodName"

struct replay_span {
	uint64_t trace, span, parent, operation; /* hashes; parent 0: root */
	int64_t begin_ns, end_ns;		 /* 0: not known */
	uint32_t service, pod;
};

struct replay_trace {
	int64_t end_ns; /* of its last span */
	size_t first, n;
};

struct cli_replay_spans {
	struct replay_span *span;
	struct replay_trace *trace; /* in the order of their ends */
	struct analyse_graph *pods; /* their names; those of the metrics first, in their order */
	const struct cli_replay_data *data;
	uint32_t *other; /* names beyond those: the pod that is meant */
	size_t others, other_room;
	struct analyse_timed *timed;
	size_t n, room, traces, trace_room, next, longest;
	uint64_t malformed, untimed, large, twice;
};

/* A name that Kubernetes makes up: digits and consonants, as of a ReplicaSet or a pod. */
static bool made_up(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)s[i]) &&
		    (!islower((unsigned char)s[i]) || strchr("aeiou", s[i])))
			return false;
	return n > 0;
}

void cli_replay_service(const char *pod, char *service, size_t bytes)
{
	char *dash;

	snprintf(service, bytes, "%s", pod);
	for (int cuts = 0; cuts < 2; cuts++) {
		dash = strrchr(service, '-');
		if (!dash || dash == service || !made_up(dash + 1, strlen(dash + 1)))
			return;
		*dash = 0;
	}
}

static uint64_t hash(const char *s)
{
	uint64_t h = act_trace_key(s, strlen(s));

	return h ? h : 1;
}

/* Times are the last fields but one; the operation before them may have commas. */
static bool read_times(char *rest, struct replay_span *s)
{
	char *duration = strrchr(rest, ','), *end, *begin;
	uint64_t from, to;

	if (!duration)
		return false;
	*duration = 0;
	end = strrchr(rest, ',');
	if (!end)
		return false;
	*end++ = 0;
	begin = strrchr(rest, ',');
	if (!begin)
		return false;
	*begin++ = 0;
	if (base_parse_u64(begin, 0, INT64_MAX, &from) || base_parse_u64(end, 0, INT64_MAX, &to) ||
	    to < from || !from)
		return false;
	s->begin_ns = (int64_t)from;
	s->end_ns = (int64_t)to;
	s->operation = hash(rest);
	return true;
}

/* The pod of the metrics that such a name means; none: the only one of its service, or itself. */
static int64_t find_pod(struct cli_replay_spans *s, const char *name, const char *service)
{
	int64_t n = analyse_graph_service(s->pods, name);
	uint32_t found = 0, known = s->data->n_pods;
	char of[256];

	if (n < known)
		return n;
	if ((size_t)n - known < s->others)
		return s->other[n - known];
	if (!BASE_GROW(s->other, s->others, s->other_room))
		return -ENOMEM;
	s->other[s->others] = (uint32_t)n;
	for (uint32_t i = 0; i < known; i++) {
		cli_replay_service(s->data->pods[i].name, of, sizeof(of));
		if (!strcmp(of, service) && !found++)
			s->other[s->others] = i;
	}
	if (found > 1)
		s->other[s->others] = (uint32_t)n;
	return s->other[s->others++];
}

static int add_line(struct cli_replay_spans *s, struct analyse_graph *g, char *line)
{
	char *at = line, *trace = strsep(&at, ","), *span = strsep(&at, ","),
	     *parent = strsep(&at, ","), *pod = strsep(&at, ",");
	struct replay_span *to;
	char service[256];
	int64_t number, n_pod;

	if (pod && !strcmp(trace, "TraceID") && !strcmp(span, "SpanID"))
		return 0; /* the header of a further file */
	if (!pod || !*trace || !*span || !*pod) {
		s->malformed++;
		return 0;
	}
	cli_replay_service(pod, service, sizeof(service));
	number = analyse_graph_service(g, service);
	n_pod = find_pod(s, pod, service);
	if (number == -ENOSPC || n_pod == -ENOSPC) {
		s->malformed++;
		return 0;
	}
	if (number < 0 || n_pod < 0 || !BASE_GROW(s->span, s->n, s->room))
		return -ENOMEM;
	to = &s->span[s->n++];
	*to = (struct replay_span){
		.trace = hash(trace),
		.span = hash(span),
		.parent = !*parent || !strcmp(parent, "root") ? 0 : hash(parent),
		.service = (uint32_t)number,
		.pod = (uint32_t)n_pod,
	};
	s->untimed += !at || !read_times(at, to);
	return 0;
}

static int by_trace_and_span(const void *a, const void *b)
{
	const struct replay_span *x = a, *y = b;

	if (x->trace != y->trace)
		return x->trace < y->trace ? -1 : 1;
	return x->span < y->span ? -1 : x->span > y->span;
}

/* The parent's place in its trace of n spans. */
static uint32_t find_parent(const struct replay_span *s, size_t n, uint64_t trace, uint64_t parent)
{
	const struct replay_span key = {.trace = trace, .span = parent};
	const struct replay_span *at;

	if (!parent)
		return ANALYSE_SPAN_ROOT;
	at = bsearch(&key, s, n, sizeof(*s), by_trace_and_span);
	return at ? (uint32_t)(at - s) : ANALYSE_SPAN_LOST;
}

/* Of spans with one id the first in their order counts. */
static void drop_twice(struct cli_replay_spans *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (kept && !by_trace_and_span(&s->span[kept - 1], &s->span[i]))
			s->twice++;
		else
			s->span[kept++] = s->span[i];
	}
	s->n = kept;
}

static int by_end(const void *a, const void *b)
{
	const struct replay_trace *x = a, *y = b;

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Finds the traces, and adds each to the graph. */
static int add_traces(struct cli_replay_spans *s, struct analyse_graph *g)
{
	struct analyse_span *made = malloc((s->n + 1) * sizeof(*made));
	int err = made ? 0 : -ENOMEM;
	size_t n;

	if (s->n)
		qsort(s->span, s->n, sizeof(*s->span), by_trace_and_span);
	drop_twice(s);
	for (size_t i = 0; i < s->n && !err; i += n) {
		struct replay_trace t = {.first = i};

		for (n = 1; i + n < s->n && s->span[i + n].trace == s->span[i].trace; n++)
			;
		for (size_t k = 0; k < n; k++) {
			const struct replay_span *span = &s->span[i + k];

			made[k] = (struct analyse_span){
				.service = span->service,
				.parent = find_parent(s->span + i, n, span->trace, span->parent),
			};
			t.end_ns = BASE_MAX(t.end_ns, span->end_ns);
		}
		t.n = n;
		s->longest = BASE_MAX(s->longest, n);
		err = analyse_graph_add(g, made, (uint32_t)n);
		if (!err && !BASE_GROW(s->trace, s->traces, s->trace_room))
			err = -ENOMEM;
		if (!err)
			s->trace[s->traces++] = t;
	}
	free(made);
	if (s->traces)
		qsort(s->trace, s->traces, sizeof(*s->trace), by_end);
	s->timed = malloc((s->longest + 1) * sizeof(*s->timed));
	return err ?: s->timed ? 0 : -ENOMEM;
}

static struct cli_replay_spans *new_spans(const struct cli_replay_data *d)
{
	struct cli_replay_spans *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->data = d;
	s->pods = analyse_graph_new();
	for (uint32_t i = 0; s->pods && i < d->n_pods; i++)
		if (analyse_graph_service(s->pods, d->pods[i].name) != i) {
			analyse_graph_free(s->pods);
			s->pods = NULL;
		}
	if (s->pods)
		return s;
	cli_replay_spans_free(s);
	return NULL;
}

void cli_replay_spans_free(struct cli_replay_spans *s)
{
	if (!s)
		return;
	analyse_graph_free(s->pods);
	free(s->span);
	free(s->trace);
	free(s->timed);
	free(s->other);
	free(s);
}

struct cli_replay_spans *cli_replay_spans(const struct cli_replay_data *d, struct analyse_graph *g,
					  const char *path)
{
	struct cli_replay_spans *s;
	char *text, *at, *line;
	size_t bytes;
	int err = 0;

	text = base_read_file(path, REPLAY_FILE_MAX, &bytes);
	if (!text) {
		cli_replay_say("%s: %s", path, strerror(errno));
		return NULL;
	}
	at = text;
	line = cli_replay_line(&at, text + bytes);
	if (!line || strncmp(line, HEADER, strlen(HEADER))) {
		free(text);
		cli_replay_say("%s: no header " HEADER, path);
		return NULL;
	}
	s = new_spans(d);
	if (!s)
		err = -ENOMEM;
	while (!err && (line = cli_replay_line(&at, text + bytes)))
		if (*line)
			err = add_line(s, g, line);
	free(text);
	err = err ?: add_traces(s, g);
	if (err) {
		cli_replay_say("%s: %s", path, strerror(-err));
		cli_replay_spans_free(s);
		return NULL;
	}
	if (s->twice)
		cli_replay_say("%s: %llu spans are there twice", path,
			       (unsigned long long)s->twice);
	if (s->malformed)
		cli_replay_say("%s: %llu spans malformed", path, (unsigned long long)s->malformed);
	return s;
}

/* ---- their times ---- */

void cli_replay_spans_seek(struct cli_replay_spans *s, int64_t ns)
{
	BASE_LOWER_BOUND(s->next, 0, s->traces, s->trace[s->next].end_ns <= ns);
}

int cli_replay_spans_until(struct cli_replay_spans *s, struct analyse_selftime *to, int64_t ns)
{
	int err = 0;

	for (; !err && s->next < s->traces && s->trace[s->next].end_ns <= ns; s->next++) {
		const struct replay_trace *t = &s->trace[s->next];
		const struct replay_span *span = s->span + t->first;

		for (size_t k = 0; k < t->n; k++)
			s->timed[k] = (struct analyse_timed){
				.pod = span[k].pod,
				.parent = find_parent(span, t->n, span[k].trace, span[k].parent),
				.operation = span[k].operation,
				.begin_ns = span[k].end_ns ? span[k].begin_ns : 0,
				.end_ns = span[k].end_ns ?: -1, /* without times: left out */
			};
		err = analyse_selftime_add(to, s->timed, (uint32_t)BASE_MIN(t->n, UINT32_MAX));
		s->large += err == -E2BIG;
		err = err == -E2BIG ? 0 : err;
	}
	return err;
}

void cli_replay_spans_say(const struct cli_replay_spans *s)
{
	if (s->untimed)
		cli_replay_say("%llu spans without times", (unsigned long long)s->untimed);
	if (s->large)
		cli_replay_say("%llu traces of more than %u spans are no evidence",
			       (unsigned long long)s->large, ANALYSE_TRACE_MAX);
}
