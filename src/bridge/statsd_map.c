// SPDX-License-Identifier: Apache-2.0
/* statsd_map.c - reads and applies mapping rules; see statsd.h. */
#include "bridge/statsd.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/yaml.h"

#define PATTERN_MAX 4096u

struct bridge_statsd_map {
	struct base_yaml *yaml; /* owns all strings */
	struct bridge_statsd_rule *rules, otherwise;
	size_t count;
};

/* ---- matching ---- */

/* Each "*" matches one component of the name. Components are separated by ".". */
static bool matches_glob(const char *glob, const char *name,
			 struct bridge_text captures[STATSD_CAPTURES])
{
	size_t n = 1;

	for (; *glob; glob++) {
		if (*glob != '*') {
			if (*name++ != *glob)
				return false;
			continue;
		}
		if (n < STATSD_CAPTURES)
			captures[n++] = (struct bridge_text){name, strcspn(name, ".")};
		if (!strcspn(name, "."))
			return false;
		name += strcspn(name, ".");
	}
	return !*name;
}

static bool matches_regex(const regex_t *regex, const char *name,
			  struct bridge_text captures[STATSD_CAPTURES])
{
	regmatch_t m[STATSD_CAPTURES];

	if (regexec(regex, name, STATSD_CAPTURES, m, 0))
		return false;
	for (size_t i = 0; i < STATSD_CAPTURES; i++)
		captures[i] = m[i].rm_so < 0
				      ? BRIDGE_TEXT("")
				      : (struct bridge_text){name + m[i].rm_so,
							     (size_t)(m[i].rm_eo - m[i].rm_so)};
	return true;
}

/* statsd_exporter calls timers, histograms and distributions observers. */
static bool has_type(const struct bridge_statsd_rule *r, enum bridge_statsd_type type)
{
	if (type == STATSD_HISTOGRAM)
		type = STATSD_TIMER;
	return r->type < 0 || r->type == (int)type;
}

const struct bridge_statsd_rule *
bridge_statsd_map_find(const struct bridge_statsd_map *m, const char *name,
		       enum bridge_statsd_type type, struct bridge_text captures[STATSD_CAPTURES])
{
	for (size_t i = 0; i < STATSD_CAPTURES; i++)
		captures[i] = BRIDGE_TEXT("");
	for (int regex = false; regex <= true; regex++)
		for (size_t i = 0; i < m->count; i++) {
			const struct bridge_statsd_rule *r = &m->rules[i];

			if ((r->regex != NULL) != regex || !has_type(r, type))
				continue;
			if (regex ? matches_regex(r->regex, name, captures)
				  : matches_glob(r->match, name, captures))
				return r;
		}
	return &m->otherwise;
}

int bridge_statsd_map_expand(const char *text, const struct bridge_text captures[STATSD_CAPTURES],
			     char *out, size_t bytes)
{
	size_t used = 0;

	for (const char *s = text; *s; s++) {
		const char *digit = s[1] == '{' && s[0] == '$' && s[2] && s[3] == '}' ? s + 2
										      : s + 1;
		struct bridge_text t = {s, 1};

		if (*s == '$' && *digit >= '0' && *digit <= '9') {
			t = captures[*digit - '0'];
			s = digit + (digit == s + 2);
		}
		if (t.n >= bytes - used)
			return -1;
		memcpy(out + used, t.s, t.n);
		used += t.n;
	}
	out[used] = 0;
	return (int)used;
}

/* ---- reading ---- */

/*
 * Translates \d, which POSIX lacks, and backslashes in brackets, which POSIX takes literally.
 * Returns false if the pattern is too long.
 */
static bool translate_pattern(const char *s, char out[PATTERN_MAX])
{
	bool brackets = false;
	char *to = out;

	for (; *s; s++) {
		if (to - out > (ptrdiff_t)PATTERN_MAX - 16)
			return false;
		if (*s == '\\' && s[1] == 'd') {
			to = stpcpy(to, brackets ? "0-9" : "[0-9]");
			s++;
		} else if (*s == '\\' && s[1] == 'w' && brackets) {
			to = stpcpy(to, "a-zA-Z0-9_");
			s++;
		} else if (*s == '\\' && s[1] && brackets) {
			*to++ = *++s;
		} else {
			if (*s == '\\' && s[1])
				*to++ = *s++;
			else if (*s == '[')
				brackets = true;
			else if (*s == ']')
				brackets = false;
			*to++ = *s;
		}
	}
	*to = 0;
	return true;
}

static void read_regex(struct base_yaml *y, base_yaml_node node, struct bridge_statsd_rule *r)
{
	char pattern[PATTERN_MAX], why[128];
	regex_t *regex = malloc(sizeof(*regex));
	int err;

	if (!regex || !translate_pattern(r->match, pattern)) {
		base_yaml_wrong(y, node, "the regular expression is too long");
		free(regex);
		return;
	}
	err = regcomp(regex, pattern, REG_EXTENDED);
	if (err) {
		regerror(err, regex, why, sizeof(why));
		base_yaml_wrong(y, node, "regular expression '%s': %s", r->match, why);
		free(regex);
		return;
	}
	r->regex = regex;
}

/* Reads the buckets of `buckets` or `histogram_options: {buckets}`. */
static void read_bounds(struct base_yaml *y, base_yaml_node node, struct bridge_statsd_rule *r)
{
	base_yaml_node list = base_yaml_get(y, node, "buckets");
	base_yaml_node options = base_yaml_get(y, node, "histogram_options");
	double *bounds;

	if (base_yaml_keys(y, options, "buckets"))
		list = base_yaml_get(y, options, "buckets") ?: list;
	if (!list)
		return;
	bounds = calloc(base_yaml_count(y, list), sizeof(*bounds));
	r->bounds = bounds;
	r->bound_count = bounds ? base_yaml_count(y, list) : 0;
	for (size_t i = 0; i < r->bound_count; i++) {
		const char *s = base_yaml_text_at(y, list, i, "a bucket"), *end;

		end = bridge_number(s, s + strlen(s), &bounds[i]);
		if (!end || *end || !isfinite(bounds[i]) || (i && bounds[i] <= bounds[i - 1]))
			base_yaml_wrong(y, list, "buckets must be ascending numbers");
	}
}

static void read_labels(struct base_yaml *y, base_yaml_node node, struct bridge_statsd_rule *r)
{
	base_yaml_node labels = base_yaml_get(y, node, "labels"), where, value;
	const char *key;

	if (!labels)
		return;
	r->labels = calloc(STATSD_TAGS_MAX, sizeof(*r->labels));
	for (size_t i = 0; r->labels && base_yaml_pair(y, labels, i, &key, &where, &value); i++) {
		if (i == STATSD_TAGS_MAX) {
			base_yaml_wrong(y, where, "more than %u labels", STATSD_TAGS_MAX);
			return;
		}
		r->labels[i][0] = key;
		r->labels[i][1] = "";
		base_yaml_string(y, value, "a label", &r->labels[i][1]);
		r->label_count = i + 1;
	}
}

/* Reads the settings that rules and defaults have in common. Returns 1 for regular expressions. */
static int read_common(struct base_yaml *y, base_yaml_node node, int kind,
		       struct bridge_statsd_rule *r)
{
	static const char *const kinds[] = {"glob", "regex", NULL};
	/* A summary is published as an exponential histogram, from which quantiles follow. */
	static const char *const observers[] = {"histogram", "summary", NULL};
	int observer = 0;

	base_yaml_choice_of(y, node, "match_type", kinds, &kind);
	base_yaml_choice(
		y, base_yaml_get(y, node, "observer_type") ?: base_yaml_get(y, node, "timer_type"),
		"observer_type", observers, &observer);
	base_yaml_duration(y, base_yaml_get(y, node, "ttl"), "ttl", &r->expire_ns);
	if (observer) {
		r->bounds = NULL;
		r->bound_count = 0;
	} else {
		read_bounds(y, node, r);
	}
	return kind;
}

static void read_rule(struct base_yaml *y, base_yaml_node node, int kind,
		      struct bridge_statsd_rule *r)
{
	static const char *const actions[] = {"map", "drop", NULL};
	static const char *const types[] = {"counter", "gauge", "observer", "timer", NULL};
	int action = 0, type = -1;

	if (!base_yaml_keys(y, node, "match", "match_type", "match_metric_type", "name", "help",
			    "labels", "action", "ttl", "buckets", "timer_type", "observer_type",
			    "histogram_options"))
		return;
	base_yaml_string(y, base_yaml_need(y, node, "match"), "match", &r->match);
	base_yaml_choice_of(y, node, "action", actions, &action);
	base_yaml_choice_of(y, node, "match_metric_type", types, &type);
	r->type = type == 0   ? STATSD_COUNTER
		  : type == 1 ? STATSD_GAUGE
		  : type < 0  ? -1
			      : STATSD_TIMER;
	r->drop = action == 1;
	if (!r->drop)
		base_yaml_string(y, base_yaml_need(y, node, "name"), "name", &r->name);
	base_yaml_string_of(y, node, "help", &r->help);
	read_labels(y, node, r);
	kind = read_common(y, node, kind, r);
	if (kind == 1 && r->match)
		read_regex(y, node, r);
}

static void read_rules(struct bridge_statsd_map *m)
{
	struct base_yaml *y = m->yaml;
	base_yaml_node root = base_yaml_root(y), defaults, list;
	int kind = 0;

	if (!base_yaml_keys(y, root, "defaults", "mappings"))
		return;
	defaults = base_yaml_get(y, root, "defaults");
	if (base_yaml_keys(y, defaults, "match_type", "ttl", "buckets", "timer_type",
			   "observer_type", "histogram_options", "glob_disable_ordering"))
		kind = read_common(y, defaults, kind, &m->otherwise);
	list = base_yaml_get(y, root, "mappings");
	m->rules = calloc(base_yaml_count(y, list) + 1, sizeof(*m->rules));
	for (size_t i = 0; m->rules && i < base_yaml_count(y, list); i++) {
		m->rules[i] = m->otherwise;
		m->count = i + 1;
		read_rule(y, base_yaml_at(y, list, i), kind, &m->rules[i]);
	}
}

struct bridge_statsd_map *bridge_statsd_map_open(const char *path, char *error, size_t bytes)
{
	struct bridge_statsd_map *m = calloc(1, sizeof(*m));

	if (m)
		m->yaml = base_yaml_open(path);
	if (!m || !m->yaml) {
		base_fail(error, bytes, -ENOMEM, "--statsd-mapping: out of memory");
		free(m);
		return NULL;
	}
	m->otherwise.type = -1;
	read_rules(m);
	if (!base_yaml_error(m->yaml))
		return m;
	base_fail(error, bytes, -EINVAL, "--statsd-mapping: %s", base_yaml_error(m->yaml));
	bridge_statsd_map_free(m);
	return NULL;
}

void bridge_statsd_map_free(struct bridge_statsd_map *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->count; i++) {
		struct bridge_statsd_rule *r = &m->rules[i];

		if (r->bounds != m->otherwise.bounds)
			free((void *)r->bounds);
		free(r->labels);
		if (r->regex)
			regfree(r->regex);
		free(r->regex);
	}
	free((void *)m->otherwise.bounds);
	free(m->rules);
	base_yaml_close(m->yaml);
	free(m);
}
