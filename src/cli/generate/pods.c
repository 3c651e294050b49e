// SPDX-License-Identifier: Apache-2.0
/* pods.c - a process that runs pods and their threads; see pods.h. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "cli/generate/pods.h"

#define HISTOGRAM_CELLS 64 /* enough for values from 1 to 1024 at scale 2 */

const char *const cli_generate_family[CLI_KINDS] = {"generated_updates_total", "generated_level",
						    "generated_size_bytes"};

uint32_t cli_generate_processes(const struct cli_generate_settings *s)
{
	return (s->pods + s->pods_per_process - 1) / s->pods_per_process;
}

int cli_generate_share(const struct cli_generate_settings *s, struct cli_generate_shared *sh)
{
	size_t list = (cli_generate_processes(s) * sizeof(struct cli_generate_process) + 63) &
		      ~(size_t)63;
	const size_t line = 64; /* stop has its own cache line */

	sh->bytes = line + list +
		    (size_t)s->pods * s->threads * sizeof(struct cli_generate_thread_total);
	sh->memory = mmap(NULL, sh->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			  0);
	if (sh->memory == MAP_FAILED)
		return -errno;
	sh->stop = sh->memory;
	sh->process = (void *)((char *)sh->memory + line);
	sh->total = (void *)((char *)sh->memory + line + list);
	return 0;
}

/* Pods */

struct pods_pod {
	char name[300];
	struct sl_publisher *publisher;
	struct sl_counter *counter;
	struct sl_gauge *gauge;
	struct sl_histogram *histogram;
};

static bool pod_open(const struct cli_generate_settings *s, struct pods_pod *p, uint32_t index,
		     char *error, size_t error_bytes)
{
	static const char *const help[CLI_KINDS] = {"Updates made.",
						    "Increased by one with each update.",
						    "Sizes, integers from 1 to 1024."};
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	struct sl_publisher_opts opts = SL_OPTS(sl_publisher_opts);
	uint32_t i = 0;

	snprintf(p->name, sizeof(p->name), "%s-%u", s->service, index);
	opts.service = s->service;
	opts.pod = p->name;
	opts.kube_namespace = s->kube_namespace;
	opts.socket = s->socket;
	opts.max_cells = s->of_kind[CLI_COUNTER] + s->of_kind[CLI_GAUGE] +
			 s->of_kind[CLI_HISTOGRAM] * HISTOGRAM_CELLS + 64;
	opts.max_threads = s->threads;
	opts.schema_bytes = 4096 + s->metrics * 320;
	p->publisher = sl_publisher_open(&opts);
	p->counter = calloc(s->of_kind[CLI_COUNTER] + 1, sizeof(*p->counter));
	p->gauge = calloc(s->of_kind[CLI_GAUGE] + 1, sizeof(*p->gauge));
	p->histogram = calloc(s->of_kind[CLI_HISTOGRAM] + 1, sizeof(*p->histogram));
	if (!p->publisher || !p->counter || !p->gauge || !p->histogram) {
		snprintf(error, error_bytes, "pod %s: %s", p->name, strerror(errno));
		return false;
	}
	for (int k = 0; k < CLI_KINDS; k++) {
		for (uint32_t n = 0; n < s->of_kind[k]; n++, i++) {
			char number[16];
			struct sl_label label = {"metric", number};
			struct sl_metric_opts m = SL_OPTS(sl_metric_opts);

			snprintf(number, sizeof(number), "%u", i);
			m.name = cli_generate_family[k];
			m.help = help[k];
			m.labels = &label;
			m.label_count = 1;
			if (k == CLI_COUNTER) {
				p->counter[n] = sl_counter_create(p->publisher, &m);
			} else if (k == CLI_GAUGE) {
				p->gauge[n] = sl_gauge_create(p->publisher, &m);
			} else {
				m.unit = "bytes";
				m.scale = 2;
				m.use_scale = true;
				m.min = 0.5;
				m.max = 1024;
				p->histogram[n] = sl_histogram_create(p->publisher, &m);
			}
		}
	}
	sl_publisher_stats(p->publisher, &stats);
	if (stats.refused)
		snprintf(error, error_bytes,
			 "pod %s: the library refused %u of %u metrics because they do not fit in "
			 "one region",
			 p->name, stats.refused, s->metrics);
	return !stats.refused;
}

/* Threads */

struct worker {
	pthread_t thread;
	const struct cli_generate_settings *s;
	struct cli_generate_shared *sh;
	const struct pods_pod *pod;
	struct cli_generate_thread_total *total;
	uint64_t random;
	uint64_t done[CLI_KINDS], sum;
	uint32_t pods; /* number of pods of this process; used with a rate */
};

/* xorshift64 (Marsaglia 2003); good enough to spread observations over the buckets. */
static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Makes updates [from, to) of a pass over all metrics: counters, then gauges, then histograms. */
static inline void update_pass(struct worker *w, uint32_t from, uint32_t to)
{
	const uint32_t gauges = w->s->of_kind[CLI_COUNTER],
		       histograms = gauges + w->s->of_kind[CLI_GAUGE];
	uint32_t i = from;

	for (; i < to && i < gauges; i++)
		sl_counter_inc(w->pod->counter[i]);
	w->done[CLI_COUNTER] += i - from;
	from = i;
	for (; i < to && i < histograms; i++)
		sl_gauge_add(w->pod->gauge[i - gauges], 1);
	w->done[CLI_GAUGE] += i - from;
	from = i;
	for (; i < to; i++) {
		uint64_t v = 1 + (next_random(&w->random) >> 54);

		sl_histogram_observe(w->pod->histogram[i - histograms], (double)v);
		w->sum += v; /* the values are integers, so their sum in doubles is exact */
	}
	w->done[CLI_HISTOGRAM] += i - from;
}

static void publish_total(struct worker *w)
{
	for (int k = 0; k < CLI_KINDS; k++)
		relaxed_store(w->total->done[k], w->done[k]);
	relaxed_store(w->total->sum, w->sum);
}

static void as_fast_as_possible(struct worker *w)
{
	const uint32_t m = w->s->metrics;
	/* number of passes between two checks of stop */
	const uint64_t block = m < 4096 ? 4096 / m : 1;

	for (uint64_t u = 0; u < w->s->updates;) {
		uint64_t n = BASE_MIN(w->s->updates - u, block);

		if (relaxed_load(*w->sh->stop))
			return;
		for (uint64_t i = 0; i < n; i++)
			update_pass(w, 0, m);
		u += n;
		publish_total(w);
	}
}

/*
 * Updates all pods of the process. If each pod had its own threads, waking them would take more CPU
 * time than the updates.
 */
static void at_a_rate(struct worker *w)
{
	const uint64_t start = base_now_ns(), rate = w->s->rate;
	const uint32_t m = w->s->metrics;
	const unsigned __int128 all = (unsigned __int128)m * w->s->updates;
	unsigned __int128 made = 0;

	while (made < all && !relaxed_load(*w->sh->stop)) {
		uint64_t elapsed = base_now_ns() - start, until;
		unsigned __int128 due = (unsigned __int128)elapsed * rate / 1000000000u;
		struct timespec ts;

		if (due > all)
			due = all;
		while (made < due) {
			uint32_t at = (uint32_t)(made % m);
			uint32_t n = due - made < m - at ? (uint32_t)(due - made) : m - at;

			for (uint32_t i = 0; i < w->pods; i++)
				update_pass(&w[i * w->s->threads], at, at + n);
			made += n;
			if (relaxed_load(*w->sh->stop))
				break;
		}
		for (uint32_t i = 0; i < w->pods; i++)
			publish_total(&w[i * w->s->threads]);
		/*
		 * Sleep until the next update is due, for at least 1 ms to avoid spinning, and at
		 * most 50 ms to notice a stop.
		 */
		until = (uint64_t)((made + 1) * 1000000000u / rate);
		elapsed = base_now_ns() - start;
		until = until > elapsed ? until - elapsed : 0;
		until = until < 1000000 ? 1000000 : until > 50000000 ? 50000000 : until;
		ts = (struct timespec){.tv_nsec = (long)until};
		nanosleep(&ts, NULL);
	}
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	struct timespec ts;

	if (w->s->rate)
		at_a_rate(w);
	else
		as_fast_as_possible(w);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	relaxed_store(w->total->cpu_ns, (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec);
	return NULL;
}

/* Child process */

static void report_step(const struct cli_generate_child *c, enum cli_generate_step step)
{
	/* Release: pairs with the acquire in look_at(), whose reads of error and totals follow. */
	__atomic_store_n(&c->self->step, (char)step, __ATOMIC_RELEASE);
	if (write(c->status, "", 1) < 0) {
		/* the parent has exited; this child exits soon */
	}
}

__attribute__((format(printf, 2, 3))) static void failed(struct cli_generate_child *c,
							 const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->self->error, sizeof(c->self->error), fmt, ap);
	va_end(ap);
	report_step(c, CLI_FAILED);
	_exit(BASE_EXIT_FAILURE);
}

/* Waits for end of file on a pipe that is never written to. */
static void wait_for_end(int fd)
{
	struct pollfd p = {.fd = fd};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* Returns a pod that is not attached, or NULL if all are. */
static const struct pods_pod *missing_of(const struct pods_pod *pods, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!sl_publisher_attached(pods[i].publisher))
			return &pods[i];
	return NULL;
}

static void count_updates(struct cli_generate_child *c, const struct pods_pod *pods, uint32_t first,
			  uint32_t n)
{
	const uint32_t threads = c->s->threads;
	struct worker *workers = calloc((size_t)n * threads, sizeof(*workers));
	pthread_attr_t attr;
	const size_t wanted = c->s->rate ? threads : (size_t)n * threads;
	size_t started = 0;
	int err = 0;

	if (!workers)
		failed(c, "out of memory");
	for (size_t i = 0; i < (size_t)n * threads; i++) {
		const uint64_t number = (uint64_t)first * threads + i;

		workers[i] = (struct worker){
			.s = c->s,
			.sh = c->sh,
			.pod = &pods[i / threads],
			.total = &c->sh->total[number],
			/* Make the state odd: xorshift must not start with 0. */
			.random = (c->s->seed + number + 1) * 0x9e3779b97f4a7c15u | 1,
			.pods = n,
		};
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10); /* there may be thousands of threads */
	for (; started < wanted; started++) {
		err = pthread_create(&workers[started].thread, &attr, run_worker,
				     &workers[started]);
		if (err)
			break;
	}
	pthread_attr_destroy(&attr);
	if (err) {
		relaxed_store(*c->sh->stop, true);
		failed(c, "cannot start thread %zu of this process: %s", started + 1,
		       strerror(err));
	}
	for (size_t i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
}

/* Last log message of the library, to explain a failure. */
static char library_said[160];
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_message(enum sl_log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level > SL_LOG_WARN)
		return;
	pthread_mutex_lock(&library_lock);
	snprintf(library_said, sizeof(library_said), ": %s", line);
	pthread_mutex_unlock(&library_lock);
}

/*
 * Never returns. Does not call sl_publisher_close(): the agent must see that the pod exits, and
 * keep its last values.
 */
void cli_generate_child(struct cli_generate_child *c, uint32_t index)
{
	const struct cli_generate_settings *s = c->s;
	const uint32_t first = index * s->pods_per_process;
	const uint32_t n = BASE_MIN(s->pods - first, s->pods_per_process);
	struct pods_pod *pods = calloc(n, sizeof(*pods));
	const uint64_t end = base_now_ns() + s->wait;
	const struct pods_pod *missing;
	char error[sizeof(c->self->error)];

	if (!pods)
		failed(c, "out of memory");
	sl_set_log(keep_message, NULL);
	for (uint32_t i = 0; i < n; i++)
		if (!pod_open(s, &pods[i], first + i, error, sizeof(error)))
			failed(c, "%s", error);
	while (s->wait && (missing = missing_of(pods, n))) {
		if (base_now_ns() >= end) {
			pthread_mutex_lock(&library_lock);
			failed(c, "the agent did not admit pod %s within the time of --wait%s",
			       missing->name,
			       *library_said ? library_said
					     : "; is an agent running at the socket?");
		}
		usleep(2000);
	}
	report_step(c, CLI_ATTACHED);
	wait_for_end(c->go);
	count_updates(c, pods, first, n);
	report_step(c, CLI_DONE);
	for (;;)
		pause();
}
