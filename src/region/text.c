// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/text.h"
#include "region/text.h"

enum { ALPHA = 1, DIGIT = 2, COLON = 4 };

static unsigned int class_of(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')
		return ALPHA;
	if (c >= '0' && c <= '9')
		return DIGIT;
	return c == ':' ? COLON : 0;
}

static bool all_of(const char *s, size_t bytes, unsigned int classes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!(class_of(s[i]) & classes))
			return false;
	return true;
}

bool region_text_metric_name(const char *s, size_t bytes)
{
	return bytes && bytes <= SL_NAME_MAX && class_of(s[0]) != DIGIT &&
	       all_of(s, bytes, ALPHA | DIGIT | COLON);
}

bool region_text_name_utf8(const char *s, size_t bytes)
{
	return bytes && bytes <= SL_NAME_MAX && base_utf8(s, bytes); /* refuses NUL */
}

bool region_text_unit(const char *s, size_t bytes)
{
	return bytes <= SL_NAME_MAX && all_of(s, bytes, ALPHA | DIGIT | COLON);
}

bool region_text_label_key(const char *s, size_t bytes)
{
	return bytes && bytes <= SL_NAME_MAX && class_of(s[0]) == ALPHA &&
	       all_of(s, bytes, ALPHA | DIGIT) && !(bytes >= 2 && s[0] == '_' && s[1] == '_');
}

static bool is_label_key(const char *s, size_t bytes, bool utf8)
{
	return utf8 ? region_text_name_utf8(s, bytes) && !(bytes >= 2 && s[0] == '_' && s[1] == '_')
		    : region_text_label_key(s, bytes);
}

bool region_text_labels(const char *text, size_t bytes, bool sorted, bool utf8,
			struct region_text_label labels[SL_LABELS_MAX], uint32_t *count)
{
	const char *p = text, *end = text + bytes;
	uint32_t n = 0;

	while (p < end) {
		const char *key = p, *value, *stop;

		if (n == SL_LABELS_MAX)
			return false;
		value = memchr(key, 0, (size_t)(end - key));
		if (!value || !is_label_key(key, (size_t)(value - key), utf8))
			return false;
		value++;
		stop = memchr(value, 0, (size_t)(end - value));
		if (!stop || stop - value > SL_LABEL_VALUE_MAX ||
		    !base_utf8(value, (size_t)(stop - value)))
			return false;
		for (uint32_t i = sorted && n ? n - 1 : 0; i < n; i++) {
			int order = strcmp(labels[i].key, key);

			if (sorted ? order >= 0 : !order)
				return false;
		}
		labels[n++] = (struct region_text_label){key, value};
		p = stop + 1;
	}
	*count = n;
	return true;
}

size_t region_text_put_labels(char *to, size_t room, const struct region_text_label *labels,
			      size_t count)
{
	size_t used = 0;

	for (size_t i = 0; i < 2 * count; i++) {
		const char *s = i % 2 ? labels[i / 2].value : labels[i / 2].key;
		size_t n = strlen(s) + 1;

		if (used + n <= room)
			memcpy(to + used, s, n);
		used += n;
	}
	return used;
}
