/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - log lines. Each line is a single write(2), so that lines of threads and processes do not
 * mix. Control characters become '?': untrusted text cannot forge a second line.
 */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"

#define SECOND_NS 1000000000u

enum base_level base_log_level = BASE_INFO;

/* Set by base_log_allow() for the next line on the same thread. */
static _Thread_local uint64_t left_out;

void base_logf(enum base_level level, const char *component, const char *fmt, ...)
{
	static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
	static const char cut[] = "...";
	char line[2048];
	/* leave space for the mark of a truncated line and the newline */
	const size_t room = sizeof(line) - sizeof(cut) - 1;
	uint64_t missing = left_out;
	int saved = errno;
	size_t n;
	va_list ap;
	int r;

	left_out = 0;
	if (level > base_log_level || level < BASE_ERROR || level > BASE_DEBUG)
		return;
	r = snprintf(line, room, "%s %s: ", names[level], component);
	n = r < 0 ? 0 : (size_t)r < room ? (size_t)r : room - 1;
	errno = saved; /* restore errno for %m */
	va_start(ap, fmt);
	r = vsnprintf(line + n, room - n, fmt, ap);
	va_end(ap);
	if (r > 0 && (size_t)r >= room - n) {
		n = room - 1;
		memcpy(line + n, cut, sizeof(cut) - 1);
		n += sizeof(cut) - 1;
	} else if (r > 0) {
		n += (size_t)r;
		if (missing) {
			r = snprintf(line + n, room - n, " left_out=%llu",
				     (unsigned long long)missing);
			if (r > 0 && (size_t)r < room - n)
				n += (size_t)r;
		}
	}
	line[n] = 0;
	base_harmless(line);
	line[n++] = '\n';
	/* There is nowhere to report that the log cannot be written. */
	if (write(STDERR_FILENO, line, n) < 0) {
	}
	errno = saved;
}

bool base_log_allow(struct base_log_limit *limit)
{
	uint64_t now = base_now_ns();
	uint64_t last = __atomic_load_n(&limit->last_ns, __ATOMIC_RELAXED);

	/*
	 * The thread that advances last_ns writes; the others are counted. No ordering is needed: a
	 * late count appears in the next second's line.
	 */
	if ((last && now - last < SECOND_NS) ||
	    !__atomic_compare_exchange_n(&limit->last_ns, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&limit->suppressed, 1, __ATOMIC_RELAXED);
		return false;
	}
	left_out = __atomic_exchange_n(&limit->suppressed, 0, __ATOMIC_RELAXED);
	return true;
}

/* Finds or adds a subject's entry. If the table is full, reuses the least recently used entry. */
static struct base_log_subject *find_subject(struct base_log_limits *l, uint64_t hash)
{
	struct base_log_subject *oldest = &l->of[0];

	for (uint32_t i = 0; i < l->used; i++) {
		if (l->of[i].hash == hash)
			return &l->of[i];
		if (l->of[i].limit.last_ns < oldest->limit.last_ns)
			oldest = &l->of[i];
	}
	if (l->used < BASE_LOG_SUBJECTS)
		oldest = &l->of[l->used++];
	else if (base_now_ns() - oldest->limit.last_ns < SECOND_NS)
		return oldest;
	*oldest = (struct base_log_subject){.hash = hash};
	return oldest;
}

bool base_log_allow_each(struct base_log_limits *limits, const char *subject)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t hash = base_hash_text(0, subject);
	bool allowed;

	pthread_mutex_lock(&lock);
	allowed = base_log_allow(&find_subject(limits, hash)->limit);
	pthread_mutex_unlock(&lock);
	return allowed;
}
