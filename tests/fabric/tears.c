/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a region through RDMA while libsidelight writes it at full speed, and holds every line
 * that verifies against what the writers can have stored: no torn cell, no mixture of two moments,
 * no value that goes back. An RDMA READ promises neither order nor atomicity (sidelight-region(5)),
 * and in a guest with `-cpu max` the kernel copies by single bytes, so that lines do tear.
 *
 * How a tear would show, the check word apart:
 *  - a counter grows by STEP, so that it is n * STEP mod 2^64 with a small n; a mixture of the
 *    bytes of two such values is n' * STEP with an n' that is anything below 2^64;
 *  - the cells of a line are updated in turn, so that at every moment n[0] >= n[1] >= ... >= n[6]
 *    >= n[0] - writers.
 *
 *	tears LINES     with RDMA_DEVICE and ADDRESS in the environment
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "fabric/provider.h"
#include "fabric/host.h"
#include "region/decode.h"

#define PORT	17999
#define LINES	64u /* lines of counters, and as many of gauges */
#define CELLS	(LINES * SL_LINE_CELLS)
#define STEP	0x9b97f4a7c15f39c5ull /* odd, all bytes different */
#define N_MAX	(1ull << 40)	      /* no test runs long enough to reach it */
#define PAGES	8u		      /* READs of LINES lines on the way */
#define SINGLES 64u		      /* and of one line */
#define RETRIES 3

enum phase { OWN_STRIPE = 'o', SHARED_STRIPE = 's', QUIET = 'q' };

struct shared {
	_Atomic int phase;
	_Atomic int idle; /* number of writers that saw QUIET */
	_Atomic uint64_t own_rounds;
	_Atomic uint64_t shared_rounds[2];
};

static uint64_t inverse; /* of STEP mod 2^64 */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "tears: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the observed process ---- */

static struct sl_counter counters[CELLS]; /* [cell] */
static struct sl_gauge gauges[CELLS];	  /* [cell - CELLS] */
static struct shared *shared;

/* Owns a stripe, because it counts first. */
static void *own_writer(void *arg)
{
	(void)arg;
	sl_counter_add(counters[0], 0);
	for (;;) {
		int phase = atomic_load(&shared->phase);

		if (phase == OWN_STRIPE) {
			for (uint32_t i = 0; i < CELLS; i++)
				sl_counter_add(counters[i], STEP);
			atomic_fetch_add(&shared->own_rounds, 1);
		} else {
			if (phase == QUIET)
				atomic_fetch_or(&shared->idle, 1);
			usleep(100);
		}
	}
	return NULL;
}

/* No stripe is left for these two: they share stripe 0, and each sets every other gauge. */
static void *shared_writer(void *arg)
{
	uint32_t mine = (uint32_t)(uintptr_t)arg;
	uint64_t n = 0;

	while (!atomic_load(&shared->own_rounds))
		usleep(100);
	for (;;) {
		int phase = atomic_load(&shared->phase);

		if (phase == SHARED_STRIPE) {
			n++;
			for (uint32_t i = 0; i < CELLS; i++) {
				sl_counter_add(counters[i], STEP);
				if (i % SL_LINE_CELLS % 2 == mine)
					sl_gauge_set(gauges[i], (int64_t)(n * STEP));
			}
			atomic_store(&shared->shared_rounds[mine], n);
		} else {
			if (phase == QUIET)
				atomic_fetch_or(&shared->idle, 2 << mine);
			usleep(100);
		}
	}
	return NULL;
}

/* The library assigns cells in its own order; the writers use them in the order of memory. */
static void make_metrics(struct sl_publisher *p, const uint8_t *map, uint64_t bytes)
{
	static struct sl_counter counter[CELLS];
	static struct sl_gauge gauge[CELLS];
	static struct region_info info;
	struct sl_metric_opts mo = SL_OPTS(sl_metric_opts);
	struct region_schema schema;
	struct region_hot hot;
	char name[32];

	mo.name = name;
	for (uint32_t i = 0; i < 2 * CELLS; i++) {
		snprintf(name, sizeof(name), i < CELLS ? "c%u_total" : "g%u", i);
		if (i < CELLS)
			counter[i] = sl_counter_create(p, &mo);
		else
			gauge[i - CELLS] = sl_gauge_create(p, &mo);
	}
	region_schema_init(&schema);
	if (region_info_parse((const struct sl_region_header *)map, bytes, &info) ||
	    region_hot_parse((const uint64_t *)(map + info.hot), &info, &hot) ||
	    region_schema_append(&schema, &info, map + info.schema, hot.schema_used) ||
	    schema.count != 2 * CELLS)
		die("the library's region does not decode");
	for (uint32_t i = 0; i < 2 * CELLS; i++) {
		uint32_t cell = schema.metrics[i]->cell;

		if (i < CELLS ? cell >= CELLS : cell < CELLS || cell >= 2 * CELLS)
			die("counters and gauges share lines");
		if (i < CELLS)
			counters[cell] = counter[i];
		else
			gauges[cell - CELLS] = gauge[i - CELLS];
	}
	region_schema_free(&schema);
}

static void observed(int control, const char *device)
{
	struct sl_publisher_opts po = SL_OPTS(sl_publisher_opts, .service = "tears",
					      .max_cells = 2 * CELLS, .max_threads = 1,
					      .flags = SL_PUBLISHER_DETACHED);
	struct fabric_host_opts ho = {.device = device, .port = PORT, .gid_index = -1};
	struct sl_publisher *p = sl_publisher_open(&po);
	struct fabric_host_key key;
	struct fabric_host *h;
	char error[256] = "";
	pthread_t thread;
	off_t bytes;
	void *map;
	int fd = sl_publisher_fd(p);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bytes = lseek(fd, 0, SEEK_END);
	map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
	make_metrics(p, map, (uint64_t)bytes);
	h = fabric_host_open(&ho, error, sizeof(error));
	if (!h || fabric_host_register(h, map, (size_t)bytes, &key))
		die(error);
	fabric_host_set_directory(h, &key, (uint64_t)bytes, 1);
	if (pthread_create(&thread, NULL, own_writer, NULL) ||
	    pthread_create(&thread, NULL, shared_writer, (void *)0) ||
	    pthread_create(&thread, NULL, shared_writer, (void *)1))
		die("pthread_create");
	if (write(control, "r", 1) != 1)
		die("write");
	for (;;) {
		struct pollfd fds = {.fd = fabric_host_fd(h), .events = POLLIN};

		poll(&fds, 1, -1);
		fabric_host_dispatch(h);
	}
}

/* ---- the observer ---- */

struct tally {
	uint64_t lines, refused, torn_refused, retried, unsettled, undetected, back;
};

struct view {
	enum { COUNTERS, GAUGES } kind;
	uint64_t offset;      /* of the first line in the region */
	unsigned int writers; /* that take turns in updating a line */
	uint32_t stripe;      /* identifies the kind of these lines */
	uint64_t last[LINES][SL_LINE_CELLS];
};

static struct tally tally;

/* Could the writers have brought a line into this state? */
static bool possible(const struct view *v, const uint64_t *n)
{
	if (v->kind == GAUGES) { /* the even cells are one writer's, the odd ones the other's */
		for (int i = 0; i < 7; i++)
			if (n[i] > N_MAX || (i >= 2 && (n[i] > n[i - 2] || n[i] + 1 < n[i & 1])))
				return false;
		return true;
	}
	for (int i = 0; i < 7; i++)
		if (n[i] > N_MAX || (i && n[i] > n[i - 1]) || n[i] + v->writers < n[0])
			return false;
	return true;
}

/* Returns true if the line verified. Counts every violation. */
static bool judge(struct view *v, uint32_t index, const uint64_t *line)
{
	uint64_t n[SL_LINE_CELLS];
	bool good = sl_stripe_check(v->stripe, line) == line[7], whole;

	for (unsigned int i = 0; i < SL_LINE_CELLS; i++)
		n[i] = line[i] * inverse;
	whole = possible(v, n);
	tally.lines++;
	if (!good) {
		tally.refused++;
		tally.torn_refused += !whole;
		return false;
	}
	if (!whole) {
		tally.undetected++;
		return true;
	}
	for (unsigned int i = 0; i < SL_LINE_CELLS; i++) {
		tally.back += n[i] < v->last[index][i];
		v->last[index][i] = n[i];
	}
	return true;
}

struct slot {
	struct fabric_read read;
	struct view *view;
	uint32_t line, lines;
	int tries;
	bool busy;
};

static struct slot pages[PAGES], singles[SINGLES];

static void post(struct fabric *f, struct slot *s, struct view *v, uint32_t line)
{
	s->view = v;
	s->line = line;
	s->read.remote = fabric_directory(f);
	s->read.offset = v->offset + (uint64_t)line * SL_LINE_SIZE;
	s->read.length = s->lines * SL_LINE_SIZE;
	if (fabric_post(f, &s->read, 1) != 1)
		die("post");
	s->busy = true;
}

static struct slot *poll_one(struct fabric *f)
{
	struct fabric_stats stats;
	struct fabric_read *done;
	struct slot *s;

	while (!fabric_poll(f, &done, 1, now_ns(), 10000000000ull))
		;
	if (done->status) {
		fabric_stats(f, &stats);
		fprintf(stderr, "tears: %s\n", stats.last_error);
		exit(1);
	}
	s = (struct slot *)done;
	s->busy = false;
	return s;
}

/* A line that did not verify is read again separately, while the pages go on. */
static void again(struct fabric *f, struct slot *of, uint32_t line)
{
	struct slot *s = of;

	if (of->lines > 1) {
		for (s = singles; s < singles + SINGLES && s->busy; s++)
			;
		if (s == singles + SINGLES)
			return;
		s->tries = 0;
		tally.retried++;
	} else if (s->tries == RETRIES) {
		tally.unsettled++;
		return;
	}
	s->tries++;
	post(f, s, of->view, line);
}

/*
 * Reads the pages of views in turn until this many lines were judged. READs of a connection execute
 * in the order of posting, and complete in it: what is judged later was read later.
 */
static void observe(struct fabric *f, struct view *views, unsigned int count, uint64_t lines)
{
	uint64_t want = tally.lines + lines;
	unsigned int next = 0;

	for (unsigned int i = 0; i < PAGES; i++)
		post(f, &pages[i], &views[next++ % count], 0);
	while (f->outstanding) {
		struct slot *s = poll_one(f);

		for (uint32_t i = 0; i < s->lines; i++)
			if (!judge(s->view, s->line + i, (uint64_t *)s->read.to + i * 8))
				again(f, s, s->line + i);
		if (s->lines > 1 && tally.lines < want)
			post(f, s, &views[next++ % count], 0);
	}
}

static int report(const char *what, const struct tally *before, uint64_t start)
{
	struct tally t = {
		.lines = tally.lines - before->lines,
		.refused = tally.refused - before->refused,
		.torn_refused = tally.torn_refused - before->torn_refused,
		.retried = tally.retried - before->retried,
		.unsettled = tally.unsettled - before->unsettled,
		.undetected = tally.undetected - before->undetected,
		.back = tally.back - before->back,
	};

	printf("= %s: %" PRIu64 " lines in %.1f s; %" PRIu64 " (%.3f %%) did not verify, %" PRIu64
	       " of them were torn; of %" PRIu64 " read again %" PRIu64
	       " (%.3f %%) stayed unsettled after %d READs; undetected tears: %" PRIu64
	       ", values going back: %" PRIu64 "\n",
	       what, t.lines, (double)(now_ns() - start) / 1e9, t.refused,
	       100 * (double)t.refused / (double)t.lines, t.torn_refused, t.retried, t.unsettled,
	       t.retried ? 100 * (double)t.unsettled / (double)t.retried : 0.0, RETRIES,
	       t.undetected, t.back);
	fflush(stdout);
	return t.undetected || t.back;
}

/* Finds the stripes and their stride from the header of the region. */
static uint64_t find_stripes(struct fabric *f, uint64_t *stride)
{
	struct slot first = {
		.read = {.remote = fabric_directory(f),
			 .length = SL_HEADER_SIZE,
			 .to = fabric_buffer(f, NULL)},
	};
	struct sl_region_header *header;
	uint64_t stripes = 0;

	if (fabric_post(f, &first.read, 1) != 1)
		die("post");
	poll_one(f);
	header = first.read.to;
	*stride = 0;
	for (uint32_t i = 0; i < header->section_count; i++)
		if (header->section[i].type == SL_SECTION_STRIPES) {
			stripes = header->section[i].offset;
			*stride = header->section[i].stride;
		}
	if (memcmp(header->magic, SL_REGION_MAGIC, 8) || !stripes ||
	    *stride < 2 * LINES * SL_LINE_SIZE)
		die("not the region that was expected");
	return stripes;
}

/* At rest every line verifies, and no update is missing. */
static int consistent_at_rest(struct fabric *f, struct view *own, struct view both[2])
{
	struct tally before;
	int bad = 0;

	atomic_store(&shared->phase, QUIET);
	for (int i = 0; i < 10000 && atomic_load(&shared->idle) != 7; i++)
		usleep(1000);
	before = tally;
	observe(f, own, 1, LINES);
	observe(f, both, 2, LINES);
	if (tally.refused != before.refused) {
		printf("FAIL: lines at rest do not verify\n");
		bad = 1;
	}
	for (uint32_t l = 0; l < LINES; l++)
		for (unsigned int i = 0; i < SL_LINE_CELLS; i++)
			if (own->last[l][i] != atomic_load(&shared->own_rounds) ||
			    both[0].last[l][i] != atomic_load(&shared->shared_rounds[0]) +
							  atomic_load(&shared->shared_rounds[1]) ||
			    both[1].last[l][i] != atomic_load(&shared->shared_rounds[i % 2])) {
				if (!bad)
					printf("FAIL: line %u cell %u is not what was counted\n", l,
					       i);
				bad = 1;
			}
	return bad;
}

/* The inverse of STEP modulo 2^64. */
static uint64_t inverse_of_step(void)
{
	uint64_t x = STEP;

	for (int i = 0; i < 6; i++)
		/* Newton's method: each step doubles the number of correct bits */
		x *= 2 - STEP * x;
	return x;
}

static struct fabric *connect_to(const char *device, const char *address)
{
	struct fabric_opts opts = {.device = device, .gid_index = -1};
	uint64_t end = now_ns() + 100000000000ull;
	struct fabric_stats stats;
	struct fabric *f;
	char target[64];

	snprintf(target, sizeof(target), "%s:%u", address, PORT);
	f = fabric_open(target, &opts);
	if (!f)
		die(fabric_error());
	while (fabric_drive(f, now_ns(), NULL) != FABRIC_UP && now_ns() < end)
		usleep(200);
	fabric_stats(f, &stats);
	if (!fabric_directory(f))
		die(stats.last_error);
	return f;
}

int main(int argc, char **argv)
{
	const char *device = getenv("RDMA_DEVICE"), *address = getenv("ADDRESS");
	uint64_t lines = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000, start;
	static struct view own = {.kind = COUNTERS, .writers = 1, .stripe = 1};
	static struct view both[2] = {
		{.kind = COUNTERS, .writers = 2},
		{.kind = GAUGES},
	};
	struct tally before = {0};
	struct fabric_stats stats;
	uint64_t stripes, stride;
	struct fabric *f;
	int pair[2], bad = 0;
	char ready;
	pid_t pid;

	if (!device || !address) {
		printf("SKIP: RDMA_DEVICE and ADDRESS name no RDMA device\n");
		return 77;
	}
	inverse = inverse_of_step();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	atomic_store(&shared->phase, OWN_STRIPE);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	pid = fork();
	if (!pid)
		observed(pair[1], device);
	close(pair[1]);
	if (read(pair[0], &ready, 1) != 1)
		die("the observed process");

	f = connect_to(device, address);
	stripes = find_stripes(f, &stride);
	own.offset = stripes + stride;
	both[0].offset = stripes;
	both[1].offset = stripes + LINES * SL_LINE_SIZE;

	for (uint32_t i = 0; i < PAGES + SINGLES; i++) {
		struct slot *s = i < PAGES ? &pages[i] : &singles[i - PAGES];

		s->lines = i < PAGES ? LINES : 1;
		s->read.to = (uint8_t *)fabric_buffer(f, NULL) + i * LINES * SL_LINE_SIZE;
	}
	start = now_ns();
	observe(f, &own, 1, lines / 10 * 7);
	bad |= report("a stripe of one writer", &before, start);

	atomic_store(&shared->phase, SHARED_STRIPE);
	before = tally;
	start = now_ns();
	observe(f, both, 2, lines - lines / 10 * 7);
	bad |= report("a stripe that two writers share", &before, start);

	bad |= consistent_at_rest(f, &own, both);
	fabric_stats(f, &stats);
	printf("= %" PRIu64 " lines, %" PRIu64 " READs, %" PRIu64 " updates while they ran: %s\n",
	       tally.lines, stats.reads,
	       (atomic_load(&shared->own_rounds) + 2 * atomic_load(&shared->shared_rounds[0]) +
		atomic_load(&shared->shared_rounds[1])) *
		       CELLS,
	       bad ? "NOT consistent" : "consistent");
	fabric_close(f);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return bad;
}
