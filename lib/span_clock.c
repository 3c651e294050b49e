// SPDX-License-Identifier: Apache-2.0
/*
 * span_clock.c - timestamps from the processor's counter.
 *
 * clock_gettime() takes 15 to 25 ns, twice per span, mostly for converting the counter under a
 * sequence lock. Here a span stores ticks and converts them when it ends. The rate is measured
 * against the kernel's clocks once per second, by the first span that ends in that second.
 *
 * x86-64: the TSC is used if the processor reports it as invariant (CPUID 80000007H, EDX bit 8:
 * Intel SDM vol. 3B, 18.17.1), and the kernel, which also checks it across sockets, uses it as its
 * clock source (or kvm-clock, which is equivalent).
 *
 * arm64: the virtual counter is used if the kernel uses it. By architecture it runs at one rate on
 * all cores (Arm ARM, D12.1: the Generic Timer). To work around an erratum of a core, the kernel
 * traps the register and emulates it.
 *
 * The nominal rate of the processor is ignored: CNTFRQ_EL0 is whatever firmware wrote there. The
 * first rate is used once two consecutive measurements agree. While the machine is suspended or a
 * guest is paused, CLOCK_MONOTONIC stops, but the counter may run on or restart from 0. A rate
 * measured across such a time differs by more than 1/1000 from the one in use, which is then kept;
 * only the time is taken anew. If two consecutive measurements differ, as in a guest that migrated
 * to another host, the counter is not used again.
 *
 * The error of a time is half the distance between a calibration's two readings (here 25 ns), plus
 * the slew of the kernel's clock in the last second: below 1 us under NTP, 500 us at NTP's maximum
 * of 500 ppm. A step of the clock takes effect within a second. The error of a duration is that of
 * one reading (10 ns), plus the same relative slew.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "span.h"

#define FIRST_NS   10000000u   /* an error of 50 ns is 5 ppm of this */
#define REFRESH_NS 1000000000u /* an error of 50 ns is 0.05 ppm of this */

struct sl__clock_state sl__clock_state;

/* The last calibration. `busy` is a lock; only its holder accesses the rest. */
static struct {
	_Atomic uint32_t busy;
	bool trusted;
	unsigned int doubts;
	uint64_t ticks, monotonic, mult;
} last;

struct clock_sample {
	uint64_t monotonic_ticks, monotonic, realtime_ticks, realtime;
};

/* Reads both clocks between two readings of the counter; the best of five attempts. */
static struct clock_sample take_sample(void)
{
	struct clock_sample best = {0};
	uint64_t narrowest = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t a = sl__ticks(), m = sl__monotonic_ns(), b = sl__ticks(),
			 r = sl__realtime_ns(), c = sl__ticks();

		if (c - a >= narrowest)
			continue;
		narrowest = c - a;
		best = (struct clock_sample){a + (b - a) / 2, m, b + (c - b) / 2, r};
	}
	return best;
}

static void store_word(uint64_t *to, uint64_t v)
{
	__atomic_store_n(to, v, __ATOMIC_RELAXED);
}

/* Returns nanoseconds per tick, times 2^32; 0 if the time was too short or the counter is wrong. */
static uint64_t measure_rate(uint64_t ticks, uint64_t ns)
{
	return ns < FIRST_NS || !ticks || ticks >> 60
		       ? 0
		       : (uint64_t)(((unsigned __int128)ns << 32) / ticks);
}

static void calibrate_clock(void)
{
	uint32_t turn = atomic_load_explicit(&sl__clock_state.turn, memory_order_relaxed);
	const struct sl__rate *before = &sl__clock_state.rate[turn % 8];
	struct sl__rate *next = &sl__clock_state.rate[(turn + 1) % 8];
	const uint64_t known = turn ? before->mult : last.mult;
	struct clock_sample s;
	uint64_t ns, mult;

	if (turn && !sl__rate_expired(sl__ticks(), before->ticks, before->refresh))
		return; /* another thread was faster */
	s = take_sample();
	ns = s.monotonic - last.monotonic;
	if (!turn && ns < FIRST_NS)
		return;
	mult = measure_rate(s.monotonic_ticks - last.ticks, ns);
	last.ticks = s.monotonic_ticks;
	last.monotonic = s.monotonic;
	last.mult = mult;
	if (mult && mult <= known + known / 1000 && mult >= known - known / 1000) {
		last.doubts = 0;
	} else if (turn) {
		mult = known;
		if (++last.doubts == 2) {
			last.trusted = false;
			atomic_store_explicit(&sl__clock_state.source, SL__CLOCK_REALTIME,
					      memory_order_relaxed);
		}
	} else {
		return;
	}
	store_word(&next->ticks, s.realtime_ticks);
	store_word(&next->ns, s.realtime);
	store_word(&next->mult, mult);
	store_word(&next->refresh, (uint64_t)(((unsigned __int128)REFRESH_NS << 32) / mult));
	/* Pairs with the acquire in scale_now(): the rate is visible before its turn. */
	atomic_store_explicit(&sl__clock_state.turn, turn + 1, memory_order_release);
	if (last.trusted)
		atomic_store_explicit(&sl__clock_state.source, SL__CLOCK_TICKS,
				      memory_order_relaxed);
}

void sl__clock_refresh(void)
{
	/*
	 * Acquire and release order the accesses to `last`. A signal handler that interrupts its
	 * own thread here uses the old rate.
	 */
	if (atomic_exchange_explicit(&last.busy, 1, memory_order_acquire))
		return;
	if (last.trusted)
		calibrate_clock();
	atomic_store_explicit(&last.busy, 0, memory_order_release);
}

#if defined(__x86_64__)
static bool constant_rate(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}
#else
static bool constant_rate(void)
{
#if defined(__aarch64__)
	return true;
#else
	return false; /* sl__ticks() has no counter on this processor */
#endif
}
#endif

static bool counter_trusted(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	static const char *const sources[] = {
#if defined(__aarch64__)
		"arch_sys_counter\n",
#else
		"tsc\n",
		"kvm-clock\n",
#endif
	};
	char name[32] = "";
	int fd;

	if (!constant_rate())
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		*name = 0;
	close(fd);
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++)
		if (!strcmp(name, sources[i]))
			return true;
	return false;
}

void sl__clock_start(void)
{
	struct clock_sample s;

	if (!counter_trusted() || atomic_exchange_explicit(&last.busy, 1, memory_order_acquire))
		return;
	if (!last.trusted && !last.doubts) {
		s = take_sample();
		last.ticks = s.monotonic_ticks;
		last.monotonic = s.monotonic;
		last.trusted = true;
	}
	atomic_store_explicit(&last.busy, 0, memory_order_release);
}
