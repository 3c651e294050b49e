// SPDX-License-Identifier: Apache-2.0
/*
 * queue - a job queue with prefork workers, each of which is a publisher of its own.
 *
 *	queue [--workers N] [--rate JOBS] [--jobs N]
 *
 * The parent opens the publisher and creates the metrics, and then forks: that is all. A forked
 * child counts from 0 in memory of its own; the collector shows a series for each process (label
 * "process"), or their sum (sidelight collect --sum-processes). A worker that is killed keeps its
 * place in that sum, and the parent starts another one. No files, no merging, no PIDs to keep.
 *
 *	cc -O2 -o queue queue.c $(pkg-config --cflags --libs sidelight)
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
#define METRIC(...)  (&(struct sl_metric_opts){.sz = sizeof(struct sl_metric_opts), __VA_ARGS__})

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

static void create_metrics(struct sl_publisher *p)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct sl_label kind = {"kind", kind_names[i]};

		queued[i] = sl_counter_create(p, METRIC(.name = "queue_jobs_queued_total",
							.help = "Jobs given to the workers.",
							.labels = &kind, .label_count = 1));
		done[i] = sl_counter_create(p, METRIC(.name = "queue_jobs_done_total",
						      .help = "Jobs done.", .labels = &kind,
						      .label_count = 1));
		failed[i] = sl_counter_create(p, METRIC(.name = "queue_jobs_failed_total",
							.help = "Jobs that failed.",
							.labels = &kind, .label_count = 1));
		duration[i] = sl_histogram_create(
			p, METRIC(.name = "queue_job_duration_seconds",
				  .help = "Time that a job took.", .unit = "seconds",
				  .labels = &kind, .label_count = 1, .min = 1e-6, .max = 10));
	}
	workers = sl_gauge_create(p, METRIC(.name = "queue_workers", .help = "Worker processes."));
	workers_started = sl_counter_create(p, METRIC(.name = "queue_workers_started_total",
						      .help = "Worker processes ever started."));
	busy = sl_gauge_create(
		p, METRIC(.name = "queue_worker_busy", .help = "1 while the worker has a job."));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Something to do: a few rounds of a random number generator. Every 100th job goes wrong. */
static int do_job(const struct job *job)
{
	volatile unsigned long long x = job->number + 1;

	for (unsigned int i = 0; i < work[job->kind]; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x && job->number % 100 == 99 ? -1 : 0;
}

/* A worker ends when its parent closed the queue. It has nothing to set up, and nothing to close.
 */
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
	      "  --rate     jobs a second (200)\n"
	      "  --jobs     end after so many (0: on SIGTERM)\n"
	      "The library takes the agent's socket from $SIDELIGHT_SOCKET and the label \"pod\" from\n"
	      "$POD_NAME, if they are set.\n",
	      to);
	return code;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'},
						{"rate", 1, NULL, 'r'},
						{"jobs", 1, NULL, 'j'},
						{"help", 0, NULL, 'h'},
						{0}};
	struct sl_publisher_opts opts = {.sz = sizeof(opts), .service = "queue"};
	long count = 2, rate = 200, jobs = 0, sent = 0;
	struct sl_publisher *publisher;
	sigset_t handled, unblocked;
	int option, queue[2], signals;
	bool stop = false;
	double next;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'w')
			count = strtol(optarg, NULL, 10);
		else if (option == 'r')
			rate = strtol(optarg, NULL, 10);
		else if (option == 'j')
			jobs = strtol(optarg, NULL, 10);
		else
			return option == 'h' ? usage(stdout, 0) : usage(stderr, 2);
	}
	if (optind < argc || count < 1 || count > 256 || rate < 1 || rate > 1000000 || jobs < 0)
		return usage(stderr, 2);
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

	publisher = sl_publisher_open(&opts);
	create_metrics(publisher);
	for (long i = 0; i < count; i++)
		start_worker(queue, &unblocked);
	printf("ready workers=%ld rate=%ld\n", count, rate);
	fflush(stdout);

	next = now();
	while (!stop && (!jobs || sent < jobs)) {
		struct pollfd wait = {.fd = signals, .events = POLLIN};
		int left = (int)((next - now()) * 1000);
		struct signalfd_siginfo info;

		if (poll(&wait, 1, left > 0 ? left : 0) > 0 &&
		    read(signals, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo != SIGCHLD) {
				stop = true;
				continue;
			}
			while (waitpid(-1, NULL, WNOHANG) > 0) { /* killed: the next one, please */
				sl_gauge_add(workers, -1);
				start_worker(queue, &unblocked);
			}
		}
		while (now() >= next && (!jobs || sent < jobs)) {
			struct job job = {.number = (unsigned int)sent};

			job.kind = sent % 10 < 7 ? MAIL : sent % 10 < 9 ? THUMBNAIL : REPORT;
			/* Full: the workers are behind. The job is late, not lost. */
			if (send(queue[1], &job, sizeof(job), MSG_DONTWAIT) != sizeof(job))
				break;
			sl_counter_inc(queued[job.kind]);
			sent++;
			next += 1.0 / (double)rate;
		}
	}
	close(queue[0]);
	close(queue[1]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	sl_publisher_close(publisher);
	return 0;
}
