/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - the one writer of JSON: no tree in between, numbers in their shortest form that reads
 * back the same. Into memory, where the buffer never grows beyond its limit and what did not fit
 * can be taken back to a mark, so that an answer ends well-formed; or straight into a stream.
 */
#ifndef SL_BASE_JSON_H
#define SL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct base_json {
	char *buf;
	size_t len, cap;
	size_t max;    /* the buffer never holds more */
	bool comma;    /* the next value needs one before it */
	bool overflow; /* something did not fit, or memory ran out: the text is not well-formed */
	FILE *stream;  /* NULL: into buf */
};

struct base_json_mark {
	size_t len;
	bool comma;
};

void base_json_init(struct base_json *j, size_t max);
void base_json_free(struct base_json *j);
/* Into a stream: no limit, no marks, nothing to be freed; ask ferror(). */
void base_json_stream(struct base_json *j, FILE *to);
/* A newline, behind which the next document begins. */
void base_json_line(struct base_json *j);

void base_json_begin(struct base_json *j, char bracket); /* '{' or '[' */
void base_json_end(struct base_json *j, char bracket);	 /* '}' or ']' */
void base_json_key(struct base_json *j, const char *key);
void base_json_string(struct base_json *j,
		      const char *s); /* UTF-8; ill-formed bytes become U+FFFD */
void base_json_u64(struct base_json *j, uint64_t v);
void base_json_i64(struct base_json *j, int64_t v);
void base_json_f64(struct base_json *j, double v); /* "NaN", "+Inf", "-Inf" as strings */
void base_json_bool(struct base_json *j, bool v);
void base_json_null(struct base_json *j);
void base_json_time(struct base_json *j, int64_t ns); /* seconds, with six decimals */

/* key and value in one. */
#define base_json_kstring(j, key, s)	  (base_json_key(j, key), base_json_string(j, s))
#define base_json_ku64(j, key, v)	  (base_json_key(j, key), base_json_u64(j, v))
#define base_json_ki64(j, key, v)	  (base_json_key(j, key), base_json_i64(j, v))
#define base_json_kf64(j, key, v)	  (base_json_key(j, key), base_json_f64(j, v))
#define base_json_kbool(j, key, v)	  (base_json_key(j, key), base_json_bool(j, v))
#define base_json_ktime(j, key, ns)	  (base_json_key(j, key), base_json_time(j, ns))
#define base_json_kbegin(j, key, bracket) (base_json_key(j, key), base_json_begin(j, bracket))
/* A string of up to 255 bytes. */
void base_json_kformat(struct base_json *j, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Members that are unsigned numbers: BASE_JSON_NUMBERS(&j, {"used", used}, {"max", max}). */
struct base_json_number {
	const char *key;
	uint64_t value;
};
#define BASE_JSON_NUMBERS(j, ...)                                        \
	do {                                                             \
		const struct base_json_number n_[] = {__VA_ARGS__};      \
		for (size_t i_ = 0; i_ < sizeof(n_) / sizeof(*n_); i_++) \
			base_json_ku64(j, n_[i_].key, n_[i_].value);     \
	} while (0)

struct base_json_mark base_json_mark(const struct base_json *j);
void base_json_back(struct base_json *j, struct base_json_mark mark); /* also clears overflow */

#endif
