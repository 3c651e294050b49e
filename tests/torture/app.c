// SPDX-License-Identifier: Apache-2.0
/*
 * app.c - a small application, in whose library calls fail: app SOCKET [LATER-SOCKET]
 *
 * It publishes, by a second publisher to an agent that comes later, counts in two threads and in a
 * forked child, and prints the descriptor of its region. On a line of input it compares every
 * handle that is valid with what was counted, and prints "exact REFUSED", the number of handles
 * that were not created. It ends with its input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sidelight/sidelight.h>
#include <sidelight/span.h>

#define COUNTERS 40
#define TIMES	 1000

static struct sl_counter counter[COUNTERS];
static struct sl_histogram histogram;
static struct sl_counter labelled, later;

static void count(int times)
{
	for (int i = 0; i < times; i++) {
		for (int c = 0; c < COUNTERS; c++)
			sl_counter_inc(counter[c]);
		sl_counter_inc(labelled);
		sl_counter_inc(later);
		sl_histogram_observe(histogram, .5);
	}
}

static void *count_more(void *arg)
{
	(void)arg;
	count(TIMES);
	return NULL;
}

static void say(enum sl_log_level level, const char *line, void *arg)
{
	(void)level, (void)arg;
	fprintf(stderr, "%s\n", line);
}

/* Returns the number of refused handles; -1: a handle does not have the counted value. */
static int check(uint64_t times)
{
	int refused = 0;

	for (int c = 0; c < COUNTERS + 2; c++) {
		struct sl_counter of = c < COUNTERS ? counter[c] : c == COUNTERS ? labelled : later;

		if (!sl_counter_valid(of))
			refused++;
		else if (sl_counter_value(of) != times)
			return -1;
	}
	if (!sl_histogram_valid(histogram))
		refused++;
	else if (sl_histogram_count(histogram) != times)
		return -1;
	return refused;
}

static void work(struct sl_publisher *p)
{
	const struct sl_span_name name = sl_span_name_create(p, "GET /");
	const struct sl_span_key key = sl_span_key_create(p, "http.route");
	struct sl_span span;

	sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
	sl_span_set_string(&span, key, "/");
	count(TIMES);
	sl_span_end(&span);
}

static void create(struct sl_publisher *p)
{
	struct sl_counter_family family;
	char text[32];

	for (int c = 0; c < COUNTERS; c++) {
		snprintf(text, sizeof(text), "torture_%d_total", c);
		counter[c] = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = text));
	}
	family = sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "labelled_total"));
	labelled = sl_counter_with(family, SL_LABELS({"of", "torture"}));
	histogram = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "torture_seconds"));
}

/* A child counts from 0 in its own region, or not at all if it gets none. */
static int child(struct sl_publisher *p, struct sl_publisher *second)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		count(TIMES);
		for (int c = 0; c < COUNTERS; c++)
			if (sl_counter_value(counter[c]) > TIMES)
				_exit(1);
		sl_publisher_close(p);
		sl_publisher_close(second);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	struct sl_publisher *p, *second;
	pthread_t thread;
	char line[16];
	int refused;

	if (argc < 2)
		return 2;
	sl_set_log(say, NULL);
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = argv[1], .service = "torture",
				       .span_bytes = SL_SPAN_BYTES));
	if (!p)
		perror("sl_publisher_open");
	create(p);
	second = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "torture-later",
					    .socket = argc > 2 ? argv[2] : argv[1]));
	later = sl_counter_create(second, &SL_OPTS(sl_metric_opts, .name = "later_total"));
	work(p);
	if (pthread_create(&thread, NULL, count_more, NULL))
		return 3;
	pthread_join(thread, NULL);
	if (child(p, second))
		return 4;
	printf("counted %d %d\n", sl_publisher_fd(p), sl_publisher_fd(second));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		refused = check(2 * TIMES);
		printf(refused < 0 ? "wrong\n" : "exact %d\n", refused);
		fflush(stdout);
	}
	sl_publisher_close(p);
	sl_publisher_close(second);
	return 0;
}
