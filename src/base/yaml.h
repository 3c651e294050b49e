/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.h - one YAML document, read with every claim checked and every complaint naming file and
 * line. The first complaint stays (base_yaml_error()); what is asked after it answers with nothing,
 * so that a reader may ask for all it wants and look for the error once.
 *
 * Aliases are refused: a file of a kilobyte could hold a billion nodes with them. One thread.
 */
#ifndef SL_BASE_YAML_H
#define SL_BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_YAML_BYTES_MAX (1u << 20)

struct base_yaml;
typedef int base_yaml_node; /* 0: none */

/*
 * Reads a file, or (text) bytes of memory that are called path in complaints. Never NULL but for
 * want of memory; ask base_yaml_error().
 */
struct base_yaml *base_yaml_open(const char *path);
struct base_yaml *base_yaml_text(const char *path, const char *text, size_t bytes);
void base_yaml_close(struct base_yaml *y);

/* "FILE:LINE: what is wrong", or NULL. */
const char *base_yaml_error(const struct base_yaml *y);
/* Complains of what node says, unless something is wrong already. */
void base_yaml_wrong(struct base_yaml *y, base_yaml_node node, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

base_yaml_node base_yaml_root(const struct base_yaml *y);	       /* 0: the file is empty */
size_t base_yaml_line(const struct base_yaml *y, base_yaml_node node); /* from 1 on; 0 for none */

/* True: node is a mapping whose keys are all among these (NULL ends them), each once. */
bool base_yaml_mapping(struct base_yaml *y, base_yaml_node node, const char *const *keys);
/* The value of a key; 0 if there is none, or none to speak of ("", "~", "null"). */
base_yaml_node base_yaml_get(struct base_yaml *y, base_yaml_node mapping, const char *key);
/*
 * Pairs of a mapping by number, for keys that are names of the user's: the key, its node (for
 * complaints), the value's node or 0. False behind the last.
 */
bool base_yaml_pair(struct base_yaml *y, base_yaml_node mapping, size_t i, const char **key,
		    base_yaml_node *where, base_yaml_node *value);

/* Elements: those of a list, or the one value itself; 0 for none. */
size_t base_yaml_count(const struct base_yaml *y, base_yaml_node node);
base_yaml_node base_yaml_at(const struct base_yaml *y, base_yaml_node node, size_t i);
bool base_yaml_is_list(const struct base_yaml *y, base_yaml_node node);
bool base_yaml_is_mapping(const struct base_yaml *y, base_yaml_node node);
/* For complaints: "a mapping", "a list", "a single value"; node is not 0. */
const char *base_yaml_kind(const struct base_yaml *y, base_yaml_node node);

/*
 * Single values. what: for complaints. node 0 leaves *out as it is, so that it may hold a default.
 * Strings live as long as the document.
 */
void base_yaml_string(struct base_yaml *y, base_yaml_node node, const char *what, const char **out);
void base_yaml_u64(struct base_yaml *y, base_yaml_node node, const char *what, uint64_t min,
		   uint64_t max, uint64_t *out);
void base_yaml_duration(struct base_yaml *y, base_yaml_node node, const char *what, uint64_t *ns);
void base_yaml_bool(struct base_yaml *y, base_yaml_node node, const char *what, bool *out);
/* One of names (NULL ends them); *out: its index. */
void base_yaml_choice(struct base_yaml *y, base_yaml_node node, const char *what,
		      const char *const *names, int *out);
/* A required key's value, or a complaint. */
base_yaml_node base_yaml_need(struct base_yaml *y, base_yaml_node mapping, const char *key);

#endif
