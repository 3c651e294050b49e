// SPDX-License-Identifier: Apache-2.0
/*
 * traces.c - the traces of a recording. They define the call graph; the times of their spans are
 * optional evidence. Traces with times are sorted by end time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "act/trace.h"
#include "analyse/graph.h"
#include "analyse/selftime.h"
#include "base/grow.h"
#include "cli/replay/replay.h"
#include "collect/judge/record.h"

struct replay_trace {
	int64_t end_ns; /* end of the last span */
	size_t first;
	uint32_t n;
};

struct cli_replay_traces {
	struct analyse_timed *span;
	struct replay_trace *trace;
	/* assigns numbers to pod names: pods with rows come first, in the order of the data */
	struct analyse_graph *pods;
	size_t spans, span_room, traces, trace_room, timed, next;
};

/* Parses "POD:OPERATION:BEGIN_NS:END_NS". A span without times ends before its start. */
static int parse_times(struct cli_replay_traces *t, char *text, struct analyse_timed *s)
{
	char *pod = strsep(&text, ":"), *operation = strsep(&text, ":"),
	     *begin = strsep(&text, ":");
	uint64_t from, to;
	int64_t number;

	s->end_ns = -1;
	if (!text || base_parse_u64(begin, 1, INT64_MAX, &from) ||
	    base_parse_u64(text, from, INT64_MAX, &to))
		return 0;
	collect_record_restore(pod);
	number = analyse_graph_service(t->pods, pod);
	if (number < 0)
		return (int)number;
	s->pod = (uint32_t)number;
	s->operation = act_trace_key(operation, strlen(operation));
	s->begin_ns = (int64_t)from;
	s->end_ns = (int64_t)to;
	t->timed++;
	return 0;
}

/* Parses one span of a trace, and sets *service to its service. Returns 0 or a negative errno. */
static int parse_span(struct cli_replay_traces *t, struct analyse_graph *g, char *text,
		      uint32_t *service)
{
	char *name = strsep(&text, ":"), *parent = strsep(&text, ":");
	struct analyse_timed s = {0};
	int64_t number;
	uint64_t up;
	int err;

	if (!parent || base_parse_u64(parent, 0, UINT32_MAX, &up))
		return -EINVAL;
	s.parent = (uint32_t)up;
	collect_record_restore(name);
	number = analyse_graph_service(g, name);
	err = number < 0 ? (int)number : parse_times(t, text, &s);
	if (err)
		return err;
	*service = (uint32_t)number;
	if (!BASE_GROW(t->span, t->spans, t->span_room))
		return -ENOMEM;
	t->span[t->spans++] = s;
	return 0;
}

static int add_trace(struct cli_replay_traces *t, struct analyse_graph *g, char *text)
{
	struct replay_trace trace = {.first = t->spans};
	struct analyse_span *made = NULL;
	size_t room = 0, n = 0;
	int err = 0;

	for (char *span; !err && (span = strsep(&text, ";"));) {
		uint32_t service;

		err = parse_span(t, g, span, &service);
		if (!err && !BASE_GROW(made, n, room))
			err = -ENOMEM;
		if (err)
			break;
		made[n++] = (struct analyse_span){service, t->span[t->spans - 1].parent};
		trace.end_ns = BASE_MAX(trace.end_ns, t->span[t->spans - 1].end_ns);
	}
	trace.n = (uint32_t)n;
	err = err ?: analyse_graph_add(g, made, trace.n);
	free(made);
	if (!err && !BASE_GROW(t->trace, t->traces, t->trace_room))
		err = -ENOMEM;
	if (!err)
		t->trace[t->traces++] = trace;
	return err;
}

struct cli_replay_traces *cli_replay_traces_new(struct cli_replay_data *d, struct analyse_graph *g)
{
	struct cli_replay_traces *t = calloc(1, sizeof(*t));
	int err = 0;

	if (t)
		t->pods = analyse_graph_new();
	for (uint32_t i = 0; t && t->pods && i < d->n_pods && !err; i++)
		err = analyse_graph_service(t->pods, d->pods[i].name) == i ? 0 : -ENOMEM;
	for (size_t i = 0; t && t->pods && i < d->traces && !err; i++)
		err = add_trace(t, g, d->trace[i]);
	if (t && t->pods && !err)
		return t;
	cli_replay_say("events.csv: %s",
		       err == -EINVAL ? "invalid trace" : strerror(err ? -err : ENOMEM));
	cli_replay_traces_free(t);
	return NULL;
}

void cli_replay_traces_free(struct cli_replay_traces *t)
{
	if (!t)
		return;
	analyse_graph_free(t->pods);
	free(t->span);
	free(t->trace);
	free(t);
}

size_t cli_replay_traces_timed(const struct cli_replay_traces *t)
{
	return t->timed;
}

void cli_replay_traces_seek(struct cli_replay_traces *t, int64_t ns)
{
	BASE_LOWER_BOUND(t->next, 0, t->traces, t->trace[t->next].end_ns <= ns);
}

int cli_replay_traces_until(struct cli_replay_traces *t, struct analyse_selftime *to, int64_t ns)
{
	int err = 0;

	for (; !err && t->next < t->traces && t->trace[t->next].end_ns <= ns; t->next++) {
		const struct replay_trace *trace = &t->trace[t->next];

		err = analyse_selftime_add(to, t->span + trace->first, trace->n);
		err = err == -E2BIG ? 0 : err;
	}
	return err;
}
