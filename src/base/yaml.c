// SPDX-License-Identifier: Apache-2.0
#include "base/yaml.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/base.h"
#include "base/text.h"

struct base_yaml {
	char *path, *text;
	size_t bytes;
	yaml_document_t doc;
	bool loaded;
	char error[512]; /* "" if there is no error */
};

void base_yaml_wrong_at(struct base_yaml *y, size_t line, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (y->error[0])
		return;
	if (line)
		n = snprintf(y->error, sizeof(y->error), "%s:%zu: ", y->path, line);
	else
		n = snprintf(y->error, sizeof(y->error), "%s: ", y->path);
	va_start(ap, fmt);
	if (n > 0 && (size_t)n < sizeof(y->error))
		vsnprintf(y->error + n, sizeof(y->error) - (size_t)n, fmt, ap);
	va_end(ap);
	base_harmless(y->error); /* values may contain any byte, but an error is one line */
}

static void not_yaml(struct base_yaml *y, const yaml_parser_t *parser)
{
	const char *problem = parser->problem ? parser->problem : "damaged";

	if (parser->error == YAML_READER_ERROR)
		base_yaml_wrong_at(y, 0, "is not valid YAML: %s", problem);
	else
		base_yaml_wrong_at(y, parser->problem_mark.line + 1, "not YAML: %s%s%s", problem,
				   parser->context ? " " : "",
				   parser->context ? parser->context : "");
}

static bool parse_text(struct base_yaml *y, yaml_parser_t *parser)
{
	if (!yaml_parser_initialize(parser)) {
		base_yaml_wrong_at(y, 0, "out of memory");
		return false;
	}
	yaml_parser_set_input_string(parser, (const unsigned char *)y->text, y->bytes);
	return true;
}

/* Searches the events for aliases, because a loaded document no longer shows them. */
static void refuse_aliases(struct base_yaml *y)
{
	bool alias = false, end = false;
	yaml_parser_t parser;
	yaml_event_t event;
	size_t line = 0;

	if (!parse_text(y, &parser))
		return;
	while (!end && !alias && yaml_parser_parse(&parser, &event)) {
		alias = event.type == YAML_ALIAS_EVENT;
		end = event.type == YAML_STREAM_END_EVENT;
		line = event.start_mark.line + 1;
		yaml_event_delete(&event);
	}
	if (alias)
		base_yaml_wrong_at(y, line, "aliases (*name) are not supported");
	else if (!end)
		not_yaml(y, &parser);
	yaml_parser_delete(&parser);
}

static void load_document(struct base_yaml *y)
{
	yaml_document_t second;
	yaml_parser_t parser;

	refuse_aliases(y);
	if (y->error[0] || !parse_text(y, &parser))
		return;
	y->loaded = yaml_parser_load(&parser, &y->doc);
	if (!y->loaded || !yaml_parser_load(&parser, &second)) {
		not_yaml(y, &parser);
	} else {
		if (yaml_document_get_root_node(&second))
			base_yaml_wrong_at(y, 0, "contains a second document; only one is allowed");
		yaml_document_delete(&second);
	}
	yaml_parser_delete(&parser);
}

/* Takes ownership of text. */
static struct base_yaml *new_document(const char *path, char *text, size_t bytes, int err)
{
	struct base_yaml *y = calloc(1, sizeof(*y));

	if (y)
		y->path = strdup(path);
	if (!y || !y->path) {
		free(y);
		free(text);
		return NULL;
	}
	y->text = text;
	y->bytes = bytes;
	if (text)
		load_document(y);
	else if (err == EFBIG)
		base_yaml_wrong_at(y, 0, "is larger than 1 MiB");
	else if (err == EINVAL || err == ENOMEM)
		base_yaml_wrong_at(y, 0, err == EINVAL ? "is not a regular file" : "out of memory");
	else
		base_yaml_wrong_at(y, 0, "can't be %s: %s", err == EIO ? "read" : "opened",
				   strerror(err));
	return y;
}

struct base_yaml *base_yaml_text(const char *path, const char *text, size_t bytes)
{
	char *copy = bytes > BASE_YAML_BYTES_MAX ? NULL : malloc(bytes + 1);

	if (copy)
		memcpy(copy, text, bytes);
	return new_document(path, copy, bytes, bytes > BASE_YAML_BYTES_MAX ? EFBIG : ENOMEM);
}

struct base_yaml *base_yaml_open(const char *path)
{
	size_t bytes = 0;
	char *text = base_read_file(path, BASE_YAML_BYTES_MAX, &bytes);

	return new_document(path, text, bytes, errno);
}

void base_yaml_close(struct base_yaml *y)
{
	if (!y)
		return;
	if (y->loaded)
		yaml_document_delete(&y->doc);
	free(y->text);
	free(y->path);
	free(y);
}

const char *base_yaml_error(const struct base_yaml *y)
{
	return y->error[0] ? y->error : NULL;
}

static const yaml_node_t *node_at(const struct base_yaml *y, base_yaml_node node)
{
	/* libyaml has no const accessor */
	return y->loaded && node > 0 ? yaml_document_get_node((yaml_document_t *)&y->doc, node)
				     : NULL;
}

static bool is_empty(const yaml_node_t *n)
{
	const char *text;

	if (!n || n->type != YAML_SCALAR_NODE || n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return !n;
	text = (const char *)n->data.scalar.value;
	return !*text || !strcmp(text, "~") || !strcmp(text, "null");
}

base_yaml_node base_yaml_root(const struct base_yaml *y)
{
	return is_empty(node_at(y, 1)) ? 0 : 1; /* libyaml counts from 1; the root is first */
}

size_t base_yaml_line(const struct base_yaml *y, base_yaml_node node)
{
	const yaml_node_t *n = node_at(y, node);

	return n ? n->start_mark.line + 1 : 0;
}

const char *base_yaml_kind(const struct base_yaml *y, base_yaml_node node)
{
	const yaml_node_t *n = node_at(y, node);

	return n->type == YAML_MAPPING_NODE    ? "a mapping"
	       : n->type == YAML_SEQUENCE_NODE ? "a list"
					       : "a single value";
}

/* Returns the text of a key or single value, or NULL with an error set. */
static const char *text_of(struct base_yaml *y, base_yaml_node node, const char *what)
{
	const yaml_node_t *n = node_at(y, node);

	if (!n || y->error[0])
		return NULL;
	if (n->type != YAML_SCALAR_NODE) {
		base_yaml_wrong(y, node, "%s: expected a single value, but found %s", what,
				base_yaml_kind(y, node));
		return NULL;
	}
	if (strlen((const char *)n->data.scalar.value) != n->data.scalar.length) {
		base_yaml_wrong(y, node, "%s: contains a NUL character", what);
		return NULL;
	}
	return (const char *)n->data.scalar.value;
}

bool base_yaml_pair(struct base_yaml *y, base_yaml_node mapping, size_t i, const char **key,
		    base_yaml_node *where, base_yaml_node *value)
{
	const yaml_node_t *n = node_at(y, mapping);
	const yaml_node_pair_t *pair;

	if (!n || n->type != YAML_MAPPING_NODE || y->error[0] ||
	    i >= (size_t)(n->data.mapping.pairs.top - n->data.mapping.pairs.start))
		return false;
	pair = n->data.mapping.pairs.start + i;
	*where = pair->key;
	if (node_at(y, pair->key) && node_at(y, pair->key)->type != YAML_SCALAR_NODE)
		base_yaml_wrong(y, pair->key, "a key must be a plain name, not %s",
				base_yaml_kind(y, pair->key));
	*key = text_of(y, pair->key, "a key");
	*value = is_empty(node_at(y, pair->value)) ? 0 : pair->value;
	return *key;
}

bool base_yaml_mapping(struct base_yaml *y, base_yaml_node node, const char *const *keys)
{
	const yaml_node_t *n = node_at(y, node);
	base_yaml_node where, value, unused;
	const char *key, *other;

	if (!n || y->error[0])
		return false;
	if (n->type != YAML_MAPPING_NODE) {
		base_yaml_wrong(y, node, "expected lines of the form 'key: value', but found %s",
				base_yaml_kind(y, node));
		return false;
	}
	for (size_t i = 0; base_yaml_pair(y, node, i, &key, &where, &value); i++) {
		const char *best = NULL;
		unsigned least = BASE_NOT_NEAR;
		size_t k = 0;

		while (keys[k] && strcmp(keys[k], key))
			k++;
		if (keys[k]) {
			for (size_t j = 0;
			     j < i && base_yaml_pair(y, node, j, &other, &unused, &value); j++)
				if (!strcmp(other, key))
					base_yaml_wrong(y, where, "'%s' is given twice", key);
			continue;
		}
		for (k = 0; keys[k]; k++)
			if (base_nearer(key, keys[k], &least))
				best = keys[k];
		base_yaml_wrong(y, where,
				best ? "unknown key '%s'; did you mean '%s'?" : "unknown key '%s'",
				key, best);
	}
	return !y->error[0];
}

base_yaml_node base_yaml_get(struct base_yaml *y, base_yaml_node mapping, const char *key)
{
	base_yaml_node where, value;
	const char *name;

	for (size_t i = 0; base_yaml_pair(y, mapping, i, &name, &where, &value); i++)
		if (!strcmp(name, key))
			return value;
	return 0;
}

base_yaml_node base_yaml_need(struct base_yaml *y, base_yaml_node mapping, const char *key)
{
	base_yaml_node value = base_yaml_get(y, mapping, key);

	if (!value)
		base_yaml_wrong(y, mapping, "'%s' is missing", key);
	return value;
}

bool base_yaml_is_list(const struct base_yaml *y, base_yaml_node node)
{
	const yaml_node_t *n = node_at(y, node);

	return n && n->type == YAML_SEQUENCE_NODE;
}

bool base_yaml_is_mapping(const struct base_yaml *y, base_yaml_node node)
{
	const yaml_node_t *n = node_at(y, node);

	return n && n->type == YAML_MAPPING_NODE;
}

size_t base_yaml_count(const struct base_yaml *y, base_yaml_node node)
{
	const yaml_node_t *n = node_at(y, node);

	if (is_empty(n) || y->error[0])
		return 0;
	return n->type == YAML_SEQUENCE_NODE
		       ? (size_t)(n->data.sequence.items.top - n->data.sequence.items.start)
		       : 1;
}

base_yaml_node base_yaml_at(const struct base_yaml *y, base_yaml_node node, size_t i)
{
	const yaml_node_t *n = node_at(y, node);

	if (i >= base_yaml_count(y, node))
		return 0;
	return n->type == YAML_SEQUENCE_NODE ? n->data.sequence.items.start[i] : node;
}

const char *base_yaml_text_at(struct base_yaml *y, base_yaml_node node, size_t i, const char *what)
{
	return text_of(y, base_yaml_at(y, node, i), what) ?: "";
}

void base_yaml_string(struct base_yaml *y, base_yaml_node node, const char *what, const char **out)
{
	const char *text = text_of(y, node, what);

	if (text)
		*out = text;
}

void base_yaml_u64(struct base_yaml *y, base_yaml_node node, const char *what, uint64_t min,
		   uint64_t max, uint64_t *out)
{
	const char *text = text_of(y, node, what);

	if (text && base_parse_u64(text, min, max, out))
		base_yaml_wrong(y, node,
				"%s: expected a number from %" PRIu64 " to %" PRIu64
				", not '%.64s'",
				what, min, max, text);
}

void base_yaml_duration(struct base_yaml *y, base_yaml_node node, const char *what, uint64_t *ns)
{
	const char *text = text_of(y, node, what);

	if (text && base_parse_duration(text, ns))
		base_yaml_wrong(y, node, "%s: expected a duration such as 1ms or 30s, not '%.64s'",
				what, text);
}

void base_yaml_bool(struct base_yaml *y, base_yaml_node node, const char *what, bool *out)
{
	static const char *const names[] = {"no", "yes", "false", "true", "off", "on", NULL};
	int i = -1;

	base_yaml_choice(y, node, what, names, &i);
	if (i >= 0)
		*out = i & 1;
}

void base_yaml_choice(struct base_yaml *y, base_yaml_node node, const char *what,
		      const char *const *names, int *out)
{
	const char *text = text_of(y, node, what);
	char all[256] = "";
	int i = 0;

	if (!text)
		return;
	while (names[i] && strcmp(names[i], text))
		i++;
	if (names[i]) {
		*out = i;
		return;
	}
	for (i = 0; names[i] && strlen(all) + strlen(names[i]) + 3 < sizeof(all); i++) {
		if (i)
			strcat(all, ", ");
		strcat(all, names[i]);
	}
	base_yaml_wrong(y, node, "%s: expected one of %s, not '%.64s'", what, all, text);
}
