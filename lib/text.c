// SPDX-License-Identifier: Apache-2.0
/* text.c - checks names, units, labels and texts; sidelight-region(5) has the rules. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

static bool name_start(char c, bool colon)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':');
}

/* Returns the length of the prefix consisting of characters valid in a name. */
static size_t name_span(const char *s, bool colon)
{
	size_t n = 0;

	while (name_start(s[n], colon) || (s[n] >= '0' && s[n] <= '9'))
		n++;
	return n;
}

bool sl__name_valid(const char *s, bool colon)
{
	size_t n;

	if (!s || !name_start(*s, colon))
		return false;
	n = name_span(s, colon);
	return !s[n] && n <= SL_NAME_MAX;
}

bool sl__unit_valid(const char *s, size_t *length)
{
	*length = name_span(s, true);
	return !s[*length] && *length <= SL_NAME_MAX;
}

/* Checks UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool sl__utf8(const char *text, size_t max, size_t *length)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t n = strnlen(text, max + 1);

	if (n > max)
		return false;
	for (size_t i = 0; i < n;) {
		uint32_t c = s[i++], more;

		if (c < 0x80)
			continue;
		if (c < 0xc2 || c > 0xf4)
			return false;
		more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
		c &= 0x3fu >> more;
		for (uint32_t k = 0; k < more; k++, i++) {
			if ((s[i] & 0xc0) != 0x80) /* also true for the terminating NUL */
				return false;
			c = c << 6 | (s[i] & 0x3f);
		}
		if ((more == 2 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) ||
		    (more == 3 && (c < 0x10000 || c > 0x10ffff)))
			return false;
	}
	*length = n;
	return true;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sl_label *)a)->key, ((const struct sl_label *)b)->key);
}

bool sl__label_key_valid(const char *key, const char *reserved, bool utf8)
{
	size_t unused;

	if (utf8 ? !key || !*key || !sl__utf8(key, SL_NAME_MAX, &unused)
		 : !sl__name_valid(key, false))
		return false;
	return strncmp(key, "__", 2) && !(reserved && !strcmp(key, reserved));
}

int sl__labels_encode(const struct sl_label *labels, size_t count, const char *reserved, bool utf8,
		      uint8_t **bytes, uint32_t *length)
{
	struct sl_label sorted[SL_LABELS_MAX];
	size_t total = 0;
	uint8_t *to;

	if (count > SL_LABELS_MAX || (count && !labels))
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		size_t value;

		sorted[i] = labels[i];
		if (!sl__label_key_valid(labels[i].key, reserved, utf8) || !labels[i].value ||
		    !sl__utf8(labels[i].value, SL_LABEL_VALUE_MAX, &value))
			return -EINVAL;
		total += strlen(labels[i].key) + value + 2;
	}
	qsort(sorted, count, sizeof(*sorted), by_key);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(sorted[i - 1].key, sorted[i].key))
			return -EINVAL;
	to = malloc(total ? total : 1);
	if (!to)
		return -ENOMEM;
	*bytes = to;
	*length = (uint32_t)total;
	for (size_t i = 0; i < count; i++) {
		to = (uint8_t *)stpcpy((char *)to, sorted[i].key) + 1;
		to = (uint8_t *)stpcpy((char *)to, sorted[i].value) + 1;
	}
	return 0;
}
