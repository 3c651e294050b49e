// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_bridge_text.c - bodies of a target, the second after the first, each in any format. What the
 * shape of the first says of the second is what a new parser says of it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct seen {
	struct bridge_sink sink;
	size_t points, n;
	double values[4096];
	bool repeated;
};

static void must(bool condition)
{
	if (!condition)
		abort();
}

static bool on_family(struct bridge_sink *s, const struct bridge_family *f)
{
	(void)s;
	must(f->name.n > 0 && (unsigned int)f->type < BRIDGE_TYPES);
	return true;
}

static bool on_point(struct bridge_sink *s, const struct bridge_point *p)
{
	struct seen *x = (struct seen *)s;

	x->points++;
	for (size_t i = 1; i < p->bound_count; i++)
		must(p->bounds[i] > p->bounds[i - 1]);
	for (size_t i = 1; i < p->label_count; i++)
		must(!bridge_text_equal(p->labels[i].key, p->labels[i - 1].key));
	for (size_t i = 0; i < p->value_count; i++, x->n++)
		if (x->n < 4096)
			x->values[x->n] = p->values[i];
	return true;
}

static void on_values(struct bridge_sink *s, const double *values, size_t n)
{
	struct seen *x = (struct seen *)s;

	x->repeated = true;
	x->n = n;
	if (n)
		memcpy(x->values, values, (n < 4096 ? n : 4096) * sizeof(*values));
}

static int run(struct bridge_text_parser *p, enum bridge_text_format format, const uint8_t *data,
	       size_t bytes, struct seen *x)
{
	char *body = malloc(bytes ? bytes : 1);
	struct bridge_error e = {0};
	int err;

	must(body);
	memcpy(body, data, bytes);
	memset(x, 0, sizeof(*x));
	x->sink = (struct bridge_sink){on_family, on_point, on_values};
	err = bridge_text_read(p, format, body, bytes, &x->sink, &e);
	must(!err || *e.text);
	must(!err || (!x->points && !x->repeated));
	free(body);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct bridge_limits limits = {.points = 1000, .values = 4096};
	struct bridge_text_parser *p = bridge_text_new(&limits), *fresh = bridge_text_new(&limits);
	static struct seen x, y;
	const uint8_t *second;
	enum bridge_text_format format;
	int err;

	must(p && fresh);
	if (bytes < 2)
		goto out;
	format = data[0] & 1 ? BRIDGE_OPENMETRICS : BRIDGE_TEXT_004;
	data++;
	bytes--;
	/* Two bodies, with a NUL between them. */
	second = memchr(data, 0, bytes);
	err = run(p, format, data, second ? (size_t)(second - data) : bytes, &x);
	if (!second) /* the same again */
		second = data - 1;
	bytes = (size_t)(data + bytes - second - 1);
	err = run(p, format, second + 1, bytes, &x);
	must(err == run(fresh, format, second + 1, bytes, &y));
	must(err || (x.n == y.n &&
		     !memcmp(x.values, y.values, (x.n < 4096 ? x.n : 4096) * sizeof(*x.values))));
out:
	bridge_text_free(p);
	bridge_text_free(fresh);
	return 0;
}
