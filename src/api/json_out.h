/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_out.h - writes JSON straight into one bounded buffer: no tree in between, numbers in their
 * shortest form that reads back the same. The buffer never grows beyond its limit; what did not
 * fit can be taken back to a mark, so that an answer ends well-formed with what there was room for.
 */
#ifndef SL_API_JSON_OUT_H
#define SL_API_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_json {
	char *buf;
	size_t len, cap;
	size_t max;    /* the buffer never holds more */
	bool comma;    /* the next value needs one before it */
	bool overflow; /* something did not fit, or memory ran out: the text is not well-formed */
};

struct api_json_mark {
	size_t len;
	bool comma;
};

void api_json_init(struct api_json *j, size_t max);
void api_json_free(struct api_json *j);

void api_json_begin(struct api_json *j, char bracket); /* '{' or '[' */
void api_json_end(struct api_json *j, char bracket);   /* '}' or ']' */
void api_json_key(struct api_json *j, const char *key);
void api_json_string(struct api_json *j, const char *s); /* UTF-8; ill-formed bytes become U+FFFD */
void api_json_u64(struct api_json *j, uint64_t v);
void api_json_i64(struct api_json *j, int64_t v);
void api_json_f64(struct api_json *j, double v); /* "NaN", "+Inf", "-Inf" as strings */
void api_json_bool(struct api_json *j, bool v);
void api_json_null(struct api_json *j);
void api_json_time(struct api_json *j, int64_t ns); /* seconds, with six decimals */

/* key and value in one. */
void api_json_kstring(struct api_json *j, const char *key, const char *s);
void api_json_ku64(struct api_json *j, const char *key, uint64_t v);
void api_json_kf64(struct api_json *j, const char *key, double v);
void api_json_kbool(struct api_json *j, const char *key, bool v);
void api_json_ktime(struct api_json *j, const char *key, int64_t ns);
void api_json_kbegin(struct api_json *j, const char *key, char bracket);

struct api_json_mark api_json_mark(const struct api_json *j);
void api_json_back(struct api_json *j, struct api_json_mark mark); /* also clears overflow */

#endif
