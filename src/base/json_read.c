// SPDX-License-Identifier: Apache-2.0
/*
 * json_read.c - parses JSON from untrusted sources. libjansson's lexer appends each character to a
 * buffer without checking whether the buffer could grow. Therefore memory as large as the buffer
 * can get is set aside before parsing. The first allocation that fails while parsing gets this
 * memory, and the text ends there. The lexer receives one character at a time, and its buffer at
 * least doubles: so it never needs to grow again for the characters it still holds.
 */
#include "base/json_read.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The text being parsed by this thread. */
static _Thread_local struct {
	const char *at, *end;
	void *aside;
	size_t bytes; /* size of aside */
	bool failed;
} reading;

static void *allocate_memory(size_t bytes)
{
	void *p = malloc(bytes);

	if (p || !reading.at)
		return p;
	reading.failed = true;
	if (bytes <= reading.bytes) {
		p = reading.aside;
		reading.aside = NULL;
		reading.bytes = 0;
	}
	return p;
}

void base_json_guard(void)
{
	json_set_alloc_funcs(allocate_memory, free);
}

static size_t next_char(void *buffer, size_t room, void *arg)
{
	(void)room, (void)arg;
	if (reading.failed || reading.at == reading.end)
		return 0;
	*(char *)buffer = *reading.at++;
	return 1;
}

json_t *base_json_read(const char *text, size_t bytes, json_error_t *error)
{
	json_t *j = NULL;

	if (bytes < SIZE_MAX / 4) {
		/* twice the longest string, or the lexer's initial size */
		reading.bytes = 2 * bytes + 64;
		reading.aside = malloc(reading.bytes);
	}
	reading.failed = !reading.aside;
	if (!reading.failed) {
		reading.at = bytes ? text : "";
		reading.end = reading.at + bytes;
		j = json_load_callback(next_char, NULL, JSON_REJECT_DUPLICATES, error);
	}
	if (reading.failed) {
		json_decref(j);
		j = NULL;
		if (error) {
			*error = (json_error_t){.line = -1, .column = -1};
			strcpy(error->text, "out of memory");
		}
	}
	free(reading.aside);
	memset(&reading, 0, sizeof(reading));
	return j;
}
