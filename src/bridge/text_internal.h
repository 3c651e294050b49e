/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_internal.h - shared by the text*.c files: text.c handles bodies and their shape, and sends
 * everything to the sink once the whole body is known to be valid; text_line.c parses lines;
 * text_family.c and text_point.c combine the samples of a family.
 */
#ifndef SL_BRIDGE_TEXT_INTERNAL_H
#define SL_BRIDGE_TEXT_INTERNAL_H

#include "bridge/text.h"

#define NONE UINT32_MAX

enum bridge_text_role {
	ROLE_VALUE,
	ROLE_TOTAL,
	ROLE_SUM,
	ROLE_COUNT,
	ROLE_BUCKET,
	ROLE_QUANTILE,
	ROLE_STATE,
	ROLE_INFO,
	ROLE_CREATED,
};

struct bridge_text_exemplar {
	uint32_t labels, label_count; /* range of the exemplar's labels in the parser's labels */
	double value;
	uint64_t time_ns;
};

/* A line of the current family. */
struct bridge_text_sample {
	enum bridge_text_role role;
	/* the sample's labels without le, quantile and state, sorted */
	uint32_t labels, label_count;
	uint64_t hash; /* hash of the labels */
	double value;
	double bound; /* bucket bound, or quantile */
	struct bridge_text state;
	double time;	     /* timestamp in seconds; NaN means none */
	uint64_t created_ns; /* for ROLE_CREATED */
	uint32_t exemplar;
	/* the next sample with the same labels; last: the last of them, only set in the first */
	struct bridge_text_sample *next, *last;
	uint32_t line; /* line number, starting at 1 */
	uint32_t shape;
};

/* A line of the shape, to which the next body is compared. */
struct bridge_text_shape {
	uint32_t bytes; /* length up to the value, or of the whole line */
	uint32_t slot;	/* index of the line's value in .flat or .constants; NONE means no value */
	uint8_t check;	/* enum bridge_text_check for the value */
};

enum bridge_text_check { CHECK_NONE, CHECK_POSITIVE, CHECK_RISING, CHECK_STATE, CHECK_SAME };

/* A family of the current body. */
struct bridge_text_name {
	uint64_t hash; /* hash of the name */
	struct bridge_text name;
	enum bridge_type type;
};

struct bridge_text_family {
	struct bridge_text name, help, unit;
	enum bridge_type type;
	bool active, typed, helped, united;
};

struct bridge_text_bucket {
	double bound;
	const struct bridge_text_sample *sample;
};

/* An exemplar and the bucket it belongs to. */
struct bridge_text_exemplar_of {
	uint32_t exemplar, bucket;
};

/* A point for the sink: ranges in the parser's arrays. */
struct bridge_text_point {
	uint32_t family;
	uint32_t labels, label_count;
	uint32_t values, value_count; /* range of the point's values in .flat */
	uint32_t bounds, bound_count;
	uint32_t states, state_count;
	uint32_t exemplars, exemplar_count;
	uint64_t created_ns;
};

/*
 * A hash table of positions in an array, with open addressing. Only the needed part of the memory
 * is used, so that a large family does not slow down later small families.
 */
struct bridge_text_index {
	uint32_t *at; /* NONE means that this element is free */
	size_t size, room;
};

struct bridge_text_parser {
	struct bridge_limits limits;
	struct bridge_body_counts counts;
	struct bridge_window window;

	/* The shape of the last body: its lines without values. shape_bytes has their text. */
	bool shaped;
	enum bridge_text_format shape_format;
	char *shape_bytes;
	size_t shape_used, shape_room;
	struct bridge_text_shape *shape;
	size_t shape_count, shape_lines_room;
	/* slots of a histogram's count and its last bucket, which must be equal */
	uint32_t (*equal)[2];
	size_t equal_count, equal_room;
	double *constants; /* numbers that are part of the shape */
	size_t constant_count, constant_room;
	double oldest, newest; /* timestamps that are part of the shape; NaN means none */
	bool no_shape;	       /* this body has no shape that the next one could match */
	double *flat;	       /* values of all points */
	size_t flat_count, flat_room;

	/* About the current body. */
	bool timed; /* at least one sample of this body has a timestamp */
	enum bridge_text_format format;
	const char *body, *end;
	uint32_t line;
	struct bridge_error *error;
	char *arena; /* unescaped text, which is no longer than the body */
	size_t arena_used, arena_room;
	struct bridge_text_name *names;
	size_t name_count, name_room;
	struct bridge_text_index name_index;
	struct bridge_label *labels;
	size_t label_count, label_room;
	struct bridge_text_exemplar *exemplars;
	size_t exemplar_count, exemplar_room;

	/* Results for the sink. */
	struct bridge_text_family *families;
	size_t family_count, family_room;
	struct bridge_text_point *points;
	size_t point_count, point_room;
	double *bounds; /* or quantiles */
	size_t bound_count, bound_room;
	struct bridge_text *states;
	size_t state_count, state_room;
	struct bridge_text_exemplar_of *exemplars_of;
	size_t exemplar_of_count, exemplar_of_room;

	/* About the current family. */
	struct bridge_text_family family;
	size_t described; /* families in this body with HELP, TYPE or UNIT, even without samples */
	struct bridge_text_sample *samples;
	size_t sample_count, sample_room;
	struct bridge_text_index groups; /* the first sample of each group with the same labels */
	bool announced;			 /* the family has been added to .families */

	/* About the current point. */
	struct bridge_text_bucket *buckets; /* or quantiles */
	size_t bucket_room;

	char *joined; /* see bridge_text_join() */
	size_t joined_room;

	/* Buffer for the sink. */
	struct bridge_exemplar *point_exemplars;
	size_t point_exemplar_room;
};

/* Reports -EINVAL for the current line. */
#define TEXT_BAD(p, ...)  bridge_fail((p)->error, -EINVAL, (p)->line, __VA_ARGS__)
#define TEXT_NO_MEMORY(p) bridge_fail((p)->error, -ENOMEM, (p)->line, "out of memory")

/* Maximum length of text quoted in an error message. */
#define TEXT_SHOWN(n) ((int)((n) < 60 ? (n) : 60))

/* ---- text_line.c: parses lines; functions return 0 or -errno ---- */

struct bridge_text_line {
	struct bridge_text name;
	uint32_t labels, label_count; /* range of the labels, in their original order */
	const char *number;	      /* start of the value in the line */
	double value, time;	      /* time: NaN if there is none */
	uint32_t exemplar;
};
/* Parses a timestamp (in text 0.0.4, milliseconds) into seconds. Returns its end, or NULL. */
const char *bridge_text_time(const struct bridge_text_parser *p, const char *s, const char *end,
			     double *out);
int bridge_text_line_sample(struct bridge_text_parser *p, const char *s, const char *end,
			    struct bridge_text_line *out);
/* A line that starts with '#'; known is false if it is just a comment. */
struct bridge_text_meta {
	bool known;
	char what; /* 'H', 'T' or 'U' */
	struct bridge_text name, rest;
};
int bridge_text_line_meta(struct bridge_text_parser *p, const char *s, const char *end,
			  struct bridge_text_meta *out);

/*
 * Empties an index, and makes it large enough for this many positions. Returns false if out of
 * memory.
 */
bool bridge_text_index_make(struct bridge_text_index *x, size_t count);
#define TEXT_INDEX_NEXT(x, at) (((at) + 1) & ((x)->size - 1))

/* ---- text_family.c ---- */

/* Adds a sample to the current family, or to another family, which becomes the current one. */
int bridge_text_family_sample(struct bridge_text_parser *p, const struct bridge_text_line *l,
			      uint32_t shape);
int bridge_text_family_meta(struct bridge_text_parser *p, const struct bridge_text_meta *m);
/* Ends the current family. */
int bridge_text_family_end(struct bridge_text_parser *p);
/* Appends a suffix to a name, in a buffer. Returns false if out of memory. */
bool bridge_text_join(struct bridge_text_parser *p, struct bridge_text name, const char *suffix,
		      struct bridge_text *out);

/* text_point.c: creates the points from the samples of the current family. */
int bridge_text_points(struct bridge_text_parser *p);

#endif
