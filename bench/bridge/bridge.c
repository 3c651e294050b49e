// SPDX-License-Identifier: Apache-2.0
/*
 * bridge.c ROUNDS [PEER_NS] | --body FILE - the cost of scraped series and of StatsD lines: CPU
 * time of the thread, median of the rounds. With --body, writes the scraped body to a file for the
 * peer. PEER_NS: the peer's time per series of that body.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/sidelight.h>

#include "bench.h"
#include "bridge/otlp.h"
#include "bridge/publish.h"
#include "bridge/statsd.h"
#include "bridge/text.h"

enum { FAMILIES = 400, LABEL_SETS = 50, SERIES = FAMILIES * LABEL_SETS, BODIES = 4 };
enum { POINTS = 2000 };
enum { PACKETS = 2000, LINES = 25, KEYS = 1000 };

struct body {
	char *text;
	size_t bytes;
	double last; /* value of its last series */
};

/* One third are counts, one third large numbers like bytes, one third seconds. */
static double value(int i)
{
	double u = bench_uniform();

	return i % 3 == 0 ? floor(u * 1e6) : i % 3 == 1 ? floor(u * 1e10) : round(u * 1e9) / 1e6;
}

static struct body make_body(void)
{
	struct body b;
	FILE *f = open_memstream(&b.text, &b.bytes);

	for (int m = 0; m < FAMILIES; m++) {
		fprintf(f, "# HELP node_metric_%d_bytes_total What it counts, in words.\n", m);
		fprintf(f, "# TYPE node_metric_%d_bytes_total counter\n", m);
		for (int i = 0; i < LABEL_SETS; i++) {
			b.last = value(i);
			fprintf(f,
				"node_metric_%d_bytes_total{cpu=\"%d\",device=\"nvme%dn1\",mode=\"user\"} ",
				m, i, i % 7);
			/* As Go prints it. */
			if (b.last >= 1e6 && i % 3 == 1)
				fprintf(f, "%.10e\n", b.last);
			else
				fprintf(f, "%.15g\n", b.last);
		}
	}
	fclose(f);
	return b;
}

/* Nanoseconds per series. slowly: without the shape kept from the previous body. */
static double scrape(int rounds, const struct body *bodies, bool slowly, bool publish)
{
	struct bridge_publisher *p = bridge_publish_open(&(struct bridge_publish_opts){
		.service = "bench", .pod = "bench", .detached = true});
	struct bridge_text_parser *t = bridge_text_new(NULL);
	struct bridge_error e;
	double took[BENCH_ROUNDS_MAX];
	int err;

	if (!p || !t)
		bench_die("no memory");
	for (int r = -1; r < rounds; r++) {
		const struct body *b = &bodies[(r + BODIES) % BODIES];
		double start = bench_cpu_ns();

		if (slowly)
			bridge_text_forget(t);
		bridge_publish_begin(p);
		err = bridge_text_read(t, BRIDGE_TEXT_004, b->text, b->bytes,
				       bridge_publish_sink(p), &e);
		bridge_publish_end(p);
		if (r >= 0)
			took[r] = (bench_cpu_ns() - start) / SERIES;
		if (err || bridge_publish_series(p) != SERIES)
			bench_die("%s", e.text);
		if (publish && bridge_publish_counts(p).refused)
			bench_die("series were refused");
	}
	/*
	 * Checks that the measured work was done: the last series has the value of the last body.
	 */
	{
		struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .mirror = true, .utf8 = true);
		char name[64];
		const struct sl_label l[] = {
			{"cpu", "49"}, {"device", "nvme0n1"}, {"mode", "user"}};
		struct sl_counter_f64_family f;

		snprintf(name, sizeof(name), "node_metric_%d_bytes_total", FAMILIES - 1);
		o.name = name;
		o.help = "What it counts, in words.";
		f = sl_counter_f64_family_create(bridge_publish_of(p), &o);
		if (sl_counter_f64_value(sl_counter_f64_with(f, l, 3)) !=
		    bodies[(rounds - 1 + BODIES) % BODIES].last)
			bench_die("the last value is not there");
	}
	bridge_publish_close(p);
	bridge_text_free(t);
	return bench_median(took, (size_t)rounds);
}

/* Nanoseconds per line. */
static double statsd(int rounds)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "bench",
							    .flags = SL_PUBLISHER_DETACHED,
							    .max_cells = 65536));
	struct bridge_statsd *s = bridge_statsd_new(p, NULL);
	static char packets[PACKETS][2048];
	static size_t bytes[PACKETS];
	double took[BENCH_ROUNDS_MAX];

	if (!s)
		bench_die("no memory");
	for (int i = 0, k = 0; i < PACKETS; i++)
		for (int j = 0; j < LINES; j++, k++)
			bytes[i] += (size_t)snprintf(
				packets[i] + bytes[i], sizeof(packets[i]) - bytes[i],
				j % 5 ? "shop.requests.%d:%d|c|#route:/cart,code:200\n"
				      : "shop.wait.%d:%d|ms\n",
				k % KEYS, 1 + k % 9);
	for (int r = -1; r < rounds; r++) {
		double start = bench_cpu_ns();

		for (int i = 0; i < PACKETS; i++)
			bridge_statsd_packet(s, packets[i], bytes[i], 1);
		if (r >= 0)
			took[r] = (bench_cpu_ns() - start) / (PACKETS * LINES);
	}
	if (bridge_statsd_counts(s).lines != (uint64_t)(rounds + 1) * PACKETS * LINES)
		bench_die("lines were refused");
	bridge_statsd_free(s);
	sl_publisher_close(p);
	return bench_median(took, (size_t)rounds);
}

static struct bridge_sink *resource(void *arg, const struct bridge_otlp_identity *id,
				    struct base_table **names)
{
	(void)id, (void)names;
	bridge_publish_begin(arg);
	return bridge_publish_sink(arg);
}

/* Nanoseconds per point: sums with two attributes, as protobuf. */
static double otlp(int rounds)
{
	struct bridge_publisher *p = bridge_publish_open(&(struct bridge_publish_opts){
		.service = "bench", .pod = "bench", .detached = true});
	struct bridge_otlp *o = bridge_otlp_new(NULL);
	struct bridge_otlp_counts n = {0};
	double took[BENCH_ROUNDS_MAX];
	struct bridge_error e;
	size_t bytes, json_bytes;
	uint8_t *body;
	char *json;
	FILE *f = open_memstream(&json, &json_bytes);

	fputs("{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[", f);
	for (int i = 0; i < POINTS; i++) {
		if (i % 50 == 0)
			fprintf(f,
				"%s{\"name\":\"http.server.%d\",\"unit\":\"s\",\"sum\":{"
				"\"aggregationTemporality\":2,\"isMonotonic\":true,"
				"\"dataPoints\":[",
				i ? "]}}," : "", i / 50);
		fprintf(f,
			"%s{\"attributes\":[{\"key\":\"http.route\",\"value\":{\"stringValue\":"
			"\"/cart/%d\"}},{\"key\":\"http.status_code\",\"value\":{\"intValue\":200}}],"
			"\"asDouble\":%d.5}",
			i % 50 ? "," : "", i % 50, i);
	}
	fputs("]}}]}]}]}", f);
	fclose(f);
	body = bridge_otlp_of_json(json, json_bytes, OTLP_METRICS, &bytes, &e);
	if (!p || !o || !body)
		bench_die("%s", e.text);
	for (int r = -1; r < rounds; r++) {
		double start = bench_cpu_ns();

		if (bridge_otlp_read(o, body, bytes, false, resource, p, &n, &e))
			bench_die("%s", e.text);
		if (r >= 0)
			took[r] = (bench_cpu_ns() - start) / POINTS;
	}
	if (n.points != (uint64_t)(rounds + 1) * POINTS || bridge_publish_series(p) != POINTS)
		bench_die("points were refused");
	free(json);
	free(body);
	bridge_otlp_free(o);
	bridge_publish_close(p);
	return bench_median(took, (size_t)rounds);
}

int main(int argc, char **argv)
{
	struct body bodies[BODIES];
	double peer = argc > 2 ? strtod(argv[2], NULL) : 0, ns;
	int rounds;

	for (int i = 0; i < BODIES; i++)
		bodies[i] = make_body();
	if (argc == 3 && !strcmp(argv[1], "--body")) {
		FILE *f = fopen(argv[2], "w");

		if (!f || fwrite(bodies[0].text, 1, bodies[0].bytes, f) != bodies[0].bytes ||
		    fclose(f))
			bench_die("%s: cannot write", argv[2]);
		return 0;
	}
	rounds = bench_rounds(argc, argv, 21);
	ns = scrape(rounds, bodies, false, true);
	bench_print(&(struct bench_row){.name = "bridge.scrape",
					.unit = "series/s",
					.value = 1e9 / ns,
					.peer = peer > 0 ? "expfmt.TextParser of Go, parsed only"
							 : NULL,
					.peer_value = peer > 0 ? 1e9 / peer : 0},
		    "%d series, other values each time, parsed and published; CPU time, median of "
		    "%d rounds",
		    SERIES, rounds);
	ns = scrape(rounds, bodies, true, true);
	bench_print(&(struct bench_row){.name = "bridge.scrape.changed",
					.unit = "series/s",
					.value = 1e9 / ns,
					.peer = peer > 0 ? "expfmt.TextParser of Go, parsed only"
							 : NULL,
					.peer_value = peer > 0 ? 1e9 / peer : 0},
		    "the same, as if a line had come or gone: checked, parsed and looked up");
	bench_print(&(struct bench_row){.name = "bridge.statsd",
					.unit = "lines/s",
					.value = 1e9 / statsd(rounds)},
		    "%d names with two tags, a fifth timers; %d lines per packet, without sockets; "
		    "CPU time, median of %d rounds",
		    KEYS, LINES, rounds);
	bench_print(
		&(struct bench_row){
			.name = "bridge.otlp", .unit = "points/s", .value = 1e9 / otlp(rounds)},
		"%d sums with two attributes in one protobuf body, without HTTP; CPU time, median "
		"of %d rounds",
		POINTS, rounds);
	for (int i = 0; i < BODIES; i++)
		free(bodies[i].text);
	return 0;
}
