/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.h - reads one YAML document and checks every value; errors name file and line. The first
 * error is kept (base_yaml_error()) and later calls return nothing, so a caller may read everything
 * and check once. Aliases are refused: a kilobyte of them can expand to a billion nodes. Not
 * thread-safe.
 */
#ifndef SL_BASE_YAML_H
#define SL_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_YAML_BYTES_MAX (1u << 20)

struct base_yaml;
typedef int base_yaml_node; /* 0 means no node */

/* Read a file, or text in memory. Return NULL only if memory is exhausted. */
struct base_yaml *base_yaml_open(const char *path);
struct base_yaml *base_yaml_text(const char *path, const char *text, size_t bytes);
void base_yaml_close(struct base_yaml *y);

/* Returns "FILE:LINE: message", or NULL. */
const char *base_yaml_error(const struct base_yaml *y);
/* Sets the error for a line (0 means none) or node, unless there already is one. */
void base_yaml_wrong_at(struct base_yaml *y, size_t line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define base_yaml_wrong(y, node, ...) base_yaml_wrong_at(y, base_yaml_line(y, node), __VA_ARGS__)

base_yaml_node base_yaml_root(const struct base_yaml *y); /* returns 0 if the file is empty */
/* returns a line counted from 1; 0 means no node */
size_t base_yaml_line(const struct base_yaml *y, base_yaml_node node);

/* True if node is a mapping whose keys are all in `keys` (NULL ends the list) and distinct. */
bool base_yaml_mapping(struct base_yaml *y, base_yaml_node node, const char *const *keys);
/* The same with the keys as arguments. */
#define base_yaml_keys(y, node, ...) \
	base_yaml_mapping(y, node, (const char *const[]){__VA_ARGS__, NULL})
/* Returns the value of a key; 0 if it is missing or empty ("", "~", "null"). */
base_yaml_node base_yaml_get(struct base_yaml *y, base_yaml_node mapping, const char *key);
/*
 * Returns the i-th pair of a mapping with user-defined keys: the key, its node (for errors), and
 * the node of the value, or 0. Returns false after the last pair.
 */
bool base_yaml_pair(struct base_yaml *y, base_yaml_node mapping, size_t i, const char **key,
		    base_yaml_node *where, base_yaml_node *value);

/*
 * Returns the number of elements of a list; a single value counts as a list of one. 0 means no
 * node.
 */
size_t base_yaml_count(const struct base_yaml *y, base_yaml_node node);
base_yaml_node base_yaml_at(const struct base_yaml *y, base_yaml_node node, size_t i);
/* Returns the text of the i-th element, or "" with an error set. */
const char *base_yaml_text_at(struct base_yaml *y, base_yaml_node node, size_t i, const char *what);
bool base_yaml_is_list(const struct base_yaml *y, base_yaml_node node);
bool base_yaml_is_mapping(const struct base_yaml *y, base_yaml_node node);
/* For error messages: "a mapping", "a list", "a single value"; node is not 0. */
const char *base_yaml_kind(const struct base_yaml *y, base_yaml_node node);

/*
 * Read single values; `what` names them in errors. Node 0 leaves *out unchanged, so it may hold a
 * default. Strings live as long as the document.
 */
void base_yaml_string(struct base_yaml *y, base_yaml_node node, const char *what, const char **out);
void base_yaml_u64(struct base_yaml *y, base_yaml_node node, const char *what, uint64_t min,
		   uint64_t max, uint64_t *out);
void base_yaml_duration(struct base_yaml *y, base_yaml_node node, const char *what, uint64_t *ns);
void base_yaml_bool(struct base_yaml *y, base_yaml_node node, const char *what, bool *out);
/* Reads one of names (NULL ends the list); *out is its index. */
void base_yaml_choice(struct base_yaml *y, base_yaml_node node, const char *what,
		      const char *const *names, int *out);
/* Read the value of a key of a mapping, which is also its name in errors. */
#define base_yaml_string_of(y, mapping, key, out) \
	base_yaml_string(y, base_yaml_get(y, mapping, key), key, out)
#define base_yaml_bool_of(y, mapping, key, out) \
	base_yaml_bool(y, base_yaml_get(y, mapping, key), key, out)
#define base_yaml_choice_of(y, mapping, key, names, out) \
	base_yaml_choice(y, base_yaml_get(y, mapping, key), key, names, out)
/* Returns the value of a required key, or 0 and sets the error. */
base_yaml_node base_yaml_need(struct base_yaml *y, base_yaml_node mapping, const char *key);

#endif
