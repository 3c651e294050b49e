/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - the JSON writer: no intermediate tree; prints the shortest form of a number that reads
 * back unchanged. It writes either directly to a stream, or to memory: then the buffer never
 * exceeds its limit, and output that did not fit can be undone back to a mark, so that an answer
 * stays well-formed.
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
	size_t max;    /* maximum size of the buffer */
	bool comma;    /* the next value needs a comma before it */
	bool overflow; /* something did not fit or memory ran out: the text is not well-formed */
	FILE *stream;  /* stream to write to; NULL means write to buf */
};

struct base_json_mark {
	size_t len;
	bool comma;
};

void base_json_init(struct base_json *j, size_t max);
void base_json_free(struct base_json *j);
/* Writes to a stream: no limit, no marks, nothing to free; check ferror(). */
void base_json_stream(struct base_json *j, FILE *to);
/* Writes a newline; the next document begins after it. */
void base_json_line(struct base_json *j);

void base_json_begin(struct base_json *j, char bracket); /* '{' or '[' */
void base_json_end(struct base_json *j, char bracket);	 /* '}' or ']' */
void base_json_key(struct base_json *j, const char *key);
void base_json_string(struct base_json *j,
		      const char *s); /* UTF-8; malformed bytes become U+FFFD */
void base_json_u64(struct base_json *j, uint64_t v);
void base_json_i64(struct base_json *j, int64_t v);
void base_json_f64(struct base_json *j, double v); /* writes "NaN", "+Inf" and "-Inf" as strings */
void base_json_bool(struct base_json *j, bool v);
void base_json_null(struct base_json *j);
void base_json_time(struct base_json *j, int64_t ns); /* writes seconds with six decimals */

/* Write key and value. */
#define base_json_kstring(j, key, s)	  (base_json_key(j, key), base_json_string(j, s))
#define base_json_kbegin(j, key, bracket) (base_json_key(j, key), base_json_begin(j, bracket))
#define base_json_knull(j, key)		  (base_json_key(j, key), base_json_null(j))
/* Writes a formatted string of up to 255 bytes. */
void base_json_kformat(struct base_json *j, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * base_put(j, KV("host", name), KV("pods", n), ...): writes keys and values in this order. KV()
 * takes a bool, a uint8_t to uint64_t, an int64_t, a double or a string; all values are evaluated
 * before any is written.
 */
#define base_put(j, ...) base_put_pairs(j, __VA_ARGS__, (const char *)NULL)
/* The same, as an object: key is NULL in a list. */
#define base_put_object(j, key, ...) \
	base_put_object_pairs(j, (const char *)(key), __VA_ARGS__, (const char *)NULL)
/* clang-format off */
#define KV(key, v)                                                                                \
	key, _Generic((v), bool: BASE_KV_BOOL, uint8_t: BASE_KV_U32, uint16_t: BASE_KV_U32,       \
		      uint32_t: BASE_KV_U32, unsigned long: BASE_KV_U64,                          \
		      unsigned long long: BASE_KV_U64, int64_t: BASE_KV_I64, double: BASE_KV_F64, \
		      char *: BASE_KV_STRING, const char *: BASE_KV_STRING), v
/* clang-format on */
#define KV_BOOL(key, v) key, BASE_KV_BOOL, (bool)(v)
#define KV_ID(key, id)	key, BASE_KV_ID, (uint64_t)(id) /* 16 hexadecimal digits; "" for 0 */
/* seconds with six decimals; null for 0 */
#define KV_TIME(key, ns)    key, BASE_KV_TIME, (uint64_t)(ns)
#define KV_QUANTILE(key, v) key, BASE_KV_QUANTILE, (double)(v) /* null for NaN */
#define KV_FINITE(key, v)   key, BASE_KV_FINITE, (double)(v)   /* null for NaN and infinity */
enum base_kv_type {
	BASE_KV_BOOL,
	BASE_KV_U32,
	BASE_KV_U64,
	BASE_KV_I64,
	BASE_KV_F64,
	BASE_KV_STRING,
	BASE_KV_ID,
	BASE_KV_TIME,
	BASE_KV_QUANTILE,
	BASE_KV_FINITE,
};
void base_put_pairs(struct base_json *j, ...);
void base_put_object_pairs(struct base_json *j, const char *key, ...);

struct base_json_mark base_json_mark(const struct base_json *j);
/* also clears the overflow flag */
void base_json_back(struct base_json *j, struct base_json_mark mark);

#endif
