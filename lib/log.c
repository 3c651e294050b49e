// SPDX-License-Identifier: Apache-2.0
/* The application's callback. Nothing else in the library writes text anywhere. */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static sl_log_fn log_fn;
static void *log_arg;

void sl_set_log(sl_log_fn fn, void *arg)
{
	struct sl__guard guard;

	sl__lock(&guard);
	log_fn = fn;
	log_arg = arg;
	sl__unlock(&guard);
}

/* Not under the lock: the callback may do anything, sl_publisher_open() and fork() included. */
void sl__log(enum sl_log_level level, const char *fmt, ...)
{
	struct sl__guard guard;
	char line[512];
	sl_log_fn fn;
	va_list args;
	void *arg;

	sl__lock(&guard);
	fn = log_fn;
	arg = log_arg;
	sl__unlock(&guard);
	if (!fn)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	for (char *c = line; *c; c++) /* one line, whatever name or path is in it */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	fn(level, line, arg);
}
