// SPDX-License-Identifier: Apache-2.0
/* native_span.c - spans: _span.py is the interface for applications. */
#include <sidelight/span.h>

#include "native.h"

struct span {
	PyObject_HEAD struct sl_span span;
};

static PyTypeObject span_type;

/*
 * Returns the context of a parent (None, the text of a traceparent header, or a Span), or NULL if
 * there is none or it is malformed.
 */
static const struct sl_trace_context *parent_of(PyObject *parent, struct sl_trace_context *room)
{
	const char *text;
	Py_ssize_t n;

	if (Py_IS_TYPE(parent, &span_type))
		return &((struct span *)parent)->span.context;
	if (!PyUnicode_Check(parent))
		return NULL;
	text = PyUnicode_AsUTF8AndSize(parent, &n);
	if (!text)
		PyErr_Clear(); /* not UTF-8: no header contains such text */
	return text && !sl_traceparent_parse(text, (size_t)n, room) ? room : NULL;
}

/* Span(name, kind, parent): a started span */
static PyObject *span_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct sl_trace_context room;
	unsigned long long name;
	struct span *s;
	PyObject *parent;
	int kind;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "KiO", &name, &kind, &parent))
		return NULL;
	s = (struct span *)type->tp_alloc(type, 0);
	if (s)
		sl_span_start(&s->span, (struct sl_span_name){name}, (enum sl_span_kind)kind,
			      parent_of(parent, &room));
	return (PyObject *)s;
}

/* set(key, value) */
static PyObject *span_set(struct span *s, PyObject *args)
{
	struct sl_span_key key = {0};
	PyObject *value;
	Py_ssize_t n;

	if (!PyArg_ParseTuple(args, "KO", &key.bits, &value))
		return NULL;
	if (PyBool_Check(value)) {
		sl_span_set_bool(&s->span, key, value == Py_True);
	} else if (PyLong_Check(value)) {
		long long i = PyLong_AsLongLong(value);

		if (i == -1 && PyErr_Occurred())
			return NULL;
		sl_span_set_i64(&s->span, key, i);
	} else if (PyFloat_Check(value)) {
		sl_span_set_f64(&s->span, key, PyFloat_AS_DOUBLE(value));
	} else {
		const char *text = PyUnicode_AsUTF8AndSize(value, &n);

		if (!text)
			return NULL;
		sl_span_set_text(&s->span, key, text, (size_t)n);
	}
	Py_RETURN_NONE;
}

/* status(status, message) */
static PyObject *span_status(struct span *s, PyObject *args)
{
	const char *message;
	int status;

	if (!PyArg_ParseTuple(args, "iz", &status, &message))
		return NULL;
	sl_span_set_status(&s->span, (enum sl_span_status)status, message);
	Py_RETURN_NONE;
}

static PyObject *span_end(struct span *s, PyObject *unused)
{
	(void)unused;
	sl_span_end(&s->span);
	Py_RETURN_NONE;
}

static PyObject *span_traceparent(struct span *s, PyObject *unused)
{
	char text[SL_TRACEPARENT_LENGTH + 1];

	(void)unused;
	sl_traceparent_format(&s->span.context, text);
	return PyUnicode_FromString(text);
}

static PyMethodDef methods[] = {
	{"set", (PyCFunction)(void (*)(void))span_set, METH_VARARGS, "set(key, value)"},
	{"status", (PyCFunction)(void (*)(void))span_status, METH_VARARGS,
	 "status(status, message)"},
	{"end", (PyCFunction)(void (*)(void))span_end, METH_NOARGS, "Ends and writes it."},
	{"traceparent", (PyCFunction)(void (*)(void))span_traceparent, METH_NOARGS,
	 "The header for a callee; empty without a trace."},
	{0}};
static PyTypeObject span_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "sidelight._native.Span",
	.tp_basicsize = sizeof(struct span),
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_methods = methods,
	.tp_new = span_new,
};

int native_span_types(PyObject *module)
{
	return PyModule_AddType(module, &span_type);
}

/* span_word(text, key): the number of a span's name, or of the key of an attribute */
PyObject *native_span_word(struct native_publisher *self, PyObject *args)
{
	const char *text;
	int key;

	if (!PyArg_ParseTuple(args, "sp", &text, &key))
		return NULL;
	return PyLong_FromUnsignedLongLong(key ? sl_span_key_create(self->p, text).bits
					       : sl_span_name_create(self->p, text).bits);
}
