/* SPDX-License-Identifier: Apache-2.0 */
/* render.h - what the formats share: the renderer's state, its output, names. Of src/export only.
 */
#ifndef SL_EXPORT_RENDER_H
#define SL_EXPORT_RENDER_H

#include "export/model.h"
#include "export/native.h"

/* Finite "le" of an exponential histogram in the text formats: see docs/exposition.md. */
#define EXPORT_TEXT_BOUNDS_MAX 64
/* A protobuf message, which needs its length in front, is ended at the first series beyond. */
#define EXPORT_PROTOBUF_MESSAGE (64u * 1024)
/* Bytes of a family's name as it is shown; one that would be longer is left out. */
#define EXPORT_SHOWN_NAME_MAX 383

/* A family whose derived names ("_total", "_bucket", ...) may still come in the walk. */
struct export_reserved {
	enum export_family_type type;
	char name[EXPORT_SHOWN_NAME_MAX + 1];
};

struct export_bounds { /* the bounds of one histogram, and their text */
	double *bound;
	uint32_t *bucket;  /* exponential: the last of series.buckets that counts below */
	uint32_t *text_at; /* into text; count + 1 of them */
	char *text;	   /* le="0.005"} */
	size_t count, room, text_room;
	bool exponential; /* what they were made of */
	int scale;
	int32_t first_bucket;
	size_t bucket_count;
	double zero_threshold;
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
	bool created;
	void *walk;
	int error; /* -errno, for ever after */
	enum export_phase phase;

	struct export_family family;
	char name[EXPORT_SHOWN_NAME_MAX + 1]; /* of the family, without suffix; no other has it */
	size_t name_bytes;
	struct export_reserved *reserved;
	size_t reserved_count, reserved_room;

	struct export_series series;
	char *labels; /* label text where a label had to be renamed */
	size_t labels_room;
	const char **keys;
	size_t keys_room;
	char *key_text;

	/* output: straight into the caller's buffer, or by the spill when that is too small */
	char *out, *end;
	bool spilling; /* the last room given was the spill's */
	char *spill;
	size_t spill_room;
	const char *pending; /* in spill or message: goes out before anything else does */
	size_t pending_bytes;

	/* text: name, suffix and brace of the family's samples */
	char prefix[EXPORT_SHOWN_NAME_MAX + 16];
	size_t prefix_bytes;
	size_t line; /* PHASE_LINES: the next one */
	uint64_t cumulative;
	size_t bucket; /* the next one to be added */
	struct export_bounds bounds;

	/* protobuf: the message of this family so far, with room for its length in front */
	uint8_t *message;
	size_t message_bytes, message_room;
	size_t message_head; /* its end without any metric */
	size_t length_bytes; /* of the last metric's length, a good guess for the next one */
	struct export_native native;
};

/* Room for n bytes, or NULL with r->error set. Then export_render_took() what was used of it. */
char *export_render_room_slow(struct export_render *r, size_t n);

static inline char *export_render_room(struct export_render *r, size_t n)
{
	r->spilling = (size_t)(r->end - r->out) < n;
	if (__builtin_expect(!r->spilling, 1))
		return r->out;
	return export_render_room_slow(r, n);
}

/* Bytes that stay where they are until they went out. Only while none are pending. */
void export_render_pend(struct export_render *r, const void *bytes, size_t n);

void export_render_took_slow(struct export_render *r, char *to);

static inline void export_render_took(struct export_render *r, char *to)
{
	if (r->spilling)
		export_render_took_slow(r, to);
	else
		r->out = to;
}

/* Grows *p to hold count elements of size bytes; false with r->error. */
bool export_render_grow(struct export_render *r, void *p, size_t *room, size_t count, size_t size);

/* The next series, its label of this name, if it has one, renamed to exported_NAME. 1, 0. */
int export_render_next_series(struct export_render *r, const char *reserved_label);

/* Where the label of a state set's states is named as the family, but may hold no colon. */
const char *export_render_state_label(struct export_render *r, char buf[EXPORT_SHOWN_NAME_MAX + 1]);

/* A new name in r->name that clashes with none of those before, nor with their samples. */
bool export_names_take(struct export_render *r);

/* Bounds of the current series' classic buckets, in r->bounds. */
bool export_bounds_make(struct export_render *r);

/* Each writes one piece and moves r->phase on. */
void export_text_step(struct export_render *r);
void export_protobuf_step(struct export_render *r);

#endif
