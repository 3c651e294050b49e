// SPDX-License-Identifier: Apache-2.0
#include "collect/send/relabel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/regex.h"
#include "base/yaml.h"
#include "region/text.h"

#define SOURCES_MAX 16u
#define JOINED_MAX  4096u /* maximum length of the joined source label values */

enum action { REPLACE, KEEP, DROP, LABELKEEP, LABELDROP };

struct relabel_rule {
	enum action action;
	const char *source[SOURCES_MAX];
	size_t sources;
	const char *separator, *target, *replacement;
	struct base_regex *regex;
};

struct collect_relabel {
	struct base_yaml *y; /* the file, with the texts of the rules */
	size_t n;
	struct relabel_rule rule[COLLECT_RELABEL_RULES];
};

/* ---- reading the file ---- */

static bool is_label(const char *name)
{
	return region_text_metric_name(name, strlen(name)) && !strchr(name, ':');
}

static void read_sources(struct base_yaml *y, base_yaml_node list, struct relabel_rule *r)
{
	for (size_t i = 0; i < base_yaml_count(y, list); i++) {
		if (i == SOURCES_MAX) {
			base_yaml_wrong(y, list, "at most %u source_labels are allowed",
					SOURCES_MAX);
			return;
		}
		r->source[r->sources++] = base_yaml_text_at(y, list, i, "a source label");
	}
}

static void read_rule(struct base_yaml *y, base_yaml_node node, struct relabel_rule *r)
{
	static const char *const actions[] = {
		[REPLACE] = "replace",	   [KEEP] = "keep",	      [DROP] = "drop",
		[LABELKEEP] = "labelkeep", [LABELDROP] = "labeldrop", NULL};
	const char *regex = "(.*)";
	char why[160];
	int action = REPLACE;

	*r = (struct relabel_rule){.separator = ";", .target = "", .replacement = "$1"};
	if (!base_yaml_keys(y, node, "source_labels", "separator", "target_label", "regex",
			    "replacement", "action"))
		return;
	base_yaml_choice(y, base_yaml_get(y, node, "action"), "action", actions, &action);
	base_yaml_string_of(y, node, "separator", &r->separator);
	base_yaml_string_of(y, node, "target_label", &r->target);
	base_yaml_string_of(y, node, "replacement", &r->replacement);
	base_yaml_string_of(y, node, "regex", &regex);
	read_sources(y, base_yaml_get(y, node, "source_labels"), r);
	r->action = (enum action)action;
	if (action == REPLACE && !is_label(r->target))
		base_yaml_wrong(y, node,
				"replace requires a target_label that is a valid label name");
	if ((action == KEEP || action == DROP) && !r->sources)
		base_yaml_wrong(y, node, "keep and drop require source_labels");
	if (base_regex_new(&r->regex, regex, why, sizeof(why)))
		base_yaml_wrong(y, node, "%s", why);
}

struct collect_relabel *collect_relabel_load(const char *path, char *error, size_t error_bytes)
{
	struct collect_relabel *r = calloc(1, sizeof(*r));
	struct base_yaml *y = r ? base_yaml_open(path) : NULL;
	const base_yaml_node root = y ? base_yaml_root(y) : 0;

	if (!y) {
		snprintf(error, error_bytes, "out of memory");
		free(r);
		return NULL;
	}
	r->y = y;
	for (size_t i = 0; i < base_yaml_count(y, root) && !base_yaml_error(y); i++) {
		if (r->n == COLLECT_RELABEL_RULES) {
			base_yaml_wrong(y, root, "at most %u rules are allowed",
					COLLECT_RELABEL_RULES);
			break;
		}
		read_rule(y, base_yaml_at(y, root, i), &r->rule[r->n++]);
	}
	if (!base_yaml_error(y))
		return r;
	snprintf(error, error_bytes, "%s", base_yaml_error(y));
	collect_relabel_free(r);
	return NULL;
}

void collect_relabel_free(struct collect_relabel *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		base_regex_free(r->rule[i].regex);
	base_yaml_close(r->y);
	free(r);
}

/* ---- applying the rules ---- */

static struct region_text_label *find_label(const struct collect_relabelled *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->label[i].key, key))
			return &l->label[i];
	return NULL;
}

/* A missing label counts as empty. Returns false if the values are too long. */
static bool join_sources(const struct relabel_rule *r, const struct collect_relabelled *l,
			 char joined[JOINED_MAX])
{
	size_t at = 0;

	for (size_t i = 0; i < r->sources; i++) {
		const struct region_text_label *from = find_label(l, r->source[i]);
		const int n = snprintf(joined + at, JOINED_MAX - at, "%s%s", i ? r->separator : "",
				       from ? from->value : "");

		if (n < 0 || (size_t)n >= JOINED_MAX - at)
			return false;
		at += (size_t)n;
	}
	joined[at] = '\0';
	return true;
}

/* Sets a label, or removes it if the value is empty. */
static void set_label(struct collect_relabelled *l, const char *key, const char *value)
{
	struct region_text_label *at = find_label(l, key);

	if (at && !*value)
		*at = l->label[--l->n];
	else if (at)
		at->value = value;
	else if (*value && l->n < l->room)
		l->label[l->n++] = (struct region_text_label){key, value};
}

static int replace_label(const struct relabel_rule *r, struct collect_relabelled *l,
			 const char *joined)
{
	char *value;
	int err = base_regex_replace(r->regex, joined, r->replacement, &value);

	if (err)
		return err == -ENOMEM ? err : -E2BIG;
	if (!value)
		return 1;
	l->owned[l->owned_count++] = value;
	set_label(l, r->target, value);
	return 1;
}

/* Always keeps __name__: a series without a name is invalid. */
static int filter_labels(const struct relabel_rule *r, struct collect_relabelled *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n; i++) {
		const int matches = base_regex_matches(r->regex, l->label[i].key);

		if (matches < 0)
			return matches;
		if (matches == (r->action == LABELKEEP) || !strcmp(l->label[i].key, "__name__"))
			l->label[kept++] = l->label[i];
	}
	l->n = kept;
	return 1;
}

int collect_relabel_apply(const struct collect_relabel *r, struct collect_relabelled *to)
{
	char joined[JOINED_MAX];
	int kept = 1;

	for (size_t i = 0; i < r->n && kept == 1; i++) {
		const struct relabel_rule *rule = &r->rule[i];

		if (rule->action == LABELKEEP || rule->action == LABELDROP) {
			kept = filter_labels(rule, to);
		} else if (!join_sources(rule, to, joined)) {
			kept = -E2BIG;
		} else if (rule->action == REPLACE) {
			kept = replace_label(rule, to, joined);
		} else {
			kept = base_regex_matches(rule->regex, joined);
			if (kept >= 0)
				kept = kept == (rule->action == KEEP);
		}
	}
	return kept;
}

void collect_relabelled_free(struct collect_relabelled *l)
{
	while (l->owned_count)
		free(l->owned[--l->owned_count]);
}
