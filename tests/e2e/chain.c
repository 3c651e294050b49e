// SPDX-License-Identifier: Apache-2.0
/*
 * chain.c - chain SOCKET: the services front and cart, of which front calls cart, and mail, which
 * neither calls; each a publisher with steady noise. Lines on stdin: "fault" makes cart slow and
 * erroneous, and front, which waits for it, asks again; "surge" triples the requests of front and
 * cart, with all that follows from that; "usual" ends both. It answers every line, and ends at the
 * end of stdin.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sidelight/span.h>

struct service {
	struct sl_publisher *p;
	struct sl_counter requests, errors, cpu;
	struct sl_histogram latency;
	struct sl_gauge in_flight;
	struct sl_span_name request;
};

static double chance(void) /* 0 .. 1, the same in each run */
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) * 0x1p-53;
}

static int open_service(struct service *s, const char *name, const char *pod, const char *socket)
{
	s->p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = name, .pod = pod,
					  .socket = socket, .span_bytes = SL_SPAN_BYTES));
	if (!s->p)
		return -1;
	s->requests = sl_counter_create(s->p,
					&SL_OPTS(sl_metric_opts, .name = "http_requests_total"));
	s->errors = sl_counter_create(
		s->p, &SL_OPTS(sl_metric_opts, .name = "http_request_errors_total"));
	s->cpu = sl_counter_create(
		s->p, &SL_OPTS(sl_metric_opts, .name = "process_cpu_microseconds_total"));
	s->in_flight = sl_gauge_create(s->p,
				       &SL_OPTS(sl_metric_opts, .name = "http_requests_in_flight"));
	s->latency = sl_histogram_create(
		s->p,
		&SL_OPTS(sl_metric_opts, .name = "http_request_duration_seconds", .unit = "seconds",
			 .scale = 3, .use_scale = true, .min = 1e-6, .max = 100));
	s->request = sl_span_name_create(s->p, "GET /");
	return 0;
}

/*
 * Answers n requests. slow: seconds that each takes longer; errors: share of them that fail; cpu:
 * microseconds each. Returns the time of the last one.
 */
static double answer(struct service *s, int n, double slow, double errors, int cpu)
{
	double seconds = 0;

	sl_counter_add(s->requests, (uint64_t)n);
	sl_counter_add(s->cpu, (uint64_t)(n * cpu * (0.8 + 0.4 * chance())));
	for (int i = 0; i < n; i++) {
		seconds = 0.01 * (0.5 + chance()) + slow * (0.5 + chance());
		sl_histogram_observe(s->latency, seconds);
		sl_counter_add(s->errors, chance() < errors);
	}
	sl_gauge_set(s->in_flight, (int64_t)(n * (1 + 100 * slow) * (0.5 + chance())));
	return seconds;
}

static void trace(struct service *front, struct service *cart, double outer, double inner)
{
	struct sl_span root, child;
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	sl_span_start(&root, front->request, SL_SPAN_SERVER, NULL);
	sl_span_start(&child, cart->request, SL_SPAN_SERVER, &root.context);
	sl_span_set_start(&root, ns);
	sl_span_set_start(&child, ns + 100000);
	sl_span_set_end(&child, ns + 100000 + (uint64_t)(inner * 1e9));
	sl_span_set_end(&root, ns + 200000 + (uint64_t)(outer * 1e9));
	sl_span_end(&child);
	sl_span_end(&root);
}

int main(int argc, char **argv)
{
	const char *socket = argc > 1 ? argv[1] : NULL;
	struct service front, cart, mail;
	bool fault = false, surge = false;
	char line[64];

	if (open_service(&front, "front", "front-0", socket) ||
	    open_service(&cart, "cart", "cart-0", socket) ||
	    open_service(&mail, "mail", "mail-0", socket))
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = (5 + (int)(6 * chance())) * (surge ? 3 : 1);
		struct pollfd in = {.fd = 0, .events = POLLIN};
		double inner, slow = fault ? 0.1 : 0;

		if (poll(&in, 1, 10) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			fault = !strcmp(line, "fault\n");
			surge = !strcmp(line, "surge\n");
			puts("done");
			fflush(stdout);
		}
		inner = answer(&cart, n, slow, fault ? 0.5 : 0.02, 100);
		trace(&front, &cart,
		      inner + answer(&front, n, slow, fault ? 0.15 : 0.02, fault ? 400 : 100),
		      inner);
		answer(&mail, 5 + (int)(6 * chance()), 0, 0.02, 100);
	}
	sl_publisher_close(front.p);
	sl_publisher_close(cart.p);
	sl_publisher_close(mail.p);
	return 0;
}
