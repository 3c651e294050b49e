// SPDX-License-Identifier: Apache-2.0
#include "act/kubernetes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- selectors ---- */

struct kubernetes_parser {
	const char *at;
	char *out; /* end of the words copied so far */
};

static void skip_blanks(struct kubernetes_parser *p)
{
	while (*p->at == ' ' || *p->at == '\t')
		p->at++;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' || c == '/';
}

/* Copies the next word, which may be empty. */
static const char *copy_word(struct kubernetes_parser *p)
{
	char *start = p->out;

	skip_blanks(p);
	while (is_word(*p->at))
		*p->out++ = *p->at++;
	*p->out++ = '\0';
	skip_blanks(p);
	return start;
}

static bool skip_symbol(struct kubernetes_parser *p, const char *s)
{
	size_t n = strlen(s);

	if (strncmp(p->at, s, n))
		return false;
	p->at += n;
	return true;
}

/* Parses "(a, b)". */
static int parse_set(struct kubernetes_parser *p, struct act_selector *s, size_t i)
{
	size_t n = 0;

	if (!skip_symbol(p, "("))
		return -EINVAL;
	do {
		if (n == ACT_SELECTOR_SET)
			return -E2BIG;
		s->need[i].value[n++] = copy_word(p); /* the value may be "", as in (a,) */
	} while (skip_symbol(p, ","));
	s->need[i].values = n;
	return skip_symbol(p, ")") ? 0 : -EINVAL;
}

static int parse_requirement(struct kubernetes_parser *p, struct act_selector *s, size_t i)
{
	const char *op;

	skip_blanks(p);
	if (skip_symbol(p, "!")) {
		s->need[i].op = ACT_SELECT_NOT_EXISTS;
		s->need[i].key = copy_word(p);
		return *s->need[i].key ? 0 : -EINVAL;
	}
	s->need[i].key = copy_word(p);
	if (!*s->need[i].key)
		return -EINVAL;
	s->need[i].op = ACT_SELECT_EXISTS;
	if (!*p->at || *p->at == ',')
		return 0;
	s->need[i].op = *p->at == '!' ? ACT_SELECT_NOT_IN : ACT_SELECT_IN;
	if (skip_symbol(p, "!=") || skip_symbol(p, "==") || skip_symbol(p, "=")) {
		s->need[i].value[0] = copy_word(p);
		s->need[i].values = 1;
		return 0;
	}
	op = copy_word(p);
	if (!strcmp(op, "notin"))
		s->need[i].op = ACT_SELECT_NOT_IN;
	else if (strcmp(op, "in"))
		return -EINVAL;
	return parse_set(p, s, i);
}

int act_selector_parse(const char *s, struct act_selector *out)
{
	struct kubernetes_parser p = {.at = s, .out = out->text};
	int err;

	memset(out, 0, offsetof(struct act_selector, text));
	/*
	 * Each word needs room for its letters and a NUL. An empty word takes the room of the
	 * delimiter before it.
	 */
	if (strlen(s) >= ACT_SELECTOR_TEXT / 2)
		return -E2BIG;
	skip_blanks(&p);
	if (!*p.at)
		return 0;
	do {
		if (out->count == ACT_SELECTOR_MAX)
			return -E2BIG;
		err = parse_requirement(&p, out, out->count);
		if (err)
			return err;
		out->count++;
		skip_blanks(&p);
	} while (skip_symbol(&p, ","));
	return *p.at ? -EINVAL : 0;
}

bool act_selector_matches(const struct act_selector *s, const struct act_selector_label *labels,
			  size_t count)
{
	for (size_t i = 0; i < s->count; i++) {
		enum act_selector_op op = s->need[i].op;
		const char *value = NULL;
		bool in = false;

		for (size_t k = 0; k < count; k++)
			if (!strcmp(labels[k].key, s->need[i].key))
				value = labels[k].value;
		for (size_t k = 0; value && k < s->need[i].values; k++)
			in |= !strcmp(s->need[i].value[k], value);
		if ((op == ACT_SELECT_IN && !in) || (op == ACT_SELECT_NOT_IN && in) ||
		    (op == ACT_SELECT_EXISTS && !value) || (op == ACT_SELECT_NOT_EXISTS && value))
			return false;
	}
	return true;
}

/* ---- quantities ---- */

void act_quantity(double v, char out[32])
{
	static const char *const suffixes[] = {"m", "", "k", "M", "G", "T", "P"};
	uint64_t n = v > 0 ? (uint64_t)ceil(fmin(v, 1e15) * 1000) : 0;
	size_t i = 0;

	while (n && n % 1000 == 0 && i + 1 < sizeof(suffixes) / sizeof(*suffixes)) {
		n /= 1000;
		i++;
	}
	snprintf(out, 32, "%llu%s", (unsigned long long)n, n ? suffixes[i] : "");
}
