// SPDX-License-Identifier: Apache-2.0
/* label.c - renders label sets */
#include <stdlib.h>
#include <string.h>

#include "collect/read/label.h"
#include "export/render.h"
#include "region/text.h"

#define PREFIX "exported_"

/* Returns the length of a value with \ " and newline escaped, as in both text formats. */
static size_t escaped_length(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == '\\' || *s == '"' || *s == '\n' ? 2 : 1;
	return n;
}

static bool is_plain(const char *key)
{
	return region_text_label_key(key, strlen(key));
}

static char *escape_text(char *p, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '"' || *s == '\n')
			*p++ = '\\';
		*p++ = *s == '\n' ? 'n' : *s;
	}
	return p;
}

struct collect_label_set *collect_label_set_new(const struct region_text_label *labels,
						uint32_t count)
{
	size_t arrays = 2 * (size_t)count * sizeof(char *), strings = 0, text = 1, bytes;
	struct collect_label_set *set;
	const char **keys, **values;
	char *at, *out;

	for (uint32_t i = 0; i < count; i++) {
		strings += strlen(labels[i].key) + strlen(labels[i].value) + 2;
		text += escaped_length(labels[i].key) + escaped_length(labels[i].value) + 6;
	}
	bytes = sizeof(*set) + arrays + strings + text;
	set = malloc(bytes);
	if (!set)
		return NULL;
	keys = (const char **)(set + 1);
	values = keys + count;
	at = (char *)(values + count);
	out = at + strings;
	*set = (struct collect_label_set){.refs = 1,
					  .count = count,
					  .text = out,
					  .keys = keys,
					  .values = values,
					  .bytes = bytes};
	for (uint32_t i = 0; i < count; i++) {
		size_t k = strlen(labels[i].key), v = strlen(labels[i].value);
		const bool plain = is_plain(labels[i].key);

		keys[i] = memcpy(at, labels[i].key, k + 1);
		at += k + 1;
		values[i] = memcpy(at, labels[i].value, v + 1);
		at += v + 1;
		if (i)
			*out++ = ',';
		set->utf8 |= !plain;
		out = stpcpy(out, plain ? "" : "\"");
		out = escape_text(out, labels[i].key);
		out = stpcpy(out, plain ? "=" : "\"=");
		*out++ = '"';
		out = escape_text(out, labels[i].value);
		*out++ = '"';
	}
	*out = '\0';
	set->text_bytes = (uint32_t)(out - set->text);
	set->hash = sl_fnv1a(SL_FNV_BASIS, set->text, set->text_bytes);
	return set;
}

/*
 * Compares the key in the form that clients without UTF-8 see, in which "container.id" is
 * "container_id". Taken keys already have this form.
 */
static bool is_taken(const char *key, const char *const *taken, uint32_t count)
{
	char plain[4 * (SL_NAME_MAX + 1)];

	if (strlen(key) >= sizeof(plain))
		return false; /* no taken key is as long */
	export_underscores(plain, key, false);
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(plain, taken[i]))
			return true;
	return false;
}

bool collect_labels_export(struct region_text_label *labels, uint32_t count,
			   const char *const *taken, uint32_t taken_count, char **names)
{
	size_t bytes = 0;
	char *at;

	*names = NULL;
	/* In the worst case every other label forces one more prefix. */
	for (uint32_t i = 0; i < count; i++)
		if (is_taken(labels[i].key, taken, taken_count))
			bytes += strlen(labels[i].key) + 1 +
				 ((size_t)count + taken_count) * strlen(PREFIX);
	if (!bytes)
		return true;
	at = *names = malloc(bytes);
	if (!at)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const char *key = labels[i].key;
		bool again = is_taken(key, taken, taken_count);

		for (uint32_t prefixes = 1; again; prefixes++) {
			char *to = at;

			for (uint32_t k = 0; k < prefixes; k++)
				to = stpcpy(to, PREFIX);
			strcpy(to, key);
			again = is_taken(at, taken, taken_count);
			for (uint32_t k = 0; k < count; k++)
				again |= k != i && !strcmp(labels[k].key, at);
			labels[i].key = at;
		}
		if (labels[i].key != key)
			at += strlen(at) + 1;
	}
	return true;
}
