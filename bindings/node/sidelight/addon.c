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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/sidelight.h>

enum kind { COUNTER, GAUGE, HISTOGRAM, KINDS };

struct family {
	enum kind kind;
	union {
		struct sl_counter_f64_family counter;
		struct sl_gauge_f64_family gauge;
		struct sl_histogram_family histogram;
	};
};

union handle {
	struct sl_counter_f64 counter;
	struct sl_gauge_f64 gauge;
	struct sl_histogram histogram;
};

/* Of a thread that loaded the addon. */
struct state {
	struct family *family;
	union handle *handle;
	uint32_t families, handles, family_room, handle_room;
	bool opened; /* it holds the publisher */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_publisher *publisher; /* of the process */
static uint32_t holders;

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

/* A copy of a string, or NULL if it is none; to be freed. */
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

/* The property of an object; NULL: not there. */
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

/* ["key", "value", ...]: label and text are to be freed. False: no memory, or not that. */
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
		    !((*text)[i] = string(env, v)))
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
			.schema_bytes = number_property(env, o, "schemaBytes"));
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

static void release(struct state *s)
{
	if (!s->opened)
		return;
	s->opened = false;
	pthread_mutex_lock(&lock);
	if (!--holders) {
		sl_publisher_close(publisher);
		publisher = NULL;
	}
	pthread_mutex_unlock(&lock);
}

/* open({service, pod, namespace, socket, labels, maxCells, maxThreads, schemaBytes}) */
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
	else if (o->bound_count)
		f.histogram = sl_histogram_family_create_classic(publisher, o);
	else
		f.histogram = sl_histogram_family_create(publisher, o);
	return f;
}

/* family(kind, name, help, unit, bounds or null): its index */
static napi_value js_family(napi_env env, napi_callback_info info)
{
	struct state *s = state_of(env);
	napi_typedarray_type type;
	size_t n = 5, bounds = 0;
	char *name, *help, *unit;
	struct family f = {0};
	void *bound = NULL;
	napi_value arg[5];
	uint32_t kind = KINDS;
	bool typed = false;

	napi_get_cb_info(env, info, &n, arg, NULL, NULL);
	napi_get_value_uint32(env, arg[0], &kind);
	name = string(env, arg[1]);
	help = string(env, arg[2]);
	unit = string(env, arg[3]);
	napi_is_typedarray(env, arg[4], &typed);
	if (typed)
		napi_get_typedarray_info(env, arg[4], &type, &bounds, &bound, NULL, NULL);
	if (!s->opened || kind >= KINDS || !name || (typed && type != napi_float64_array)) {
		free(name);
		free(help);
		free(unit);
		return throw_errno(env, EINVAL);
	}
	f = make((enum kind)kind, &SL_OPTS(sl_metric_opts, .name = name, .help = help, .unit = unit,
					   .bounds = bound, .bound_count = bounds));
	free(name);
	free(help);
	free(unit);
	if (!grow((void **)&s->family, &s->family_room, s->families, sizeof(f)))
		return throw_errno(env, ENOMEM);
	s->family[s->families] = f;
	return number(env, s->families++);
}

/* The family that an argument names; NULL after an exception. */
static const struct family *family_of(napi_env env, const struct state *s, napi_value arg)
{
	uint32_t i = UINT32_MAX;

	napi_get_value_uint32(env, arg, &i);
	if (i < s->families)
		return &s->family[i];
	throw_errno(env, EINVAL);
	return NULL;
}

/* with(family, ["key", "value", ...]): the index of a handle */
static napi_value js_with(napi_env env, napi_callback_info info)
{
	struct state *s = state_of(env);
	const struct family *f;
	struct sl_label *label;
	union handle h = {0};
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
	if (f->kind == COUNTER)
		h.counter = sl_counter_f64_with(f->counter, label, count);
	else if (f->kind == GAUGE)
		h.gauge = sl_gauge_f64_with(f->gauge, label, count);
	else
		h.histogram = sl_histogram_with(f->histogram, label, count);
	free_labels(label, text);
	if (!grow((void **)&s->handle, &s->handle_room, s->handles, sizeof(h)))
		return throw_errno(env, ENOMEM);
	s->handle[s->handles] = h;
	return number(env, s->handles++);
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
		{"open", js_open},	 {"attached", js_attached}, {"alarmed", js_alarmed},
		{"refused", js_refused}, {"family", js_family},	    {"with", js_with},
		{"counterAdd", js_add},	 {"gaugeSet", js_set},	    {"gaugeAdd", js_move},
		{"observe", js_observe},
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
