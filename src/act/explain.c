// SPDX-License-Identifier: Apache-2.0
#include "act/explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define SECOND_NS   1000000000ll
#define CONNECTIONS " (tcp)" /* suffix of the service name of a workload's connections */
#define OWNER_UID   "uid "   /* no namespace contains a space */
#define SAID	    2u	     /* metrics named in a sentence; the blame list has all of them */
#define NAMED	    3u	     /* maximum number of other pods in a sentence */
#define LIMITED	    "sidelight_tcp_limited_seconds_total{"
#define LAYERS	    "sidelight_tcp_layer_seconds"
#define REFUSED	    "sidelight_tcp_failures_total{cause=\"refused\""

void act_append(struct act_text *t, const char *fmt, ...)
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

/* Appends v in the largest of n units in which it is at least 1. Units are in ascending order. */
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

	if (b->measure == ACT_MEASURE_SPEED) {
		snprintf(text, room, "%.3g Gb/s", value * 8e-9);
	} else if (!count && ends_with(b->metric, &at, "_bytes")) {
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

/* ---- metrics of connections ---- */

static bool is_metric(const struct act_blame *b, const char *name)
{
	return !strncmp(b->metric, name, strlen(name));
}

/* key includes the opening quote, as in "port=\"". Copies "" if there is no such label. */
static const char *copy_label(const struct act_blame *b, const char *key, char *text, size_t room)
{
	const char *at = strstr(b->metric, key);

	at = at ? at + strlen(key) : "";
	snprintf(text, room, "%.*s", (int)strcspn(at, "\""), at);
	return text;
}

static bool is_refused(const struct act_blame *b)
{
	return is_metric(b, REFUSED) && b->value > b->before;
}

/* True for the time that a rank of an MPI job works between two collectives (docs/clusters.md). */
static bool is_step(const struct act_blame *b)
{
	return is_metric(b, "mpi_step_seconds") && b->value > b->before;
}

static bool is_retransmission(const struct act_blame *b)
{
	return is_metric(b, "mpi_retransmitted_") && b->value > b->before;
}

static bool is_of_port(const struct act_blame *b)
{
	return b->measure == ACT_MEASURE_LOSSES || b->measure == ACT_MEASURE_PAUSES ||
	       b->measure == ACT_MEASURE_SPEED;
}

/* Returns what limits connections more often than usual, or NULL. */
static const char *find_limit(const struct act_blame *b)
{
	static const char *const limit[][2] = {{"receive_window", "the receiver's window"},
					       {"congestion_window", "the congestion window"},
					       {"send_buffer", "the send buffer"}};
	char label[32];

	if (!is_metric(b, LIMITED) || !(b->value > b->before))
		return NULL;
	copy_label(b, "limit=\"", label, sizeof(label));
	for (size_t i = 0; i < sizeof(limit) / sizeof(*limit); i++)
		if (!strcmp(label, limit[i][0]))
			return limit[i][1];
	return NULL;
}

static void add_limit(struct act_text *t, const struct act_blame *b, const char *limit)
{
	act_append(t,
		   "limited by %s for %.3g s per second, summed over all connections (usually "
		   "%.2g s)",
		   limit, b->value, b->before);
}

static void add_metric(struct act_text *t, const struct act_blame *b)
{
	struct metric_name n = parse_name(b->metric);
	char now[64], before[64], port[16], layer[16];

	if (find_limit(b)) {
		add_limit(t, b, find_limit(b));
		return;
	}
	act_value(now, sizeof(now), b, b->value);
	act_value(before, sizeof(before), b, b->before);
	copy_label(b, "port=\"", port, sizeof(port));
	copy_label(b, "layer=\"", layer, sizeof(layer));
	if (is_metric(b, LAYERS) && *port && *layer)
		act_append(t, "%sthe time in layer %s on port %s", n.statistic, layer, port);
	else
		act_append(t, "%s%.*s%s", n.statistic, n.bytes, b->metric, n.labels);
	if (b->siblings)
		act_append(t, " is %s (median of its %u siblings: %s)", now, b->siblings, before);
	else if (isfinite(b->value) && isfinite(b->before))
		act_append(t, " %s to %s (usually %s)%s", has_risen(b) ? "rose" : "fell", now,
			   before, b->grows ? ", growing all the time" : "");
	else if (isfinite(b->value))
		act_append(t, " is %s", now);
	else
		act_append(t, " is unusual");
}

/* ---- parts of sentences ---- */

static void add_time(struct act_text *t, int64_t ns)
{
	time_t s = (time_t)(ns / SECOND_NS);
	struct tm tm;
	char text[32];

	localtime_r(&s, &tm);
	strftime(text, sizeof(text), "%H:%M:%S %Z", &tm);
	act_append(t, "%s", text);
}

size_t act_service_length(const char *service)
{
	size_t n = strlen(service), end = strlen(CONNECTIONS);

	return n > end && !strcmp(service + n - end, CONNECTIONS) ? n - end : n;
}

bool act_is_connections(const struct act_pod_name *n)
{
	return n->service[act_service_length(n->service)];
}

/*
 * Services of two owners differ even if their names are equal. The owner of connections may be
 * unknown.
 */
static bool is_same_owner(const struct act_pod_name *a, const struct act_pod_name *b)
{
	return !strcmp(a->owner, b->owner) ||
	       ((act_is_connections(a) || act_is_connections(b)) && (!*a->owner || !*b->owner));
}

bool act_is_same_service(const struct act_pod_name *a, const struct act_pod_name *b)
{
	size_t n = act_service_length(a->service);

	if (!n || n != act_service_length(b->service) || strncmp(a->service, b->service, n) != 0)
		return false;
	if (act_is_host(a))
		return *a->host && !strcmp(a->host, b->host);
	/* The namespace of a workload's connections is not always known. */
	return is_same_owner(a, b) && (!strcmp(a->kube_namespace, b->kube_namespace) ||
				       !*a->kube_namespace || !*b->kube_namespace);
}

void act_name_owner(char owner[ACT_POD_LABEL_BYTES], const char *kube_namespace, const char *uid)
{
	if (*kube_namespace)
		snprintf(owner, ACT_POD_LABEL_BYTES, "%s", kube_namespace);
	else
		/* The user may run replicas on several hosts, or in several containers. */
		snprintf(owner, ACT_POD_LABEL_BYTES, OWNER_UID "%s", uid);
}

const char *act_owner_uid(const struct act_pod_name *n)
{
	size_t bytes = strlen(OWNER_UID);

	return strncmp(n->owner, OWNER_UID, bytes) != 0 ? "" : n->owner + bytes;
}

static void add_pod(struct act_text *t, const struct act_pod_name *n)
{
	char label[ACT_LABEL_BYTES];

	if (act_is_connections(n) && act_is_host(n))
		act_append(t, "the connections of the host %s itself", n->host);
	else if (act_is_connections(n))
		act_append(t, "the connections of %.*s", (int)act_service_length(n->service),
			   n->service);
	else if (act_is_host(n))
		act_append(t, "the host %s", n->host);
	else
		act_append(t, "%s", act_pod_label(n, label, sizeof(label)));
}

int act_rank_blame(const struct act_blame *b)
{
	if (b->measure == ACT_MEASURE_STOPPED || is_refused(b))
		return 4;
	if (find_limit(b))
		return 3;
	if (is_metric(b, LAYERS) && b->value > b->before)
		return ACT_RANK_NAMES;
	return !act_is_improvement(b->measure, b->value, b->before);
}

const struct act_blame *act_find_lead(const struct act_blame *blame, uint32_t n)
{
	const struct act_blame *lead = n ? blame : NULL;

	for (uint32_t i = 1; i < n; i++)
		if (blame[i].share >= ACT_SHARE_SAID &&
		    act_rank_blame(&blame[i]) > act_rank_blame(lead))
			lead = &blame[i];
	return lead;
}

uint16_t act_find_port(const struct act_anomaly *a)
{
	const struct act_blame *lead = act_find_lead(a->blame, a->blames);
	char port[16];

	if (!lead || !act_is_connections(&a->name) || !act_is_host(&a->name) || is_refused(lead) ||
	    !strstr(lead->metric, "role=\"server\""))
		return 0;
	return (uint16_t)strtoul(copy_label(lead, "port=\"", port, sizeof(port)), NULL, 10);
}

/* Returns a phrase for a kind of fault. Metrics of connections give more specific phrases. */
static const char *describe_fault(enum act_measure measure, bool risen)
{
	static const char *const says[][2] = {
		[ACT_MEASURE_OTHER] = {"behaved unusually", "behaved unusually"},
		[ACT_MEASURE_LOAD] = {"had less traffic than usual", "had more traffic than usual"},
		[ACT_MEASURE_LATENCY] = {"been faster than usual", "been slow"},
		[ACT_MEASURE_ERRORS] = {"had fewer errors than usual", "had errors"},
		[ACT_MEASURE_CPU] = {"used less CPU than usual", "used more CPU than usual"},
		[ACT_MEASURE_MEMORY] = {"used less memory than usual",
					"used more memory than usual"},
		[ACT_MEASURE_WAITING] = {"had less work queued than usual",
					 "had more work queued than usual"},
		[ACT_MEASURE_STOPPED] = {"finished no work", "finished no work"},
		[ACT_MEASURE_LOSSES] = {"lost fewer packets than usual", "lost packets"},
		[ACT_MEASURE_PAUSES] = {"been paused less than usual", "been paused by its peer"},
		[ACT_MEASURE_SPEED] = {"had a slow link", "had a faster link than usual"},
	};

	return says[measure][risen];
}

static bool has_stopped(const struct act_anomaly *a)
{
	return a->blames && act_find_lead(a->blame, a->blames)->measure == ACT_MEASURE_STOPPED;
}

/* True if the pod finishes no work because it gets none. */
static bool is_given_none(const struct act_anomaly *a)
{
	return has_stopped(a) && *a->queue && a->waiting == 0;
}

static const char *find_fault(const struct act_anomaly *a)
{
	const struct act_blame *lead = act_find_lead(a->blame, a->blames);
	bool connections = act_is_connections(&a->name);

	if (is_given_none(a))
		return "been given no work";
	if (lead && lead->grows && !(a->delay > 0))
		return "been given more work than it finishes";

	if (connections && lead && find_limit(lead))
		return "been held back";
	if (lead && is_retransmission(lead))
		return "lost packets on its connections";
	if (a->delay > 0 && !connections && !has_stopped(a))
		return describe_fault(ACT_MEASURE_LATENCY, true);
	if (!lead || (connections && lead->measure != ACT_MEASURE_LATENCY))
		return describe_fault(ACT_MEASURE_OTHER, true);
	return describe_fault(lead->measure, has_risen(lead));
}

/* Adds "has" and the phrase, as in "has been slow"; or "was slow" if the fault is over. */
static void add_verb(struct act_text *t, const struct act_anomaly *a, const char *says, bool over)
{
	bool many = act_is_connections(&a->name);

	if (over && !strncmp(says, "been ", 5))
		act_append(t, " %s %s", many ? "were" : "was", says + 5);
	else
		act_append(t, "%s %s", over ? "" : many ? " have" : " has", says);
}

/* born: the fault came with a new version of the pod, or with its restart. */
static void add_interval(struct act_text *t, int64_t begin_ns, int64_t end_ns, bool born)
{
	act_append(t, " %s%s ", end_ns ? "from" : "since",
		   born ? " the new version or restart at" : "");
	add_time(t, begin_ns);
	if (!end_ns)
		return;
	act_append(t, " to ");
	add_time(t, end_ns);
}

static bool is_same_metric(const struct act_blame *a, const struct act_blame *b)
{
	struct metric_name x = parse_name(a->metric), y = parse_name(b->metric);

	return x.bytes == y.bytes && !strncmp(a->metric, b->metric, (size_t)x.bytes);
}

/*
 * Names only one of several statistics or series of the same metric, because they show the same
 * fault. Leaves out metrics with a small share, and improvements.
 */
static void add_evidence(struct act_text *t, const struct act_anomaly *a)
{
	const struct act_blame *lead = act_find_lead(a->blame, a->blames);
	uint32_t said = 1;

	if (!lead)
		return;
	act_append(t, ": ");
	add_metric(t, lead);
	for (uint32_t i = 0; i < a->blames && said < SAID; i++) {
		const struct act_blame *b = &a->blame[i];
		bool again = is_same_metric(b, lead);

		for (uint32_t k = 0; k < i; k++)
			again |= is_same_metric(b, &a->blame[k]);
		if (again || b->share < ACT_SHARE_SAID || !act_rank_blame(b))
			continue;
		act_append(t, ", and ");
		add_metric(t, b);
		said++;
	}
}

/*
 * Names the service that stopped listening if its process ended on this host. It is not the
 * service of the connections, whose process may have ended because they were refused. i may be
 * NULL.
 */
static void add_refused(struct act_text *t, const struct act_anomaly *a,
			const struct act_incident *i, int64_t begin_ns, int64_t end_ns)
{
	const struct act_blame *b = act_find_lead(a->blame, a->blames);
	const struct act_pod_name *n = NULL;
	char port[16], now[64];

	for (uint32_t k = 0; i && k < i->members; k++)
		if (i->member[k].died && !strcmp(i->member[k].name.host, a->name.host) &&
		    !act_is_same_service(&a->name, &i->member[k].name))
			n = &i->member[k].name;
	copy_label(b, "port=\"", port, sizeof(port));
	act_value(now, sizeof(now), b, b->value);
	act_append(t, "Connections%s%s%s%s%s %s refused", *port ? " to port " : "", port,
		   n ? " (" : "", n ? n->service : "", n ? ")" : "", end_ns ? "were" : "have been");
	add_interval(t, begin_ns, end_ns, false);
	act_append(t, ": nothing %s there, and %s failed", end_ns ? "listened" : "listens", now);
}

/* Returns begin_ns, unless the current fault began after the incident or another fault. */
static int64_t find_begin(const struct act_anomaly *a, int64_t begin_ns)
{
	int64_t own = a->fault[a->now].begin_ns;
	bool later = own - begin_ns > ACT_FAULT_OVER_NS;

	for (uint32_t m = 0; m < ACT_MEASURES; m++)
		later |= a->fault[m].led && own > a->fault[m].begin_ns;
	return later ? own : begin_ns;
}

/* Lists the earlier faults that were over before the last one ended, oldest first. */
static void add_past(struct act_text *t, const struct act_anomaly *a)
{
	int64_t after = 0;
	uint32_t said = 0;

	for (;;) {
		const struct act_fault *next = NULL;

		for (uint32_t m = 0; m < ACT_MEASURES; m++) {
			const struct act_fault *x = &a->fault[m];

			if (x->led && m != a->now && x->begin_ns > after &&
			    a->last_ns - x->last_ns > ACT_FAULT_OVER_NS &&
			    (!next || x->begin_ns < next->begin_ns))
				next = x;
		}
		if (!next)
			return;
		act_append(t, said++ ? ", and it" : ". Before, it");
		add_verb(t, a, describe_fault((enum act_measure)(next - a->fault), next->risen),
			 true);
		add_interval(t, next->begin_ns, next->last_ns, false);
		after = next->begin_ns;
	}
}

/* States why the steps of an MPI rank take longer. */
static void add_step_cause(struct act_text *t, const struct act_step *s, bool over)
{
	static const char *const does[][2] = {
		[ACT_STEP_COMPUTES] = {"computes for longer: ", "computed for longer: "},
		[ACT_STEP_PREEMPTED] = {"does not get the CPU: others use it for ",
					"did not get the CPU: others used it for "},
		[ACT_STEP_FAULTS] = {"waits for memory: ", "waited for memory: "},
		[ACT_STEP_STOPPED] = {"does not run for ", "did not run for "},
	};
	static const char *const what[] = {
		[ACT_STEP_COMPUTES] = "of CPU time per step",
		[ACT_STEP_PREEMPTED] = "of each step",
		[ACT_STEP_FAULTS] = "major page faults per step",
		[ACT_STEP_STOPPED] = "of each step",
	};
	char now[32], before[32];

	put_seconds(now, sizeof(now), s->value);
	put_seconds(before, sizeof(before), s->before);
	if (s->cause == ACT_STEP_FAULTS) {
		snprintf(now, sizeof(now), "%.3g", s->value);
		snprintf(before, sizeof(before), "%.3g", s->before);
	}
	act_append(t, ". It %s%s %s (usually %s)", does[s->cause][over], now, what[s->cause],
		   before);
}

static void add_step_advice(struct act_text *t, const struct act_anomaly *a)
{
	static const char *const see[][2] = {
		[ACT_STEP_UNKNOWN] = {"what it does", "perf top -p"},
		[ACT_STEP_COMPUTES] = {"what it does", "perf top -p"},
		[ACT_STEP_PREEMPTED] = {"what else runs on its CPUs", "top"},
		[ACT_STEP_FAULTS] = {"what uses the memory of its node", "top"},
		[ACT_STEP_STOPPED] = {"whether it is stopped, or what it waits for,",
				      "ps -o stat,wchan -p"},
	};
	const char *const *is = see[a->step.cause];

	act_append(t, "see %s while the other ranks wait for it: %s", is[0], is[1]);
	if (strcmp(is[1], "top") != 0)
		act_append(t, " %u", a->name.process);
}

/* Formats as rdma(8) and ethtool(8) expect it. separator: between an RDMA device and its port. */
static void add_port(struct act_text *t, const struct act_blame *b, const char *separator)
{
	char device[64], port[16];

	copy_label(b, "device=\"", device, sizeof(device));
	copy_label(b, "port=\"", port, sizeof(port));
	act_append(t, "%s%s%s", device, *port ? separator : "", port);
}

static void add_port_advice(struct act_text *t, const struct act_blame *b)
{
	static const char *const says[] = {
		[ACT_MEASURE_LOSSES] = "see which of its counters rise, and check its cable",
		[ACT_MEASURE_PAUSES] = "see which priority is paused, and look for a receiver "
				       "behind the switch that is too slow",
		[ACT_MEASURE_SPEED] = "check its cable and its port of the switch",
	};
	bool speed = b->measure == ACT_MEASURE_SPEED, rdma = strstr(b->metric, "port=\"");

	act_append(t, "%s: %s ", says[b->measure],
		   rdma	   ? speed ? "ibstat" : "rdma statistic show link"
		   : speed ? "ethtool"
			   : "ethtool -S");
	add_port(t, b, speed ? " " : "/");
}

/* States the pod, its fault, since when, and the evidence. i may be NULL. */
static void add_fault(struct act_text *t, const struct act_anomaly *a, const struct act_incident *i,
		      int64_t begin_ns, int64_t end_ns)
{
	const struct act_blame *lead = act_find_lead(a->blame, a->blames);
	const char *fault = find_fault(a);
	bool loaded = a->load >= ACT_LOAD_MOVED;
	bool port = lead && is_of_port(lead);
	bool born = a->born_ns && find_begin(a, begin_ns) == begin_ns && !port;
	char says[64];

	begin_ns = born ? a->born_ns : find_begin(a, begin_ns);
	if (lead && is_refused(lead)) {
		add_refused(t, a, i, begin_ns, end_ns);
		return;
	}
	add_pod(t, &a->name);
	if (i && *a->name.host && !act_is_host(&a->name))
		act_append(t, " on %s", a->name.host);
	snprintf(says, sizeof(says), "had %.2g times its usual number of requests", a->load);
	add_verb(t, a, loaded ? says : fault, end_ns);
	if (loaded && !(lead && lead->measure == ACT_MEASURE_LOAD)) {
		act_append(t, ", and");
		add_verb(t, a, fault, end_ns);
	}
	if (port) {
		act_append(t, " at ");
		add_port(t, lead, " port ");
	}
	if (*a->server && act_find_port(a))
		act_append(t, " at port %u, where %s listens,", act_find_port(a), a->server);
	add_interval(t, begin_ns, end_ns, born);
	if (has_stopped(a) && *a->queue && a->waiting > 0)
		act_append(t, ", while work waits for it (%s is %.3g)", a->queue, a->waiting);
	add_evidence(t, a);
	if (lead && is_step(lead) && a->step.cause)
		add_step_cause(t, &a->step, end_ns);
}

/* Recommends a first step for this fault. */
static void add_advice(struct act_text *t, const struct act_anomaly *a, const uint8_t *trace,
		       bool called)
{
	static const char *const says[] = {
		[ACT_MEASURE_OTHER] = "look at this metric over time",
		[ACT_MEASURE_LATENCY] =
			"compare its latency with that of the services that it calls",
		[ACT_MEASURE_ERRORS] = "read its log",
		[ACT_MEASURE_MEMORY] = "look at what uses its memory",
		[ACT_MEASURE_WAITING] = "find out what its requests wait for",
	};
	const struct act_blame *lead = act_find_lead(a->blame, a->blames);
	enum act_measure what = lead ? lead->measure : ACT_MEASURE_LATENCY;
	char id[2 * ACT_TRACE_ID_BYTES + 1];

	act_append(t, ". First, ");
	if (lead && is_refused(lead))
		act_append(t, "see which connections fail: sidelight tcp closed");
	else if (lead && is_retransmission(lead))
		act_append(t, "find out where its packets are lost: sidelight tcp why");
	else if (act_is_connections(&a->name))
		act_append(t, "find out what slows them down: sidelight tcp why");
	else if (lead && is_of_port(lead))
		add_port_advice(t, lead);
	else if (act_is_host(&a->name))
		act_append(t, "look at what runs there: sidelight top");
	else if (a->died)
		act_append(t, "read its log to see why it ended");
	else if (is_given_none(a))
		act_append(t, "see why its callers have stopped");
	else if (what == ACT_MEASURE_STOPPED && a->name.process)
		act_append(t, "see whether its process is stopped%s: ps -p %u",
			   *a->queue ? "" : ", or its callers are", a->name.process);
	else if (what == ACT_MEASURE_STOPPED)
		act_append(t, "see whether it still runs");
	else if (lead && is_step(lead) && a->name.process)
		add_step_advice(t, a);
	else if (trace && what != ACT_MEASURE_CPU && what != ACT_MEASURE_MEMORY)
		act_append(t, "look at trace %s", (base_hex(id, trace, ACT_TRACE_ID_BYTES), id));
	else if (what == ACT_MEASURE_CPU && a->name.process && has_risen(lead))
		act_append(t, "look at where it uses CPU: perf top -p %u", a->name.process);
	else if (what == ACT_MEASURE_CPU)
		act_append(t, "check its log and its threads");
	else if (what == ACT_MEASURE_LOAD && called)
		act_append(t, "see which services call it: sidelight tcp flows");
	else if (what == ACT_MEASURE_LOAD)
		act_append(t, "find out where its work comes from");
	else
		act_append(t, "%s", says[what]);
	act_append(t, ".");
}

const char *act_explain(char *text, size_t room, const struct act_anomaly *a)
{
	struct act_text t = {text, room};

	add_fault(&t, a, NULL, a->begin_ns, a->end_ns ? a->last_ns : 0);
	if (!act_is_connections(&a->name))
		add_past(&t, a);
	if (a->end_ns)
		act_append(&t, ".");
	else
		add_advice(&t, a, a->has_trace ? a->trace : NULL, *a->callers);
	return text;
}

/* ---- incidents ---- */

static void add_callers(struct act_text *t, const struct act_anomaly *a, bool over)
{
	char delay[32];

	put_seconds(delay, sizeof(delay), a->delay);
	if (a->delay > 0)
		act_append(t, ". Calls to it %s %s longer%s%s", over ? "took" : "take", delay,
			   *a->callers ? ", as measured by " : "", a->callers);
	else if (*a->callers)
		act_append(t, ". Its callers %s see it, too", a->callers);
}

/* Returns the strength of a member's evidence, on the same scale as the cause's evidence. */
static double get_evidence(const struct act_incident *i, double suspicion, double peak)
{
	return i->cause.suspicion >= 1 ? suspicion : peak;
}

/* True for connections of the cause's own ports, which show the same fault. */
static bool is_own(const struct act_incident *i, const struct act_pod_name *n)
{
	return act_is_connections(n) && !strcmp(n->host, i->cause.name.host) &&
	       (act_is_host(n) || act_is_same_service(n, &i->cause.name));
}

/*
 * Returns the pod with the most evidence after the cause, or NULL. Skips hosts and connections,
 * because they also show the faults of services.
 */
static const struct act_member *find_suspect(const struct act_incident *i)
{
	const double own = get_evidence(i, i->cause.suspicion, i->cause.peak);
	const struct act_member *next = NULL;
	double most = 0;

	for (uint32_t k = 0; k < i->members; k++) {
		const struct act_member *m = &i->member[k];
		double evidence = get_evidence(i, m->suspicion, m->peak);

		if (m->instance == i->cause.instance || act_is_host(&m->name) ||
		    act_is_connections(&m->name) || evidence <= most || evidence > own)
			continue;
		next = m;
		most = evidence;
	}
	return next;
}

/*
 * Names the other pods, except `next`, which has been named already. remaining: name only the pods
 * that are still anomalous.
 */
static void add_others(struct act_text *t, const struct act_incident *i,
		       const struct act_member *next, bool remaining)
{
	uint32_t others = remaining ? 0 : i->left_out, said = 0;

	for (uint32_t k = 0; k < i->members; k++) {
		const struct act_member *m = &i->member[k];

		if (m->instance == i->cause.instance ||
		    (remaining ? m->end_ns != 0 : m == next || is_own(i, &m->name)))
			continue;
		if (said == NAMED) {
			others++;
			continue;
		}
		act_append(t, said++	  ? ", "
			      : remaining ? ". Still unusual: "
					  : ". Also affected: ");
		add_pod(t, &m->name);
	}
	if (said && others)
		act_append(t, " and others");
}

static void add_members(struct act_text *t, const struct act_incident *i)
{
	const struct act_member *next = find_suspect(i);

	if (next) {
		act_append(t, ". The next suspect %s ", i->end_ns ? "was" : "is");
		add_pod(t, &next->name);
	}
	add_others(t, i, next, false);
}

static void add_load(struct act_text *t, const struct act_incident *i)
{
	add_pod(t, &i->cause.name);
	if (*i->cause.name.host && !act_is_host(&i->cause.name))
		act_append(t, " on %s", i->cause.name.host);
	act_append(t, "%s had %.2g times its usual number of requests", i->end_ns ? "" : " has",
		   i->cause.load > 0 ? i->cause.load : i->load);
	add_interval(t, i->begin_ns, i->end_ns, false);
	act_append(t, ". This explains everything that changed: there is no fault, and nothing to "
		      "do.");
}

/*
 * Returns when the cause's fault ended, or 0 while it lasts. The incident may last longer because
 * of other members. The fault of an incident that was merged into another one goes on there.
 */
static int64_t find_end(const struct act_incident *i)
{
	const struct act_anomaly *a = &i->cause;

	if (a->end_ns && i->last_ns - a->last_ns > ACT_FAULT_OVER_NS)
		return a->last_ns;
	return i->joined ? 0 : i->end_ns;
}

void act_explain_incident(char *text, size_t room, const struct act_incident *i)
{
	struct act_text t = {text, room};
	const struct act_anomaly *a = &i->cause;
	const int64_t end_ns = find_end(i);

	if (i->kind == ACT_INCIDENT_LOAD) {
		add_load(&t, i);
		return;
	}
	add_fault(&t, a, i, i->begin_ns, end_ns);
	add_callers(&t, a, end_ns);
	if (!act_is_connections(&a->name))
		add_past(&t, a);
	if (end_ns && !i->end_ns)
		add_others(&t, i, NULL, true);
	else
		add_members(&t, i);
	if (a->died)
		act_append(&t, ". Its process has ended");
	else if (i->end_ns && a->unread)
		act_append(&t, ". It ended because the collector no longer reads the pod");
	if (i->joined)
		act_append(&t, ". This incident is now part of %s.", i->part_of);
	else if (end_ns)
		act_append(&t, ".");
	else
		add_advice(&t, a, i->has_trace ? i->trace : NULL, i->called);
}
