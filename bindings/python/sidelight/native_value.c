// SPDX-License-Identifier: Apache-2.0
/*
 * native_value.c - the values of metrics. A value has a number of its own besides libsidelight's
 * cell. It can therefore be read quickly, and continues to count if the cell is refused or removed.
 */
#include <math.h>

#include "native.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* ---- arguments ---- */

struct update {
	double amount;
	PyObject *exemplar; /* borrowed; NULL means none */
};

static inline bool number(PyObject *o, double *out)
{
	if (likely(PyFloat_CheckExact(o)))
		*out = PyFloat_AS_DOUBLE(o);
	else if (PyLong_CheckExact(o))
		*out = PyLong_AsDouble(o);
	else
		*out = PyFloat_AsDouble(o);
	return likely(*out != -1.0) || !PyErr_Occurred();
}

/* Parses (amount, exemplar=None), by position or by name. wanted: amount is required. */
static bool slow_arguments(struct update *u, PyObject *const *args, Py_ssize_t n, PyObject *names,
			   bool wanted)
{
	Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
	PyObject *arg[2] = {NULL, NULL};

	if (n > 2) {
		PyErr_SetString(PyExc_TypeError, "there are two arguments: amount, exemplar");
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		arg[i] = args[i];
	for (Py_ssize_t i = 0; i < named; i++) {
		PyObject *name = PyTuple_GET_ITEM(names, i);
		int at = !PyUnicode_CompareWithASCIIString(name, "exemplar");

		if ((!at && PyUnicode_CompareWithASCIIString(name, "amount") &&
		     PyUnicode_CompareWithASCIIString(name, "value")) ||
		    arg[at]) {
			PyErr_Format(PyExc_TypeError, "unexpected argument %R", name);
			return false;
		}
		arg[at] = args[n + i];
	}
	if (wanted && !arg[0]) {
		PyErr_SetString(PyExc_TypeError, "the amount is missing");
		return false;
	}
	if (arg[1] && arg[1] != Py_None && PyObject_IsTrue(arg[1]) == 1)
		u->exemplar = arg[1];
	return !PyErr_Occurred() && (!arg[0] || number(arg[0], &u->amount));
}

static inline bool arguments(struct update *u, PyObject *const *args, Py_ssize_t n, PyObject *names,
			     bool wanted)
{
	*u = (struct update){.amount = 1};
	if (likely(!names && n == 1))
		return number(args[0], &u->amount);
	if (!names && !n && !wanted)
		return true;
	return slow_arguments(u, args, n, names, wanted);
}

/* Converts the exemplar of an update. Returns false with an exception. */
static bool exemplar_of(PyObject *dict, struct native_labels *labels, struct sl_exemplar *e)
{
	PyObject *items = PyMapping_Items(dict);
	int err = items ? native_labels(labels, items) : -1;

	Py_XDECREF(items);
	*e = (struct sl_exemplar){
		.sz = sizeof(*e), .labels = labels->label, .label_count = labels->count};
	return !err;
}

/* ---- numbers ---- */

struct scalar {
	PyObject_HEAD enum native_kind kind;
	bool mirror;
	unsigned int epoch, states;
	uint64_t bits; /* the handle, whatever its kind */
	double value;
	uint64_t on; /* of a state set */
};

static void write_states(const struct scalar *s)
{
	/* A refused state set may have more states than there are bits. */
	for (unsigned int i = 0; s->bits && i < s->states; i++)
		sl_stateset_set((struct sl_stateset){s->bits}, i, s->on >> i & 1);
}

/* A child of fork() counts from 0, but is in its parent's state. */
static void scalar_forked(struct scalar *s)
{
	s->epoch = native_epoch;
	s->value = 0;
	if (s->kind == NATIVE_STATES)
		write_states(s);
	native_check_fork();
}

static inline void scalar_check(struct scalar *s)
{
	if (unlikely(s->epoch != native_epoch))
		scalar_forked(s);
}

static PyObject *counter_inc(struct scalar *s, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct native_labels labels;
	struct sl_exemplar e;
	struct update u;

	if (unlikely(!arguments(&u, args, n, names, false)))
		return NULL;
	if (unlikely(u.amount < 0)) {
		PyErr_SetString(PyExc_ValueError,
				"Counters can only be incremented by non-negative amounts.");
		return NULL;
	}
	scalar_check(s);
	if (unlikely(u.exemplar)) {
		if (!exemplar_of(u.exemplar, &labels, &e))
			return NULL;
		sl_counter_f64_add_exemplar((struct sl_counter_f64){s->bits}, u.amount, &e);
		native_labels_free(&labels);
	} else {
		sl_counter_f64_add((struct sl_counter_f64){s->bits}, u.amount);
	}
	if (unlikely(isnan(u.amount))) /* refused and counted by the library */
		Py_RETURN_TRUE;
	s->value += u.amount;
	Py_RETURN_NONE;
}

/* Sets the value. Readers see every value of a mirror, but only increases of other counters. */
static PyObject *counter_set(struct scalar *s, PyObject *arg)
{
	double v;

	if (!number(arg, &v))
		return NULL;
	scalar_check(s);
	if (s->mirror)
		sl_counter_f64_mirror((struct sl_counter_f64){s->bits}, v);
	else if (v > s->value)
		sl_counter_f64_add((struct sl_counter_f64){s->bits}, v - s->value);
	s->value = v;
	Py_RETURN_NONE;
}

static PyObject *scalar_get(struct scalar *s, PyObject *unused)
{
	(void)unused;
	scalar_check(s);
	return PyFloat_FromDouble(s->value);
}

static void gauge_write(struct scalar *s)
{
	if (s->kind == NATIVE_TIMED)
		sl_gauge_timed_set((struct sl_gauge_timed){s->bits}, s->value);
	else if (s->kind == NATIVE_UNKNOWN)
		sl_unknown_set((struct sl_unknown){s->bits}, s->value);
	else
		sl_gauge_f64_set((struct sl_gauge_f64){s->bits}, s->value);
}

static PyObject *gauge_set(struct scalar *s, PyObject *arg)
{
	PyObject *other = NULL;
	double v;
	bool good;

	if (unlikely(!PyFloat_CheckExact(arg) && !PyLong_CheckExact(arg))) {
		arg = other = PyNumber_Float(arg); /* a str is a number, too: as float() has it */
		if (!other)
			return NULL;
	}
	scalar_check(s);
	good = number(arg, &v);
	Py_XDECREF(other);
	if (!good)
		return NULL;
	s->value = v;
	gauge_write(s);
	Py_RETURN_NONE;
}

static PyObject *gauge_move(struct scalar *s, PyObject *const *args, Py_ssize_t n, PyObject *names,
			    int sign)
{
	struct update u;

	if (unlikely(!arguments(&u, args, n, names, false)))
		return NULL;
	scalar_check(s);
	s->value += sign * u.amount;
	gauge_write(s);
	Py_RETURN_NONE;
}

static PyObject *gauge_inc(struct scalar *s, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return gauge_move(s, args, n, names, 1);
}

static PyObject *gauge_dec(struct scalar *s, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return gauge_move(s, args, n, names, -1);
}

/* Sets all states: bit i is state i. A published state set has at most 64 states. */
static PyObject *states_set(struct scalar *s, PyObject *arg)
{
	uint64_t on = PyLong_AsUnsignedLongLongMask(arg);

	if (PyErr_Occurred())
		return NULL;
	scalar_check(s);
	s->on = on;
	write_states(s);
	Py_RETURN_NONE;
}

static PyObject *states_get(struct scalar *s, PyObject *unused)
{
	(void)unused;
	scalar_check(s);
	return PyLong_FromUnsignedLongLong(s->on);
}

/* ---- observations ---- */

struct observer {
	PyObject_HEAD bool summary, mirror;
	unsigned int epoch;
	struct sl_histogram histogram;
	struct sl_summary total;
	double sum;
	size_t bounds;
	double *bound;
	uint64_t *count; /* bounds + 1 numbers; 1 for a summary */
};

static void observer_forked(struct observer *o)
{
	o->epoch = native_epoch;
	o->sum = 0;
	memset(o->count, 0, (o->bounds + 1) * sizeof(*o->count));
	native_check_fork();
}

static inline void observer_check(struct observer *o)
{
	if (unlikely(o->epoch != native_epoch))
		observer_forked(o);
}

static inline size_t bucket_of(const struct observer *o, double v)
{
	size_t low = 0, high = o->bounds;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (o->bound[middle] < v)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static PyObject *observer_observe(struct observer *o, PyObject *const *args, Py_ssize_t n,
				  PyObject *names)
{
	struct native_labels labels;
	struct sl_exemplar e;
	struct update u;

	if (unlikely(!arguments(&u, args, n, names, true)))
		return NULL;
	observer_check(o);
	if (o->summary) {
		sl_summary_observe(o->total, u.amount);
		if (unlikely(isinf(u.amount))) /* refused, but the client counts it */
			sl_summary_observe(o->total, 0);
	} else if (likely(!u.exemplar)) {
		sl_histogram_observe(o->histogram, u.amount);
	} else {
		if (!exemplar_of(u.exemplar, &labels, &e))
			return NULL;
		sl_histogram_observe_exemplar(o->histogram, u.amount, &e);
		native_labels_free(&labels);
	}
	if (unlikely(isnan(u.amount))) /* refused and counted by the library */
		Py_RETURN_TRUE;
	o->sum += u.amount;
	o->count[bucket_of(o, u.amount)]++;
	Py_RETURN_NONE;
}

static PyObject *observer_sum(struct observer *o, PyObject *unused)
{
	(void)unused;
	observer_check(o);
	return PyFloat_FromDouble(o->sum);
}

static PyObject *observer_counts(struct observer *o, PyObject *unused)
{
	PyObject *list = PyList_New((Py_ssize_t)o->bounds + 1);

	(void)unused;
	observer_check(o);
	for (size_t i = 0; list && i <= o->bounds; i++) {
		PyObject *count = PyLong_FromUnsignedLongLong(o->count[i]);

		if (!count)
			Py_CLEAR(list);
		else
			PyList_SET_ITEM(list, (Py_ssize_t)i, count);
	}
	return list;
}

static PyObject *observer_count(struct observer *o, PyObject *arg)
{
	size_t i = PyLong_AsSize_t(arg);

	if (PyErr_Occurred())
		return NULL;
	observer_check(o);
	if (i > o->bounds) {
		PyErr_SetString(PyExc_IndexError, "no such bucket");
		return NULL;
	}
	return PyLong_FromUnsignedLongLong(o->count[i]);
}

/* set(sum, counts), for mirrors. counts: observations per bucket, not cumulative. */
static PyObject *observer_set(struct observer *o, PyObject *args)
{
	PyObject *counts, *fast;
	double sum;

	if (!PyArg_ParseTuple(args, "dO", &sum, &counts))
		return NULL;
	fast = PySequence_Fast(counts, "counts are a sequence");
	if (!fast)
		return NULL;
	observer_check(o);
	if ((size_t)PySequence_Fast_GET_SIZE(fast) != o->bounds + 1 || !o->mirror)
		PyErr_SetString(PyExc_ValueError, "not a mirror, or of other buckets");
	/* Check all numbers before storing any. */
	for (size_t i = 0; !PyErr_Occurred() && i <= o->bounds; i++)
		PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i));
	for (size_t i = 0; !PyErr_Occurred() && i <= o->bounds; i++)
		o->count[i] =
			PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i));
	Py_DECREF(fast);
	if (PyErr_Occurred())
		return NULL;
	o->sum = sum;
	if (o->summary)
		sl_summary_mirror(o->total, sum, o->count[0]);
	else
		sl_histogram_mirror(o->histogram, o->count, o->bounds + 1, sum);
	Py_RETURN_NONE;
}

static void observer_dealloc(struct observer *o)
{
	PyMem_Free(o->bound);
	PyMem_Free(o->count);
	PyObject_Free(o);
}

static PyObject *scalar_placed(struct scalar *s, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(s->bits != 0);
}

static PyObject *observer_placed(struct observer *o, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(o->histogram.bits || o->total.bits);
}

/* ---- types ---- */

#define UPDATE METH_FASTCALL | METH_KEYWORDS
#define METHOD(name, f, flags, doc)                              \
	{                                                        \
		name, (PyCFunction)(void (*)(void))f, flags, doc \
	}
#define PLACED(f) METHOD("placed", f, METH_NOARGS, "False: it counts for this process alone.")

static PyMethodDef counter_methods[] = {
	METHOD("inc", counter_inc, UPDATE, "inc(amount=1, exemplar=None)"),
	METHOD("get", scalar_get, METH_NOARGS, "The value in this process."),
	METHOD("set", counter_set, METH_O, "set(value)"),
	PLACED(scalar_placed),
	{0}};
static PyMethodDef gauge_methods[] = {
	METHOD("inc", gauge_inc, UPDATE, "inc(amount=1)"),
	METHOD("dec", gauge_dec, UPDATE, "dec(amount=1)"),
	METHOD("get", scalar_get, METH_NOARGS, "The value in this process."),
	METHOD("set", gauge_set, METH_O, "set(value)"),
	PLACED(scalar_placed),
	{0}};
static PyMethodDef states_methods[] = {
	METHOD("get", states_get, METH_NOARGS, "The states that are on, as bits."),
	METHOD("set", states_set, METH_O, "set(bits)"),
	PLACED(scalar_placed),
	{0}};
static PyMethodDef observer_methods[] = {
	METHOD("observe", observer_observe, UPDATE, "observe(amount, exemplar=None)"),
	METHOD("sum", observer_sum, METH_NOARGS, "The sum of the observations."),
	METHOD("counts", observer_counts, METH_NOARGS, "The number of observations per bucket."),
	METHOD("count", observer_count, METH_O, "count(i): of a bucket."),
	METHOD("set", observer_set, METH_VARARGS, "set(sum, counts), of a mirror"),
	PLACED(observer_placed),
	{0}};

#define TYPE(type, of, list)                                                                    \
	{                                                                                       \
		PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sidelight._native." type,             \
					    .tp_basicsize = sizeof(struct of),                  \
					    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_methods = list, \
	}

static PyTypeObject counter_type = TYPE("Counter", scalar, counter_methods);
static PyTypeObject gauge_type = TYPE("Gauge", scalar, gauge_methods);
static PyTypeObject states_type = TYPE("States", scalar, states_methods);
static PyTypeObject observer_type = TYPE("Observer", observer, observer_methods);

int native_value_types(PyObject *module)
{
	observer_type.tp_dealloc = (destructor)(void (*)(void))observer_dealloc;
	return PyModule_AddType(module, &counter_type) || PyModule_AddType(module, &gauge_type) ||
			       PyModule_AddType(module, &states_type) ||
			       PyModule_AddType(module, &observer_type)
		       ? -1
		       : 0;
}

static PyObject *new_scalar(const struct native_family *f, const struct native_labels *l)
{
	PyTypeObject *type = f->kind == NATIVE_COUNTER	? &counter_type
			     : f->kind == NATIVE_STATES ? &states_type
							: &gauge_type;
	struct scalar *s = PyObject_New(struct scalar, type);

	if (!s)
		return NULL;
	s->kind = f->kind;
	s->mirror = f->mirror;
	s->epoch = native_epoch;
	s->states = (unsigned int)f->states;
	s->value = 0;
	s->on = 0;
	if (f->kind == NATIVE_COUNTER)
		s->bits = sl_counter_f64_with(f->as.counter, l->label, l->count).bits;
	else if (f->kind == NATIVE_STATES)
		s->bits = sl_stateset_with(f->as.states, l->label, l->count).bits;
	else if (f->kind == NATIVE_TIMED)
		s->bits = sl_gauge_timed_with(f->as.timed, l->label, l->count).bits;
	else if (f->kind == NATIVE_UNKNOWN)
		s->bits = sl_unknown_with(f->as.unknown, l->label, l->count).bits;
	else
		s->bits = sl_gauge_f64_with(f->as.gauge, l->label, l->count).bits;
	return (PyObject *)s;
}

/* Without a place. */
static struct observer *new_observer(const struct native_family *f)
{
	struct observer *o = PyObject_New(struct observer, &observer_type);
	size_t bounds = f->kind == NATIVE_SUMMARY ? 0 : f->bounds;

	if (!o)
		return NULL;
	o->summary = f->kind == NATIVE_SUMMARY;
	o->mirror = f->mirror;
	o->epoch = native_epoch;
	o->sum = 0;
	o->histogram = (struct sl_histogram){0};
	o->total = (struct sl_summary){0};
	o->bounds = bounds;
	o->bound = PyMem_Calloc(bounds + 1, sizeof(*o->bound));
	o->count = PyMem_Calloc(bounds + 1, sizeof(*o->count));
	if (!o->bound || !o->count) {
		Py_DECREF(o);
		PyErr_NoMemory();
		return NULL;
	}
	memcpy(o->bound, f->bound, bounds * sizeof(*o->bound));
	return o;
}

PyObject *native_histogram(const struct native_family *f, struct sl_histogram h)
{
	struct observer *o = new_observer(f);

	if (o)
		o->histogram = h;
	return (PyObject *)o;
}

static PyObject *new_summary(const struct native_family *f, struct sl_summary s)
{
	struct observer *o = new_observer(f);

	if (o)
		o->total = s;
	return (PyObject *)o;
}

PyObject *native_value(const struct native_family *f, const struct native_labels *labels)
{
	if (f->kind == NATIVE_HISTOGRAM)
		return native_histogram(
			f, sl_histogram_with(f->as.histogram, labels->label, labels->count));
	if (f->kind == NATIVE_SUMMARY)
		return new_summary(f, sl_summary_with(f->as.summary, labels->label, labels->count));
	return new_scalar(f, labels);
}

void native_value_leave(PyObject *value)
{
	if (Py_IS_TYPE(value, &observer_type)) {
		((struct observer *)value)->histogram = (struct sl_histogram){0};
		((struct observer *)value)->total = (struct sl_summary){0};
	} else if (Py_IS_TYPE(value, &counter_type) || Py_IS_TYPE(value, &gauge_type) ||
		   Py_IS_TYPE(value, &states_type)) {
		((struct scalar *)value)->bits = 0;
	}
}
