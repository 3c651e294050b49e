/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate_metrics.c - pods that make an exact number of updates, through the public API only.
 *
 * The parent forks the processes before any thread exists and never publishes itself. A child
 * tells its steps in shared memory and by a byte in one pipe (status); the ends of file of two
 * others, which all children see at once, say "go" and "leave". So children leave when the parent
 * does, however it ends. What they counted stands in shared memory too, so that the report is
 * right whatever becomes of a child.
 */
#include "cli/generate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sidelight/sidelight.h>

#define PODS_A_PROCESS_MAX 15 /* publishers a process may have */
#define HISTOGRAM_CELLS	   64 /* more than 1 .. 1024 at scale 2 takes */

enum kind { COUNTER, GAUGE, HISTOGRAM, KINDS };
static const char *const kind_names[KINDS] = {"counter", "gauge", "histogram"};
static const char *const family[KINDS] = {"generated_updates_total", "generated_level",
					  "generated_size_bytes"};

struct settings {
	uint32_t pods, metrics, threads, pods_per_process;
	uint64_t updates, rate, seed, hold, wait;
	const char *socket, *kinds, *service, *kube_namespace;
	bool json;
	uint32_t of_kind[KINDS]; /* metrics of each kind; they add up to metrics */
};

/* ---- what parent and children share ------------------------------------------------------------ */

enum step { ATTACHED = 'a', DONE = 'd', FAILED = 'f' };

struct thread_total {
	_Atomic uint64_t done[KINDS]; /* updates made */
	_Atomic uint64_t sum;	      /* of what the histograms observed */
	_Atomic uint64_t cpu_ns;
};

struct process {
	pid_t pid;
	bool gone;
	_Atomic char step; /* the last one told */
	char error[400];   /* written before FAILED */
};

struct shared {
	atomic_bool *stop;
	struct process *process;    /* [processes] */
	struct thread_total *total; /* [pods * threads] */
	void *memory;
	size_t bytes;
};

static uint32_t processes(const struct settings *s)
{
	return (s->pods + s->pods_per_process - 1) / s->pods_per_process;
}

static int share(const struct settings *s, struct shared *sh)
{
	size_t list = (processes(s) * sizeof(struct process) + 63) & ~(size_t)63;
	const size_t line = 64; /* stop, alone in its cache line */

	sh->bytes = line + list + (size_t)s->pods * s->threads * sizeof(struct thread_total);
	sh->memory = mmap(NULL, sh->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			  0);
	if (sh->memory == MAP_FAILED)
		return -errno;
	sh->stop = sh->memory;
	sh->process = (void *)((char *)sh->memory + line);
	sh->total = (void *)((char *)sh->memory + line + list);
	return 0;
}

/* ---- a pod ------------------------------------------------------------------------------------- */

struct pod {
	char name[300];
	struct sl_publisher *publisher;
	struct sl_counter *counter;
	struct sl_gauge *gauge;
	struct sl_histogram *histogram;
};

static bool pod_open(const struct settings *s, struct pod *p, uint32_t index, char *error,
		     size_t error_bytes)
{
	struct sl_publisher_stats stats = {.sz = sizeof(stats)};
	struct sl_publisher_opts opts = {.sz = sizeof(opts)};
	uint32_t i = 0;

	snprintf(p->name, sizeof(p->name), "%s-%u", s->service, index);
	opts.service = s->service;
	opts.pod = p->name;
	opts.kube_namespace = s->kube_namespace;
	opts.socket = s->socket;
	opts.max_cells = s->of_kind[COUNTER] + s->of_kind[GAUGE] +
			 s->of_kind[HISTOGRAM] * HISTOGRAM_CELLS + 64;
	opts.max_threads = s->threads;
	opts.schema_bytes = 4096 + s->metrics * 320;
	p->publisher = sl_publisher_open(&opts);
	p->counter = calloc(s->of_kind[COUNTER] + 1, sizeof(*p->counter));
	p->gauge = calloc(s->of_kind[GAUGE] + 1, sizeof(*p->gauge));
	p->histogram = calloc(s->of_kind[HISTOGRAM] + 1, sizeof(*p->histogram));
	if (!p->publisher || !p->counter || !p->gauge || !p->histogram) {
		snprintf(error, error_bytes, "pod %s: %s", p->name, strerror(errno));
		return false;
	}
	for (int k = 0; k < KINDS; k++) {
		for (uint32_t n = 0; n < s->of_kind[k]; n++, i++) {
			char number[16];
			struct sl_label label = {"metric", number};
			struct sl_metric_opts m = {.sz = sizeof(m)};

			snprintf(number, sizeof(number), "%u", i);
			m.name = family[k];
			m.labels = &label;
			m.label_count = 1;
			switch (k) {
			case COUNTER:
				m.help = "Updates made.";
				p->counter[n] = sl_counter_create(p->publisher, &m);
				break;
			case GAUGE:
				m.help = "Raised by one at each update.";
				p->gauge[n] = sl_gauge_create(p->publisher, &m);
				break;
			default:
				m.help = "Sizes, whole numbers from 1 to 1024.";
				m.unit = "bytes";
				m.scale = 2;
				m.use_scale = true;
				m.min = 0.5;
				m.max = 1024;
				p->histogram[n] = sl_histogram_create(p->publisher, &m);
				break;
			}
		}
	}
	sl_publisher_stats(p->publisher, &stats);
	if (stats.refused) {
		snprintf(
			error, error_bytes,
			"pod %s: the library refused %u of %u metrics: no room for them in one region",
			p->name, stats.refused, s->metrics);
		return false;
	}
	return true;
}

/* ---- a thread ---------------------------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	const struct settings *s;
	struct shared *sh;
	const struct pod *pod;
	struct thread_total *total;
	uint64_t random;
	uint64_t done[KINDS], sum;
};

/* xorshift64 (Marsaglia 2003): enough to spread observations over the buckets. */
static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Makes the updates from..to of one pass over all metrics: counters, gauges, then histograms. */
static inline void pass(struct worker *w, uint32_t from, uint32_t to)
{
	const uint32_t gauges = w->s->of_kind[COUNTER], histograms = gauges + w->s->of_kind[GAUGE];
	uint32_t i = from;

	for (; i < to && i < gauges; i++)
		sl_counter_inc(w->pod->counter[i]);
	w->done[COUNTER] += i - from;
	from = i;
	for (; i < to && i < histograms; i++)
		sl_gauge_add(w->pod->gauge[i - gauges], 1);
	w->done[GAUGE] += i - from;
	from = i;
	for (; i < to; i++) {
		uint64_t v = 1 + (next_random(&w->random) >> 54);

		sl_histogram_observe(w->pod->histogram[i - histograms], (double)v);
		w->sum += v; /* whole numbers: the sum of doubles is exact too */
	}
	w->done[HISTOGRAM] += i - from;
}

static void tell(struct worker *w)
{
	for (int k = 0; k < KINDS; k++)
		atomic_store_explicit(&w->total->done[k], w->done[k], memory_order_relaxed);
	atomic_store_explicit(&w->total->sum, w->sum, memory_order_relaxed);
}

static void as_fast_as_possible(struct worker *w)
{
	const uint32_t m = w->s->metrics;
	const uint64_t block = m < 4096 ? 4096 / m : 1; /* passes between two looks at stop */

	for (uint64_t u = 0; u < w->s->updates;) {
		uint64_t n = w->s->updates - u < block ? w->s->updates - u : block;

		if (atomic_load_explicit(w->sh->stop, memory_order_relaxed))
			return;
		for (uint64_t i = 0; i < n; i++)
			pass(w, 0, m);
		u += n;
		tell(w);
	}
}

static void at_a_rate(struct worker *w)
{
	const uint64_t start = sl_now_ns(), rate = w->s->rate;
	const uint32_t m = w->s->metrics;
	const unsigned __int128 all = (unsigned __int128)m * w->s->updates;
	unsigned __int128 made = 0;

	while (made < all && !atomic_load_explicit(w->sh->stop, memory_order_relaxed)) {
		uint64_t elapsed = sl_now_ns() - start, until;
		unsigned __int128 due = (unsigned __int128)elapsed * rate / 1000000000u;
		struct timespec ts;

		if (due > all)
			due = all;
		while (made < due) {
			uint32_t at = (uint32_t)(made % m);
			uint32_t n = due - made < m - at ? (uint32_t)(due - made) : m - at;

			pass(w, at, at + n);
			made += n;
			if (atomic_load_explicit(w->sh->stop, memory_order_relaxed))
				break;
		}
		tell(w);
		/* Until the next is due; 1 ms at least, so as not to spin; 50 ms at most, so
		 * as to see a stop. */
		until = (uint64_t)((made + 1) * 1000000000u / rate);
		elapsed = sl_now_ns() - start;
		until = until > elapsed ? until - elapsed : 0;
		until = until < 1000000 ? 1000000 : until > 50000000 ? 50000000 : until;
		ts = (struct timespec){.tv_nsec = (long)until};
		nanosleep(&ts, NULL);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct timespec ts;

	if (w->s->rate)
		at_a_rate(w);
	else
		as_fast_as_possible(w);
	tell(w);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	atomic_store_explicit(&w->total->cpu_ns,
			      (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec,
			      memory_order_relaxed);
	return NULL;
}

/* ---- a child ----------------------------------------------------------------------------------- */

struct child {
	const struct settings *s;
	struct shared *sh;
	struct process *self;
	int status, go, leave; /* write, read, read */
};

static void step(const struct child *c, enum step step)
{
	/* Release: pairs with the acquire in look_at(), which then sees error and totals. */
	atomic_store_explicit(&c->self->step, (char)step, memory_order_release);
	if (write(c->status, "", 1) < 0) {
		/* the parent is gone, and so shall we be */
	}
}

__attribute__((format(printf, 2, 3))) static void failed(struct child *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->self->error, sizeof(c->self->error), fmt, ap);
	va_end(ap);
	step(c, FAILED);
	_exit(SL_EXIT_FAILURE);
}

/* Nobody ever writes: returns at the end of file. */
static void wait_for_end(int fd)
{
	struct pollfd p = {.fd = fd};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

static bool told_to_leave(const struct child *c, int timeout_ms)
{
	struct pollfd p = {.fd = c->leave};

	return poll(&p, 1, timeout_ms) > 0; /* POLLHUP */
}

static bool all_attached(const struct pod *pods, uint32_t n, const struct pod **missing)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!sl_publisher_attached(pods[i].publisher)) {
			*missing = &pods[i];
			return false;
		}
	}
	return true;
}

static void count(struct child *c, const struct pod *pods, uint32_t first, uint32_t n)
{
	const uint32_t threads = c->s->threads;
	struct worker *workers = calloc((size_t)n * threads, sizeof(*workers));
	pthread_attr_t attr;
	size_t started = 0;
	int err = 0;

	if (!workers)
		failed(c, "out of memory");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10); /* there may be thousands */
	for (; !err && started < (size_t)n * threads; started++) {
		struct worker *w = &workers[started];
		uint64_t number = (uint64_t)first * threads + started;

		w->s = c->s;
		w->sh = c->sh;
		w->pod = &pods[started / threads];
		w->total = &c->sh->total[number];
		/* Any odd multiple; never 0, where xorshift would stay. */
		w->random = (c->s->seed + number + 1) * 0x9e3779b97f4a7c15u | 1;
		err = pthread_create(&w->thread, &attr, work, w);
		if (err)
			break;
	}
	pthread_attr_destroy(&attr);
	if (err) {
		atomic_store(c->sh->stop, true);
		failed(c, "can't start thread %zu of this process: %s", started + 1, strerror(err));
	}
	for (size_t i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
}

/* What the library said last, so that a failure can name its cause. */
static char library_said[160];
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static void hear(enum sl_log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level > SL_LOG_WARN)
		return;
	pthread_mutex_lock(&library_lock);
	snprintf(library_said, sizeof(library_said), ": %s", line);
	pthread_mutex_unlock(&library_lock);
}

/* Never returns. Leaves without sl_publisher_close(): a pod that ends is to be seen as ended, and
 * its last values as the agent keeps them. */
static void child(struct child *c, uint32_t index)
{
	const struct settings *s = c->s;
	const uint32_t first = index * s->pods_per_process;
	const uint32_t n = s->pods - first < s->pods_per_process ? s->pods - first
								 : s->pods_per_process;
	struct pod *pods = calloc(n, sizeof(*pods));
	const uint64_t end = sl_now_ns() + s->wait;
	const struct pod *missing = NULL;
	char error[sizeof(c->self->error)];

	if (!pods)
		failed(c, "out of memory");
	sl_set_log(hear, NULL);
	for (uint32_t i = 0; i < n; i++)
		if (!pod_open(s, &pods[i], first + i, error, sizeof(error)))
			failed(c, "%s", error);
	while (s->wait && !all_attached(pods, n, &missing)) {
		if (sl_now_ns() >= end) {
			pthread_mutex_lock(&library_lock);
			failed(c, "pod %s was not admitted within the time of --wait%s",
			       missing->name,
			       *library_said ? library_said : "; is there an agent at the socket?");
		}
		if (told_to_leave(c, 2))
			_exit(SL_EXIT_OK);
	}
	step(c, ATTACHED);
	wait_for_end(c->go);
	if (!told_to_leave(c, 0)) {
		count(c, pods, first, n);
		step(c, DONE);
		wait_for_end(c->leave);
	}
	_exit(SL_EXIT_OK);
}

/* ---- the parent -------------------------------------------------------------------------------- */

struct parent {
	const struct sl_command *cmd;
	const struct settings *s;
	struct shared sh;
	uint32_t started;
	int stop, status[2], go[2], leave[2];
};

static int complain(const struct parent *p, const char *what, int err)
{
	fprintf(stderr, "sidelight %s: %s: %s\n", p->cmd->name, what, strerror(err));
	return SL_EXIT_FAILURE;
}

static int start(struct parent *p)
{
	const pid_t self = getpid();

	for (uint32_t i = 0; i < processes(p->s); i++) {
		struct child c = {.s = p->s,
				  .sh = &p->sh,
				  .self = &p->sh.process[i],
				  .status = p->status[1],
				  .go = p->go[0],
				  .leave = p->leave[0]};
		pid_t pid = fork();

		if (pid < 0)
			return complain(p, "fork", errno);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != self)
				_exit(SL_EXIT_FAILURE);
			close(p->go[1]);
			close(p->leave[1]);
			close(p->status[0]);
			child(&c, i);
		}
		p->sh.process[i].pid = pid;
		p->started++;
	}
	return SL_EXIT_OK;
}

/* How many processes have come to step or beyond; -1 and one line if one failed or died. */
static int look_at(struct parent *p, enum step step)
{
	int there = 0;

	for (uint32_t i = 0; i < p->started; i++) {
		struct process *child = &p->sh.process[i];
		int status;

		if (!child->gone && waitpid(child->pid, &status, WNOHANG) == child->pid)
			child->gone = true;
		switch (atomic_load_explicit(&child->step, memory_order_acquire)) {
		case FAILED:
			fprintf(stderr, "sidelight %s: %s\n", p->cmd->name, child->error);
			return -1;
		case DONE:
			there++;
			break;
		case ATTACHED:
			there += step == ATTACHED;
			break;
		}
		if (child->gone) {
			fprintf(stderr, "sidelight %s: process %d of pod %s-%u died\n",
				p->cmd->name, (int)child->pid, p->s->service,
				i * p->s->pods_per_process);
			return -1;
		}
	}
	return there;
}

/*
 * Waits until all have come to step; with or_stopped, not after a signal to stop (without, they
 * are told, and come to it early). 0; 1 if there was that signal; -1 after one line.
 */
static int wait_for(struct parent *p, enum step step, bool or_stopped)
{
	bool stopped = false;

	for (;;) {
		struct pollfd fds[2] = {{.fd = p->status[0], .events = POLLIN},
					{.fd = p->stop, .events = POLLIN}};
		char bytes[512];
		int there = look_at(p, step);

		if (there < 0)
			return -1;
		if ((uint32_t)there == p->started)
			return stopped;
		/* The time limit is for a child that died without a word. */
		poll(fds, stopped ? 1 : 2, 100);
		if (fds[0].revents && read(p->status[0], bytes, sizeof(bytes)) < 0 &&
		    errno != EINTR)
			return complain(p, "read", errno), -1;
		if (!stopped && fds[1].revents) {
			stopped = true;
			atomic_store(p->sh.stop, true);
			if (or_stopped)
				return 1;
		}
	}
}

static void end_of_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void finish(struct parent *p, bool kill_them)
{
	end_of_file(&p->leave[1]);
	end_of_file(&p->go[1]);
	for (uint32_t i = 0; i < p->started; i++) {
		struct process *child = &p->sh.process[i];

		if (kill_them && !child->gone)
			kill(child->pid, SIGKILL);
	}
	for (uint32_t i = 0; i < p->started; i++)
		if (!p->sh.process[i].gone)
			waitpid(p->sh.process[i].pid, NULL, 0);
}

/* ---- the report -------------------------------------------------------------------------------- */

struct outcome {
	uint64_t of_kind[KINDS], sum, all, cpu_ns, elapsed_ns;
	bool complete;
};

static uint64_t pod_total(const struct parent *p, uint32_t pod)
{
	const struct thread_total *t = &p->sh.total[(size_t)pod * p->s->threads];
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->s->threads; i++)
		for (int k = 0; k < KINDS; k++)
			n += atomic_load(&t[i].done[k]);
	return n;
}

static struct outcome add_up(const struct parent *p, uint64_t elapsed_ns)
{
	const struct settings *s = p->s;
	struct outcome o = {.elapsed_ns = elapsed_ns};

	for (size_t i = 0; i < (size_t)s->pods * s->threads; i++) {
		struct thread_total *t = &p->sh.total[i];

		for (int k = 0; k < KINDS; k++) {
			o.of_kind[k] += atomic_load(&t->done[k]);
			o.all += atomic_load(&t->done[k]);
		}
		o.sum += atomic_load(&t->sum);
		o.cpu_ns += atomic_load(&t->cpu_ns);
	}
	o.complete = o.all == (uint64_t)s->pods * s->metrics * s->threads * s->updates;
	return o;
}

static json_t *whole(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static int report_json(const struct parent *p, const struct outcome *o)
{
	const struct settings *s = p->s;
	json_t *expect = json_object(), *pods = json_array();
	json_t *all;
	char *text;

	if (s->of_kind[COUNTER])
		json_object_set_new(expect, family[COUNTER], whole(o->of_kind[COUNTER]));
	if (s->of_kind[GAUGE])
		json_object_set_new(expect, family[GAUGE], whole(o->of_kind[GAUGE]));
	if (s->of_kind[HISTOGRAM]) {
		json_object_set_new(expect, "generated_size_bytes_count",
				    whole(o->of_kind[HISTOGRAM]));
		json_object_set_new(expect, "generated_size_bytes_sum", whole(o->sum));
	}
	for (uint32_t i = 0; i < s->pods; i++)
		json_array_append_new(
			pods,
			json_pack("{s:o, s:I, s:I}", "pod", json_sprintf("%s-%u", s->service, i),
				  "pid", (json_int_t)p->sh.process[i / s->pods_per_process].pid,
				  "total", (json_int_t)pod_total(p, i)));
	all = json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:I, s:o, s:f, s:f, s:o}", "service",
			s->service, "pods", (json_int_t)s->pods, "metrics", (json_int_t)s->metrics,
			"threads", (json_int_t)s->threads, "updates", (json_int_t)s->updates,
			"complete", o->complete, "per_metric_total",
			o->complete ? whole(s->threads * s->updates) : json_null(), "grand_total",
			(json_int_t)o->all, "expect", expect, "elapsed_seconds",
			(double)o->elapsed_ns / 1e9, "ns_per_update",
			o->all ? (double)o->cpu_ns / (double)o->all : 0.0, "per_pod", pods);
	text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
	json_decref(all);
	if (!text)
		return complain(p, "report", ENOMEM);
	puts(text);
	free(text);
	return SL_EXIT_OK;
}

static int report(const struct parent *p, const struct outcome *o)
{
	const struct settings *s = p->s;
	int err = SL_EXIT_OK;

	if (s->json) {
		err = report_json(p, o);
	} else {
		printf("%u pods x %u metrics x %u threads x %llu updates%s\n", s->pods, s->metrics,
		       s->threads, (unsigned long long)s->updates,
		       o->complete ? "" : ", stopped before the end");
		if (o->complete)
			printf("each metric's total     %llu\n",
			       (unsigned long long)(s->threads * s->updates));
		for (int k = 0; k < KINDS; k++)
			if (s->of_kind[k])
				printf("%-23s %llu over all pods\n", family[k],
				       (unsigned long long)o->of_kind[k]);
		if (s->of_kind[HISTOGRAM])
			printf("sum of the sizes        %llu\n", (unsigned long long)o->sum);
		printf("elapsed                 %.3f s\n", (double)o->elapsed_ns / 1e9);
		if (o->all)
			printf("CPU time an update      %.2f ns\n",
			       (double)o->cpu_ns / (double)o->all);
	}
	if (fflush(stdout) || ferror(stdout))
		return complain(p, "standard output", errno);
	return err;
}

/* ---- the command ------------------------------------------------------------------------------- */

static int parse_kinds(const struct sl_command *cmd, struct settings *s)
{
	enum kind list[16];
	uint32_t n = 0;
	const char *at = s->kinds;

	for (;;) {
		size_t length = strcspn(at, ",");
		int k;

		for (k = 0; k < KINDS; k++)
			if (strlen(kind_names[k]) == length && !strncmp(kind_names[k], at, length))
				break;
		if (k == KINDS)
			return sl_usage(cmd, "--kinds: '%.*s' is none of counter, gauge, histogram",
					(int)length, at);
		if (n == sizeof(list) / sizeof(*list))
			return sl_usage(cmd, "--kinds: at most %u, separated by commas", n);
		list[n++] = (enum kind)k;
		at += length;
		if (!*at)
			break;
		at++;
	}
	for (uint32_t i = 0; i < s->metrics; i++)
		s->of_kind[list[i % n]]++;
	return SL_EXIT_OK;
}

static int generate(struct parent *p)
{
	const struct settings *s = p->s;
	struct outcome o;
	uint64_t began;
	int waited;

	if (start(p) != SL_EXIT_OK)
		return SL_EXIT_FAILURE;
	waited = wait_for(p, ATTACHED, true);
	if (waited < 0)
		return SL_EXIT_FAILURE;
	if (!waited) {
		fprintf(stderr, "ready pods=%u metrics=%u threads=%u processes=%u\n", s->pods,
			s->metrics, s->threads, p->started);
		began = sl_now_ns();
		end_of_file(&p->go[1]);
		waited = wait_for(p, DONE, false);
		if (waited < 0)
			return SL_EXIT_FAILURE;
		o = add_up(p, sl_now_ns() - began);
	} else {
		o = add_up(p, 0);
	}
	if (report(p, &o) != SL_EXIT_OK)
		return SL_EXIT_FAILURE;
	began = sl_now_ns();
	while (!waited && sl_now_ns() - began < s->hold) {
		uint64_t left = (s->hold - (sl_now_ns() - began)) / 1000000 + 1;

		if (sl_stop_wait(p->stop, left < 200 ? (int)left : 200))
			break;
		if (look_at(p, DONE) < 0)
			return SL_EXIT_FAILURE;
	}
	return SL_EXIT_OK;
}

static int run(const struct sl_command *cmd, int argc, char **argv)
{
	struct settings s = {.pods = 1,
			     .metrics = 64,
			     .threads = 1,
			     .updates = 1000,
			     .pods_per_process = 1,
			     .seed = 1,
			     .wait = 10000000000,
			     .kinds = "counter",
			     .service = "generate"};
	const struct sl_option table[] = {
		{"pods", 'n', SL_OPT_U32, &s.pods, "N", "pods, each a publisher", 1, 100000},
		{"metrics", 'm', SL_OPT_U32, &s.metrics, "N", "metrics a pod", 1, 1000000},
		{"threads", 't', SL_OPT_U32, &s.threads, "N", "threads a pod", 1, 1024},
		{"updates", 'u', SL_OPT_U64, &s.updates, "N",
		 "updates of each metric by each thread; 0: the pods stay idle (--hold)", 0, 1e15},
		{"rate", 'r', SL_OPT_U64, &s.rate, "N",
		 "at most so many updates a second and thread; 0: as fast as possible (default)", 0,
		 1e9},
		{"socket", 's', SL_OPT_STRING, &s.socket, "PATH",
		 "the agent's (default $SIDELIGHT_SOCKET or /run/sidelight/agent.sock)", 0, 0},
		{"kinds", 'k', SL_OPT_STRING, &s.kinds, "LIST",
		 "of the metrics, in turn: counter, gauge, histogram", 0, 0},
		{"service", 0, SL_OPT_STRING, &s.service, "NAME", "label service; pod N is NAME-N",
		 0, 0},
		{"namespace", 0, SL_OPT_STRING, &s.kube_namespace, "NAME", "label namespace", 0, 0},
		{"pods-per-process", 0, SL_OPT_U32, &s.pods_per_process, "N",
		 "publishers that share a process", 1, PODS_A_PROCESS_MAX},
		{"wait", 0, SL_OPT_DURATION, &s.wait, "DURATION",
		 "until the agent has admitted all, else fail; 0: count at once, attached or not",
		 0, 0},
		{"hold", 0, SL_OPT_DURATION, &s.hold, "DURATION",
		 "keep the pods alive so long after the last update; 0: they end (default), and the "
		 "agent keeps their last values",
		 0, 0},
		{"seed", 0, SL_OPT_U64, &s.seed, "N", "of the sizes that histograms observe", 0, 0},
		{"json", 'j', SL_OPT_FLAG, &s.json, NULL, "print the totals as JSON", 0, 0},
		{0},
	};
	struct parent p = {
		.cmd = cmd, .s = &s, .status = {-1, -1}, .go = {-1, -1}, .leave = {-1, -1}};
	unsigned __int128 all;
	int first = sl_options_parse(cmd, table, argc, argv), result, err;

	if (first < 0)
		return first == SL_HELP_SHOWN ? SL_EXIT_OK : SL_EXIT_USAGE;
	if (first < argc)
		return sl_usage(cmd, "unexpected '%s'", argv[first]);
	if (strlen(s.service) > 255)
		return sl_usage(cmd, "--service: longer than 255 bytes");
	all = (unsigned __int128)s.pods * s.metrics * s.threads * s.updates;
	if (all > INT64_MAX)
		return sl_usage(cmd, "more than 2^63 updates in all");
	if ((uint64_t)s.pods * s.threads > 1u << 20)
		return sl_usage(cmd, "more than %u threads in all", 1u << 20);
	err = parse_kinds(cmd, &s);
	if (err)
		return err;

	err = share(&s, &p.sh);
	if (err)
		return complain(&p, "memory", -err);
	p.stop = sl_stop_fd();
	if (p.stop < 0) {
		result = complain(&p, "signalfd", -p.stop);
		goto unmap;
	}
	if (pipe2(p.status, O_CLOEXEC) || pipe2(p.go, O_CLOEXEC) || pipe2(p.leave, O_CLOEXEC)) {
		result = complain(&p, "pipe", errno);
		goto close_pipes;
	}
	signal(SIGPIPE, SIG_IGN); /* write() says EPIPE; children inherit it */
	result = generate(&p);
	finish(&p, result != SL_EXIT_OK);
close_pipes:
	for (int i = 0; i < 2; i++) {
		end_of_file(&p.leave[i]);
		end_of_file(&p.go[i]);
		end_of_file(&p.status[i]);
	}
	close(p.stop);
unmap:
	munmap(p.sh.memory, p.sh.bytes);
	return result;
}

const struct sl_command sl_generate_metrics = {
	.name = "generate metrics",
	.synopsis = "[OPTION]...",
	.summary = "pods that update their metrics exactly so often",
	.run = run,
};
