// SPDX-License-Identifier: Apache-2.0
/*
 * The proof that a line's check word keeps torn reads out.
 *
 * Two writers count and set gauges at full speed while a reader copies their lines in any order
 * and any granularity down to single bytes, in orders that mix the bytes of all lines. The reader
 * gives the copies to the decoder, and then looks, by means that have nothing to do with the check
 * word, whether what the decoder believed can be true:
 *
 *  - counters grow by 2^32 + 1, so that the halves of an untorn cell are equal; they may never go
 *    back; and as a writer goes through the cells of a line in turn, the cells of one line may be
 *    apart by no more than one update a writer. That finds lines made of whole cells from
 *    different moments;
 *  - counters of type f64 grow by 1.0: whole numbers, with the same rules;
 *  - gauges are set to x | mix(x) << 32;
 *  - gauges of type f64 are set to one of 16 values of which only the upper 16 bits differ, the
 *    hardest case for a sum of products, and no mixture of two of them is a third.
 *
 * test_lines            the proof, through libsidelight, with stripes shared and not: until
 *                       SL_TEST_SCALE x 8 million torn cells were refused, or for SL_TEST_SCALE x
 *                       25 s. Lines that were at rest prove nothing, however many.
 * test_lines broken     the proof of the proof: with a check that is left out, or with constants
 *                       that are all 1, it must fail
 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "lines_copy.h"
#include "region/decode.h"

#define CELLS  SL_LINE_CELLS
#define UNIT   ((1ull << 32) + 1)
#define PLANS  24
#define ROUNDS 4 /* through a line before a writer goes to the next one */

static const char *const type_name[] = {"counter", "counter_f64", "gauge", "gauge_f64"};

/* Lines in a stripe: two of counters, and one of each other type, in this order. */
#define STRIPE_LINES 5
#define METRICS	     56 /* that the test creates; the library decides on their lines */

static enum type type_of(unsigned int line)
{
	return line < 2 ? COUNTER : (enum type)(line - 1);
}

static unsigned int failures;
#define fail(...)                                            \
	do {                                                 \
		fprintf(stderr, "test_lines: " __VA_ARGS__); \
		fputc('\n', stderr);                         \
		if (++failures == 100)                       \
			exit(1);                             \
	} while (0)

/* ---- values from which validity can be told ---- */

static uint32_t mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352d;
	x ^= x >> 15;
	x *= 0x846ca68b;
	return x ^ x >> 16;
}

static int64_t gauge_value(uint32_t x)
{
	return (int64_t)(x | (uint64_t)mix(x) << 32);
}

static double gauge_f64_value(unsigned int j)
{
	uint64_t bits = (uint64_t)(0x40 + j) << 56 | (uint64_t)(mix(j + 1) & 0xff) << 48;
	double value;

	memcpy(&value, &bits, 8);
	return value;
}

static bool valid(enum type type, uint64_t cell)
{
	double value = sl_f64_of_cell(cell);

	switch (type) {
	case COUNTER:
		return (uint32_t)cell == cell >> 32;
	case COUNTER_F64:
		return value >= 0 && value < 0x1p52 && value == floor(value);
	case GAUGE:
		return !cell || cell >> 32 == mix((uint32_t)cell);
	default:
		cell ^= cell >> 32;
		return !cell || (cell >> 60 == 4 && value == gauge_f64_value(cell >> 56 & 15));
	}
}

/* Number of updates that a counter has received. */
static uint64_t progress(enum type type, uint64_t cell)
{
	return type == COUNTER ? (uint32_t)cell : (uint64_t)sl_f64_of_cell(cell);
}

/* ---- writers ---- */

/* The way in which lines are written and read: as in the format, or broken in one way. */
struct scheme {
	const char *name;
	bool library;	   /* through libsidelight, read by the decoder */
	const uint64_t *k; /* constants of the check */
	bool mixed;	   /* stripe 0 has mixed lines */
	bool checked;	   /* the reader looks at the check */
	bool expect_sound;
};

static const uint64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 0};

struct setup {
	const struct scheme *scheme;
	bool shared;	  /* both writers in stripe 0 */
	uint8_t *stripes; /* as seen by the reader */
	size_t stride;
	struct sl_counter counter[2 * CELLS];
	struct sl_counter_f64 counter_f64[CELLS];
	struct sl_gauge gauge[CELLS];
	struct sl_gauge_f64 gauge_f64[CELLS];
	atomic_bool stop;
	atomic_uint running;
};

struct writer {
	struct setup *s;
	unsigned int number;
	uint64_t updates[TYPES][CELLS];
	pthread_t thread;
};

static uint64_t *own_cell(const struct writer *w, bool gauge, unsigned int line, unsigned int cell)
{
	unsigned int stripe = gauge || w->s->shared ? 0 : 1 + w->number;

	return (uint64_t *)(w->s->stripes + stripe * w->s->stride + line * 64) + cell;
}

/*
 * Updates the check word after a change of a cell. stripe0: in stripe 0, or in the line that
 * replaces it in a broken scheme.
 */
static void changed(const struct writer *w, bool stripe0, uint64_t *cell, unsigned int i,
		    uint64_t old, uint64_t value)
{
	const struct scheme *scheme = w->s->scheme;
	uint64_t difference = stripe0 && scheme->mixed ? sl_cell_mix(value, i) - sl_cell_mix(old, i)
						       : (value - old) * scheme->k[i];

	__atomic_fetch_add((uint64_t *)((uintptr_t)cell | 56), difference, __ATOMIC_RELAXED);
}

static void own_add(const struct writer *w, unsigned int line, unsigned int i, uint64_t n)
{
	uint64_t *cell = own_cell(w, false, line, i);

	if (w->s->shared) {
		uint64_t old = __atomic_fetch_add(cell, n, __ATOMIC_RELAXED);

		changed(w, true, cell, i, old, old + n);
	} else {
		sl__own_update((uintptr_t)cell, n, w->s->scheme->k[i]);
	}
}

static void own_add_f64(const struct writer *w, unsigned int line, unsigned int i)
{
	uint64_t *cell = own_cell(w, false, line, i), old = __atomic_load_n(cell, __ATOMIC_RELAXED);
	uint64_t value;

	do
		value = sl_cell_of_f64(sl_f64_of_cell(old) + 1);
	while (!__atomic_compare_exchange_n(cell, &old, value, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	changed(w, w->s->shared, cell, i, old, value);
}

static void own_set(const struct writer *w, unsigned int line, unsigned int i, uint64_t value)
{
	uint64_t *cell = own_cell(w, true, line, i);

	changed(w, true, cell, i, __atomic_exchange_n(cell, value, __ATOMIC_RELAXED), value);
}

static void update(struct writer *w, unsigned int line, unsigned int i, uint64_t random)
{
	struct setup *s = w->s;
	enum type type = type_of(line);

	w->updates[type][i] += line == 0 || type != COUNTER;
	switch (type) {
	case COUNTER:
		if (s->scheme->library)
			sl_counter_add(s->counter[line * CELLS + i], UNIT);
		else
			own_add(w, line, i, UNIT);
		break;
	case COUNTER_F64:
		if (s->scheme->library)
			sl_counter_f64_add(s->counter_f64[i], 1);
		else
			own_add_f64(w, line, i);
		break;
	case GAUGE:
		if (s->scheme->library)
			sl_gauge_set(s->gauge[i], gauge_value((uint32_t)random));
		else
			own_set(w, line, i, (uint64_t)gauge_value((uint32_t)random));
		break;
	default:
		if (s->scheme->library)
			sl_gauge_f64_set(s->gauge_f64[i], gauge_f64_value(random & 15));
		else
			own_set(w, line, i, sl_cell_of_f64(gauge_f64_value(random & 15)));
	}
}

static void *write_lines(void *arg)
{
	struct writer *w = arg;
	struct rng r = {1 + w->number};

	/*
	 * Progress is measured in reads. On two cores the reader has one, and the writers share the
	 * other; with the same niceness the reader would wait a third of the time, and prove
	 * nothing meanwhile.
	 */
	setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + 3);
	atomic_fetch_add(&w->s->running, 1);
	while (!atomic_load_explicit(&w->s->stop, memory_order_relaxed))
		for (unsigned int line = 0; line < STRIPE_LINES; line++) {
			uint64_t random = rng_next(&r);

			for (unsigned int round = 0; round < ROUNDS; round++)
				for (unsigned int i = 0; i < CELLS; i++)
					update(w, line, i, random = random * 5 + 1 + random / 64);
		}
	return NULL;
}

/* ---- the reader ---- */

struct tally {
	uint64_t reads[TYPES], unsettled[TYPES], changed[TYPES];
	uint64_t torn_cells; /* in refused lines: torn cells that the check word detected */
	uint64_t undetected, back, apart;
};

/* Describes a torn read that should have been refused. */
static void describe(const struct line *l, const uint64_t *now, unsigned int cell)
{
	fprintf(stderr, "test_lines: %s line %u of stripe %u, cell %u is torn:\n",
		type_name[l->type], l->number, l->stripe, cell);
	for (unsigned int i = 0; i < 8; i++)
		fprintf(stderr, "  %016llx before %016llx\n", (unsigned long long)now[i],
			(unsigned long long)l->last[i]);
}

/* Checks, as far as is possible without the check word, that an accepted line is consistent. */
static void judge(const struct setup *s, struct line *l, const uint64_t *now, struct tally *t)
{
	uint64_t low = UINT64_MAX, high = 0;

	t->changed[l->type]++;
	for (unsigned int i = 0; i < CELLS; i++) {
		if (!valid(l->type, now[i])) {
			if (s->scheme->expect_sound)
				describe(l, now, i);
			t->undetected++;
			return; /* not kept: it would be reported again as going back */
		}
		if (l->type <= COUNTER_F64) {
			uint64_t p = progress(l->type, now[i]);

			t->back += p < progress(l->type, l->last[i]);
			low = p < low ? p : low;
			high = p > high ? p : high;
		}
	}
	if (l->type <= COUNTER_F64 && high - low > (s->shared ? 2 : 1))
		t->apart++;
	memcpy(l->last, now, 64);
}

static bool believe(const struct scheme *scheme, unsigned int stripe, const uint64_t *line)
{
	uint64_t check = 0;

	if (scheme->mixed && scheme->checked && !stripe)
		return line[7] == sl_mixed_check(line);

	for (unsigned int i = 0; i < CELLS; i++)
		check += line[i] * scheme->k[i];
	return check == line[7] || !scheme->checked;
}

static void read_lines(struct setup *s, struct line *line, unsigned int lines, uint64_t count,
		       struct tally *t)
{
	static uint64_t block[LINES_MAX][8] __attribute__((aligned(64)));
	static struct plan plan[PLANS];
	struct rng r = {count + s->shared};
	struct region_values v;

	region_values_init(&v);
	if (region_values_resize(&v, STRIPE_LINES, 3))
		abort();
	for (uint64_t n = 0, turn = 0; n < count; n += lines, turn++) {
		if (turn % 2000 == 0)
			for (unsigned int i = 0; i < PLANS; i++)
				make_plan(&r, &plan[i], lines);
		copy_block(&plan[turn % PLANS], line, (uint8_t *)block);
		for (unsigned int i = 0; i < lines; i++) {
			struct line *l = &line[i];
			const uint64_t *now = block[i];
			bool good;

			t->reads[l->type]++;
			if (s->scheme->library) {
				good = !region_values_update(&v, l->stripe, l->number,
							     (const uint64_t(*)[8])now, 1, NULL);
				now = v.line + ((size_t)l->stripe * v.lines + l->number) * 8;
			} else {
				good = believe(s->scheme, l->stripe, now);
			}
			if (good) {
				if (memcmp(l->last, now, 56))
					judge(s, l, now, t);
				continue;
			}
			t->unsettled[l->type]++;
			for (unsigned int c = 0; c < CELLS; c++)
				t->torn_cells += !valid(l->type, block[i][c]);
		}
	}
	region_values_free(&v);
}

/* ---- one run ---- */

/* Finds the cells of its metrics and its stripes like any reader. */
static uint8_t *map_library(struct sl_publisher *p, struct region_info *info,
			    unsigned int cell_of[METRICS])
{
	struct region_schema schema;
	struct region_hot hot;
	struct stat st;
	uint8_t *map;
	int fd = sl_publisher_fd(p);

	if (fstat(fd, &st))
		abort();
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		abort();
	region_schema_init(&schema);
	if (region_info_parse((struct sl_region_header *)map, (uint64_t)st.st_size, info) ||
	    region_hot_parse((uint64_t *)(map + info->hot), info, &hot) ||
	    region_schema_append(&schema, info, map + info->schema, hot.schema_used)) {
		fail("the library's region does not decode");
		exit(1);
	}
	if (schema.count != METRICS) {
		fail("%zu metrics", schema.count);
		exit(1);
	}
	for (size_t i = 0; i < schema.count; i++)
		cell_of[i] = schema.metrics[i]->cell;
	region_schema_free(&schema);
	return map;
}

/*
 * Learns which cells the library gives to as many counters, one after the other, as there will be
 * metrics.
 */
static void learn_order(const struct sl_publisher_opts *opts, unsigned int cell_of[METRICS])
{
	static struct region_info info;
	struct sl_publisher *p = sl_publisher_open(opts);
	uint64_t seen = 0;

	for (unsigned int i = 0; i < METRICS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "m%02u", i);
		sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name));
	}
	munmap(map_library(p, &info, cell_of), info.size);
	sl_publisher_close(p);
	for (unsigned int i = 0; i < METRICS; i++)
		seen |= cell_of[i] < 64 ? 1ull << cell_of[i] : 0;
	if (~seen & ((1ull << STRIPE_LINES * CELLS) - 1)) {
		fail("the library leaves cells of the first lines out");
		exit(1);
	}
}

static void make_handles(struct setup *s, struct sl_publisher *p,
			 const unsigned int cell_of[METRICS])
{
	for (unsigned int m = 0; m < METRICS; m++) {
		char name[32];
		struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = name);
		unsigned int i = cell_of[m], line = i / CELLS, cell = i % CELLS;

		snprintf(name, sizeof(name), "m%02u", m);
		if (line >= STRIPE_LINES) {
			sl_counter_create(p, &o); /* not looked at */
			continue;
		}
		switch (type_of(line)) {
		case COUNTER:
			s->counter[i] = sl_counter_create(p, &o);
			break;
		case COUNTER_F64:
			s->counter_f64[cell] = sl_counter_f64_create(p, &o);
			break;
		case GAUGE:
			s->gauge[cell] = sl_gauge_create(p, &o);
			break;
		default:
			s->gauge_f64[cell] = sl_gauge_f64_create(p, &o);
		}
	}
}

static struct sl_publisher *open_library(struct setup *s)
{
	static struct region_info info;
	const struct sl_publisher_opts opts = SL_OPTS(sl_publisher_opts,
						      .flags = SL_PUBLISHER_DETACHED,
						      .max_threads = s->shared ? 1 : 4);
	unsigned int order[METRICS], cell_of[METRICS];
	struct sl_publisher *p;

	learn_order(&opts, order);
	p = sl_publisher_open(&opts);
	if (!p)
		abort();
	make_handles(s, p, order);
	/* This thread takes the only stripe: the writers must share. */
	if (s->shared)
		sl_counter_add(s->counter[0], 0);
	s->stripes = map_library(p, &info, cell_of) + info.stripes;
	s->stride = info.stripe_stride;
	if (memcmp(cell_of, order, sizeof(order))) {
		fail("the library gives another kind of metric other cells");
		exit(1);
	}
	return p;
}

static unsigned int find_lines(const struct setup *s, struct line *line)
{
	unsigned int n = 0;

	for (unsigned int stripe = 0; stripe < 3; stripe++)
		for (unsigned int i = 0; i < STRIPE_LINES; i++) {
			bool gauge = type_of(i) >= GAUGE;

			if (s->shared || gauge ? stripe != 0 : stripe == 0)
				continue;
			line[n++] = (struct line){
				.at = s->stripes + stripe * s->stride + i * 64,
				.stripe = stripe,
				.number = i,
				.type = type_of(i),
			};
		}
	return n;
}

/* When the writers are done every line verifies and every count is exact. */
static void check_end(const struct setup *s, const struct writer w[2], const struct line *line,
		      unsigned int lines)
{
	for (unsigned int i = 0; i < lines; i++) {
		const uint64_t *now = (const uint64_t *)(uintptr_t)line[i].at;

		if (!believe(s->scheme, line[i].stripe, now))
			fail("%s: a line at rest does not verify", s->scheme->name);
		for (unsigned int c = 0; c < CELLS && line[i].type <= COUNTER_F64; c++) {
			enum type type = line[i].type;
			uint64_t want = s->shared ? w[0].updates[type][c] + w[1].updates[type][c]
						  : w[line[i].stripe - 1].updates[type][c];

			if (progress(type, now[c]) != (type == COUNTER ? (uint32_t)want : want))
				fail("%s: %s line %u cell %u counts %llu, not %llu",
				     s->scheme->name, type_name[type], line[i].number, c,
				     (unsigned long long)progress(type, now[c]),
				     (unsigned long long)want);
		}
	}
}

static void run(const struct scheme *scheme, bool shared, uint64_t count, struct tally *t)
{
	static uint8_t own[3 * 4096] __attribute__((aligned(4096)));
	struct setup s = {.scheme = scheme, .shared = shared};
	struct writer w[2] = {{.s = &s}, {.s = &s, .number = 1}};
	struct line line[LINES_MAX];
	struct sl_publisher *p = NULL;
	unsigned int lines;

	memset(t, 0, sizeof(*t));
	if (scheme->library) {
		p = open_library(&s);
	} else {
		memset(own, 0, sizeof(own));
		s.stripes = own;
		s.stride = 4096;
	}
	lines = find_lines(&s, line);
	/* One after the other, so that writer i owns stripe 1 + i. */
	for (unsigned int i = 0; i < 2; i++) {
		if (pthread_create(&w[i].thread, NULL, write_lines, &w[i]))
			abort();
		while (atomic_load(&s.running) < i + 1 ||
		       (p && !shared &&
			!__atomic_load_n((uint64_t *)(s.stripes + (1 + i) * s.stride),
					 __ATOMIC_RELAXED)))
			sched_yield();
	}
	read_lines(&s, line, lines, count, t);
	atomic_store(&s.stop, true);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(w[i].thread, NULL);
	check_end(&s, w, line, lines);
	sl_publisher_close(p);
}

static uint64_t sum(const uint64_t v[TYPES])
{
	return v[0] + v[1] + v[2] + v[3];
}

static void report(const struct scheme *scheme, bool shared, const struct tally *t, double seconds)
{
	printf("%s, %s: %llu lines in %.1f s, %.2f %% unsettled (", scheme->name,
	       shared ? "shared stripe" : "own stripes", (unsigned long long)sum(t->reads), seconds,
	       100.0 * (double)sum(t->unsettled) / (double)sum(t->reads));
	for (int i = 0; i < TYPES; i++)
		printf("%s%s %.2f", i ? ", " : "", type_name[i],
		       100.0 * (double)t->unsettled[i] / (double)t->reads[i]);
	printf("), %.1f %% changed, torn cells kept out %llu; undetected: %llu torn cells, "
	       "%llu torn lines, %llu counters going back\n",
	       100.0 * (double)sum(t->changed) / (double)sum(t->reads),
	       (unsigned long long)t->torn_cells, (unsigned long long)t->undetected,
	       (unsigned long long)t->apart, (unsigned long long)t->back);
	fflush(stdout);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t tears(const struct tally *t)
{
	return t->undetected + t->back + t->apart;
}

/*
 * Runs in pieces of this many lines: until enough torn cells were refused (with a broken scheme:
 * until one was accepted), or for this many seconds.
 */
static void prove(const struct scheme *scheme, uint64_t piece, double wanted, double seconds)
{
	uint64_t wrong = 0;

	for (int shared = 0; shared < 2; shared++) {
		double start = now(), refused = 0;
		struct tally t;

		do {
			double from = now();

			run(scheme, shared, piece, &t);
			report(scheme, shared, &t, now() - from);
			wrong += tears(&t);
			refused += (double)t.torn_cells;
		} while (!failures && now() < start + seconds &&
			 (scheme->expect_sound ? refused < wanted : !tears(&t)));
		if (scheme->expect_sound && refused == 0)
			fail("%s: no tear came up, so that nothing is proven", scheme->name);
	}
	if (scheme->expect_sound ? wrong != 0 : wrong == 0)
		fail("%s: %llu tears came through", scheme->name, (unsigned long long)wrong);
}

int main(int argc, char **argv)
{
	static const struct scheme sound = {"libsidelight", true, sl_line_k, true, true, true},
				   own = {"the format", false, sl_line_k, true, true, true},
				   all_ones = {"constants all 1", false, ones, false, true, false},
				   unchecked = {
					   "check left out", false, sl_line_k, true, false, false};
	const char *scale = getenv("SL_TEST_SCALE");
	double times = scale ? strtod(scale, NULL) : 1;

	if (argc > 1 && !strcmp(argv[1], "broken")) {
		prove(&own, 2000000, 1000, 60);
		prove(&all_ones, 2000000, 0, 60);
		prove(&unchecked, 2000000, 0, 60);
	} else {
		prove(&sound, 20000000, 8e6 * times, 25 * times);
	}
	return failures ? 1 : 0;
}
