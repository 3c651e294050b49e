// SPDX-License-Identifier: Apache-2.0
/*
 * test_span_tears.c - rings read while writers wrap at full speed, by a copier of any order and
 * granularity down to single bytes, as an RDMA READ may be: a span with one foreign byte is never
 * accepted. With the argument "broken" the seal is checked incorrectly on purpose (lines are
 * resealed after the copy), and the test must notice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "rings.h"

#define READS 5000000ull /* lines */

static struct made names;
static atomic_bool stop;
static bool broken;
static const uint64_t *rings; /* after the heads, which have no seal */

static void *work(void *arg)
{
	uint64_t x = (uint64_t)(uintptr_t)arg << 40;

	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		make_span(&names, x++);
	return NULL;
}

/* Copies bytes, or words of 2, 4 or 8, forward, backward or from the middle. */
static void copy_anyhow(uint64_t *to, const uint64_t *from, size_t words)
{
	static uint32_t state = 1;
	volatile uint8_t *t = (volatile uint8_t *)to;
	const volatile uint8_t *f = (const volatile uint8_t *)from;
	size_t bytes = words * 8, unit, n, start, step;

	state = state * 1664525u + 1013904223u;
	unit = (size_t)1 << (state >> 28 & 3);
	n = bytes / unit;
	start = (state >> 16 & 1) ? (state >> 20) % n : 0;
	step = (state >> 17 & 1) ? n - 1 : 1;
	for (size_t i = 0, at = start; i < n; i++, at = (at + step) % n) {
		switch (unit) {
		case 1:
			t[at] = f[at];
			break;
		case 2:
			((volatile uint16_t *)t)[at] = ((const volatile uint16_t *)f)[at];
			break;
		case 4:
			((volatile uint32_t *)t)[at] = ((const volatile uint32_t *)f)[at];
			break;
		default:
			((volatile uint64_t *)t)[at] = ((const volatile uint64_t *)f)[at];
		}
	}
	if (broken && from >= rings)
		to[7] = sl_sealed_check(to);
}

struct result {
	uint64_t good, torn;
};

static void count(const struct region_span_data *d, uint64_t number, uint32_t lines, void *arg)
{
	struct result *r = arg;

	(void)number, (void)lines;
	r->good++;
	r->torn += !span_is_made(d);
}

int main(int argc, char **argv)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 2, .span_bytes = 32u << 10));
	struct result result = {0};
	uint64_t lines = 0, wanted, refused = 0, lies = 0;
	pthread_t t[3];
	struct reader r;

	broken = argc > 1 && !strcmp(argv[1], "broken");
	wanted = (uint64_t)((double)READS * (TEST_SANITIZED ? 0.01 : 1) * test_scale());
	if (broken)
		wanted /= 3;
	names = made_names(p);
	if (!p || reader_open(&r, sl_publisher_fd(p)))
		return 1;
	rings = (const uint64_t *)(r.map + region_span_root_at(&r.info, 0, 0));
	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&t[i], NULL, work, (void *)(i + 1)))
			return 1;
	while (lines < wanted) {
		for (uint32_t ring = 0; ring < 3; ring++) {
			struct ring_tally tally = ring_read(&r, ring, copy_anyhow, count, &result);

			lines += tally.head.lines < 512 ? tally.head.lines : 512;
			refused += tally.unsettled;
			lies += tally.lies;
		}
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("%llu lines, %llu spans believed, %llu of them torn, %llu lines refused, %llu lies\n",
	       (unsigned long long)lines, (unsigned long long)result.good,
	       (unsigned long long)result.torn, (unsigned long long)refused,
	       (unsigned long long)lies);
	reader_close(&r);
	sl_publisher_close(p);
	if (broken)
		return result.torn + lies ? 0 : 1;
	return result.torn || lies || !result.good || !refused;
}
