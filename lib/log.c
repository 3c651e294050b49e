// SPDX-License-Identifier: Apache-2.0
/* log.c - the application's log callback, the only output of the library. */
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

/* Call without the lock: the callback may call sl_publisher_open() or fork(). */
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
	for (char *c = line; *c; c++) /* names and paths may contain control characters */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	fn(level, line, arg);
}
