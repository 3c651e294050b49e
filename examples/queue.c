// SPDX-License-Identifier: Apache-2.0
/*
 * queue - a job queue with prefork workers, each of which is a publisher of its own.
 *
 * 	queue [--workers N] [--rate JOBS] [--jobs N]
 *
 * The parent opens the publisher, creates the metrics and forks; workers have nothing to set up. A
 * forked child counts from 0 in memory of its own. The collector shows a series per process (label
 * "process") or their sum (sidelight collect --sum-processes), in which killed workers still count.
 *
 * 	cc -O2 -o queue queue.c $(pkg-config --cflags --libs sidelight)
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum kind { MAIL, THUMBNAIL, REPORT, KINDS };
static const char *const kind_names[KINDS] = {"mail", "thumbnail", "report"};
static const unsigned int work[KINDS] = {2000, 20000, 100000}; /* rounds: about 1 ns each */

struct job {
	enum kind kind;
	unsigned int number;
};

static struct sl_counter queued[KINDS], done[KINDS], failed[KINDS], workers_started;
static struct sl_histogram duration[KINDS];
static struct sl_gauge workers, busy;

static struct sl_counter_family jobs_family(struct sl_publisher *p, const char *name,
					    const char *help)
{
	return sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = name, .help = help));
}

static void create_metrics(struct sl_publisher *p)
{
	struct sl_counter_family jobs_queued = jobs_family(p, "queue_jobs_queued_total",
							   "Jobs given to the workers.");
	struct sl_counter_family jobs_done = jobs_family(p, "queue_jobs_done_total", "Jobs done.");
	struct sl_counter_family jobs_failed = jobs_family(p, "queue_jobs_failed_total",
							   "Jobs that failed.");
	struct sl_histogram_family durations = sl_histogram_family_create(
		p, &SL_OPTS(sl_metric_opts, .name = "queue_job_duration_seconds",
			    .help = "Time that a job took.", .unit = "seconds", .min = 1e-6,
			    .max = 10));

	for (size_t i = 0; i < KINDS; i++) {
		queued[i] = sl_counter_with(jobs_queued, SL_LABELS({"kind", kind_names[i]}));
		done[i] = sl_counter_with(jobs_done, SL_LABELS({"kind", kind_names[i]}));
		failed[i] = sl_counter_with(jobs_failed, SL_LABELS({"kind", kind_names[i]}));
		duration[i] = sl_histogram_with(durations, SL_LABELS({"kind", kind_names[i]}));
	}
	workers = sl_gauge_create(
		p, &SL_OPTS(sl_metric_opts, .name = "queue_workers", .help = "Worker processes."));
	workers_started = sl_counter_create(p, &SL_OPTS(sl_metric_opts,
							.name = "queue_workers_started_total",
							.help = "Worker processes ever started."));
	busy = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "queue_worker_busy",
					   .help = "1 while the worker has a job."));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Some rounds of a random number generator. Every 100th job fails. */
static int do_job(const struct job *job)
{
	volatile unsigned long long x = job->number + 1;

	for (unsigned int i = 0; i < work[job->kind]; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x && job->number % 100 == 99 ? -1 : 0;
}

/* A worker ends when its parent closes the queue. It has nothing to set up or to close. */
static int worker(int queue)
{
	struct job job;

	while (recv(queue, &job, sizeof(job), 0) == sizeof(job)) {
		double start = now();

		sl_gauge_set(busy, 1);
		sl_counter_inc(do_job(&job) ? failed[job.kind] : done[job.kind]);
		sl_histogram_observe(duration[job.kind], now() - start);
		sl_gauge_set(busy, 0);
	}
	return 0;
}

static void start_worker(const int queue[2], const sigset_t *unblocked)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(queue[1]);
		sigprocmask(SIG_SETMASK, unblocked, NULL);
		_exit(worker(queue[0]));
	}
	if (pid < 0) {
		perror("queue: fork");
		return;
	}
	sl_counter_inc(workers_started);
	sl_gauge_add(workers, 1);
}

static int usage(FILE *to, int code)
{
	fputs("usage: queue [--workers N] [--rate JOBS] [--jobs N]\n"
	      "A job queue with prefork workers whose metrics libsidelight publishes.\n"
	      "  --workers  worker processes (2)\n"
	      "  --rate     jobs per second (200)\n"
	      "  --jobs     jobs to run before it ends (0: run until SIGTERM)\n"
	      "The library takes the agent's socket from $SIDELIGHT_SOCKET and the label \"pod\" from\n"
	      "$POD_NAME, if they are set.\n",
	      to);
	return code;
}

struct settings {
	long workers, rate, jobs;
};

/* True; or false with an exit code. */
static bool parse(int argc, char **argv, struct settings *s, int *code)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'},
						{"rate", 1, NULL, 'r'},
						{"jobs", 1, NULL, 'j'},
						{"help", 0, NULL, 'h'},
						{0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'w' && option != 'r' && option != 'j') {
			*code = option == 'h' ? usage(stdout, 0) : usage(stderr, 2);
			return false;
		}
		*(option == 'w'	  ? &s->workers
		  : option == 'r' ? &s->rate
				  : &s->jobs) = strtol(optarg, NULL, 10);
	}
	if (optind == argc && s->workers >= 1 && s->workers <= 256 && s->rate >= 1 &&
	    s->rate <= 1000000 && s->jobs >= 0)
		return true;
	*code = usage(stderr, 2);
	return false;
}

/* Waits for a signal until `until`, and replaces killed workers. False: asked to stop. */
static bool wait_until(double until, int signals, const int queue[2], const sigset_t *unblocked)
{
	struct pollfd wait = {.fd = signals, .events = POLLIN};
	int left = (int)((until - now()) * 1000);
	struct signalfd_siginfo info;

	if (poll(&wait, 1, left > 0 ? left : 0) <= 0 ||
	    read(signals, &info, sizeof(info)) != sizeof(info))
		return true;
	if (info.ssi_signo != SIGCHLD)
		return false;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
		sl_gauge_add(workers, -1);
		start_worker(queue, unblocked);
	}
	return true;
}

static void produce(const struct settings *set, int signals, const int queue[2],
		    const sigset_t *unblocked)
{
	unsigned int seed = 1;
	double next = now();
	long sent = 0;
	int chance;

	while (!set->jobs || sent < set->jobs) {
		if (!wait_until(next, signals, queue, unblocked))
			return;
		while (now() >= next && (!set->jobs || sent < set->jobs)) {
			struct job job = {.number = (unsigned int)sent};

			/* Random: in a fixed order, one worker could get all of a kind. */
			chance = rand_r(&seed) % 10;
			job.kind = chance < 7 ? MAIL : chance < 9 ? THUMBNAIL : REPORT;
			/* The queue is full: the job is late, not lost. */
			if (send(queue[1], &job, sizeof(job), MSG_DONTWAIT) != sizeof(job))
				break;
			sl_counter_inc(queued[job.kind]);
			sent++;
			next += 1.0 / (double)set->rate;
		}
	}
}

int main(int argc, char **argv)
{
	struct settings set = {.workers = 2, .rate = 200};
	struct sl_publisher *publisher;
	sigset_t handled, unblocked;
	int queue[2], signals, code;

	if (!parse(argc, argv, &set, &code))
		return code;
	sigemptyset(&handled);
	sigaddset(&handled, SIGTERM);
	sigaddset(&handled, SIGINT);
	sigaddset(&handled, SIGCHLD);
	sigprocmask(SIG_BLOCK, &handled, &unblocked);
	signals = signalfd(-1, &handled, SFD_CLOEXEC);
	if (signals < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, queue)) {
		perror("queue");
		return 1;
	}
	publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "queue"));
	create_metrics(publisher);
	for (long i = 0; i < set.workers; i++)
		start_worker(queue, &unblocked);
	printf("ready workers=%ld rate=%ld\n", set.workers, set.rate);
	fflush(stdout);
	produce(&set, signals, queue, &unblocked);
	close(queue[0]);
	close(queue[1]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	sl_publisher_close(publisher);
	return 0;
}
