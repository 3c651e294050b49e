// SPDX-License-Identifier: Apache-2.0
/*
 * traffic SOCKET TRACES RATE [small|large]: three services (front, cart, db) publish TRACES traces
 * at RATE per second, with 1 + 2 + 3 spans; every 50th takes 30 times as long and every 97th fails,
 * in db alone; small: one service, one span; large: one failed trace of TRACES spans. Prints what
 * it made, then sleeps until it is killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/span.h>

static struct sl_publisher *service(const char *name, const char *socket)
{
	struct sl_publisher_opts o = SL_OPTS(sl_publisher_opts, .service = name, .pod = name,
					     .socket = socket, .max_threads = 2,
					     .span_bytes = 1u << 20);

	return sl_publisher_open(&o);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the context that a caller sends, as the callee reads it. */
static struct sl_trace_context sent(const struct sl_span *caller)
{
	char header[SL_TRACEPARENT_LENGTH + 1];
	struct sl_trace_context c;

	sl_traceparent_parse(header, sl_traceparent_format(&caller->context, header), &c);
	return c;
}

static void set_times(struct sl_span *s, uint64_t start, uint64_t duration)
{
	sl_span_set_start(s, start);
	sl_span_set_end(s, start + duration);
}

/* Traces of one span each, the smallest that there are. */
static void small(struct sl_publisher *p, unsigned long traces, unsigned long rate)
{
	struct sl_span_name get = sl_span_name_create(p, "GET /");

	for (unsigned long i = 0; i < traces; i++) {
		struct sl_span root;

		sl_span_start(&root, get, SL_SPAN_SERVER, NULL);
		set_times(&root, now_ns(), 1000000);
		sl_span_end(&root);
		if (i % 100 == 99)
			nanosleep(
				&(struct timespec){0, (long)(100000000000ull / rate % 1000000000)},
				NULL);
	}
	printf("ready traces=%lu\n", traces);
	fflush(stdout);
	for (;;)
		pause();
}

/* All spans of one trace, whose root comes last. */
static void large(struct sl_publisher *p, unsigned long spans)
{
	struct sl_span_name get = sl_span_name_create(p, "GET /");
	struct sl_span_name row = sl_span_name_create(p, "row");
	struct sl_span root;

	sl_span_start(&root, get, SL_SPAN_SERVER, NULL);
	for (unsigned long i = 1; i < spans; i++) {
		struct sl_span s;

		sl_span_start(&s, row, SL_SPAN_INTERNAL, &root.context);
		sl_span_end(&s);
	}
	sl_span_set_status(&root, SL_SPAN_ERROR, "failed");
	sl_span_end(&root);
	printf("ready traces=1\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct sl_publisher *front, *cart, *db;
	struct sl_span_name get, call, add, query, store;
	struct sl_span_key items, statement, retries;
	unsigned long traces, rate, slow = 0, failed = 0;
	char slow_id[33] = "", failed_id[33] = "";

	if (argc < 4)
		return 2;
	traces = strtoul(argv[2], NULL, 10);
	rate = strtoul(argv[3], NULL, 10);
	front = service("front", argv[1]);
	if (front && argc > 4 && !strcmp(argv[4], "large"))
		large(front, traces);
	if (front && argc > 4)
		small(front, traces, rate);
	cart = service("cart", argv[1]);
	db = service("db", argv[1]);
	if (!front || !cart || !db)
		return 1;
	get = sl_span_name_create(front, "GET /cart");
	call = sl_span_name_create(cart, "call db");
	add = sl_span_name_create(cart, "cart.get");
	query = sl_span_name_create(db, "db.query");
	store = sl_span_name_create(db, "row");
	items = sl_span_key_create(cart, "items");
	statement = sl_span_key_create(db, "db.statement");
	retries = sl_span_key_create(db, "db.ratio");
	for (unsigned long i = 0; i < traces; i++) {
		uint64_t start = now_ns(), unit = i % 50 == 49 ? 30000000 : 1000000 + i % 7 * 10000;
		bool fails = i % 97 == 96;
		struct sl_span root, handled, called, asked, row;
		struct sl_trace_context c;

		sl_span_start(&root, get, SL_SPAN_SERVER, NULL);
		c = sent(&root);
		sl_span_start(&handled, add, SL_SPAN_SERVER, &c);
		sl_span_start(&called, call, SL_SPAN_CLIENT, &handled.context);
		c = sent(&called);
		sl_span_start(&asked, query, SL_SPAN_SERVER, &c);
		sl_span_set_string(&asked, statement, "SELECT * FROM carts WHERE id = ?");
		sl_span_set_f64(&asked, retries, 0.25);
		for (unsigned int k = 0; k < 2; k++) {
			sl_span_start(&row, store, SL_SPAN_INTERNAL, &asked.context);
			set_times(&row, start + unit / 2 + k, unit / 8);
			sl_span_end(&row);
		}
		if (fails)
			sl_span_set_status(&asked, SL_SPAN_ERROR, "deadlock");
		set_times(&asked, start + unit / 3, unit / 3);
		sl_span_end(&asked);
		set_times(&called, start + unit / 4, unit / 2);
		sl_span_end(&called);
		sl_span_set_i64(&handled, items, (int64_t)i);
		set_times(&handled, start + unit / 8, unit * 3 / 4);
		sl_span_end(&handled);
		set_times(&root, start, unit);
		slow += unit == 30000000;
		failed += fails;
		if (unit == 30000000)
			snprintf(slow_id, sizeof(slow_id), "%016llx%016llx",
				 (unsigned long long)root.context.trace_hi,
				 (unsigned long long)root.context.trace_lo);
		if (fails)
			snprintf(failed_id, sizeof(failed_id), "%016llx%016llx",
				 (unsigned long long)root.context.trace_hi,
				 (unsigned long long)root.context.trace_lo);
		sl_span_end(&root);
		if (rate && i % 10 == 9)
			nanosleep(&(struct timespec){0, (long)(10000000000ull / rate % 1000000000)},
				  NULL);
	}
	printf("ready traces=%lu spans=%lu slow=%lu failed=%lu slow_id=%s failed_id=%s\n", traces,
	       traces * 6, slow, failed, slow_id, failed_id);
	fflush(stdout);
	for (;;)
		pause();
}
