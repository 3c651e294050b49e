/* SPDX-License-Identifier: Apache-2.0 */
/* native.h - what the files of the extension share. All of it runs under Python's global lock. */
#ifndef SIDELIGHT_PYTHON_NATIVE_H
#define SIDELIGHT_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sidelight/sidelight.h>

#define NATIVE_LABELS_MAX 32 /* limit of the format: sidelight-region(5) */

/* Labels from Python: pointers into the strings of `pairs`, to which it holds a reference. */
struct native_labels {
	struct sl_label label[NATIVE_LABELS_MAX];
	size_t count;
	PyObject *pairs;
};

/* Converts a sequence of (key, value), all of type str. Returns 0, or -1 with an exception. */
int native_labels(struct native_labels *labels, PyObject *pairs);
void native_labels_free(struct native_labels *labels);

/* ---- values: native_value.c ---- */

/* As in _format.py. */
enum native_kind {
	NATIVE_COUNTER = 2,
	NATIVE_GAUGE = 4,
	NATIVE_HISTOGRAM = 6,
	NATIVE_STATES = 8,
	NATIVE_SUMMARY = 9,
	NATIVE_UNKNOWN = 10,
	NATIVE_TIMED = 13,
};

struct native_family {
	PyObject_HEAD enum native_kind kind;
	bool mirror;
	size_t bounds, states;
	double *bound;
	union {
		struct sl_counter_f64_family counter;
		struct sl_gauge_f64_family gauge;
		struct sl_histogram_family histogram;
		struct sl_stateset_family states;
		struct sl_summary_family summary;
		struct sl_unknown_family unknown;
		struct sl_gauge_timed_family timed;
		uint64_t bits;
	} as;
};

/* Creates the family's metric with these labels; returns its value, or NULL with an exception. */
PyObject *native_value(const struct native_family *family, const struct native_labels *labels);
/* Returns a value that observes into this histogram. NULL with an exception. */
PyObject *native_histogram(const struct native_family *family, struct sl_histogram h);
/* Detaches the value from its metric. It continues to count, but only for this process. */
void native_value_leave(PyObject *value);

int native_value_types(PyObject *module);
int native_span_types(PyObject *module);

/* Calls the hook of a child of fork() that has not been called yet. */
void native_check_fork(void);
/* Changes in a forked child. */
extern unsigned int native_epoch;

struct native_publisher {
	PyObject_HEAD struct sl_publisher *p;
};

/* The publisher's method span_word(text, key). */
PyObject *native_span_word(struct native_publisher *self, PyObject *args);

#endif
