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

struct sl_json {
	char *buf;
	size_t len, cap;
	size_t max;    /* the buffer never holds more */
	bool comma;    /* the next value needs one before it */
	bool overflow; /* something did not fit, or memory ran out: the text is not well-formed */
};

struct sl_json_mark {
	size_t len;
	bool comma;
};

void sl_json_init(struct sl_json *j, size_t max);
void sl_json_free(struct sl_json *j);

void sl_json_begin(struct sl_json *j, char bracket); /* '{' or '[' */
void sl_json_end(struct sl_json *j, char bracket);   /* '}' or ']' */
void sl_json_key(struct sl_json *j, const char *key);
void sl_json_string(struct sl_json *j, const char *s); /* UTF-8; ill-formed bytes become U+FFFD */
void sl_json_u64(struct sl_json *j, uint64_t v);
void sl_json_i64(struct sl_json *j, int64_t v);
void sl_json_f64(struct sl_json *j, double v); /* "NaN", "+Inf", "-Inf" as strings */
void sl_json_bool(struct sl_json *j, bool v);
void sl_json_null(struct sl_json *j);
void sl_json_time(struct sl_json *j, int64_t ns); /* seconds, with six decimals */

/* key and value in one. */
void sl_json_kstring(struct sl_json *j, const char *key, const char *s);
void sl_json_ku64(struct sl_json *j, const char *key, uint64_t v);
void sl_json_kf64(struct sl_json *j, const char *key, double v);
void sl_json_kbool(struct sl_json *j, const char *key, bool v);
void sl_json_ktime(struct sl_json *j, const char *key, int64_t ns);
void sl_json_kbegin(struct sl_json *j, const char *key, char bracket);

struct sl_json_mark sl_json_mark(const struct sl_json *j);
void sl_json_back(struct sl_json *j, struct sl_json_mark mark); /* also clears overflow */

#endif
