// SPDX-License-Identifier: Apache-2.0
/*
 * json_read.c - JSON that came from elsewhere.
 *
 * libjansson's lexer appends each character to a buffer and does not look whether that grew. So the
 * first allocation that fails while a text is read gets memory set aside before, as large as the
 * buffer can come to be, and the text ends there: one character is given at a time, and the buffer
 * at least doubles, so that it does not have to grow once more for what the lexer still holds.
 */
#include "base/json_read.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What this thread reads. */
static _Thread_local struct {
	const char *at, *end;
	void *aside;
	size_t bytes; /* of aside */
	bool failed;
} reading;

static void *allocate(size_t bytes)
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
	json_set_alloc_funcs(allocate, free);
}

static size_t next(void *buffer, size_t room, void *arg)
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
		reading.bytes = 2 * bytes + 64; /* twice the longest string, or its first room */
		reading.aside = malloc(reading.bytes);
	}
	reading.failed = !reading.aside;
	if (!reading.failed) {
		reading.at = bytes ? text : "";
		reading.end = reading.at + bytes;
		j = json_load_callback(next, NULL, JSON_REJECT_DUPLICATES, error);
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
