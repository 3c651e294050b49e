/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.h - the renderer's state, output and names, shared by the formats. Private to src/export.
 */
#ifndef SL_EXPORT_RENDER_H
#define SL_EXPORT_RENDER_H

#include "export/model.h"
#include "export/native.h"

/* Maximum number of finite "le" bounds of an exponential histogram in text (docs/exposition.md). */
#define EXPORT_TEXT_BOUNDS_MAX 64
/*
 * Maximum number of families whose names are escaped with underscores; further families get the
 * longer form.
 */
#define EXPORT_ESCAPED_MAX 1024
/* Size after which a protobuf message ends with the current series. */
#define EXPORT_PROTOBUF_MESSAGE (64u * 1024)
/* Maximum length of a displayed family name; families with a longer name are left out. */
#define EXPORT_SHOWN_NAME_MAX 383

/* A family whose sample names ("_total", "_bucket", ...) may clash with later names. */
struct export_reserved {
	enum export_family_type type;
	char name[EXPORT_SHOWN_NAME_MAX + 1];
};

struct export_bounds { /* the bounds of one histogram and their text */
	double *bound;
	uint32_t *bucket;  /* exponential: the last of series.buckets below each bound */
	uint32_t *text_at; /* offsets into text; count + 1 entries */
	char *text;	   /* strings such as le="0.005"} */
	size_t count, room;
	struct export_series of; /* copy of the parameters from which the bounds were computed */
	bool valid;
};

enum export_phase {
	EXPORT_PHASE_START,
	EXPORT_PHASE_FAMILY, /* before the next family */
	EXPORT_PHASE_SERIES, /* before the next series of the family */
	EXPORT_PHASE_LINES,  /* between the lines of a series */
	EXPORT_PHASE_END,
};

struct export_render {
	struct export_source source;
	enum export_format format;
	bool utf8;    /* the client accepts UTF-8 names */
	bool classic; /* the client requested complete histograms (enum export_detail) */
	void *walk;
	int error; /* -errno; permanent */
	enum export_phase phase;

	struct export_family family;
	char name[EXPORT_SHOWN_NAME_MAX + 1]; /* unique name of the family, without suffix */
	size_t name_bytes;
	bool quoted; /* the name is displayed in quotes */
	struct export_reserved *reserved;
	size_t reserved_count, reserved_room;
	uint64_t *escaped; /* hashes of escaped names */
	size_t escaped_count, escaped_room;

	struct export_series series;
	char *labels; /* label text with a renamed label */
	size_t labels_room;
	const char **keys;
	size_t keys_room;
	char *key_text;

	/*
	 * Output goes directly to the caller's buffer, or to the spill buffer if the caller's
	 * buffer is too small.
	 */
	char *out, *end;
	bool spilling; /* the last reservation was in the spill buffer */
	char *spill;
	size_t spill_room;
	const char *pending; /* bytes in spill or message that must be sent first */
	size_t pending_bytes;

	/*
	 * Text: name and suffix of the family's samples, or {"NAME SUFFIX without the final quote.
	 */
	char prefix[2 * EXPORT_SHOWN_NAME_MAX + 16];
	size_t prefix_bytes, created_bytes; /* lengths without the suffix */
	size_t line;			    /* EXPORT_PHASE_LINES: index of the next line */
	uint64_t cumulative;
	size_t bucket;	 /* next bucket to be added */
	size_t exemplar; /* next exemplar of the series */
	struct export_bounds bounds;

	/* Protobuf: the current message of this family, preceded by room for its length. */
	uint8_t *message;
	size_t message_bytes, message_room;
	size_t message_head; /* end of the part of the message that precedes the first metric */
	/* size of the last metric's length field, used as a guess for the next metric */
	size_t length_bytes;
	struct export_native native;
};

/* Returns room for n bytes, or NULL with r->error set. Call export_render_took() afterwards. */
char *export_render_room_slow(struct export_render *r, size_t n);

static inline char *export_render_room(struct export_render *r, size_t n)
{
	r->spilling = (size_t)(r->end - r->out) < n;
	if (__builtin_expect(!r->spilling, 1))
		return r->out;
	return export_render_room_slow(r, n);
}

/*
 * Queues bytes that must stay valid until they are sent. Allowed only while no bytes are pending.
 */
void export_render_pend(struct export_render *r, const void *bytes, size_t n);

void export_render_took_slow(struct export_render *r, char *to);

static inline void export_render_took(struct export_render *r, char *to)
{
	if (r->spilling)
		export_render_took_slow(r, to);
	else
		r->out = to;
}

/* Like base_grow(); sets r->error on failure. */
bool export_render_grow(struct export_render *r, void *p, size_t *room, size_t count, size_t size);

/* Appends s with escaped backslashes, newlines and, if quotes is set, '"'. Returns the end. */
char *export_render_escape(char *p, const char *s, bool quotes);

/*
 * Moves to the next series. Returns 1, or 0 at the end. A label named reserved_label is renamed to
 * exported_NAME.
 */
int export_render_next_series(struct export_render *r, const char *reserved_label);

static inline bool export_is_histogram(enum export_family_type type)
{
	return type == EXPORT_FAMILY_HISTOGRAM || type == EXPORT_FAMILY_GAUGE_HISTOGRAM;
}

/* Whether a series takes several lines. */
static inline bool export_is_lines(enum export_family_type type)
{
	return export_is_histogram(type) || type == EXPORT_FAMILY_STATESET ||
	       type == EXPORT_FAMILY_SUMMARY;
}

/* ---- escape.c: names for clients that do not accept UTF-8 ---- */

/* Matches [a-zA-Z_][a-zA-Z0-9_]*, with colons also allowed in metric names. */
bool export_is_plain(const char *s, bool colons);
/* Maximum length of either escaped form of a name of n bytes, including the NUL. */
#define EXPORT_ESCAPED(n) (8 * (n) + 4)
/* Replaces each character that is not plain with "_". Returns a pointer to the NUL. */
char *export_underscores(char *to, const char *s, bool colons);
/*
 * Prepends "U__" and replaces characters that are not plain with _HEX_, so that different names
 * stay different. Returns a pointer to the NUL.
 */
char *export_hex_name(char *to, const char *s);

/*
 * Makes the keys of n labels distinct from each other and from `reserved`: label `taken` (n means
 * none) becomes exported_KEY, and without utf8, keys that require UTF-8 are escaped. A publisher
 * may choose keys that become equal: a new key that clashes with another label gets the other
 * escaped form and, if it still clashes, underscores at the end. Returns the memory of the new
 * keys, or NULL if out of memory.
 */
char *export_distinct_keys(const char **keys, size_t n, const char *reserved, size_t taken,
			   bool utf8);
/*
 * Returns the latest exemplar in the buckets before this one that has not been passed yet, or NULL
 * if there is none.
 */
const struct export_exemplar *export_exemplar_upto(struct export_render *r, size_t bucket);

/*
 * Returns the label that the family's samples have in addition to their own labels, or "" if none.
 */
const char *export_reserved_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1]);

/* Returns the label of a state set, which is the family name without colons. */
const char *export_render_state_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1]);

/* Sets r->name to a name that does not clash with earlier families or their samples. */
bool export_names_take(struct export_render *r);

/* Suffixes by type: "_counter" and so on. */
extern const char *const export_type_names[];

/* Returns the sample suffix of scalar families: "_total", "_info" or "". */
const char *export_sample_suffix(enum export_family_type type);

/* Computes the classic bounds of the current series in r->bounds. */
bool export_bounds_make(struct export_render *r);

/* Each function writes one piece and advances r->phase. */
void export_text_step(struct export_render *r);
void export_protobuf_step(struct export_render *r);

#endif
