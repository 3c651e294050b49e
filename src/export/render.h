/* SPDX-License-Identifier: Apache-2.0 */
/* render.h - what the formats share: the renderer's state, its output, names. Of src/export only. */
#ifndef SL_EXPORT_RENDER_H
#define SL_EXPORT_RENDER_H

#include "export/model.h"
#include "export/native.h"

/* Finite "le" of an exponential histogram in the text formats: see docs/exposition.md. */
#define SL_TEXT_BOUNDS_MAX 64
/* A protobuf message, which needs its length in front, is ended at the first series beyond. */
#define SL_PROTOBUF_MESSAGE (64u * 1024)
/* Bytes of a family's name as it is shown; one that would be longer is left out. */
#define SL_SHOWN_NAME_MAX 383

/* A family whose derived names ("_total", "_bucket", ...) may still come in the walk. */
struct sl_reserved {
	enum sl_family_type type;
	char name[SL_SHOWN_NAME_MAX + 1];
};

struct sl_bounds {            /* the bounds of one histogram, and their text */
	double *bound;
	uint32_t *bucket;     /* exponential: the last of series.buckets that counts below */
	uint32_t *text_at;    /* into text; count + 1 of them */
	char *text;           /* le="0.005"} */
	size_t count, room, text_room;
	bool exponential;     /* what they were made of */
	int scale;
	int32_t first_bucket;
	size_t bucket_count;
	double zero_threshold;
	bool valid;
};

enum sl_phase {
	SL_PHASE_START,
	SL_PHASE_FAMILY,      /* at the next family */
	SL_PHASE_SERIES,      /* at the next series of it */
	SL_PHASE_LINES,       /* within a series of several lines */
	SL_PHASE_END,
};

struct sl_render {
	struct sl_source source;
	enum sl_format format;
	bool created;
	void *walk;
	int error;            /* -errno, for ever after */
	enum sl_phase phase;

	struct sl_family family;
	char name[SL_SHOWN_NAME_MAX + 1]; /* of the family, without suffix; no other has it */
	size_t name_bytes;
	struct sl_reserved *reserved;
	size_t reserved_count, reserved_room;

	struct sl_series series;
	char *labels;         /* label text where a label had to be renamed */
	size_t labels_room;
	const char **keys;
	size_t keys_room;
	char *key_text;

	/* output: straight into the caller's buffer, or by the spill when that is too small */
	char *out, *end;
	bool spilling;        /* the last room given was the spill's */
	char *spill;
	size_t spill_room;
	const char *pending;  /* in spill or message: goes out before anything else does */
	size_t pending_bytes;

	/* text: name, suffix and brace of the family's samples */
	char prefix[SL_SHOWN_NAME_MAX + 16];
	size_t prefix_bytes;
	size_t line;          /* PHASE_LINES: the next one */
	uint64_t cumulative;
	size_t bucket;        /* the next one to be added */
	struct sl_bounds bounds;

	/* protobuf: the message of this family so far, with room for its length in front */
	unsigned char *message;
	size_t message_bytes, message_room;
	size_t message_head;  /* its end without any metric */
	size_t length_bytes;  /* of the last metric's length, a good guess for the next one */
	struct sl_native native;
};

/* Room for n bytes, or NULL with r->error set. Then sl_render_took() what was used of it. */
char *sl_render_room_slow(struct sl_render *r, size_t n);

static inline char *sl_render_room(struct sl_render *r, size_t n)
{
	r->spilling = (size_t)(r->end - r->out) < n;
	if (__builtin_expect(!r->spilling, 1))
		return r->out;
	return sl_render_room_slow(r, n);
}

/* Bytes that stay where they are until they went out. Only while none are pending. */
void sl_render_pend(struct sl_render *r, const void *bytes, size_t n);

void sl_render_took_slow(struct sl_render *r, char *to);

static inline void sl_render_took(struct sl_render *r, char *to)
{
	if (r->spilling)
		sl_render_took_slow(r, to);
	else
		r->out = to;
}

/* Grows *p to hold count elements of size bytes; false with r->error. */
bool sl_render_grow(struct sl_render *r, void *p, size_t *room, size_t count, size_t size);

/* The next series, its label of this name, if it has one, renamed to exported_NAME. 1, 0. */
int sl_render_next_series(struct sl_render *r, const char *reserved_label);

/* Where the label of a state set's states is named as the family, but may hold no colon. */
const char *sl_render_state_label(struct sl_render *r, char buf[SL_SHOWN_NAME_MAX + 1]);

/* A new name in r->name that clashes with none of those before, nor with their samples. */
bool sl_names_take(struct sl_render *r);

/* Bounds of the current series' classic buckets, in r->bounds. */
bool sl_bounds_make(struct sl_render *r);

/* Each writes one piece and moves r->phase on. */
void sl_text_step(struct sl_render *r);
void sl_protobuf_step(struct sl_render *r);

#endif
