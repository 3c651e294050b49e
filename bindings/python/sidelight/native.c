// SPDX-License-Identifier: Apache-2.0
/*
 * native.c - libsidelight for Python: publishers and families of metrics, and what follows a
 * fork(). _native_publisher.py is the interface for the rest of the package.
 */
#include "native.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- a child of fork() ---- */

unsigned int native_epoch;
static bool fork_due;
static PyObject *fork_hook;

/* uwsgi forks without telling Python. */
static void in_child(void)
{
	native_epoch++;
	fork_due = true;
}

void native_check_fork(void)
{
	PyObject *done;

	if (!fork_due)
		return;
	fork_due = false;
	if (!fork_hook)
		return;
	done = PyObject_CallNoArgs(fork_hook);
	if (!done)
		PyErr_WriteUnraisable(fork_hook);
	Py_XDECREF(done);
}

static PyObject *set_fork_hook(PyObject *module, PyObject *hook)
{
	(void)module;
	Py_INCREF(hook);
	Py_XSETREF(fork_hook, hook);
	Py_RETURN_NONE;
}

static PyObject *check_fork(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	native_check_fork();
	Py_RETURN_NONE;
}

/* ---- what the library logs ---- */

/*
 * Messages are kept until Python asks for them. A thread of the library does not wait for Python's
 * lock: under uwsgi without threads, it would wait for ever.
 */
static atomic_flag log_busy = ATOMIC_FLAG_INIT;
static char log_line[16][512];
static int log_level[16];
static unsigned int log_lines;

static void keep_line(enum sl_log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level > SL_LOG_WARN || atomic_flag_test_and_set(&log_busy))
		return;
	if (log_lines < 16) {
		log_level[log_lines] = level;
		snprintf(log_line[log_lines++], sizeof(log_line[0]), "%s", line);
	}
	atomic_flag_clear(&log_busy);
}

/* logged(): [(level, line), ...] since it was called last */
static PyObject *logged(PyObject *module, PyObject *unused)
{
	PyObject *list = PyList_New(0);

	(void)module;
	(void)unused;
	if (!list || !log_lines || atomic_flag_test_and_set(&log_busy))
		return list;
	for (unsigned int i = 0; list && i < log_lines; i++) {
		PyObject *one = Py_BuildValue("(iN)", log_level[i],
					      PyUnicode_DecodeUTF8(log_line[i],
								   (Py_ssize_t)strlen(log_line[i]),
								   "replace"));

		if (!one || PyList_Append(list, one))
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	log_lines = 0;
	atomic_flag_clear(&log_busy);
	return list;
}

/* ---- labels ---- */

static const char *text(PyObject *o)
{
	Py_ssize_t n;
	const char *s = PyUnicode_AsUTF8AndSize(o, &n);

	if (s && strlen(s) != (size_t)n) {
		PyErr_SetString(PyExc_ValueError, "embedded null character");
		return NULL;
	}
	return s;
}

int native_labels(struct native_labels *l, PyObject *pairs)
{
	PyObject *fast = PySequence_Fast(pairs, "labels are a sequence of pairs");

	l->count = 0;
	l->pairs = fast;
	if (!fast)
		return -1;
	if (PySequence_Fast_GET_SIZE(fast) > NATIVE_LABELS_MAX) {
		PyErr_SetString(PyExc_ValueError, "too many labels");
		goto fail;
	}
	for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
		PyObject *pair = PySequence_Fast_GET_ITEM(fast, i);
		const char *key, *value;

		if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
			PyErr_SetString(PyExc_TypeError, "a label is a pair of str");
			goto fail;
		}
		key = text(PyTuple_GET_ITEM(pair, 0));
		value = key ? text(PyTuple_GET_ITEM(pair, 1)) : NULL;
		if (!value)
			goto fail;
		l->label[l->count++] = (struct sl_label){key, value};
	}
	return 0;
fail:
	Py_CLEAR(l->pairs);
	return -1;
}

void native_labels_free(struct native_labels *l)
{
	Py_CLEAR(l->pairs);
}

/* ---- families ---- */

static PyTypeObject family_type;

/* The doubles of a sequence; NULL with an exception. */
static double *doubles(PyObject *sequence, size_t *count)
{
	PyObject *fast = PySequence_Fast(sequence, "bounds are a sequence");
	double *out = NULL;

	if (!fast)
		return NULL;
	*count = (size_t)PySequence_Fast_GET_SIZE(fast);
	out = PyMem_Calloc(*count + 1, sizeof(*out));
	if (!out)
		PyErr_NoMemory();
	for (size_t i = 0; out && i < *count; i++)
		out[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i));
	Py_DECREF(fast);
	if (PyErr_Occurred()) {
		PyMem_Free(out);
		return NULL;
	}
	return out;
}

static bool family_open(struct native_family *f, struct sl_publisher *p, struct sl_metric_opts *o)
{
	switch (f->kind) {
	case NATIVE_COUNTER:
		f->as.counter = sl_counter_f64_family_create(p, o);
		return true;
	case NATIVE_GAUGE:
		f->as.gauge = sl_gauge_f64_family_create(p, o);
		return true;
	case NATIVE_TIMED:
		f->as.timed = sl_gauge_timed_family_create(p, o);
		return true;
	case NATIVE_UNKNOWN:
		f->as.unknown = sl_unknown_family_create(p, o);
		return true;
	case NATIVE_STATES:
		f->as.states = sl_stateset_family_create(p, o);
		return true;
	case NATIVE_SUMMARY:
		f->as.summary = sl_summary_family_create(p, o);
		return true;
	case NATIVE_HISTOGRAM:
		o->bounds = f->bound;
		o->bound_count = f->bounds;
		f->as.histogram = sl_histogram_family_create_classic(p, o);
		return true;
	}
	PyErr_SetString(PyExc_ValueError, "no such kind");
	return false;
}

/* family(kind, name, help, unit, bounds, states, combine, live, mirror) */
static PyObject *publisher_family(struct native_publisher *self, PyObject *args)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts);
	int kind, combine, live, mirror;
	PyObject *bounds, *states, *fast;
	const char *state[64];
	struct native_family *f;
	bool good;

	if (!PyArg_ParseTuple(args, "isssOOipp", &kind, &o.name, &o.help, &o.unit, &bounds, &states,
			      &combine, &live, &mirror))
		return NULL;
	o.combine = (enum sl_combine)combine;
	o.live = live;
	o.mirror = mirror;
	/* The exposition names a label as the state set. */
	o.utf8 = kind != NATIVE_STATES;
	fast = PySequence_Fast(states, "states are a sequence");
	if (!fast)
		return NULL;
	f = PyObject_New(struct native_family, &family_type);
	if (!f) {
		Py_DECREF(fast);
		return NULL;
	}
	f->kind = (enum native_kind)kind;
	f->mirror = mirror;
	f->as.bits = 0;
	f->states = (size_t)PySequence_Fast_GET_SIZE(fast);
	f->bound = doubles(bounds, &f->bounds);
	good = f->bound != NULL;
	if (good && f->states > 64) {
		PyErr_SetString(PyExc_ValueError, "too many states");
		good = false;
	}
	for (size_t i = 0; good && i < f->states; i++) {
		state[i] = text(PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i));
		good = state[i] != NULL;
	}
	o.states = state;
	o.state_count = f->states;
	good = good && family_open(f, self->p, &o);
	Py_DECREF(fast);
	if (!good)
		Py_CLEAR(f);
	return (PyObject *)f;
}

/* metric(pairs): its value */
static PyObject *family_metric(struct native_family *f, PyObject *pairs)
{
	struct native_labels labels;
	PyObject *value;

	if (native_labels(&labels, pairs))
		return NULL;
	value = native_value(f, &labels);
	native_labels_free(&labels);
	return value;
}

static int family_end(const struct native_family *f, const struct native_labels *l)
{
	switch (f->kind) {
	case NATIVE_COUNTER:
		return sl_counter_f64_remove(f->as.counter, l->label, l->count);
	case NATIVE_GAUGE:
		return sl_gauge_f64_remove(f->as.gauge, l->label, l->count);
	case NATIVE_TIMED:
		return sl_gauge_timed_remove(f->as.timed, l->label, l->count);
	case NATIVE_UNKNOWN:
		return sl_unknown_remove(f->as.unknown, l->label, l->count);
	case NATIVE_STATES:
		return sl_stateset_remove(f->as.states, l->label, l->count);
	case NATIVE_SUMMARY:
		return sl_summary_remove(f->as.summary, l->label, l->count);
	case NATIVE_HISTOGRAM:
		return sl_histogram_remove(f->as.histogram, l->label, l->count);
	}
	return 0;
}

/* remove(pairs, value) */
static PyObject *family_remove(struct native_family *f, PyObject *args)
{
	struct native_labels labels;
	PyObject *pairs, *value;
	int err;

	if (!PyArg_ParseTuple(args, "OO", &pairs, &value) || native_labels(&labels, pairs))
		return NULL;
	native_value_leave(value); /* its cell will be reused for another metric */
	err = family_end(f, &labels);
	native_labels_free(&labels);
	return PyBool_FromLong(!err);
}

static PyObject *family_valid(struct native_family *f, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(f->as.bits != 0);
}

static void family_dealloc(struct native_family *f)
{
	PyMem_Free(f->bound);
	PyObject_Free(f);
}

static PyMethodDef family_methods[] = {
	{"metric", (PyCFunction)(void (*)(void))family_metric, METH_O, "metric(pairs)"},
	{"remove", (PyCFunction)(void (*)(void))family_remove, METH_VARARGS,
	 "remove(pairs, value)"},
	{"valid", (PyCFunction)(void (*)(void))family_valid, METH_NOARGS, "False: it was refused."},
	{0}};
static PyTypeObject family_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sidelight._native.Family",
	.tp_basicsize = sizeof(struct native_family),
	.tp_dealloc = (destructor)(void (*)(void))family_dealloc,
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_methods = family_methods,
};

/* nowhere(kind, bounds, states): a value that is not published */
static PyObject *nowhere(PyObject *module, PyObject *args)
{
	struct native_labels none = {.count = 0};
	struct native_family f = {.mirror = true};
	PyObject *bounds, *value = NULL;
	int kind;

	(void)module;
	if (!PyArg_ParseTuple(args, "iOn", &kind, &bounds, &f.states))
		return NULL;
	f.kind = (enum native_kind)kind;
	f.bound = doubles(bounds, &f.bounds);
	if (f.bound)
		value = native_value(&f, &none);
	PyMem_Free(f.bound);
	return value;
}

static PyObject *leave(PyObject *module, PyObject *value)
{
	(void)module;
	native_value_leave(value);
	Py_RETURN_NONE;
}

/* ---- publishers ---- */

/* histogram(name, help, unit, bounds, pairs, mirror): its value, in a family of other bounds */
static PyObject *publisher_histogram(struct native_publisher *self, PyObject *args)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .utf8 = true);
	struct native_family f = {.kind = NATIVE_HISTOGRAM};
	PyObject *bounds, *pairs, *value = NULL;
	struct native_labels labels;
	int mirror;

	if (!PyArg_ParseTuple(args, "sssOOp", &o.name, &o.help, &o.unit, &bounds, &pairs,
			      &mirror) ||
	    native_labels(&labels, pairs))
		return NULL;
	f.mirror = o.mirror = mirror;
	f.bound = doubles(bounds, &f.bounds);
	if (f.bound) {
		o.bounds = f.bound;
		o.bound_count = f.bounds;
		o.labels = labels.label;
		o.label_count = labels.count;
		value = native_histogram(&f, sl_histogram_create_classic(self->p, &o));
	}
	PyMem_Free(f.bound);
	native_labels_free(&labels);
	return value;
}

/* info(name, help, pairs, remove): whether it was created, or removed */
static PyObject *publisher_info(struct native_publisher *self, PyObject *args)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts);
	struct native_labels labels;
	PyObject *pairs;
	int remove, err;

	if (!PyArg_ParseTuple(args, "ssOp", &o.name, &o.help, &pairs, &remove) ||
	    native_labels(&labels, pairs))
		return NULL;
	o.labels = labels.label;
	o.label_count = labels.count;
	o.utf8 = true;
	err = remove ? sl_info_remove(self->p, &o) : sl_info_create(self->p, &o);
	native_labels_free(&labels);
	return PyBool_FromLong(!err);
}

static PyObject *publisher_attached(struct native_publisher *self, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(self->p && sl_publisher_attached(self->p));
}

static PyObject *publisher_alarmed(struct native_publisher *self, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(sl_publisher_alarmed(self->p));
}

static PyObject *publisher_refused(struct native_publisher *self, PyObject *unused)
{
	struct sl_publisher_stats st = SL_OPTS(sl_publisher_stats);

	(void)unused;
	if (self->p)
		sl_publisher_stats(self->p, &st);
	return PyLong_FromUnsignedLong(st.refused);
}

/* Requires that all values have been detached. */
static PyObject *publisher_close(struct native_publisher *self, PyObject *unused)
{
	struct sl_publisher *p = self->p;

	(void)unused;
	self->p = NULL;
	/*
	 * Keep the GIL: otherwise, another thread could end a span in memory that is being freed.
	 * The call waits for the library's thread, which never takes the GIL.
	 */
	sl_publisher_close(p);
	Py_RETURN_NONE;
}

/*
 * Publisher(service, pod, namespace, labels, socket, cells, schema_bytes, fixed, span_bytes), or
 * Publisher(): one that is closed
 */
static PyObject *publisher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct sl_publisher_opts o = SL_OPTS(sl_publisher_opts);
	struct native_publisher *self;
	struct native_labels labels;
	PyObject *pairs;
	int fixed;

	(void)kwargs;
	if (!PyTuple_GET_SIZE(args))
		return type->tp_alloc(type, 0);
	if (!PyArg_ParseTuple(args, "zzzOzIIpI", &o.service, &o.pod, &o.kube_namespace, &pairs,
			      &o.socket, &o.max_cells, &o.schema_bytes, &fixed, &o.span_bytes) ||
	    native_labels(&labels, pairs))
		return NULL;
	o.labels = labels.label;
	o.label_count = labels.count;
	o.flags = fixed ? SL_PUBLISHER_FIXED : 0;
	self = (struct native_publisher *)type->tp_alloc(type, 0);
	if (self) {
		self->p = sl_publisher_open(&o);
		if (!self->p) {
			PyErr_SetFromErrno(PyExc_OSError);
			Py_CLEAR(self);
		}
	}
	native_labels_free(&labels);
	return (PyObject *)self;
}

static PyMethodDef publisher_methods[] = {
	{"family", (PyCFunction)(void (*)(void))publisher_family, METH_VARARGS,
	 "family(kind, name, help, unit, bounds, states, combine, live, mirror)"},
	{"histogram", (PyCFunction)(void (*)(void))publisher_histogram, METH_VARARGS,
	 "histogram(name, help, unit, bounds, pairs, mirror)"},
	{"info", (PyCFunction)(void (*)(void))publisher_info, METH_VARARGS,
	 "info(name, help, pairs, remove)"},
	{"span_word", (PyCFunction)(void (*)(void))native_span_word, METH_VARARGS,
	 "span_word(text, key): the number of a name, or of a key"},
	{"attached", (PyCFunction)(void (*)(void))publisher_attached, METH_NOARGS,
	 "True while an agent has the region."},
	{"alarmed", (PyCFunction)(void (*)(void))publisher_alarmed, METH_NOARGS,
	 "True while a collector finds this process anomalous."},
	{"refused", (PyCFunction)(void (*)(void))publisher_refused, METH_NOARGS,
	 "Metrics and observations."},
	{"close", (PyCFunction)(void (*)(void))publisher_close, METH_NOARGS,
	 "Tells the agent. Its values must not count any more."},
	{0}};
/* A publisher that is not closed is not freed, because values may point into it. */
static PyTypeObject publisher_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sidelight._native.Publisher",
	.tp_basicsize = sizeof(struct native_publisher),
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_methods = publisher_methods,
	.tp_new = publisher_new,
};

/* ---- the module ---- */

static PyMethodDef functions[] = {
	{"on_fork", set_fork_hook, METH_O, "on_fork(call): at the first use in a child of fork()"},
	{"check_fork", check_fork, METH_NOARGS, "Makes that call, if it is due."},
	{"nowhere", nowhere, METH_VARARGS, "nowhere(kind, bounds, states): a value without a cell"},
	{"leave", leave, METH_O, "leave(value): it has no cell any more."},
	{"logged", logged, METH_NOARGS, "What the library logged: [(level, line), ...]"},
	{0}};
static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_native",
	.m_size = -1,
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	if (PyModule_AddType(module, &publisher_type) || PyModule_AddType(module, &family_type) ||
	    native_value_types(module) || native_span_types(module) ||
	    pthread_atfork(NULL, NULL, in_child)) {
		Py_DECREF(module);
		return NULL;
	}
	sl_set_log(keep_line, NULL);
	return module;
}
