// SPDX-License-Identifier: Apache-2.0
/* text_line.c - splits a line into its parts. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/grow.h"
#include "bridge/text_internal.h"

/* maximum number of labels per sample, because sorting them takes more than linear time */
#define LABELS_MAX	    1024u
#define EXEMPLAR_CHARACTERS 128u /* maximum length of an exemplar's labels in OpenMetrics 1.0 */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Returns the end of [a-zA-Z_][a-zA-Z0-9_]*; with colons, names may also contain colons. */
static const char *word_end(const char *s, const char *end, bool colons)
{
	const char *start = s;

	while (s < end &&
	       (is_letter(*s) || (colons && *s == ':') || (s > start && *s >= '0' && *s <= '9')))
		s++;
	return s;
}

/* Skips blanks. Text 0.0.4 allows any number where OpenMetrics requires one space or none. */
static const char *skip_blanks(const struct bridge_text_parser *p, const char *s, const char *end)
{
	while (p->format == BRIDGE_TEXT_004 && s < end && is_blank(*s))
		s++;
	return s;
}

/* Skips a mandatory space. Returns NULL if there is none. */
static const char *skip_space(const struct bridge_text_parser *p, const char *s, const char *end)
{
	if (s == end || (*s != ' ' && (p->format == BRIDGE_OPENMETRICS || *s != '\t')))
		return NULL;
	return skip_blanks(p, s + 1, end);
}

/* Copies text and decodes its escapes, which are a backslash before a backslash, a quote or "n". */
static struct bridge_text unescape_text(struct bridge_text_parser *p, const char *s,
					const char *end, bool quotes)
{
	char *to = p->arena + p->arena_used, *start = to;

	for (; s < end; s++) {
		char next = s + 1 < end ? s[1] : 0;

		if (*s != '\\' || !(next == '\\' || next == 'n' || (quotes && next == '"'))) {
			*to++ = *s;
			continue;
		}
		*to++ = next == 'n' ? '\n' : next;
		s++;
	}
	p->arena_used += (size_t)(to - start);
	return (struct bridge_text){start, (size_t)(to - start)};
}

/* Parses the quoted text at s. Returns its end, or NULL. */
static const char *read_quoted(struct bridge_text_parser *p, const char *s, const char *end,
			       struct bridge_text *out)
{
	const char *start = ++s;
	bool escapes = false;

	for (; s < end && *s != '"'; s++) {
		if (*s != '\\')
			continue;
		escapes = true;
		if (++s == end)
			return NULL;
	}
	if (s >= end)
		return NULL;
	*out = escapes ? unescape_text(p, start, s, true)
		       : (struct bridge_text){start, (size_t)(s - start)};
	return s + 1;
}

/* Parses KEY="VALUE" at *at, or a quoted name, which has no value. */
static int read_label(struct bridge_text_parser *p, const char **at, const char *end,
		      struct bridge_label *l, bool *is_name)
{
	const char *s = *at, *stop;

	*is_name = false;
	if (s < end && *s == '"') {
		s = read_quoted(p, s, end, &l->key);
		if (!s || !l->key.n)
			return TEXT_BAD(p, "malformed quoted name");
		stop = skip_blanks(p, s, end);
		if (stop == end || *stop != '=') {
			*at = stop;
			*is_name = true;
			return 0;
		}
	} else {
		stop = word_end(s, end, false);
		if (stop == s)
			return TEXT_BAD(p, "malformed label name");
		l->key = (struct bridge_text){s, (size_t)(stop - s)};
	}
	s = skip_blanks(p, stop, end);
	if (s == end || *s != '=')
		return TEXT_BAD(p, "'=' is missing after label name '%.*s'", TEXT_SHOWN(l->key.n),
				l->key.s);
	s = skip_blanks(p, s + 1, end);
	if (s == end || *s != '"')
		return TEXT_BAD(p, "the value of label '%.*s' is not quoted", TEXT_SHOWN(l->key.n),
				l->key.s);
	s = read_quoted(p, s, end, &l->value);
	if (!s)
		return TEXT_BAD(p, "the value of label '%.*s' is not terminated",
				TEXT_SHOWN(l->key.n), l->key.s);
	*at = s;
	return 0;
}

/*
 * Parses the labels in braces at *at. name: set if the name is inside the braces; if NULL, that is
 * not allowed.
 */
static int read_labels(struct bridge_text_parser *p, const char **at, const char *end,
		       struct bridge_text *name, uint32_t *first, uint32_t *count)
{
	const char *s = skip_blanks(p, *at + 1, end);
	int err;

	*first = (uint32_t)p->label_count;
	while (s < end && *s != '}') {
		struct bridge_label l;
		bool is_name;

		err = read_label(p, &s, end, &l, &is_name);
		if (err)
			return err;
		if (is_name) {
			if (!name || name->n || p->label_count > *first)
				return TEXT_BAD(p, "expected a label, but found a quoted name");
			*name = l.key;
		} else {
			if (p->label_count - *first == LABELS_MAX)
				return TEXT_BAD(p, "more than %u labels", LABELS_MAX);
			if (!BASE_GROW(p->labels, p->label_count, p->label_room))
				return TEXT_NO_MEMORY(p);
			p->labels[p->label_count++] = l;
		}
		s = skip_blanks(p, s, end);
		if (s < end && *s == ',') {
			s = skip_blanks(p, s + 1, end);
			if (p->format == BRIDGE_OPENMETRICS && s < end && *s == '}')
				return TEXT_BAD(p, "there is a comma after the last label");
		} else if (s < end && *s != '}') {
			return TEXT_BAD(p, "a comma is missing between labels");
		}
	}
	if (s == end)
		return TEXT_BAD(p, "the labels are not terminated");
	*at = s + 1;
	*count = (uint32_t)(p->label_count - *first);
	if (!bridge_labels_sort(p->labels + *first, *count))
		return TEXT_BAD(p, "duplicate label name");
	return 0;
}

/* ---- samples ---- */

/* Parses a number followed by a blank or the end. Returns NULL if there is no number. */
static const char *read_number(const char *s, const char *end, double *out)
{
	s = bridge_number(s, end, out);
	return s && (s == end || is_blank(*s)) ? s : NULL;
}

const char *bridge_text_time(const struct bridge_text_parser *p, const char *s, const char *end,
			     double *out)
{
	const char *start = s;

	if (p->format == BRIDGE_OPENMETRICS) {
		s = read_number(s, end, out);
		return s && isfinite(*out) ? s : NULL;
	}
	s += s < end && (*s == '-' || *s == '+');
	while (s < end && *s >= '0' && *s <= '9')
		s++;
	if (s == start || !read_number(start, s, out))
		return NULL;
	*out /= 1e3;
	return s;
}

static size_t count_characters(struct bridge_text t)
{
	size_t n = 0;

	for (size_t i = 0; i < t.n; i++)
		n += ((unsigned char)t.s[i] & 0xc0) != 0x80;
	return n;
}

/* Parses the exemplar after "# " in a sample's line. */
static int read_exemplar(struct bridge_text_parser *p, const char *s, const char *end,
			 uint32_t *out)
{
	struct bridge_text_exemplar e = {0};
	const char *at = NULL;
	size_t length = 0;
	double time = NAN;
	int err;

	if (s == end || *s != '{')
		return TEXT_BAD(p, "malformed exemplar");
	err = read_labels(p, &s, end, NULL, &e.labels, &e.label_count);
	if (err)
		return err;
	for (uint32_t i = 0; i < e.label_count; i++)
		length += count_characters(p->labels[e.labels + i].key) +
			  count_characters(p->labels[e.labels + i].value);
	if (length > EXEMPLAR_CHARACTERS)
		return TEXT_BAD(p, "the labels of an exemplar have more than %u characters",
				EXEMPLAR_CHARACTERS);
	s = skip_space(p, s, end);
	s = s ? read_number(s, end, &e.value) : NULL;
	if (s && s < end) {
		s = at = skip_space(p, s, end);
		s = s ? bridge_text_time(p, s, end, &time) : NULL;
	}
	if (!s || s < end)
		return TEXT_BAD(p, "malformed exemplar");
	if (time > 0)
		e.time_ns = bridge_seconds_ns(at, end);
	if (!BASE_GROW(p->exemplars, p->exemplar_count, p->exemplar_room))
		return TEXT_NO_MEMORY(p);
	*out = (uint32_t)p->exemplar_count;
	p->exemplars[p->exemplar_count++] = e;
	return 0;
}

int bridge_text_line_sample(struct bridge_text_parser *p, const char *s, const char *end,
			    struct bridge_text_line *out)
{
	const char *stop = word_end(s, end, true), *after;
	int err;

	*out = (struct bridge_text_line){.name = {s, (size_t)(stop - s)},
					 .labels = (uint32_t)p->label_count,
					 .time = NAN,
					 .exemplar = NONE};
	after = skip_blanks(p, stop, end);
	if (after < end && *after == '{') {
		s = after;
		err = read_labels(p, &s, end, &out->name, &out->labels, &out->label_count);
		if (err)
			return err;
		stop = s;
	}
	if (!out->name.n)
		return TEXT_BAD(p, "malformed name");
	after = skip_space(p, stop, end);
	/* After braces, text 0.0.4 requires no space. */
	if (!after && p->format == BRIDGE_TEXT_004 && stop[-1] == '}' && stop < end)
		after = stop;
	if (!after)
		return TEXT_BAD(p, "the value is missing, or the name is malformed");
	out->number = after;
	s = read_number(after, end, &out->value);
	if (!s)
		return TEXT_BAD(p, "malformed value");
	s = s < end ? skip_space(p, s, end) : s;
	if (s && s < end && *s != '#') {
		s = bridge_text_time(p, s, end, &out->time);
		if (!s || (s < end && !is_blank(*s)))
			return TEXT_BAD(p, "malformed timestamp");
		if (s < end)
			s = skip_space(p, s, end);
	}
	if (s && s < end && *s == '#' && p->format == BRIDGE_OPENMETRICS) {
		s = skip_space(p, s + 1, end);
		return s ? read_exemplar(p, s, end, &out->exemplar)
			 : TEXT_BAD(p, "malformed exemplar");
	}
	/* OpenMetrics: nothing may follow, not even a space. */
	if (!s || s < end || (p->format == BRIDGE_OPENMETRICS && is_blank(end[-1])))
		return TEXT_BAD(p, "there is text after the value");
	return 0;
}

/* ---- metadata ---- */

static const struct {
	const char *word;
	char what;
} kinds[] = {{"HELP", 'H'}, {"TYPE", 'T'}, {"UNIT", 'U'}};

int bridge_text_line_meta(struct bridge_text_parser *p, const char *s, const char *end,
			  struct bridge_text_meta *m)
{
	const bool open_metrics = p->format == BRIDGE_OPENMETRICS;
	const char *word = skip_space(p, s + 1, end), *stop;

	*m = (struct bridge_text_meta){.known = false};
	if (!word)
		return open_metrics ? TEXT_BAD(p, "a comment") : 0;
	stop = word_end(word, end, false);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (stop - word == 4 && !memcmp(word, kinds[i].word, 4))
			m->what = kinds[i].what;
	if (!m->what || (m->what == 'U' && !open_metrics) || (stop < end && !is_blank(*stop)))
		return open_metrics ? TEXT_BAD(p, "a comment must begin with HELP, TYPE, UNIT or "
						  "EOF")
				    : 0;
	s = skip_space(p, stop, end);
	if (s && s < end && *s == '"') {
		s = read_quoted(p, s, end, &m->name);
	} else if (s) {
		stop = word_end(s, end, true);
		m->name = (struct bridge_text){s, (size_t)(stop - s)};
		s = stop;
	}
	if (!s || !m->name.n)
		return TEXT_BAD(p, "the name is missing or malformed");
	stop = skip_space(p, s, end);
	if (!stop) {
		if (open_metrics || s < end || m->what != 'H')
			return TEXT_BAD(p,
					"the line ends after the name, or the name is malformed");
		stop = end; /* the help text is empty */
	}
	m->known = true;
	m->rest = (struct bridge_text){stop, (size_t)(end - stop)};
	if (m->what == 'H' && memchr(stop, '\\', m->rest.n))
		m->rest = unescape_text(p, stop, end, open_metrics);
	return 0;
}
