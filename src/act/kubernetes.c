// SPDX-License-Identifier: Apache-2.0
#include "act/kubernetes.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- selectors ------------------------------------------------------------------------------------------ */

struct parser {
	const char *at;
	char *out; /* where the next word goes */
};

static void blanks(struct parser *p)
{
	while (*p->at == ' ' || *p->at == '\t')
		p->at++;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' || c == '/';
}

/* The next word, copied; "" if there is none. */
static const char *word(struct parser *p)
{
	char *start = p->out;

	blanks(p);
	while (is_word(*p->at))
		*p->out++ = *p->at++;
	*p->out++ = '\0';
	blanks(p);
	return start;
}

static bool symbol(struct parser *p, const char *s)
{
	size_t n = strlen(s);

	if (strncmp(p->at, s, n))
		return false;
	p->at += n;
	return true;
}

/* "(a, b)" */
static int set(struct parser *p, struct sl_selector *s, size_t i)
{
	size_t n = 0;

	if (!symbol(p, "("))
		return -EINVAL;
	do {
		if (n == SL_SELECTOR_SET)
			return -E2BIG;
		s->need[i].value[n++] = word(p); /* "" is a value: (a,) has it */
	} while (symbol(p, ","));
	s->need[i].values = n;
	return symbol(p, ")") ? 0 : -EINVAL;
}

static int requirement(struct parser *p, struct sl_selector *s, size_t i)
{
	const char *op;

	blanks(p);
	if (symbol(p, "!")) {
		s->need[i].op = SL_SELECT_NOT_EXISTS;
		s->need[i].key = word(p);
		return *s->need[i].key ? 0 : -EINVAL;
	}
	s->need[i].key = word(p);
	if (!*s->need[i].key)
		return -EINVAL;
	s->need[i].op = SL_SELECT_EXISTS;
	if (!*p->at || *p->at == ',')
		return 0;
	s->need[i].op = *p->at == '!' ? SL_SELECT_NOT_IN : SL_SELECT_IN;
	if (symbol(p, "!=") || symbol(p, "==") || symbol(p, "=")) {
		s->need[i].value[0] = word(p);
		s->need[i].values = 1;
		return 0;
	}
	op = word(p);
	if (!strcmp(op, "notin"))
		s->need[i].op = SL_SELECT_NOT_IN;
	else if (strcmp(op, "in"))
		return -EINVAL;
	return set(p, s, i);
}

int sl_selector_parse(const char *s, struct sl_selector *out)
{
	struct parser p = {.at = s, .out = out->text};
	int err;

	memset(out, 0, offsetof(struct sl_selector, text));
	/* Each word costs a NUL more than it has letters, each empty one a sign before it. */
	if (strlen(s) >= SL_SELECTOR_TEXT / 2)
		return -E2BIG;
	blanks(&p);
	if (!*p.at)
		return 0;
	do {
		if (out->count == SL_SELECTOR_MAX)
			return -E2BIG;
		err = requirement(&p, out, out->count);
		if (err)
			return err;
		out->count++;
		blanks(&p);
	} while (symbol(&p, ","));
	return *p.at ? -EINVAL : 0;
}

bool sl_selector_matches(const struct sl_selector *s, const struct sl_selector_label *labels,
			 size_t count)
{
	for (size_t i = 0; i < s->count; i++) {
		enum sl_selector_op op = s->need[i].op;
		const char *value = NULL;
		bool in = false;

		for (size_t k = 0; k < count; k++)
			if (!strcmp(labels[k].key, s->need[i].key))
				value = labels[k].value;
		for (size_t k = 0; value && k < s->need[i].values; k++)
			in |= !strcmp(s->need[i].value[k], value);
		if ((op == SL_SELECT_IN && !in) || (op == SL_SELECT_NOT_IN && in) ||
		    (op == SL_SELECT_EXISTS && !value) || (op == SL_SELECT_NOT_EXISTS && value))
			return false;
	}
	return true;
}

/* ---- quantities ------------------------------------------------------------------------------------------ */

void sl_quantity(double v, char out[32])
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
