/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.h - shared by the formats: the renderer's state, its output, names. Private to src/export.
 */
#ifndef SL_EXPORT_RENDER_H
#define SL_EXPORT_RENDER_H

#include "export/model.h"
#include "export/native.h"

/* Finite "le" bounds of an exponential histogram in the text formats: docs/exposition.md. */
#define EXPORT_TEXT_BOUNDS_MAX 64
/* Families whose names are escaped with underscores; further ones have the longer form. */
#define EXPORT_ESCAPED_MAX 1024
/* A protobuf message ends at the first series beyond this size. */
#define EXPORT_PROTOBUF_MESSAGE (64u * 1024)
/* Bytes of a shown family name; families with a longer one are left out. */
#define EXPORT_SHOWN_NAME_MAX 383

/* A family whose sample names ("_total", "_bucket", ...) may clash with names to come. */
struct export_reserved {
	enum export_family_type type;
	char name[EXPORT_SHOWN_NAME_MAX + 1];
};

struct export_bounds { /* the bounds of one histogram and their text */
	double *bound;
	uint32_t *bucket;  /* exponential: the last of series.buckets below the bound */
	uint32_t *text_at; /* offsets into text; count + 1 */
	char *text;	   /* le="0.005"} */
	size_t count, room;
	struct export_series of; /* what they were made from */
	bool valid;
};

enum export_phase {
	EXPORT_PHASE_START,
	EXPORT_PHASE_FAMILY, /* at the next family */
	EXPORT_PHASE_SERIES, /* at the next series of it */
	EXPORT_PHASE_LINES,  /* within a series of several lines */
	EXPORT_PHASE_END,
};

struct export_render {
	struct export_source source;
	enum export_format format;
	bool utf8;    /* the client takes names in UTF-8 */
	bool classic; /* and wants all bounds of brief histograms */
	void *walk;
	int error; /* -errno, for good */
	enum export_phase phase;

	struct export_family family;
	char name[EXPORT_SHOWN_NAME_MAX + 1]; /* of the family, without suffix; unique */
	size_t name_bytes;
	bool quoted; /* the name is shown in quotes */
	struct export_reserved *reserved;
	size_t reserved_count, reserved_room;
	uint64_t *escaped; /* hashes of names that were escaped */
	size_t escaped_count, escaped_room;

	struct export_series series;
	char *labels; /* label text with a renamed label */
	size_t labels_room;
	const char **keys;
	size_t keys_room;
	char *key_text;

	/*
	 * Output goes straight into the caller's buffer, or through the spill if that is too small.
	 */
	char *out, *end;
	bool spilling; /* the last room was the spill's */
	char *spill;
	size_t spill_room;
	const char *pending; /* in spill or message: goes out first */
	size_t pending_bytes;

	/* Text: name and suffix of the family's samples, or {"NAME SUFFIX without the last quote.
	 */
	char prefix[2 * EXPORT_SHOWN_NAME_MAX + 16];
	size_t prefix_bytes, created_bytes; /* without the suffix */
	size_t line;			    /* EXPORT_PHASE_LINES: the next line */
	uint64_t cumulative;
	size_t bucket;	 /* the next to be added */
	size_t exemplar; /* of the series: the next one */
	struct export_bounds bounds;

	/* Protobuf: the message of this family so far, after room for its length. */
	uint8_t *message;
	size_t message_bytes, message_room;
	size_t message_head; /* its end before any metric */
	size_t length_bytes; /* of the last metric's length; guess for the next */
	struct export_native native;
};

/* Room for n bytes, or NULL with r->error set. export_render_took() ends it. */
char *export_render_room_slow(struct export_render *r, size_t n);

static inline char *export_render_room(struct export_render *r, size_t n)
{
	r->spilling = (size_t)(r->end - r->out) < n;
	if (__builtin_expect(!r->spilling, 1))
		return r->out;
	return export_render_room_slow(r, n);
}

/* Queues bytes that stay in place until sent. Only while none are pending. */
void export_render_pend(struct export_render *r, const void *bytes, size_t n);

void export_render_took_slow(struct export_render *r, char *to);

static inline void export_render_took(struct export_render *r, char *to)
{
	if (r->spilling)
		export_render_took_slow(r, to);
	else
		r->out = to;
}

/* base_grow(); sets r->error on failure. */
bool export_render_grow(struct export_render *r, void *p, size_t *room, size_t count, size_t size);

/* Appends s with backslashes, newlines and, if quotes, '"' escaped; returns the end. */
char *export_render_escape(char *p, const char *s, bool quotes);

/* The next series: 1, or 0. A label named reserved_label is renamed to exported_NAME. */
int export_render_next_series(struct export_render *r, const char *reserved_label);

static inline bool export_is_histogram(enum export_family_type type)
{
	return type == EXPORT_FAMILY_HISTOGRAM || type == EXPORT_FAMILY_GAUGE_HISTOGRAM;
}

/* A series takes several lines. */
static inline bool export_is_lines(enum export_family_type type)
{
	return export_is_histogram(type) || type == EXPORT_FAMILY_STATESET ||
	       type == EXPORT_FAMILY_SUMMARY;
}

/* ---- escape.c: names for clients that do not take UTF-8 ---- */

/* [a-zA-Z_][a-zA-Z0-9_]*, and in names of metrics colons. */
bool export_is_plain(const char *s, bool colons);
/* Bytes of a name of n bytes in either form, with NUL. */
#define EXPORT_ESCAPED(n) (8 * (n) + 4)
/* Each character that is not plain becomes "_". Returns the NUL. */
char *export_underscores(char *to, const char *s, bool colons);
/* "U__", and _HEX_ in place of such a character: no two names are the same. Returns the NUL. */
char *export_hex_name(char *to, const char *s);

/*
 * The exemplar to show of buckets up to this one, exclusive: the latest of those that were not
 * passed yet; NULL: none.
 */
const struct export_exemplar *export_exemplar_upto(struct export_render *r, size_t bucket);

/* The label that the family's samples have besides their own; "": none. */
const char *export_reserved_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1]);

/* The name of a state set's label: the family's name without colons. */
const char *export_render_state_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1]);

/* Sets r->name to a name that clashes with no earlier family or its samples. */
bool export_names_take(struct export_render *r);

/* "_counter" and so on, by type. */
extern const char *const export_type_names[];

/* The suffix of the samples of scalar families: "_total", "_info" or "". */
const char *export_sample_suffix(enum export_family_type type);

/* Makes the current series' classic bounds in r->bounds. */
bool export_bounds_make(struct export_render *r);

/* Each writes one piece and advances r->phase. */
void export_text_step(struct export_render *r);
void export_protobuf_step(struct export_render *r);

#endif
