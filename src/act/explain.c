// SPDX-License-Identifier: Apache-2.0
#include "act/explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/text.h"

#define SECOND_NS   1000000000ll
#define CONNECTIONS " (tcp)" /* suffix of the service name of a workload's connections */
#define SAID	    2u	     /* metrics named in a sentence; the blame list has all of them */
#define SHARE_LEAST 0.1	     /* minimum share of each further metric in a sentence */
#define NAMED	    3u	     /* maximum number of other pods in a sentence */

struct explain_text {
	char *at;
	size_t left;
};

__attribute__((format(printf, 2, 3))) static void append_text(struct explain_text *t,
							      const char *fmt, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = (size_t)vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	n = n < t->left ? n : t->left - 1;
	t->at += n;
	t->left -= n;
}

const char *act_pod_label(const struct act_pod_name *n, char *text, size_t room)
{
	/* Without a configured pod name, libsidelight uses the host name. */
	bool named = *n->pod && strcmp(n->pod, n->host);
	const char *name = named ? n->pod : *n->container ? n->container : n->service;

	if (named || !n->process)
		snprintf(text, room, "%s", *name ? name : "a pod");
	else
		snprintf(text, room, "%s[%u]", *name ? name : "process", n->process);
	return text;
}

bool act_is_host(const struct act_pod_name *n)
{
	return *n->service == '(' || !strcmp(n->service, "host");
}

/* ---- values ---- */

/* Appends v in the largest of n units that it reaches; the first unit is the smallest. */
static void put_scaled(char *text, size_t room, double v, double step, const char *const *unit,
		       size_t n)
{
	size_t i = 0;

	for (; i + 1 < n && fabs(v) >= step * 0.9995; i++)
		v /= step;
	snprintf(text, room, fabs(v) >= 1000 ? "%.0f %s" : "%.3g %s", v, unit[i]);
}

static void put_seconds(char *text, size_t room, double seconds)
{
	static const char *const unit[] = {"ns", "µs", "ms", "s"};

	if (seconds == 0)
		snprintf(text, room, "0 s");
	else
		put_scaled(text, room, seconds * 1e9, 1000, unit, 4);
}

/* The parts of a metric's name: its statistic, the name proper, and its labels. */
struct metric_name {
	const char *statistic; /* "p90 of ", or "" */
	int bytes;	       /* length of the name proper */
	int total;	       /* length of the name proper without _total */
	const char *labels;    /* "" or "{...}" */
};

static bool ends_with(const char *name, int *bytes, const char *end)
{
	int n = (int)strlen(end);

	if (*bytes <= n || strncmp(name + *bytes - n, end, (size_t)n) != 0)
		return false;
	*bytes -= n;
	return true;
}

static struct metric_name parse_name(const char *metric)
{
	static const struct {
		const char *end, *says;
	} part[] = {{"_p50", "median of "}, {"_p90", "p90 of "},   {"_p95", "p95 of "},
		    {"_p99", "p99 of "},    {"_mean", "mean of "}, {"_count", "number of "}};
	struct metric_name n = {.statistic = "", .bytes = (int)strcspn(metric, "{")};

	n.labels = metric + n.bytes;
	for (size_t i = 0; i < sizeof(part) / sizeof(*part) && !*n.statistic; i++)
		if (ends_with(metric, &n.bytes, part[i].end))
			n.statistic = part[i].says;
	n.total = n.bytes;
	ends_with(metric, &n.total, "_total");
	return n;
}

void act_value(char *text, size_t room, const struct act_blame *b, double value)
{
	static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	struct metric_name n = parse_name(b->metric);
	bool count = !strcmp(n.statistic, "number of "), rate = b->rate;
	int at = n.total;
	size_t used;

	if (!count && ends_with(b->metric, &at, "_bytes")) {
		put_scaled(text, room, value, 1024, bytes, 5);
	} else if (!count && b->measure == ACT_MEASURE_CPU && rate &&
		   ends_with(b->metric, &at, "_seconds")) {
		snprintf(text, room, "%.3g %% of a CPU", value * 100);
		rate = false;
	} else if (!count && ends_with(b->metric, &at, "_nanoseconds")) {
		put_seconds(text, room, value * 1e-9);
	} else if (!count && ends_with(b->metric, &at, "_seconds")) {
		put_seconds(text, room, value);
	} else if (!count && ends_with(b->metric, &at, "_ratio")) {
		snprintf(text, room, "%.3g %%", value * 100);
	} else {
		snprintf(text, room, fabs(value) >= 1000 ? "%.0f" : "%.3g", value);
	}
	used = strlen(text);
	if (rate)
		snprintf(text + used, room - used, " per second");
}

static bool has_risen(const struct act_blame *b)
{
	return !(b->value < b->before);
}

static void add_metric(struct explain_text *t, const struct act_blame *b)
{
	struct metric_name n = parse_name(b->metric);
	char now[64], before[64];

	act_value(now, sizeof(now), b, b->value);
	act_value(before, sizeof(before), b, b->before);
	append_text(t, "%s%.*s%s", n.statistic, n.bytes, b->metric, n.labels);
	if (isfinite(b->value) && isfinite(b->before))
		append_text(t, " %s from %s to %s", has_risen(b) ? "rose" : "fell", before, now);
	else if (isfinite(b->value))
		append_text(t, " is %s", now);
	else
		append_text(t, " is unusual");
}

/* ---- parts of sentences ---- */

static void add_time(struct explain_text *t, int64_t ns)
{
	time_t s = (time_t)(ns / SECOND_NS);
	struct tm tm;
	char text[32];

	localtime_r(&s, &tm);
	strftime(text, sizeof(text), "%H:%M:%S %Z", &tm);
	append_text(t, "%s", text);
}

size_t act_service_length(const char *service)
{
	size_t n = strlen(service), end = strlen(CONNECTIONS);

	return n > end && !strcmp(service + n - end, CONNECTIONS) ? n - end : n;
}

static bool is_connections(const struct act_pod_name *n)
{
	return n->service[act_service_length(n->service)];
}

static void add_pod(struct explain_text *t, const struct act_pod_name *n)
{
	char label[ACT_LABEL_BYTES];

	if (is_connections(n) && act_is_host(n))
		append_text(t, "the connections of the host %s itself", n->host);
	else if (is_connections(n))
		append_text(t, "the connections of %.*s", (int)act_service_length(n->service),
			    n->service);
	else if (act_is_host(n))
		append_text(t, "the host %s", n->host);
	else
		append_text(t, "%s", act_pod_label(n, label, sizeof(label)));
}

/*
 * Describes a pod's fault by the metric with the largest share. Connections are only said to be
 * unusual: their metrics are more specific than any phrase here.
 */
static const char *find_fault(const struct act_anomaly *a)
{
	static const char *const says[][2] = {
		[ACT_MEASURE_OTHER] = {"behaved unusually", "behaved unusually"},
		[ACT_MEASURE_LOAD] = {"had less traffic than usual", "had more traffic than usual"},
		[ACT_MEASURE_LATENCY] = {"been faster than usual", "been slow"},
		[ACT_MEASURE_ERRORS] = {"had fewer errors than usual", "had errors"},
		[ACT_MEASURE_CPU] = {"used less CPU than usual", "used more CPU than usual"},
		[ACT_MEASURE_MEMORY] = {"kept less in memory than usual",
					"kept more in memory than usual"},
		[ACT_MEASURE_WAITING] = {"had less work waiting than usual",
					 "had more work waiting than usual"},
	};

	if (a->delay > 0 && !is_connections(&a->name))
		return "been slow";
	if (!a->blames || is_connections(&a->name))
		return says[ACT_MEASURE_OTHER][0];
	return says[a->blame[0].measure][has_risen(&a->blame[0])];
}

/* Adds "has been slow since 10:23:41 CET" or, with an end, "was slow from ... to ...". */
static void add_fault(struct explain_text *t, const struct act_anomaly *a, const char *says,
		      int64_t begin_ns, int64_t end_ns)
{
	bool was = end_ns && !strncmp(says, "been ", 5);

	append_text(t, " %s%s %s ",
		    was			       ? "was "
		    : end_ns		       ? ""
		    : is_connections(&a->name) ? "have "
					       : "has ",
		    was ? says + 5 : says, end_ns ? "from" : "since");
	add_time(t, begin_ns);
	if (!end_ns)
		return;
	append_text(t, " to ");
	add_time(t, end_ns);
}

static bool is_same_metric(const struct act_blame *a, const struct act_blame *b)
{
	struct metric_name x = parse_name(a->metric), y = parse_name(b->metric);

	return x.bytes == y.bytes && !strncmp(a->metric, b->metric, (size_t)x.bytes);
}

/*
 * Names only one of several statistics or series of the same metric, because they show the same
 * thing, and leaves out metrics with a small share, which show little.
 */
static void add_evidence(struct explain_text *t, const struct act_anomaly *a)
{
	uint32_t said = 0;

	for (uint32_t i = 0; i < a->blames && said < SAID; i++) {
		bool again = said && a->blame[i].share < SHARE_LEAST;

		for (uint32_t k = 0; k < i; k++)
			again |= is_same_metric(&a->blame[i], &a->blame[k]);
		if (again)
			continue;
		append_text(t, said++ ? ", and " : ": ");
		add_metric(t, &a->blame[i]);
	}
}

void act_explain(char *text, size_t room, const struct act_anomaly *a)
{
	struct explain_text t = {text, room};

	add_pod(&t, &a->name);
	add_fault(&t, a, find_fault(a), a->begin_ns, a->end_ns ? a->last_ns : 0);
	add_evidence(&t, a);
	append_text(&t, "; score %.3g, where 1 is the threshold", a->peak);
}

/* ---- incidents ---- */

static void add_callers(struct explain_text *t, const struct act_anomaly *a, bool over)
{
	char delay[32];

	put_seconds(delay, sizeof(delay), a->delay);
	if (a->delay > 0)
		append_text(t, ". Calls to it %s %s longer%s%s", over ? "took" : "take", delay,
			    *a->callers ? ", as seen by " : "", a->callers);
	else if (*a->callers)
		append_text(t, ". Its callers %s see it, too", a->callers);
}

/* Returns the strength of a member's evidence, on the same scale as the cause's evidence. */
static double get_evidence(const struct act_incident *i, double suspicion, double peak)
{
	return i->cause.suspicion >= 1 ? suspicion : peak;
}

static void add_members(struct explain_text *t, const struct act_incident *i)
{
	const struct act_member *next = NULL;
	const double own = get_evidence(i, i->cause.suspicion, i->cause.peak);
	uint32_t others = i->members + i->left_out - 1, said = 0;
	double most = 0;

	for (uint32_t k = 0; k < i->members; k++) {
		const struct act_member *m = &i->member[k];
		double evidence = get_evidence(i, m->suspicion, m->peak);

		/*
		 * A host's score may be higher than the cause's score, because it only counts half.
		 */
		if (m->instance == i->cause.instance || evidence < most || evidence > own)
			continue;
		next = m;
		most = evidence;
	}
	append_text(t, ". Its score is %.3g, where 1 is the threshold", own);
	if (next && most > 0) {
		append_text(t, "; the next suspect, ");
		add_pod(t, &next->name);
		append_text(t, ", has %.3g", most);
	}
	for (uint32_t k = 0; k < i->members && said < NAMED; k++) {
		const struct act_member *m = &i->member[k];

		if (m->instance == i->cause.instance)
			continue;
		append_text(t, said++ ? ", " : ". Also affected: ");
		add_pod(t, &m->name);
	}
	if (said == NAMED && others > said)
		append_text(t, " and others");
}

/* Recommends a first step, depending on what is known and on the metric with the largest share. */
static void add_advice(struct explain_text *t, const struct act_incident *i)
{
	static const char *const says[] = {
		[ACT_MEASURE_OTHER] = "look at this metric over time",
		[ACT_MEASURE_LOAD] = "see who calls it: sidelight tcp flows",
		[ACT_MEASURE_LATENCY] =
			"compare its latency with that of the services that it calls",
		[ACT_MEASURE_ERRORS] = "read its log",
		[ACT_MEASURE_MEMORY] = "look at what it keeps in memory",
		[ACT_MEASURE_WAITING] = "look at what its requests wait for",
	};
	const struct act_anomaly *a = &i->cause;
	enum act_measure what = a->blames ? a->blame[0].measure : ACT_MEASURE_LATENCY;
	char trace[2 * ACT_TRACE_ID_BYTES + 1];

	append_text(t, ". First, ");
	base_hex(trace, i->trace, sizeof(i->trace));
	if (is_connections(&a->name))
		append_text(t, "ask what holds them back: sidelight tcp why");
	else if (act_is_host(&a->name))
		append_text(t, "look at what runs there: sidelight top");
	else if (i->has_trace && what != ACT_MEASURE_CPU && what != ACT_MEASURE_MEMORY)
		append_text(t, "look at trace %s", trace);
	else if (what == ACT_MEASURE_CPU && a->name.process && has_risen(&a->blame[0]))
		append_text(t, "look at where it uses CPU: perf top -p %u", a->name.process);
	else if (what == ACT_MEASURE_CPU)
		append_text(t, "look at what it does: its log, and its threads");
	else
		append_text(t, "%s", says[what]);
	append_text(t, ".");
}

void act_explain_incident(char *text, size_t room, const struct act_incident *i)
{
	struct explain_text t = {text, room};
	const struct act_pod_name *n = &i->cause.name;
	char load[64];

	add_pod(&t, n);
	if (*n->host && !act_is_host(n))
		append_text(&t, " on %s", n->host);
	snprintf(load, sizeof(load), "had %.2g times its usual requests", i->load);
	add_fault(&t, &i->cause, i->kind == ACT_INCIDENT_LOAD ? load : find_fault(&i->cause),
		  i->begin_ns, i->end_ns);
	if (i->kind == ACT_INCIDENT_LOAD) {
		append_text(&t, ". All that changed follows from this: no fault, nothing to do.");
		return;
	}
	add_evidence(&t, &i->cause);
	add_callers(&t, &i->cause, i->end_ns);
	add_members(&t, i);
	if (i->end_ns && i->cause.unread)
		append_text(&t, ". It ended because the pod is no longer read");
	add_advice(&t, i);
}
