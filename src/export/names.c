// SPDX-License-Identifier: Apache-2.0
/*
 * names.c - keeps family names distinct. A counter "a" has samples "a_total", a histogram
 * "a_bucket"; a family with such a name would clash (OpenMetrics 1.0, "Suffixes"), so its type is
 * appended: "a_total_gauge". If a family or sample "a" precedes the counter, the counter takes its
 * sample name, "a_total".
 *
 * Families arrive in sorted order, so a name can clash only with a name that is its prefix or that
 * was lengthened. There are few of these, however many families there are.
 */
#include <string.h>

#include "base/hash.h"
#include "base/relaxed.h"
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
	[EXPORT_FAMILY_BARE_COUNTER] = "_counter",
};

const char *export_sample_suffix(enum export_family_type type)
{
	return type == EXPORT_FAMILY_COUNTER ? "_total" : type == EXPORT_FAMILY_INFO ? "_info" : "";
}

/* Suffixes of sample names in all formats. */
static const char *const sample_suffixes[][6] = {
	[EXPORT_FAMILY_COUNTER] = {"_total", "_created"},
	[EXPORT_FAMILY_HISTOGRAM] = {"_bucket", "_count", "_sum", "_created"},
	[EXPORT_FAMILY_INFO] = {"_info"},
	[EXPORT_FAMILY_STATESET] = {NULL},
	[EXPORT_FAMILY_SUMMARY] = {"_count", "_sum", "_created"},
	[EXPORT_FAMILY_GAUGE_HISTOGRAM] = {"_bucket", "_count", "_gcount", "_gsum", "_sum"},
	[EXPORT_FAMILY_BARE_COUNTER] = {NULL},
};

static bool is_shown(const struct export_render *r, const char *suffix)
{
	return r->source.created || strcmp(suffix, "_created");
}

static bool is_sample_suffix(const struct export_render *r, enum export_family_type type,
			     const char *suffix)
{
	for (const char *const *s = sample_suffixes[type]; *s; s++)
		if (!strcmp(*s, suffix))
			return is_shown(r, suffix);
	return false;
}

static bool has_clash(const struct export_render *r)
{
	for (size_t i = 0; i < r->reserved_count; i++) {
		const struct export_reserved *other = &r->reserved[i];
		size_t n = strlen(other->name);

		if (!strncmp(r->name, other->name, n) &&
		    (!r->name[n] || is_sample_suffix(r, other->type, r->name + n)))
			return true;
	}
	return false;
}

#define LONGER_MAX (sizeof("_gaugehistogram") - 1)

/*
 * Lengthens a name that is already used. A counter gets its sample suffix, so that its samples keep
 * their names; any other family gets its type. Returns a pointer to the NUL.
 */
static char *lengthen_name(struct export_render *r, char *end)
{
	if (r->family.type != EXPORT_FAMILY_COUNTER)
		return stpcpy(end, export_type_names[r->family.type]);
	r->family.type = EXPORT_FAMILY_BARE_COUNTER;
	return stpcpy(end, export_sample_suffix(EXPORT_FAMILY_COUNTER));
}

/* ---- UTF-8 names for clients that do not accept them ---- */

/* Whether the source has a family with this name, or a family whose sample names look like it. */
static bool is_there(const struct export_render *r, const char *name)
{
	char other[EXPORT_SHOWN_NAME_MAX + 16];
	size_t n = strlen(name);

	if (r->source.has_family(r->walk, name))
		return true;
	for (size_t i = 0; i < sizeof(sample_suffixes) / sizeof(*sample_suffixes); i++)
		for (const char *const *s = sample_suffixes[i]; *s; s++) {
			size_t k = strlen(*s);

			if (!is_shown(r, *s))
				continue;
			strcpy(mempcpy(other, name, n), *s);
			if (i == r->family.type && r->source.has_family(r->walk, other))
				return true;
			if (n <= k || strcmp(name + n - k, *s))
				continue;
			other[n - k] = 0;
			if (r->source.has_family(r->walk, other))
				return true;
		}
	return false;
}

static bool was_escaped(const struct export_render *r, uint64_t hash)
{
	for (size_t i = 0; i < r->escaped_count; i++)
		if (r->escaped[i] == hash)
			return true;
	return false;
}

static bool note_escaped(struct export_render *r, uint64_t hash)
{
	if (r->escaped_count == EXPORT_ESCAPED_MAX || was_escaped(r, hash))
		return true;
	if (!export_render_grow(r, &r->escaped, &r->escaped_room, r->escaped_count + 1,
				sizeof(*r->escaped)))
		return false;
	r->escaped[r->escaped_count++] = hash;
	return true;
}

/*
 * Records that a name and the name of its samples are in use. Returns false if out of memory or,
 * unless `last` is set, if one of them is already in use.
 */
static bool note_names(struct export_render *r, const char *name, bool last)
{
	char sample[EXPORT_SHOWN_NAME_MAX + 16];
	uint64_t hash, of_sample;

	strcpy(stpcpy(sample, name), export_sample_suffix(r->family.type));
	hash = base_hash_text(0, name);
	of_sample = base_hash_text(0, sample);
	if (!last && (was_escaped(r, hash) || was_escaped(r, of_sample)))
		return false;
	return note_escaped(r, hash) && note_escaped(r, of_sample);
}

/*
 * Uses this name if neither it nor its sample name is used yet. last: the name is in the final
 * form, which is unique unless a publisher chose it for another family.
 */
static bool take_escaped(struct export_render *r, const char *name, bool last)
{
	size_t n = strlen(name);

	if (n > EXPORT_SHOWN_NAME_MAX || is_there(r, name) ||
	    (!last && r->escaped_count == EXPORT_ESCAPED_MAX) || !note_names(r, name, last))
		return false;
	r->name_bytes = n;
	memcpy(r->name, name, n + 1);
	return true;
}

static bool escape_name(struct export_render *r)
{
	char name[EXPORT_ESCAPED(EXPORT_SHOWN_NAME_MAX) + 32], *end;

	end = export_underscores(name, r->family.name, true);
	if (take_escaped(r, name, false))
		return true;
	if (r->family.type == EXPORT_FAMILY_COUNTER) {
		lengthen_name(r, end);
		if (take_escaped(r, name, false))
			return true;
		r->family.type = EXPORT_FAMILY_COUNTER;
	}
	/* Families with the same name but different types are consecutive. */
	end = export_hex_name(name, r->family.name);
	if (was_escaped(r, base_hash(0, name, strlen(name))))
		lengthen_name(r, end);
	return take_escaped(r, name, true);
}

/* Keeps lengthened and escaped names apart. Returns false if an escaped family has this name. */
static bool keep_from_escaped(struct export_render *r)
{
	return r->utf8 || !r->source.has_family || note_names(r, r->name, false);
}

static bool take_name(struct export_render *r)
{
	const char *name = r->family.name;
	size_t n = strlen(name), kept = 0;
	struct export_reserved *own;

	if (n > EXPORT_SHOWN_NAME_MAX)
		return false;
	r->quoted = false;
	if (!export_is_plain(name, true)) {
		r->quoted = r->utf8;
		if (!r->utf8 && r->source.has_family)
			return escape_name(r);
	}
	/* Drop names that are neither a prefix of this name nor sorted after it. */
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
	while ((r->reserved_count && has_clash(r)) ||
	       (r->name_bytes != n && !r->error && !keep_from_escaped(r))) {
		if (r->name_bytes + LONGER_MAX > EXPORT_SHOWN_NAME_MAX)
			return false;
		r->name_bytes = (size_t)(lengthen_name(r, r->name + r->name_bytes) - r->name);
	}
	if (!export_render_grow(r, &r->reserved, &r->reserved_room, kept + 1, sizeof(*r->reserved)))
		return false;
	own = &r->reserved[r->reserved_count++];
	own->type = r->family.type;
	memcpy(own->name, r->name, r->name_bytes + 1);
	return true;
}

bool export_names_take(struct export_render *r)
{
	bool taken = take_name(r);

	if (!taken && !r->error && r->source.left_out)
		relaxed_add(*r->source.left_out, 1);
	return taken;
}
