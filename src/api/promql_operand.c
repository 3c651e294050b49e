// SPDX-License-Identifier: Apache-2.0
/*
 * promql_operand.c - parses the operands of PromQL: numbers, strings, selectors, calls and
 * aggregations, with their modifiers, and durations
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql_internal.h"
#include "base/base.h"

#define DURATION_MAX 3.2e16 /* a year in ns */

/* Durations */

/* Parses a duration such as "1h30m", or a number of seconds. Returns its end, or NULL. */
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

static bool take_duration(struct api_promql_parser *p, int64_t *ns)
{
	const char *end = read_duration(p->at, ns);

	if (!end)
		return api_promql_fail_parse(p, "expected a duration, such as 5m");
	api_promql_skip_bytes(p, (size_t)(end - p->at));
	return true;
}

/* Lists of labels */

/* Reads a label's name, which Prometheus 3 allows in quotes. Returns its end, or NULL. */
static const char *read_label(const char *s, char **out)
{
	const size_t n = api_promql_name(s, false);

	if (!n)
		return api_promql_text(s, out);
	*out = strndup(s, n);
	return s + n;
}

bool api_promql_parse_labels(struct api_promql_parser *p, struct api_promql_labels *l)
{
	if (!api_promql_expect_char(p, '('))
		return false;
	while (!api_promql_take_char(p, ')')) {
		const char *end;

		if (l->n == API_PROMQL_LABELS)
			return api_promql_fail_parse(p, "too many labels");
		end = read_label(p->at, &l->v[l->n]);
		if (!l->v[l->n]) {
			p->err = -ENOMEM;
			return false;
		}
		l->n++;
		if (!end)
			return api_promql_fail_parse(p, "expected a label name");
		api_promql_skip_bytes(p, (size_t)(end - p->at));
		if (!api_promql_take_char(p, ',') && *p->at != ')')
			return api_promql_fail_parse(p, "expected , or )");
	}
	return true;
}

/* Operands */

/* Skips the text of n, which ends at `end`. Returns n. */
static struct api_promql_node *skip_to(struct api_promql_parser *p, const char *end,
				       struct api_promql_node *n)
{
	api_promql_skip_bytes(p, (size_t)(end - p->at));
	return n;
}

static struct api_promql_node *parse_text(struct api_promql_parser *p)
{
	struct api_promql_node *n = api_promql_new_node(p, API_PROMQL_STRING, API_PROMQL_TEXT);
	const char *end;

	if (!n)
		return NULL;
	end = api_promql_text(p->at, &n->text);
	return end ? skip_to(p, end, n) : api_promql_fail_parse(p, "expected a string");
}

static struct api_promql_node *parse_number(struct api_promql_parser *p)
{
	const bool is_hex = *p->at == '0' && (p->at[1] | 32) == 'x';
	struct api_promql_node *n = api_promql_new_node(p, API_PROMQL_NUMBER, API_PROMQL_SCALAR);
	char *end;

	if (!n)
		return NULL;
	n->number = is_hex ? (double)strtoull(p->at, &end, 16) : strtod(p->at, &end);
	if (end == p->at || api_promql_name(end, true) || *end == '.')
		return api_promql_fail_parse(p, "expected a number");
	return skip_to(p, end, n);
}

static struct api_promql_node *parse_selector(struct api_promql_parser *p)
{
	struct api_promql_node *n = api_promql_new_node(p, API_PROMQL_SELECTOR, API_PROMQL_VECTOR);
	const char *end;

	if (!n)
		return NULL;
	end = api_matchers_parse(&n->matchers, p->at, p->error, p->error_bytes);
	if (end)
		return skip_to(p, end, n);
	p->err = -EINVAL;
	return NULL;
}

static bool parse_arguments(struct api_promql_parser *p, struct api_promql_node *n)
{
	if (!api_promql_expect_char(p, '('))
		return false;
	while (!api_promql_take_char(p, ')')) {
		if (n->args == API_PROMQL_ARGS)
			return api_promql_fail_parse(p, "too many arguments");
		n->arg[n->args] = api_promql_parse_expression(p, API_PROMQL_ANY);
		if (!n->arg[n->args++])
			return false;
		if (!api_promql_take_char(p, ',') && *p->at != ')')
			return api_promql_fail_parse(p, "expected , or )");
	}
	return true;
}

/* Checks the number and types of a function's arguments. Returns n, or NULL after an error. */
static struct api_promql_node *check_arguments(struct api_promql_parser *p,
					       struct api_promql_node *n)
{
	const char *types = n->function->types;
	size_t least = 0, most = 0;

	for (; types[most] && types[most] != '*'; most++)
		least += islower((unsigned char)types[most]) != 0;
	if (n->args < least || (n->args > most && types[most] != '*'))
		return api_promql_refuse(p, "%s() has the wrong number of arguments: %zu",
					 n->function->name, n->args);
	for (size_t i = 0; i < n->args; i++) {
		const int type = tolower((unsigned char)types[BASE_MIN(i, most - 1)]);

		if (!api_promql_check_type(p, n->arg[i], (enum api_promql_type)type,
					   n->function->name))
			return NULL;
	}
	return n;
}

static struct api_promql_node *parse_call(struct api_promql_parser *p)
{
	const size_t bytes = api_promql_name(p->at, true);
	const struct api_promql_function *f = api_promql_function(p->at, bytes);
	struct api_promql_node *n;

	if (!f)
		return api_promql_refuse(p, "the function %.*s() is not supported",
					 (int)BASE_MIN(bytes, 80u), p->at);
	n = api_promql_new_node(p, API_PROMQL_CALL, f->returns);
	if (!n)
		return NULL;
	n->function = f;
	api_promql_skip_bytes(p, bytes);
	return parse_arguments(p, n) ? check_arguments(p, n) : NULL;
}

static const char *const aggregations[] = {
	[API_PROMQL_BY_SUM] = "sum",	       [API_PROMQL_BY_AVG] = "avg",
	[API_PROMQL_BY_MIN] = "min",	       [API_PROMQL_BY_MAX] = "max",
	[API_PROMQL_BY_COUNT] = "count",       [API_PROMQL_BY_GROUP] = "group",
	[API_PROMQL_BY_STDDEV] = "stddev",     [API_PROMQL_BY_STDVAR] = "stdvar",
	[API_PROMQL_BY_TOPK] = "topk",	       [API_PROMQL_BY_BOTTOMK] = "bottomk",
	[API_PROMQL_BY_QUANTILE] = "quantile", [API_PROMQL_BY_VALUES] = "count_values"};

static bool take_grouping(struct api_promql_parser *p, struct api_promql_node *n, bool *taken)
{
	n->by.without = api_promql_is_word(p, "without");
	*taken = n->by.without || api_promql_is_word(p, "by");
	if (!*taken)
		return true;
	api_promql_skip_bytes(p, n->by.without ? 7 : 2);
	return api_promql_parse_labels(p, &n->by);
}

static struct api_promql_node *parse_aggregate(struct api_promql_parser *p,
					       enum api_promql_aggregation which)
{
	const char *name = aggregations[which];
	const bool has_param = which >= API_PROMQL_BY_TOPK;
	struct api_promql_node *n, *param;
	bool taken;

	n = api_promql_new_node(p, API_PROMQL_AGGREGATE, API_PROMQL_VECTOR);
	if (!n)
		return NULL;
	n->aggregation = which;
	api_promql_skip_bytes(p, strlen(name));
	if (!take_grouping(p, n, &taken) || !parse_arguments(p, n) ||
	    (!taken && !take_grouping(p, n, &taken)))
		return NULL;
	if (n->args != 1u + has_param)
		return api_promql_refuse(p, "%s has the wrong number of arguments: %zu", name,
					 n->args);
	if (has_param) {
		param = n->arg[0];
		n->arg[0] = n->arg[1];
		n->arg[1] = param;
		if (!api_promql_check_type(p, param,
					   which == API_PROMQL_BY_VALUES ? API_PROMQL_TEXT
									 : API_PROMQL_SCALAR,
					   name))
			return NULL;
	}
	return api_promql_check_type(p, n->arg[0], API_PROMQL_VECTOR, name) ? n : NULL;
}

static struct api_promql_node *parse_operand(struct api_promql_parser *p)
{
	const size_t bytes = api_promql_name(p->at, true);
	const char after = *api_promql_space(p->at + bytes);
	struct api_promql_parser next = *p;
	struct api_promql_node *n;

	if (api_promql_take_char(p, '(')) {
		n = api_promql_parse_expression(p, API_PROMQL_ANY);
		return n && api_promql_expect_char(p, ')') ? n : NULL;
	}
	if (*p->at == '"' || *p->at == '\'' || *p->at == '`')
		return parse_text(p);
	if (isdigit((unsigned char)*p->at) || *p->at == '.' || api_promql_is_word(p, "inf") ||
	    api_promql_is_word(p, "nan"))
		return parse_number(p);
	api_promql_skip_bytes(&next, bytes);
	for (int i = 0; i < API_PROMQL_AGGREGATIONS; i++)
		if (api_promql_is_word(p, aggregations[i]) &&
		    (after == '(' || api_promql_is_word(&next, "by") ||
		     api_promql_is_word(&next, "without")))
			return parse_aggregate(p, (enum api_promql_aggregation)i);
	return bytes && after == '(' ? parse_call(p) : parse_selector(p);
}

/* Modifiers: [5m], [5m:10s], offset and @ */

static struct api_promql_node *parse_range(struct api_promql_parser *p, struct api_promql_node *n)
{
	struct api_promql_node *sub;
	int64_t range;

	if (!take_duration(p, &range))
		return NULL;
	if (api_promql_take_char(p, ':')) {
		sub = api_promql_check_type(p, n, API_PROMQL_VECTOR, "a subquery")
			      ? api_promql_new_node(p, API_PROMQL_SUBQUERY, API_PROMQL_MATRIX)
			      : NULL;
		if (!sub)
			return NULL;
		sub->arg[0] = n;
		sub->args = 1;
		sub->range_ns = range;
		n = sub;
		if (*p->at != ']' && !take_duration(p, &sub->step_ns))
			return NULL;
	} else if (n->kind != API_PROMQL_SELECTOR || n->range_ns || n->offset_ns || n->at) {
		return api_promql_fail_parse(
			p, "a range such as [5m] must follow a selector; expected [5m:]");
	} else {
		n->range_ns = range;
		n->type = API_PROMQL_MATRIX;
	}
	return api_promql_expect_char(p, ']') ? n : NULL;
}

static bool parse_offset(struct api_promql_parser *p, struct api_promql_node *n)
{
	const bool is_negative = api_promql_take_char(p, '-');

	if (n->offset_ns)
		return api_promql_fail_parse(p, "expected a single offset");
	if (!take_duration(p, &n->offset_ns))
		return false;
	if (is_negative)
		n->offset_ns = -n->offset_ns;
	return true;
}

static bool parse_at(struct api_promql_parser *p, struct api_promql_node *n)
{
	char *end;
	double seconds;

	if (n->at)
		return api_promql_fail_parse(p, "expected a single @");
	if (api_promql_is_word(p, "start") || api_promql_is_word(p, "end")) {
		n->at = api_promql_is_word(p, "start") ? API_PROMQL_START : API_PROMQL_END;
		api_promql_skip_bytes(p, n->at == API_PROMQL_START ? 5 : 3);
		return api_promql_expect_char(p, '(') && api_promql_expect_char(p, ')');
	}
	seconds = strtod(p->at, &end);
	if (end == p->at || !(fabs(seconds) < API_SECONDS_MAX))
		return api_promql_fail_parse(
			p, "expected a time in Unix seconds, start() or end() after @");
	n->at = API_PROMQL_TIME;
	n->at_ns = (int64_t)(seconds * 1e3 + (seconds < 0 ? -0.5 : 0.5)) * 1000000;
	skip_to(p, end, n);
	return true;
}

struct api_promql_node *api_promql_parse_modified(struct api_promql_parser *p)
{
	struct api_promql_node *n = parse_operand(p);

	while (n) {
		const bool is_offset = api_promql_is_word(p, "offset");

		if (api_promql_take_char(p, '[')) {
			n = parse_range(p, n);
			continue;
		}
		if (!is_offset && *p->at != '@')
			return n;
		if (n->kind != API_PROMQL_SELECTOR && n->kind != API_PROMQL_SUBQUERY)
			return api_promql_fail_parse(
				p, "offset and @ must follow a selector or a subquery");
		api_promql_skip_bytes(p, is_offset ? 6 : 1);
		if (!(is_offset ? parse_offset : parse_at)(p, n))
			return NULL;
	}
	return NULL;
}
