// SPDX-License-Identifier: Apache-2.0
/*
 * shop - a small REST service that publishes its metrics with libsidelight.
 *
 * 	shop [--listen ADDR:PORT] [--threads N] [--faults]
 *
 *	GET  /products       all products          GET /products/N  one of them
 *	POST /orders         body: product=N       GET /healthz     am I alive?
 *	POST /fault?kind=KIND&seconds=N            with --faults, from this host: injects a fault
 *
 * All metrics and spans are created between the two lines of equals signs and used by the sl_...
 * calls in handle(), respond() and order(). None of them can fail, block or slow down a request.
 * Without an agent the service runs the same; an agent that starts later finds it.
 *
 * log_level() uses the verdict of a collector's analysis: while this process is anomalous, it logs
 * its requests.
 *
 * 	cc -O2 -o shop shop.c $(pkg-config --cflags --libs sidelight) -pthread
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>
#include <sidelight/span.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define THREADS_MAX  64

static const struct {
	const char *name;
	double price;
	int stock;
} catalogue[] = {
	{"lamp", 49.90, 100},
	{"chair", 119.00, 60},
	{"table", 349.00, 40},
	{"shelf", 89.50, 60},
};
static _Atomic int stock[COUNT(catalogue)];

/* ============================================================================================== */

enum route { ROUTE_PRODUCTS, ROUTE_PRODUCT, ROUTE_ORDERS, ROUTE_HEALTH, ROUTE_OTHER, ROUTES };
static const char *const route_names[ROUTES] = {"/products", "/products/N", "/orders", "/healthz",
						"other"};
static const int codes[] = {200, 201, 400, 404, 405, 409, 500};
static const char *const code_names[] = {"200", "201", "400", "404", "405", "409", "500"};

static struct sl_counter requests[ROUTES][COUNT(codes)];
static struct sl_histogram duration[ROUTES];
static struct sl_histogram database;
static struct sl_gauge in_flight, connections, cached, left[COUNT(catalogue)];
static struct sl_counter bytes_sent;
static struct sl_counter_f64 revenue, cpu;
static struct sl_publisher *publisher;
static struct sl_stateset phase;
static struct sl_span_name served[ROUTES], taking, asking;
static struct sl_span_key status_code, product;
enum { PHASE_STARTING, PHASE_SERVING, PHASE_STOPPING };

static struct sl_gauge gauge(struct sl_publisher *p, const char *name, const char *help)
{
	return sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = name, .help = help));
}

static void create_http_metrics(struct sl_publisher *p)
{
	struct sl_counter_family answered = sl_counter_family_create(
		p, &SL_OPTS(sl_metric_opts, .name = "http_requests_total",
			    .help = "Requests answered, by route and status."));
	struct sl_histogram_family took = sl_histogram_family_create(
		p, &SL_OPTS(sl_metric_opts, .name = "http_request_duration_seconds",
			    .help = "From the last byte of a request to the answer.",
			    .unit = "seconds", .min = 1e-6, .max = 10));

	/* A counter per route and code: created once, here, and never looked up again. */
	for (size_t r = 0; r < ROUTES; r++) {
		for (size_t c = 0; c < COUNT(codes); c++)
			requests[r][c] = sl_counter_with(
				answered,
				SL_LABELS({"route", route_names[r]}, {"code", code_names[c]}));
		duration[r] = sl_histogram_with(took, SL_LABELS({"route", route_names[r]}));
	}
	in_flight = gauge(p, "http_requests_in_flight", "Requests being answered.");
	connections = gauge(p, "http_connections", "Open connections.");
	bytes_sent = sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "http_response_bytes_total",
			    .help = "Bytes of answers, headers included.", .unit = "bytes"));
}

static void create_shop_metrics(struct sl_publisher *p)
{
	static const char *const phases[] = {"starting", "serving", "stopping"};
	struct sl_gauge_family stocked = sl_gauge_family_create(
		p, &SL_OPTS(sl_metric_opts, .name = "shop_stock", .help = "Pieces left."));

	for (size_t i = 0; i < COUNT(catalogue); i++)
		left[i] = sl_gauge_with(stocked, SL_LABELS({"product", catalogue[i].name}));
	revenue = sl_counter_f64_create(p,
					&SL_OPTS(sl_metric_opts, .name = "shop_revenue_euros_total",
						 .help = "Sum of all orders."));
	database = sl_histogram_create(
		p, &SL_OPTS(sl_metric_opts, .name = "shop_database_duration_seconds",
			    .help = "Time that the database takes to answer.", .unit = "seconds",
			    .min = 1e-7, .max = 10));
	cpu = sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_cpu_seconds_total",
						.help = "CPU time spent on answering requests.",
						.unit = "seconds"));
	cached = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_cache_bytes",
					     .help = "Size of cached answers.", .unit = "bytes"));
	phase = sl_stateset_create(p, &SL_OPTS(sl_metric_opts, .name = "shop_phase",
					       .help = "Phase of the service's life.",
					       .states = phases, .state_count = COUNT(phases)));
	sl_info_create(p, &SL_OPTS(sl_metric_opts, .name = "build_info", .help = "The program.",
				   .labels = &(struct sl_label){"version", "1.4.2"},
				   .label_count = 1));
}

/* A span per request, named after its route, and one per step of it. */
static void create_spans(struct sl_publisher *p)
{
	for (size_t r = 0; r < ROUTES; r++)
		served[r] = sl_span_name_create(p, route_names[r]);
	taking = sl_span_name_create(p, "take from stock");
	asking = sl_span_name_create(p, "ask the database");
	status_code = sl_span_key_create(p, "http.response.status_code");
	product = sl_span_key_create(p, "shop.product");
}

/* The library prints nothing by itself. */
static void log_line(enum sl_log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level <= SL_LOG_WARN)
		fprintf(stderr, "%s\n", line);
}

/* ============================================================================================== */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- faults ---- */

enum fault { FAULT_NONE, FAULT_CPU, FAULT_SLOW, FAULT_ERRORS, FAULT_LEAK, FAULTS };
static const char *const fault_names[FAULTS] = {"none", "cpu", "slow", "errors", "leak"};
static bool faults_allowed;
static _Atomic int fault_kind;
static _Atomic double fault_end;

#define LEAK_BYTES ((size_t)32 << 10) /* per request */
#define LEAK_MAX   ((size_t)256 << 20)
struct leak {
	struct leak *next;
};
static pthread_mutex_t leak_lock = PTHREAD_MUTEX_INITIALIZER;
static struct leak *leaked;
static _Atomic size_t leaked_bytes;

static enum fault fault(void)
{
	return fault_kind && now() < fault_end ? (enum fault)fault_kind : FAULT_NONE;
}

static void burn(double seconds)
{
	struct timespec t;
	double end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	end = (double)t.tv_sec + (double)t.tv_nsec * 1e-9 + seconds;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while ((double)t.tv_sec + (double)t.tv_nsec * 1e-9 < end);
}

/* Keeps an answer that no request will ask for; without `more` frees all of them. */
static void leak(bool more)
{
	struct leak *l;

	pthread_mutex_lock(&leak_lock);
	l = more && leaked_bytes < LEAK_MAX ? malloc(LEAK_BYTES) : NULL;
	if (l) {
		memset(l, 1, LEAK_BYTES);
		l->next = leaked;
		leaked = l;
		leaked_bytes += LEAK_BYTES;
	}
	while (!more && (l = leaked)) {
		leaked = l->next;
		free(l);
		leaked_bytes -= LEAK_BYTES;
	}
	pthread_mutex_unlock(&leak_lock);
}

static bool from_this_machine(int fd)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof(peer);

	return !getpeername(fd, (struct sockaddr *)&peer, &length) && peer.sin_family == AF_INET &&
	       ntohl(peer.sin_addr.s_addr) >> 24 == 127;
}

/* "kind=KIND&seconds=N". Returns a status code. */
static int inject(const char *query)
{
	const char *kind = strstr(query, "kind="), *seconds = strstr(query, "seconds=");
	char *end = NULL;
	long n = seconds ? strtol(seconds + strlen("seconds="), &end, 10) : 10;

	if (!kind || n < 1 || n > 3600 || (end && *end && *end != '&'))
		return 400;
	kind += strlen("kind=");
	for (int i = 0; i < FAULTS; i++) {
		size_t length = strlen(fault_names[i]);

		if (strncmp(kind, fault_names[i], length) || (kind[length] && kind[length] != '&'))
			continue;
		fault_end = now() + (double)n;
		fault_kind = i;
		return 200;
	}
	return 400;
}

/* ---- verdicts ---- */

/* True while requests should be logged. Costs one load unless it changes. */
static bool log_level(void)
{
	static _Atomic bool debug;
	bool alarmed = sl_publisher_alarmed(publisher);
	struct sl_publisher_verdict v = SL_OPTS(sl_publisher_verdict);

	if (alarmed != debug && atomic_exchange(&debug, alarmed) != alarmed) {
		sl_publisher_verdict(publisher, &v);
		fprintf(stderr, "shop: log level is now %s (score %.1f)\n",
			alarmed ? "debug" : "info", v.score);
	}
	return alarmed;
}

/* At most five lines per second. */
static void log_request(const char *method, const char *path, int code, double seconds)
{
	static _Atomic double next;
	double at = now();

	if (at < next)
		return;
	next = at + 0.2;
	fprintf(stderr, "shop: debug %s %.100s %d %.6f s\n", method, path, code, seconds);
}

/* ---- the service ---- */

struct connection {
	int fd;
	size_t filled;
	char buffer[8192];
};

struct answer {
	enum route route;
	int code;
	char body[1024];
};

static int product_number(const char *s)
{
	char *end;
	long n = strtol(s, &end, 10);

	return end != s && (*end == '\0' || *end == '&') && n >= 0 && n < (long)COUNT(catalogue)
		       ? (int)n
		       : -1;
}

static void order(struct answer *a, const char *body, const struct sl_trace_context *parent)
{
	const char *s = strstr(body, "product=");
	int n = s ? product_number(s + strlen("product=")) : -1, have;
	struct sl_span span;

	a->code = 400;
	strcpy(a->body, "{\"error\":\"body must be product=N\"}\n");
	if (n < 0)
		return;
	sl_span_start(&span, taking, SL_SPAN_INTERNAL, parent);
	sl_span_set_string(&span, product, catalogue[n].name);
	have = stock[n];
	while (have > 0 && !__atomic_compare_exchange_n((int *)&stock[n], &have, have - 1, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (have <= 0) {
		sl_span_set_status(&span, SL_SPAN_ERROR, "sold out");
		sl_span_end(&span);
		a->code = 409;
		strcpy(a->body, "{\"error\":\"sold out, try again\"}\n");
		return;
	}
	sl_span_end(&span);
	sl_gauge_add(left[n], -1);
	/* The order that leaves half the stock refills it. */
	if (have - 1 == catalogue[n].stock / 2) {
		stock[n] += catalogue[n].stock - catalogue[n].stock / 2;
		sl_gauge_add(left[n], catalogue[n].stock - catalogue[n].stock / 2);
	}
	sl_counter_f64_add(revenue, catalogue[n].price);
	a->code = 201;
	snprintf(a->body, sizeof(a->body), "{\"ordered\":\"%s\",\"left\":%d}\n", catalogue[n].name,
		 have - 1);
}

static void answer(struct answer *a, const char *method, const char *path, const char *body,
		   const struct sl_trace_context *parent)
{
	bool get = !strcmp(method, "GET");
	size_t at = 0;
	int n;

	a->code = 200;
	a->body[0] = '\0';
	if (a->route == ROUTE_PRODUCTS) {
		for (size_t i = 0; i < COUNT(catalogue); i++)
			at += (size_t)snprintf(a->body + at, sizeof(a->body) - at,
					       "%c{\"id\":%zu,\"name\":\"%s\",\"price\":%.2f}",
					       i ? ',' : '[', i, catalogue[i].name,
					       catalogue[i].price);
		strcat(a->body, "]\n");
	} else if (a->route == ROUTE_PRODUCT) {
		n = product_number(path + 10);
		if (n < 0) {
			a->code = 404;
			strcpy(a->body, "{\"error\":\"no such product\"}\n");
		} else {
			snprintf(a->body, sizeof(a->body), "{\"name\":\"%s\",\"stock\":%d}\n",
				 catalogue[n].name, stock[n]);
		}
	} else if (a->route == ROUTE_ORDERS) {
		if (strcmp(method, "POST")) {
			a->code = 405;
			return;
		}
		order(a, body, parent);
		return;
	} else if (a->route == ROUTE_HEALTH) {
		strcpy(a->body, "{\"status\":\"ok\"}\n");
	} else {
		a->code = 404;
		strcpy(a->body, "{\"error\":\"not found\"}\n");
	}
	if (!get)
		a->code = 405;
}

static enum route route_of(const char *path)
{
	return !strcmp(path, "/products")	  ? ROUTE_PRODUCTS
	       : !strncmp(path, "/products/", 10) ? ROUTE_PRODUCT
	       : !strcmp(path, "/orders")	  ? ROUTE_ORDERS
	       : !strcmp(path, "/healthz")	  ? ROUTE_HEALTH
						  : ROUTE_OTHER;
}

/* A dependency, which FAULT_SLOW slows down. */
static void ask_database(const struct sl_trace_context *parent)
{
	struct sl_span span;
	double start = now();

	sl_span_start(&span, asking, SL_SPAN_CLIENT, parent);
	if (fault() == FAULT_SLOW)
		usleep(20000);
	sl_histogram_observe(database, now() - start);
	sl_span_end(&span);
}

/* Caches the last answer of each route. */
static void keep_answer(const struct answer *a)
{
	static _Atomic size_t kept[ROUTES];
	size_t sum = leaked_bytes;

	kept[a->route] = strlen(a->body);
	for (size_t r = 0; r < ROUTES; r++)
		sum += kept[r];
	sl_gauge_set(cached, (int64_t)sum);
}

static int send_answer(const struct connection *c, const struct answer *a)
{
	char text[2048];
	int n = snprintf(
		text, sizeof(text),
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		a->code, a->code < 300 ? "OK" : "No", strlen(a->body), a->body);

	return send(c->fd, text, (size_t)n, MSG_NOSIGNAL) == n ? n : 0;
}

/* Applies the fault that is injected. */
static void break_answer(struct answer *a)
{
	switch (fault()) {
	case FAULT_CPU:
		burn(0.002);
		break;
	case FAULT_ERRORS:
		if (a->route != ROUTE_HEALTH && a->code < 300) {
			a->code = 500;
			strcpy(a->body, "{\"error\":\"out of order\"}\n");
		}
		break;
	case FAULT_LEAK:
		leak(true);
		break;
	default:
		if (leaked_bytes)
			leak(false);
	}
}

/* Answers one request. False: close the connection. */
static bool respond(struct connection *c, char *method, char *path, char *body,
		    const struct sl_trace_context *caller)
{
	struct answer a = {.route = route_of(path)};
	struct timespec before, after;
	struct sl_span span;
	double start = now(), took;
	size_t code = 0;
	int n;

	/* Not counted: only the effects of a fault are to be seen. */
	if (faults_allowed && !strncmp(path, "/fault?", 7)) {
		a.code = strcmp(method, "POST")	    ? 405
			 : from_this_machine(c->fd) ? inject(path + 7)
						    : 403;
		return send_answer(c, &a) > 0;
	}
	sl_gauge_add(in_flight, 1);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	sl_span_start(&span, served[a.route], SL_SPAN_SERVER, caller);
	answer(&a, method, path, body, &span.context);
	if (a.route == ROUTE_PRODUCT || a.route == ROUTE_ORDERS)
		ask_database(&span.context);
	break_answer(&a);
	keep_answer(&a);
	n = send_answer(c, &a);
	while (code < COUNT(codes) - 1 && codes[code] != a.code)
		code++;
	sl_counter_inc(requests[a.route][code]);
	sl_counter_add(bytes_sent, (uint64_t)n);
	took = now() - start;
	sl_histogram_observe(duration[a.route], took);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	sl_counter_f64_add(cpu, (double)(after.tv_sec - before.tv_sec) +
					(double)(after.tv_nsec - before.tv_nsec) * 1e-9);
	sl_span_set_i64(&span, status_code, a.code);
	if (a.code >= 500)
		sl_span_set_status(&span, SL_SPAN_ERROR, NULL);
	sl_span_end(&span);
	sl_gauge_add(in_flight, -1);
	if (log_level())
		log_request(method, path, a.code, took);
	return n > 0;
}

/* Answers all complete requests in the buffer. False: close the connection. */
static bool handle(struct connection *c)
{
	for (;;) {
		char *head_end, *method, *path, *s, *trace;
		struct sl_trace_context caller = {0};
		size_t head, length = 0, rest;
		char kept;

		c->buffer[c->filled] = '\0';
		head_end = strstr(c->buffer, "\r\n\r\n");
		if (!head_end)
			return c->filled < sizeof(c->buffer) - 1;
		head = (size_t)(head_end - c->buffer) + 4;
		*head_end = '\0';
		s = strcasestr(c->buffer, "\r\nContent-Length:");
		if (s)
			length = strtoul(s + strlen("\r\nContent-Length:"), NULL, 10);
		/* The trace that this request is part of, if the caller sends one. */
		trace = strcasestr(c->buffer, "\r\ntraceparent:");
		if (trace) {
			trace += strlen("\r\ntraceparent:");
			trace += strspn(trace, " ");
			sl_traceparent_parse(trace, strcspn(trace, "\r "), &caller);
		}
		*head_end = '\r';
		if (length >= sizeof(c->buffer) - head)
			return false;
		if (c->filled < head + length)
			return true;
		method = c->buffer;
		path = strchr(method, ' ');
		s = path && path < head_end ? strchr(path + 1, ' ') : NULL;
		if (!s || s > head_end)
			return false;
		*path++ = *s = '\0';
		kept = c->buffer[head + length];
		c->buffer[head + length] = '\0';
		if (!respond(c, method, path, c->buffer + head, &caller))
			return false;
		c->buffer[head + length] = kept;
		rest = c->filled - head - length;
		memmove(c->buffer, c->buffer + head + length, rest);
		c->filled = rest;
	}
}

static void accept_one(int epoll, int listener)
{
	int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct connection *c = fd < 0 ? NULL : malloc(sizeof(*c));

	if (!c) {
		if (fd >= 0)
			close(fd);
		return;
	}
	c->fd = fd;
	c->filled = 0;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd,
		      &(struct epoll_event){.events = EPOLLIN, .data.ptr = c})) {
		close(fd);
		free(c);
		return;
	}
	sl_gauge_add(connections, 1);
}

static void readable(struct connection *c)
{
	ssize_t n = recv(c->fd, c->buffer + c->filled, sizeof(c->buffer) - 1 - c->filled, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		c->filled += (size_t)n;
		if (handle(c))
			return;
	}
	sl_gauge_add(connections, -1);
	close(c->fd);
	free(c);
}

struct shared {
	int listener, stop;
};

/* Each worker has its own epoll; all of them wait for the one listener. */
static void *worker(void *arg)
{
	const struct shared *shared = arg;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[64];

	epoll_ctl(epoll, EPOLL_CTL_ADD, shared->listener,
		  &(struct epoll_event){.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = NULL});
	epoll_ctl(epoll, EPOLL_CTL_ADD, shared->stop,
		  &(struct epoll_event){.events = EPOLLIN, .data.ptr = (void *)shared});
	for (;;) {
		int n = epoll_wait(epoll, events, COUNT(events), -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == shared) {
				close(epoll);
				return NULL;
			}
			if (!events[i].data.ptr)
				accept_one(epoll, shared->listener);
			else
				readable(events[i].data.ptr);
		}
	}
}

static int listen_at(const char *where, struct sockaddr_in *at)
{
	const char *colon = strrchr(where, ':');
	socklen_t length = sizeof(*at);
	char host[64] = "";
	int fd, one = 1;
	char *end;
	long port;

	if (!colon || (size_t)(colon - where) >= sizeof(host))
		return -1;
	memcpy(host, where, (size_t)(colon - where));
	port = strtol(colon + 1, &end, 10);
	memset(at, 0, sizeof(*at));
	at->sin_family = AF_INET;
	at->sin_port = htons((uint16_t)port);
	if (end == colon + 1 || *end || port < 0 || port > 65535 ||
	    inet_pton(AF_INET, *host ? host : "0.0.0.0", &at->sin_addr) != 1)
		return -1;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof(*at)) || listen(fd, 512) ||
	    getsockname(fd, (struct sockaddr *)at, &length)) {
		fprintf(stderr, "shop: can't listen at %s: %s\n", where, strerror(errno));
		exit(1);
	}
	return fd;
}

static int usage(FILE *to, int code)
{
	fputs("usage: shop [--listen ADDR:PORT] [--threads N] [--faults]\n"
	      "A small REST service whose metrics libsidelight publishes.\n"
	      "  --listen   where to serve HTTP (127.0.0.1:8080; port 0: any)\n"
	      "  --threads  worker threads (2)\n"
	      "  --faults   let POST /fault?kind=KIND&seconds=N, from this machine, break something:\n"
	      "             cpu, slow, errors, leak; none ends it\n"
	      "The library takes the agent's socket from $SIDELIGHT_SOCKET and the label \"pod\" from\n"
	      "$POD_NAME, if they are set.\n",
	      to);
	return code;
}

struct settings {
	const char *where;
	long threads;
};

/* True; or false with an exit code. */
static bool parse(int argc, char **argv, struct settings *s, int *code)
{
	static const struct option options[] = {{"listen", 1, NULL, 'l'},
						{"threads", 1, NULL, 't'},
						{"faults", 0, NULL, 'f'},
						{"help", 0, NULL, 'h'},
						{0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'l') {
			s->where = optarg;
		} else if (option == 't') {
			s->threads = strtol(optarg, NULL, 10);
		} else if (option == 'f') {
			faults_allowed = true;
		} else {
			*code = option == 'h' ? usage(stdout, 0) : usage(stderr, 2);
			return false;
		}
	}
	if (optind == argc && s->threads >= 1 && s->threads <= THREADS_MAX)
		return true;
	*code = usage(stderr, 2);
	return false;
}

static void open_publisher(void)
{
	/* On failure publisher is NULL and the metrics do nothing: the shop opens anyway. */
	sl_set_log(log_line, NULL);
	publisher = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .service = "shop", .span_bytes = SL_SPAN_BYTES,
			 .flags = SL_PUBLISHER_EDGE)); /* callers publish no spans to sidelight */
	create_http_metrics(publisher);
	create_shop_metrics(publisher);
	create_spans(publisher);
	sl_stateset_set(phase, PHASE_STARTING, true);
	for (size_t i = 0; i < COUNT(catalogue); i++) {
		stock[i] = catalogue[i].stock;
		sl_gauge_set(left[i], catalogue[i].stock);
	}
}

static void change_phase(unsigned int from, unsigned int to)
{
	sl_stateset_set(phase, from, false);
	sl_stateset_set(phase, to, true);
}

int main(int argc, char **argv)
{
	struct settings set = {.where = "127.0.0.1:8080", .threads = 2};
	pthread_t threads[THREADS_MAX];
	char host[INET_ADDRSTRLEN];
	int code, signal_number;
	sigset_t stop_signals;
	struct sockaddr_in at;
	struct shared shared;

	if (!parse(argc, argv, &set, &code))
		return code;
	sigemptyset(&stop_signals);
	sigaddset(&stop_signals, SIGTERM);
	sigaddset(&stop_signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &stop_signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	shared.listener = listen_at(set.where, &at);
	shared.stop = eventfd(0, EFD_CLOEXEC);
	if (shared.listener < 0 || shared.stop < 0) {
		fprintf(stderr, "shop: %s is no ADDR:PORT\n", set.where);
		return 2;
	}
	open_publisher();
	for (long i = 0; i < set.threads; i++) {
		if (pthread_create(&threads[i], NULL, worker, &shared)) {
			fprintf(stderr, "shop: can't start thread %ld\n", i);
			return 1;
		}
	}
	change_phase(PHASE_STARTING, PHASE_SERVING);
	inet_ntop(AF_INET, &at.sin_addr, host, sizeof(host));
	printf("ready http://%s:%d\n", host, ntohs(at.sin_port));
	fflush(stdout);

	sigwait(&stop_signals, &signal_number);
	change_phase(PHASE_SERVING, PHASE_STOPPING);
	if (eventfd_write(shared.stop, 1))
		return 1;
	for (long i = 0; i < set.threads; i++)
		pthread_join(threads[i], NULL);
	sl_publisher_close(publisher);
	return 0;
}
