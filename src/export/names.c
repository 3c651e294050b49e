// SPDX-License-Identifier: Apache-2.0
/*
 * names.c - keeps family names distinct. A counter "a" has samples "a_total", a histogram
 * "a_bucket"; a family of such a name would clash (OpenMetrics 1.0, "Suffixes"), so its type is
 * appended: "a_total_gauge".
 *
 * Families come sorted, so a name can clash only with one that is its prefix or that was
 * lengthened. That is a handful, however many families there are.
 */
#include <string.h>

#include "export/render.h"

const char *const export_type_names[] = {
	[EXPORT_FAMILY_COUNTER] = "_counter",
	[EXPORT_FAMILY_GAUGE] = "_gauge",
	[EXPORT_FAMILY_HISTOGRAM] = "_histogram",
	[EXPORT_FAMILY_INFO] = "_info",
	[EXPORT_FAMILY_STATESET] = "_stateset",
	[EXPORT_FAMILY_SUMMARY] = "_summary",
	[EXPORT_FAMILY_UNKNOWN] = "_unknown",
	[EXPORT_FAMILY_GAUGE_HISTOGRAM] = "_gaugehistogram",
};

const char *export_sample_suffix(enum export_family_type type)
{
	return type == EXPORT_FAMILY_COUNTER ? "_total" : type == EXPORT_FAMILY_INFO ? "_info" : "";
}

/* Suffixes of sample names, in any format. */
static const char *const sample_suffixes[][6] = {
	[EXPORT_FAMILY_COUNTER] = {"_total", "_created"},
	[EXPORT_FAMILY_HISTOGRAM] = {"_bucket", "_count", "_sum", "_created"},
	[EXPORT_FAMILY_INFO] = {"_info"},
	[EXPORT_FAMILY_STATESET] = {NULL},
	[EXPORT_FAMILY_SUMMARY] = {"_count", "_sum", "_created"},
	[EXPORT_FAMILY_GAUGE_HISTOGRAM] = {"_bucket", "_count", "_gcount", "_gsum", "_sum"},
};

static bool is_sample_suffix(enum export_family_type type, const char *suffix)
{
	for (const char *const *s = sample_suffixes[type]; *s; s++)
		if (!strcmp(*s, suffix))
			return true;
	return false;
}

static bool clashes(const struct export_render *r)
{
	for (size_t i = 0; i < r->reserved_count; i++) {
		const struct export_reserved *other = &r->reserved[i];
		size_t n = strlen(other->name);

		if (!strncmp(r->name, other->name, n) &&
		    (!r->name[n] || is_sample_suffix(other->type, r->name + n)))
			return true;
	}
	return false;
}

bool export_names_take(struct export_render *r)
{
	const char *name = r->family.name, *type = export_type_names[r->family.type];
	size_t n = strlen(name), kept = 0;
	struct export_reserved *own;

	if (n > EXPORT_SHOWN_NAME_MAX)
		return false;
	/* Drop names that are neither a prefix of this one nor sort after it. */
	for (size_t i = 0; i < r->reserved_count; i++) {
		const struct export_reserved *other = &r->reserved[i];

		if (strcmp(other->name, name) >= 0 ||
		    !strncmp(other->name, name, strlen(other->name))) {
			if (kept != i)
				r->reserved[kept] = *other;
			kept++;
		}
	}
	r->reserved_count = kept;
	memcpy(r->name, name, n + 1);
	r->name_bytes = n;
	while (r->reserved_count && clashes(r)) {
		if (n + strlen(type) > EXPORT_SHOWN_NAME_MAX)
			return false;
		strcpy(r->name + n, type);
		n += strlen(type);
		r->name_bytes = n;
	}
	if (!export_render_grow(r, &r->reserved, &r->reserved_room, kept + 1, sizeof(*r->reserved)))
		return false;
	own = &r->reserved[r->reserved_count++];
	own->type = r->family.type;
	memcpy(own->name, r->name, n + 1);
	return true;
}
