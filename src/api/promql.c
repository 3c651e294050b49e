// SPDX-License-Identifier: Apache-2.0
/* promql.c - parses the supported subset of PromQL. */
#include "api/promql.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define DURATION_MAX 3.2e16 /* a year in ns */

struct promql_parser {
	struct api_promql *q;
	const char *at;
	size_t depth; /* nesting depth of aggregations */
	char *error;
	size_t error_bytes;
};

static int fail_parse(const struct promql_parser *p, const char *what)
{
	if (!*p->at)
		return base_fail(p->error, p->error_bytes, -EINVAL, "%s, not the end", what);
	return base_fail(p->error, p->error_bytes, -EINVAL, "%s, not \"%.20s\"", what, p->at);
}

static void skip_space(struct promql_parser *p)
{
	p->at = api_promql_space(p->at);
}

static bool is_next(const struct promql_parser *p, char c)
{
	return *p->at == c;
}

static bool take_char(struct promql_parser *p, char c)
{
	if (!is_next(p, c))
		return false;
	p->at++;
	skip_space(p);
	return true;
}

static bool took_word(struct promql_parser *p, const char *word)
{
	const size_t n = strlen(word);

	if (api_promql_name(p->at, true) != n || memcmp(p->at, word, n))
		return false;
	p->at += n;
	skip_space(p);
	return true;
}

/* Durations */

/* Parses "1h30m" or a number of seconds. Returns the end of the text, or NULL. */
static const char *read_duration(const char *s, int64_t *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ms", 1e6},    {"s", 1e9},      {"m", 60e9},	{"h", 3600e9},
		     {"d", 86400e9}, {"w", 604800e9}, {"y", 31536000e9}};
	double sum = 0;
	bool any = false;

	while (isdigit((unsigned char)*s)) {
		char *end;
		const double n = strtod(s, &end);
		double unit = 0;

		for (size_t i = 0; i < sizeof(units) / sizeof(*units) && !unit; i++)
			if (!strncmp(end, units[i].name, strlen(units[i].name))) {
				unit = units[i].ns;
				end += strlen(units[i].name);
			}
		if (!unit && any)
			return NULL;
		sum += n * (unit ? unit : 1e9);
		any = true;
		s = end;
		if (!unit)
			break;
	}
	if (!any || !(sum >= 1e6) || sum > DURATION_MAX)
		return NULL;
	*ns = (int64_t)(sum / 1e6) * 1000000;
	return s;
}

int api_promql_duration(const char *text, int64_t *ns)
{
	const char *end = read_duration(text, ns);

	return end && !*end ? 0 : -EINVAL;
}

/* Expressions */

static int parse_selector(struct promql_parser *p)
{
	const char *end = api_matchers_parse(&p->q->matchers, p->at, p->error, p->error_bytes);

	if (!end)
		return -EINVAL;
	p->at = end;
	skip_space(p);
	if (take_char(p, '[')) {
		end = read_duration(p->at, &p->q->range_ns);
		if (!end)
			return fail_parse(p, "expected a duration, as in [5m]");
		p->at = end;
		skip_space(p);
		if (!take_char(p, ']'))
			return fail_parse(p, "expected ]; subqueries are not supported");
	}
	if (took_word(p, "offset")) {
		end = read_duration(p->at, &p->q->offset_ns);
		if (!end)
			return fail_parse(p, "expected a duration as offset");
		p->at = end;
		skip_space(p);
	}
	return 0;
}

static int parse_grouping(struct promql_parser *p, struct api_promql_aggregate *a)
{
	a->without = took_word(p, "without");
	if (!a->without && !took_word(p, "by"))
		return 0;
	if (!take_char(p, '('))
		return fail_parse(p, "expected (");
	while (!take_char(p, ')')) {
		const size_t n = api_promql_name(p->at, false);

		if (!n)
			return fail_parse(p, "expected a label name");
		if (a->labels == API_PROMQL_LABELS)
			return fail_parse(p, "too many labels");
		a->label[a->labels] = strndup(p->at, n);
		if (!a->label[a->labels])
			return -ENOMEM;
		a->labels++;
		p->at += n;
		skip_space(p);
		if (!take_char(p, ',') && !is_next(p, ')'))
			return fail_parse(p, "expected , or )");
	}
	return 0;
}

static const char *const functions[] = {
	[API_PROMQL_RATE] = "rate",
	[API_PROMQL_INCREASE] = "increase",
	[API_PROMQL_DELTA] = "delta",
	[API_PROMQL_IRATE] = "irate",
	[API_PROMQL_AVG] = "avg_over_time",
	[API_PROMQL_MIN] = "min_over_time",
	[API_PROMQL_MAX] = "max_over_time",
	[API_PROMQL_SUM] = "sum_over_time",
	[API_PROMQL_COUNT] = "count_over_time",
	[API_PROMQL_LAST] = "last_over_time",
};

static const char *const operators[] = {[API_PROMQL_BY_SUM] = "sum",
					[API_PROMQL_BY_AVG] = "avg",
					[API_PROMQL_BY_MIN] = "min",
					[API_PROMQL_BY_MAX] = "max",
					[API_PROMQL_BY_COUNT] = "count"};

/* Returns true if a function name with "(" follows. A name alone could be a metric. */
static bool is_call(const struct promql_parser *p, const char *name)
{
	const size_t n = strlen(name);

	return api_promql_name(p->at, true) == n && !memcmp(p->at, name, n) &&
	       *api_promql_space(p->at + n) == '(';
}

static int parse_call(struct promql_parser *p)
{
	for (int f = API_PROMQL_RATE; f < API_PROMQL_FUNCTIONS; f++) {
		int err;

		if (!is_call(p, functions[f]))
			continue;
		p->q->function = (enum api_promql_function)f;
		p->at += strlen(functions[f]);
		skip_space(p);
		take_char(p, '(');
		err = parse_selector(p);
		if (err)
			return err;
		if (!p->q->range_ns)
			return fail_parse(p, "the function needs a range, as in x[5m]");
		return take_char(p, ')') ? 0 : fail_parse(p, "expected )");
	}
	if (api_promql_name(p->at, true) &&
	    *api_promql_space(p->at + api_promql_name(p->at, true)) == '(')
		return fail_parse(p, "expected a supported function (rate, increase, delta, "
				     "irate, *_over_time; sum, avg, min, max, count)");
	return parse_selector(p);
}

/* Parses aggregations from the outermost inwards; the resulting list begins with the innermost. */
static int parse_expression(struct promql_parser *p)
{
	struct api_promql_aggregate a = {.labels = 0};
	const char *const begin = p->at;
	size_t op, n;
	int err;

	for (op = 0; op < API_PROMQL_OPERATORS; op++) {
		n = strlen(operators[op]);
		if (api_promql_name(p->at, true) == n && !memcmp(p->at, operators[op], n))
			break;
	}
	if (op < API_PROMQL_OPERATORS) {
		p->at = api_promql_space(p->at + strlen(operators[op]));
		if (!is_next(p, '(') && strncmp(p->at, "by", 2) && strncmp(p->at, "without", 7)) {
			op = API_PROMQL_OPERATORS; /* a metric of this name */
			p->at = begin;
		}
	}
	if (op == API_PROMQL_OPERATORS)
		return parse_call(p);
	if (p->depth++ == API_PROMQL_AGGREGATES)
		return fail_parse(p, "expected at most 4 aggregations");
	a.op = (enum api_promql_operator)op;
	err = parse_grouping(p, &a);
	if (!err && !take_char(p, '('))
		err = fail_parse(p, "expected (");
	err = err ? err : parse_expression(p);
	if (!err && !take_char(p, ')'))
		err = fail_parse(p, "expected )");
	if (!err && !a.labels)
		err = parse_grouping(p, &a);
	if (!err) {
		p->q->aggregate[p->q->aggregates++] = a;
		return 0;
	}
	for (size_t i = 0; i < a.labels; i++)
		free(a.label[i]);
	return err;
}

int api_promql_parse(struct api_promql *q, const char *text, char *error, size_t error_bytes)
{
	struct promql_parser p = {.q = q, .at = text, .error = error, .error_bytes = error_bytes};
	int err;

	*error = 0;
	skip_space(&p);
	err = parse_expression(&p);
	if (!err && *p.at)
		err = fail_parse(&p, "expected the end; operators are not supported");
	if (err && !*error)
		base_fail(error, error_bytes, err, "out of memory");
	return err;
}

void api_promql_free(struct api_promql *q)
{
	api_matchers_free(&q->matchers);
	for (size_t i = 0; i < q->aggregates; i++)
		for (size_t k = 0; k < q->aggregate[i].labels; k++)
			free(q->aggregate[i].label[k]);
	q->aggregates = 0;
}
