// SPDX-License-Identifier: Apache-2.0
/*
 * addon.c - libsidelight for Node: one publisher per process, which all threads of it share, and a
 * table of handles for each of them. JavaScript names a metric by its index in that table.
 *
 * Node-API version 8. index.js is the interface for applications.
 */
#define NAPI_VERSION 8
#include <errno.h>
#include <node_api.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/sidelight.h>

enum kind { COUNTER, GAUGE, HISTOGRAM, SUMMARY, KINDS };

struct family {
	enum kind kind;
	union {
		struct sl_counter_f64_family counter;
		struct sl_gauge_f64_family gauge;
		struct sl_histogram_family histogram;
		struct sl_summary_family summary;
	};
};

union handle {
	struct sl_counter_f64 counter;
	struct sl_gauge_f64 gauge;
	struct sl_histogram histogram;
	struct sl_summary summary;
	uint64_t spare; /* in a free handle: index of the next free one, plus 1 */
};

/* State of each thread that has loaded the addon. */
struct state {
	struct family *family;
	union handle *handle;
	uint32_t families, handles, family_room, handle_room;
	uint64_t spare; /* index of the first free handle, plus 1 */
	bool opened;	/* this thread uses the publisher */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_publisher *publisher; /* of the process */
static uint32_t holders;

/*
 * A series that several handles share: those of different threads, or of two registries that use
 * the same name. It is removed with its last handle, because its cells may then be reused for
 * another series.
 */
struct series {
	union handle handle;
	uint32_t users;
};
static void *series; /* a tree sorted by handle, protected by the lock */

/* ---- arguments ---- */

static napi_value none(napi_env env)
{
	napi_value v;

	napi_get_undefined(env, &v);
	return v;
}

static napi_value throw_errno(napi_env env, int err)
{
	napi_throw_error(env, NULL, strerror(err));
	return NULL;
}

static napi_value number(napi_env env, double n)
{
	napi_value v;

	napi_create_double(env, n, &v);
	return v;
}

/* Returns a copy of a string, to be freed, or NULL if v is no string. */
static char *string(napi_env env, napi_value v)
{
	size_t n;
	char *s;

	if (napi_get_value_string_utf8(env, v, NULL, 0, &n) != napi_ok)
		return NULL;
	s = malloc(n + 1);
	if (s)
		napi_get_value_string_utf8(env, v, s, n + 1, &n);
	return s;
}

/* Returns the property of an object, or NULL if there is none. */
static napi_value property(napi_env env, napi_value object, const char *name)
{
	napi_valuetype type;
	napi_value v;

	if (napi_get_named_property(env, object, name, &v) != napi_ok ||
	    napi_typeof(env, v, &type) != napi_ok || type == napi_undefined || type == napi_null)
		return NULL;
	return v;
}

static char *text_property(napi_env env, napi_value object, const char *name)
{
	napi_value v = property(env, object, name);

	return v ? string(env, v) : NULL;
}

static uint32_t number_property(napi_env env, napi_value object, const char *name)
{
	napi_value v = property(env, object, name);
	uint32_t n = 0;

	if (v)
		napi_get_value_uint32(env, v, &n);
	return n;
}

/*
 * A label's text. With a NUL it would be cut there and could name another series: it is replaced by
 * invalid UTF-8, which the library refuses and counts.
 */
static char *label_text(napi_env env, napi_value v)
{
	char *s = string(env, v);
	size_t n;

	if (s && napi_get_value_string_utf8(env, v, NULL, 0, &n) == napi_ok && strlen(s) < n)
		strcpy(s, "\xff");
	return s;
}

/* Cuts UTF-8 after at most this many bytes, between two characters. */
static void cut(char *s, size_t most)
{
	if (!s || strlen(s) <= most)
		return;
	while ((s[most] & 0xc0) == 0x80)
		most--;
	s[most] = '\0';
}

/*
 * Converts ["key", "value", ...]. Returns false if out of memory, or if it is something else. The
 * caller frees label and text in either case.
 */
static bool labels(napi_env env, napi_value array, struct sl_label **label, char ***text,
		   uint32_t *count)
{
	uint32_t n = 0;

	*label = NULL;
	*text = NULL;
	*count = 0;
	if (napi_get_array_length(env, array, &n) != napi_ok || n % 2)
		return false;
	*label = calloc(n / 2 + 1, sizeof(**label));
	*text = calloc(n + 1, sizeof(**text));
	if (!*label || !*text)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		napi_value v;

		if (napi_get_element(env, array, i, &v) != napi_ok ||
		    !((*text)[i] = label_text(env, v)))
			return false;
		if (i % 2)
			(*label)[i / 2] = (struct sl_label){(*text)[i - 1], (*text)[i]};
	}
	*count = n / 2;
	return true;
}

static void free_labels(struct sl_label *label, char **text)
{
	for (char **t = text; t && *t; t++)
		free(*t);
	free(text);
	free(label);
}

static struct state *state_of(napi_env env)
{
	void *s = NULL;

	napi_get_instance_data(env, &s);
	return s;
}

/* ---- the publisher ---- */

static int open_publisher(napi_env env, napi_value o)
{
	char *service = text_property(env, o, "service"), *pod = text_property(env, o, "pod");
	char *space = text_property(env, o, "namespace"), *socket = text_property(env, o, "socket");
	napi_value more = property(env, o, "labels");
	struct sl_publisher_opts opts =
		SL_OPTS(sl_publisher_opts, .service = service, .pod = pod, .kube_namespace = space,
			.socket = socket, .max_cells = number_property(env, o, "maxCells"),
			.max_threads = number_property(env, o, "maxThreads"),
			.schema_bytes = number_property(env, o, "schemaBytes"),
			.flags = property(env, o, "fixed") ? SL_PUBLISHER_FIXED : 0);
	struct sl_label *label = NULL;
	char **text = NULL;
	uint32_t count = 0;
	int err = 0;

	if (more && !labels(env, more, &label, &text, &count))
		err = EINVAL;
	opts.labels = label;
	opts.label_count = count;
	pthread_mutex_lock(&lock);
	if (!err && !publisher && !(publisher = sl_publisher_open(&opts)))
		err = errno;
	holders += !err;
	pthread_mutex_unlock(&lock);
	free_labels(label, text);
	free(service);
	free(pod);
	free(space);
	free(socket);
	return err;
}

static int compare_series(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(union handle));
}

/* Adds a user of a series. Returns false if out of memory. */
static bool join_series(union handle h)
{
	struct series *new = calloc(1, sizeof(*new)), **found;

	if (!new)
		return false;
	new->handle = h;
	found = tsearch(new, &series, compare_series);
	if (found)
		(*found)->users++;
	if (!found || *found != new)
		free(new);
	return found != NULL;
}

/* Returns true if this was the series' last user. Handles of refused metrics use no series. */
static bool leave_series(union handle h)
{
	struct series **found = tfind(&h, &series, compare_series), *last;

	if (!found || --(*found)->users)
		return false;
	last = *found;
	tdelete(last, &series, compare_series);
	free(last);
	return true;
}

static void release(struct state *s)
{
	if (!s->opened)
		return;
	s->opened = false;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < s->handles; i++)
		leave_series(s->handle[i]); /* it stays as it is */
	if (!--holders) {
		sl_publisher_close(publisher);
		publisher = NULL;
	}
	pthread_mutex_unlock(&lock);
}

/* open({service, pod, namespace, socket, labels, maxCells, maxThreads, schemaBytes, fixed}) */
static napi_value js_open(napi_env env, napi_callback_info info)
{
	struct state *s = state_of(env);
	napi_value arg;
	size_t n = 1;
	int err;

	napi_get_cb_info(env, info, &n, &arg, NULL, NULL);
	if (s->opened)
		return none(env);
	err = open_publisher(env, arg);
	if (err)
		return throw_errno(env, err);
	s->opened = true;
	return none(env);
}

static napi_value js_attached(napi_env env, napi_callback_info info)
{
	napi_value v;

	(void)info;
	napi_get_boolean(env, state_of(env)->opened && sl_publisher_attached(publisher), &v);
	return v;
}

static napi_value js_alarmed(napi_env env, napi_callback_info info)
{
	napi_value v;

	(void)info;
	napi_get_boolean(env, state_of(env)->opened && sl_publisher_alarmed(publisher), &v);
	return v;
}

/* The number of metrics and observations that were refused. */
static napi_value js_refused(napi_env env, napi_callback_info info)
{
	struct sl_publisher_stats st = SL_OPTS(sl_publisher_stats);

	(void)info;
	if (state_of(env)->opened)
		sl_publisher_stats(publisher, &st);
	return number(env, st.refused);
}

/* ---- metrics ---- */

static bool grow(void **array, uint32_t *room, uint32_t used, size_t one)
{
	uint32_t n = *room ? 2 * *room : 64;
	void *p;

	if (used < *room)
		return true;
	p = reallocarray(*array, n, one);
	if (!p)
		return false;
	*array = p;
	*room = n;
	return true;
}

static struct family make(enum kind kind, const struct sl_metric_opts *o)
{
	struct family f = {.kind = kind};

	if (kind == COUNTER)
		f.counter = sl_counter_f64_family_create(publisher, o);
	else if (kind == GAUGE)
		f.gauge = sl_gauge_f64_family_create(publisher, o);
	else if (kind == SUMMARY)
		f.summary = sl_summary_family_create(publisher, o);
	else if (o->bound_count)
		f.histogram = sl_histogram_family_create_classic(publisher, o);
	else
		f.histogram = sl_histogram_family_create(publisher, o);
	return f;
}

/* Gets the numbers of a Float64Array. Returns false if arg is neither that nor null. */
static bool numbers(napi_env env, napi_value arg, const double **out, size_t *count)
{
	napi_typedarray_type type;
	napi_valuetype is;
	bool typed = false;
	void *at = NULL;

	*out = NULL;
	*count = 0;
	napi_typeof(env, arg, &is);
	if (is == napi_null)
		return true;
	if (napi_is_typedarray(env, arg, &typed) != napi_ok || !typed ||
	    napi_get_typedarray_info(env, arg, &type, count, &at, NULL, NULL) != napi_ok ||
	    type != napi_float64_array)
		return false;
	*out = at;
	return true;
}

/*
 * family(kind, name, help, unit, bounds or ranks or null, combine): its index. Without a publisher,
 * its metrics do nothing.
 */
static napi_value js_family(napi_env env, napi_callback_info info)
{
	struct state *s = state_of(env);
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .combine = SL_COMBINE_DEFAULT);
	uint32_t kind = KINDS, combine = 0;
	char *name, *help, *unit;
	struct family f = {0};
	const double *some;
	napi_value arg[6];
	size_t n = 6, count;
	bool good;

	napi_get_cb_info(env, info, &n, arg, NULL, NULL);
	napi_get_value_uint32(env, arg[0], &kind);
	napi_get_value_uint32(env, arg[5], &combine);
	o.name = name = string(env, arg[1]);
	o.help = help = string(env, arg[2]);
	cut(help, SL_HELP_MAX);
	o.unit = unit = string(env, arg[3]);
	o.combine = (enum sl_combine)combine;
	good = numbers(env, arg[4], &some, &count) && kind < KINDS && name;
	if (good && kind == SUMMARY) {
		o.quantiles = some;
		o.quantile_count = count;
	} else if (good) {
		o.bounds = some;
		o.bound_count = count;
	}
	f.kind = (enum kind)kind;
	if (good && s->opened)
		f = make(f.kind, &o);
	free(name);
	free(help);
	free(unit);
	if (!good)
		return throw_errno(env, EINVAL);
	if (!grow((void **)&s->family, &s->family_room, s->families, sizeof(f)))
		return throw_errno(env, ENOMEM);
	s->family[s->families] = f;
	return number(env, s->families++);
}

/* Returns the family with the index in the argument, or NULL after an exception. */
static const struct family *family_of(napi_env env, const struct state *s, napi_value arg)
{
	uint32_t i = UINT32_MAX;

	napi_get_value_uint32(env, arg, &i);
	if (i < s->families)
		return &s->family[i];
	throw_errno(env, EINVAL);
	return NULL;
}

/* Stores a handle, and returns its index. No update uses a free handle. */
static napi_value keep(napi_env env, struct state *s, union handle h)
{
	uint32_t i = (uint32_t)(s->spare - 1);

	if (s->spare) {
		s->spare = s->handle[i].spare;
	} else {
		if (!grow((void **)&s->handle, &s->handle_room, s->handles, sizeof(h)))
			return throw_errno(env, ENOMEM);
		i = s->handles++;
	}
	s->handle[i] = h;
	return number(env, i);
}

/* with(family, ["key", "value", ...]): the index of a handle */
static napi_value js_with(napi_env env, napi_callback_info info)
{
	struct state *s = state_of(env);
	const struct family *f;
	struct sl_label *label;
	union handle h = {.histogram = {0}}; /* all of its bytes */
	napi_value arg[2];
	uint32_t count;
	size_t n = 2;
	char **text;

	napi_get_cb_info(env, info, &n, arg, NULL, NULL);
	f = family_of(env, s, arg[0]);
	if (!f)
		return NULL;
	if (!labels(env, arg[1], &label, &text, &count)) {
		free_labels(label, text);
		return throw_errno(env, EINVAL);
	}
	pthread_mutex_lock(&lock);
	if (f->kind == COUNTER)
		h.counter = sl_counter_f64_with(f->counter, label, count);
	else if (f->kind == GAUGE)
		h.gauge = sl_gauge_f64_with(f->gauge, label, count);
	else if (f->kind == SUMMARY)
		h.summary = sl_summary_with(f->summary, label, count);
	else
		h.histogram = sl_histogram_with(f->histogram, label, count);
	if (h.counter.bits && !join_series(h))
		h = (union handle){.histogram = {0}};
	pthread_mutex_unlock(&lock);
	free_labels(label, text);
	return keep(env, s, h);
}

static void drop(struct state *s, uint32_t i)
{
	if (i >= s->handles)
		return;
	s->handle[i] = (union handle){.histogram = {0}};
	s->handle[i].spare = s->spare;
	s->spare = i + 1ull;
}

static void remove_series(const struct family *f, const struct sl_label *label, uint32_t count)
{
	if (f->kind == COUNTER)
		sl_counter_f64_remove(f->counter, label, count);
	else if (f->kind == GAUGE)
		sl_gauge_f64_remove(f->gauge, label, count);
	else if (f->kind == SUMMARY)
		sl_summary_remove(f->summary, label, count);
	else
		sl_histogram_remove(f->histogram, label, count);
}

/* remove(family, ["key", "value", ...], handle): the handle is free */
static napi_value js_remove(napi_env env, napi_callback_info info)
{
	struct state *s = state_of(env);
	const struct family *f;
	uint32_t count, handle = UINT32_MAX;
	struct sl_label *label;
	napi_value arg[3];
	size_t n = 3;
	char **text;

	napi_get_cb_info(env, info, &n, arg, NULL, NULL);
	f = family_of(env, s, arg[0]);
	if (!f)
		return NULL;
	napi_get_value_uint32(env, arg[2], &handle);
	if (!labels(env, arg[1], &label, &text, &count)) {
		free_labels(label, text);
		return throw_errno(env, EINVAL);
	}
	pthread_mutex_lock(&lock);
	if (handle < s->handles && leave_series(s->handle[handle]))
		remove_series(f, label, count);
	pthread_mutex_unlock(&lock);
	free_labels(label, text);
	drop(s, handle);
	return none(env);
}

/* ---- updates: f(handle, value). No exception: the caller has checked both ---- */

static union handle *update(napi_env env, napi_callback_info info, double *value)
{
	struct state *s;
	napi_value arg[2];
	uint32_t i = UINT32_MAX;
	size_t n = 2;
	void *data;

	napi_get_cb_info(env, info, &n, arg, NULL, &data);
	s = data;
	napi_get_value_uint32(env, arg[0], &i);
	if (i >= s->handles || napi_get_value_double(env, arg[1], value) != napi_ok)
		return NULL;
	return &s->handle[i];
}

static napi_value js_add(napi_env env, napi_callback_info info)
{
	double v;
	const union handle *h = update(env, info, &v);

	if (h)
		sl_counter_f64_add(h->counter, v);
	return NULL;
}

static napi_value js_set(napi_env env, napi_callback_info info)
{
	double v;
	const union handle *h = update(env, info, &v);

	if (h)
		sl_gauge_f64_set(h->gauge, v);
	return NULL;
}

static napi_value js_move(napi_env env, napi_callback_info info)
{
	double v;
	const union handle *h = update(env, info, &v);

	if (h)
		sl_gauge_f64_add(h->gauge, v);
	return NULL;
}

/* counterAdd(handle, value, ["key", "value", ...]) with an exemplar, and observe() likewise */
static napi_value with_exemplar(napi_env env, napi_callback_info info, bool counter)
{
	struct sl_exemplar e = SL_OPTS(sl_exemplar, .labels = NULL);
	const union handle *h;
	struct sl_label *label;
	napi_value arg[3];
	uint32_t count;
	size_t n = 3;
	char **text;
	double v;

	h = update(env, info, &v);
	napi_get_cb_info(env, info, &n, arg, NULL, NULL);
	if (labels(env, arg[2], &label, &text, &count)) {
		e.labels = label;
		e.label_count = count;
	}
	if (h && counter)
		sl_counter_f64_add_exemplar(h->counter, v, &e);
	else if (h)
		sl_histogram_observe_exemplar(h->histogram, v, &e);
	free_labels(label, text);
	return NULL;
}

static napi_value js_add_exemplar(napi_env env, napi_callback_info info)
{
	return with_exemplar(env, info, true);
}

static napi_value js_observe_exemplar(napi_env env, napi_callback_info info)
{
	return with_exemplar(env, info, false);
}

static napi_value js_summary(napi_env env, napi_callback_info info)
{
	double v;
	const union handle *h = update(env, info, &v);

	if (h)
		sl_summary_observe(h->summary, v);
	return NULL;
}

/* summaryQuantiles(handle, Float64Array) */
static napi_value js_quantiles(napi_env env, napi_callback_info info)
{
	const struct state *s = state_of(env);
	uint32_t i = UINT32_MAX;
	const double *values;
	napi_value arg[2];
	size_t n = 2, count;

	napi_get_cb_info(env, info, &n, arg, NULL, NULL);
	napi_get_value_uint32(env, arg[0], &i);
	if (i < s->handles && numbers(env, arg[1], &values, &count) && values)
		sl_summary_set_quantiles(s->handle[i].summary, values, count);
	return NULL;
}

static napi_value js_observe(napi_env env, napi_callback_info info)
{
	double v;
	const union handle *h = update(env, info, &v);

	if (h)
		sl_histogram_observe(h->histogram, v);
	return NULL;
}

/* ---- the module ---- */

static void thread_ends(void *arg)
{
	struct state *s = arg;

	release(s);
	free(s->family);
	free(s->handle);
	s->families = s->handles = 0;
	s->family = NULL;
	s->handle = NULL;
}

static void finalize(napi_env env, void *data, void *hint)
{
	(void)env;
	(void)hint;
	free(data);
}

static napi_value start(napi_env env, napi_value exports)
{
	static const struct {
		const char *name;
		napi_callback call;
	} functions[] = {
		{"open", js_open},
		{"attached", js_attached},
		{"alarmed", js_alarmed},
		{"refused", js_refused},
		{"family", js_family},
		{"with", js_with},
		{"counterAdd", js_add},
		{"gaugeSet", js_set},
		{"gaugeAdd", js_move},
		{"observe", js_observe},
		{"summaryObserve", js_summary},
		{"summaryQuantiles", js_quantiles},
		{"remove", js_remove},
		{"counterAddExemplar", js_add_exemplar},
		{"observeExemplar", js_observe_exemplar},
	};
	struct state *s = calloc(1, sizeof(*s));

	if (!s || napi_set_instance_data(env, s, finalize, NULL) != napi_ok) {
		free(s);
		return throw_errno(env, ENOMEM);
	}
	napi_add_env_cleanup_hook(env, thread_ends, s);
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		napi_value f;

		if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH,
					 functions[i].call, s, &f) != napi_ok ||
		    napi_set_named_property(env, exports, functions[i].name, f) != napi_ok)
			return throw_errno(env, ENOMEM);
	}
	return exports;
}

NAPI_MODULE(sidelight, start)
