// SPDX-License-Identifier: Apache-2.0
/*
 * verdict.c - an analysis's verdict on this process. The attach thread writes it; any thread and
 * signal handler reads it without a lock or a system call.
 *
 * One of two copies is valid at any time. If the count is unchanged after reading, the writer has
 * not overwritten the copy. Each word is stored with release between the count of the previous copy
 * and that of its own, and loaded with acquire between the two loads of the count.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "internal.h"

enum { WORD_STATE, WORD_SCORE, WORD_TIME, WORD_SEQUENCE, WORD_UNTIL };
#define KNOWN	  1u
#define ANOMALOUS 2u

_Static_assert(offsetof(struct sl_publisher, verdict.alarmed) == 0, "sl_publisher_alarmed()");

static void write_copy(struct sl__verdict *v, const uint64_t word[SL__VERDICT_WORDS])
{
	uint64_t n = atomic_load_explicit(&v->written, memory_order_relaxed) + 1;

	for (int i = 0; i < SL__VERDICT_WORDS; i++)
		atomic_store_explicit(&v->copy[n & 1][i], word[i], memory_order_release);
	atomic_store_explicit(&v->written, n, memory_order_release);
	/* Relaxed: readers of this flag read nothing else. */
	atomic_store_explicit(&v->alarmed, !!(word[WORD_STATE] & ANOMALOUS), memory_order_relaxed);
}

static void read_copy(const struct sl__verdict *v, uint64_t word[SL__VERDICT_WORDS])
{
	uint64_t n;

	do {
		n = atomic_load_explicit(&v->written, memory_order_acquire);
		for (int i = 0; i < SL__VERDICT_WORDS; i++)
			word[i] = atomic_load_explicit(&v->copy[n & 1][i], memory_order_acquire);
	} while (atomic_load_explicit(&v->written, memory_order_relaxed) != n);
}

static void change_verdict(struct sl__verdict *v, uint64_t state, uint64_t score, uint64_t time,
			   uint64_t until)
{
	uint64_t word[SL__VERDICT_WORDS];

	read_copy(v, word);
	word[WORD_SEQUENCE] += word[WORD_STATE] != state;
	word[WORD_STATE] = state;
	word[WORD_SCORE] = score;
	word[WORD_TIME] = time;
	word[WORD_UNTIL] = until;
	write_copy(v, word);
}

void sl__verdict_take(struct sl_publisher *p, const struct sl_msg_verdict *said)
{
	uint64_t score;

	/* Ignore a verdict on another region, or one that is out of bounds. */
	if (said->instance != p->regions->instance || !sl_verdict_sound(said))
		return;
	memcpy(&score, &said->score, sizeof(score));
	change_verdict(&p->verdict, KNOWN | (said->flags & SL_VERDICT_ANOMALOUS ? ANOMALOUS : 0),
		       score, (uint64_t)said->time_ns, sl__monotonic_ns() + said->ttl_ns);
}

int sl__verdict_left_ms(const struct sl_publisher *p)
{
	uint64_t word[SL__VERDICT_WORDS], now;

	read_copy(&p->verdict, word);
	if (!(word[WORD_STATE] & KNOWN))
		return -1;
	now = sl__monotonic_ns();
	/* Add one, as poll() may return up to a millisecond early. */
	return word[WORD_UNTIL] <= now ? 0 : (int)((word[WORD_UNTIL] - now) / 1000000 + 1);
}

void sl__verdict_expire(struct sl_publisher *p)
{
	if (!sl__verdict_left_ms(p))
		sl__verdict_forget(p);
}

void sl__verdict_forget(struct sl_publisher *p)
{
	uint64_t word[SL__VERDICT_WORDS];

	read_copy(&p->verdict, word);
	if (word[WORD_STATE] & KNOWN)
		change_verdict(&p->verdict, 0, 0, 0, 0);
}

int sl_publisher_verdict(const struct sl_publisher *p, struct sl_publisher_verdict *verdict)
{
	struct sl_publisher_verdict now = {0};
	uint64_t word[SL__VERDICT_WORDS];

	if (!p || !SL__HAS(verdict, sequence))
		return -EINVAL;
	read_copy(&p->verdict, word);
	now.sequence = word[WORD_SEQUENCE];
	/* The attach thread may not have expired the verdict yet. */
	if (word[WORD_STATE] & KNOWN && sl__monotonic_ns() < word[WORD_UNTIL]) {
		now.known = true;
		now.anomalous = word[WORD_STATE] & ANOMALOUS;
		memcpy(&now.score, &word[WORD_SCORE], sizeof(now.score));
		now.time_ns = (int64_t)word[WORD_TIME];
	}
	sl__answer_give(verdict, &now, sizeof(now));
	return 0;
}
