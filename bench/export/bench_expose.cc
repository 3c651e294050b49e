// SPDX-License-Identifier: Apache-2.0
// bench_expose.cc - what a scrape of 100,000 series costs, beside prometheus-cpp with the same
// series in the same run. One JSON object a line on stdout; see README.md.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

extern "C" {
#include "export/serve.h"
}

namespace
{

constexpr size_t kFamilies = 100; // half of them counters, half gauges
size_t series_each = 1000;
unsigned int rounds = 7;

uint64_t rng = 88172645463325252u;
uint64_t random_u64()
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

// ---- the series -----------------------------------------------------------------------------------

// As the collector keeps them: text is written once, when the series appears, one behind the other.
struct Series {
	const char *text;
	size_t text_bytes;
	const char *value[6];
	uint64_t u64;
	double f64;
};

struct Family {
	std::string name, help;
	bool counter;
	std::vector<Series> series;
	std::string text, values;
};

std::vector<Family> families;
const char *const keys[] = {"service", "pod", "namespace", "host", "process", "code"};

struct Walk {
	size_t family = 0, series = 0;
};

void *walk_begin(void *)
{
	return new Walk;
}

void walk_end(void *walk)
{
	delete static_cast<Walk *>(walk);
}

int walk_family(void *walk, struct export_family *out)
{
	Walk *w = static_cast<Walk *>(walk);

	if (w->family == families.size())
		return 0;
	const Family &f = families[w->family++];
	w->series = 0;
	out->name = f.name.c_str();
	out->help = f.help.c_str();
	out->unit = "";
	out->type = f.counter ? EXPORT_FAMILY_COUNTER : EXPORT_FAMILY_GAUGE;
	out->series = f.series.size();
	return 1;
}

int walk_series(void *walk, struct export_series *out)
{
	Walk *w = static_cast<Walk *>(walk);
	const Family &f = families[w->family - 1];

	if (w->series == f.series.size())
		return 0;
	const Series &s = f.series[w->series++];
	out->label_text = s.text;
	out->label_bytes = s.text_bytes;
	out->label_keys = keys;
	out->label_values = s.value;
	out->label_count = 6;
	if (f.counter) {
		out->value_type = EXPORT_VALUE_U64;
		out->value.u64 = s.u64;
	} else {
		out->value_type = EXPORT_VALUE_F64;
		out->value.f64 = s.f64;
	}
	out->created_ns = 0;
	return 1;
}

const struct export_source source = {nullptr, walk_begin, walk_family, walk_series, walk_end};

std::vector<std::string> label_values(size_t j)
{
	std::string n = std::to_string(j);

	return {"shop", "shop-" + n, "default", "node-1", std::to_string(1000 + j), "200"};
}

// Counters are integers, gauges have all of a double's digits.
void make_families()
{
	families.reserve(kFamilies); // none moves: series point into its text
	for (size_t i = 0; i < kFamilies; i++) {
		std::vector<size_t> at;
		char name[32];
		Family f;

		snprintf(name, sizeof(name), "bench_family_%03zu", i);
		f.name = name;
		f.help = "A family of the benchmark";
		f.counter = i % 2 == 0;
		for (size_t j = 0; j < series_each; j++) {
			std::vector<std::string> values = label_values(j);
			Series s = {};
			size_t start = f.text.size();

			for (size_t k = 0; k < 6; k++) {
				f.text += std::string(k ? "," : "") + keys[k] + "=\"" + values[k] +
					  "\"";
				at.push_back(f.values.size());
				f.values += values[k] + '\0';
			}
			s.text_bytes = f.text.size() - start;
			s.u64 = random_u64() >> (random_u64() % 40 + 11);
			s.f64 = static_cast<double>(random_u64() >> 11) * 0x1p-53;
			f.series.push_back(s);
		}
		families.push_back(std::move(f));
		const char *text = families.back().text.data();
		for (size_t j = 0; j < series_each; j++) {
			Series &s = families.back().series[j];
			s.text = text;
			text += s.text_bytes;
			for (size_t k = 0; k < 6; k++)
				s.value[k] = families.back().values.data() + at[6 * j + k];
		}
	}
}

// The same series, as the peer keeps them.
std::shared_ptr<prometheus::Registry> make_registry()
{
	auto registry = std::make_shared<prometheus::Registry>();

	for (const Family &f : families) {
		auto *c = f.counter ? &prometheus::BuildCounter()
					       .Name(f.name + "_total")
					       .Help(f.help)
					       .Register(*registry)
				    : nullptr;
		auto *g = f.counter ? nullptr
				    : &prometheus::BuildGauge().Name(f.name).Help(f.help).Register(
					      *registry);
		for (const Series &s : f.series) {
			std::map<std::string, std::string> labels;

			for (size_t k = 0; k < 6; k++)
				labels[keys[k]] = s.value[k];
			if (c)
				c->Add(labels).Increment(static_cast<double>(s.u64));
			else
				g->Add(labels).Set(s.f64);
		}
	}
	return registry;
}

// ---- measuring ------------------------------------------------------------------------------------

double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Result {
	double ns,
		cold; // a series, the median of the rounds; cold: right after the other side's turn
	size_t bytes;
};

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

// Both sides in turn, so that what disturbs the machine hits both. The first scrape of a turn finds the
// caches as the other side left them; what is counted is the last one, when they hold what this side
// reads (on the machine of docs/benchmarks.md that takes four, whichever side it is). What runs in this
// thread alone is measured by its CPU time, a scrape by the clock on the wall.
void measure(clockid_t clock, const std::function<size_t()> &ours,
	     const std::function<size_t()> &peer, Result *a, Result *b)
{
	constexpr int kScrapes = 5; // a turn
	double total = static_cast<double>(kFamilies * series_each);
	auto turn = [&](const std::function<size_t()> &scrape, Result *r, std::vector<double> *cold,
			std::vector<double> *warm) {
		for (int i = 0; i < kScrapes; i++) {
			double t0 = now(clock);
			r->bytes = scrape();
			double ns = 1e9 * (now(clock) - t0) / total;
			if (i == 0)
				cold->push_back(ns);
			if (i == kScrapes - 1)
				warm->push_back(ns);
		}
		r->cold = median(*cold);
		r->ns = median(*warm);
	};
	std::vector<double> v[4];

	*a = *b = {0, 0, 0};
	for (unsigned int i = 0; i < rounds; i++) {
		turn(ours, a, &v[0], &v[1]);
		if (peer)
			turn(peer, b, &v[2], &v[3]);
	}
}

void print(const char *name, double ours, const char *peer, double theirs)
{
	printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"ns/series\",", name, ours);
	if (peer)
		printf("\"peer\":\"%s\",\"peer_value\":%.1f,\"ratio\":%.2f,", peer, theirs,
		       theirs / ours);
	else
		printf("\"peer\":null,\"peer_value\":null,\"ratio\":null,");
}

void report(const char *name, const Result &a, const char *peer, const Result &b,
	    const char *conditions)
{
	print(name, a.ns, peer, b.ns);
	printf("\"conditions\":\"%zu series, 6 labels, %zu bytes%s%s, median of %u turns%s\"}\n",
	       kFamilies * series_each, a.bytes, *conditions ? ", " : "", conditions, rounds,
	       sched_getscheduler(0) == SCHED_FIFO ? " (SCHED_FIFO)" : "");
	fflush(stdout);
}

size_t render(enum export_format format)
{
	static char buf[32768]; // as the server reads it
	struct export_render *r = export_render_new(&source, format);
	size_t bytes = 0;
	ssize_t n;

	while ((n = export_render_read(r, buf, sizeof(buf))) > 0)
		bytes += static_cast<size_t>(n);
	export_render_free(r);
	return n ? 0 : bytes;
}

// A scrape over loopback: the bytes of the answer, headers included.
size_t scrape(uint16_t port, const char *headers)
{
	static char buf[1 << 18];
	struct sockaddr_in to = {};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	std::string request =
		std::string("GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n") +
		headers + "\r\n";
	size_t bytes = 0;
	ssize_t n;

	to.sin_family = AF_INET;
	to.sin_port = htons(port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, reinterpret_cast<struct sockaddr *>(&to), sizeof(to)) ||
	    send(fd, request.data(), request.size(), 0) < 0) {
		perror("scrape");
		exit(1);
	}
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		bytes += static_cast<size_t>(n);
	close(fd);
	return bytes;
}

} // namespace

// bench_expose [-n SERIES] [-r ROUNDS] [-c PORT]: PORT is that of a collector with 100,000 series.
int main(int argc, char **argv)
{
	uint16_t collector = 0;

	for (int c; (c = getopt(argc, argv, "n:r:c:")) != -1;) {
		unsigned long v = optarg ? strtoul(optarg, nullptr, 10) : 0;

		if (c == 'n')
			series_each = std::max(1ul, v / kFamilies);
		else if (c == 'r')
			rounds = static_cast<unsigned int>(std::max(1ul, v));
		else if (c == 'c')
			collector = static_cast<uint16_t>(v);
		else
			return 2;
	}

	make_families();
	auto registry = make_registry();
	prometheus::TextSerializer serializer;
	Result a, b;

	auto peer_text = [&] { return serializer.Serialize(registry->Collect()).size(); };
	measure(
		CLOCK_THREAD_CPUTIME_ID, [] { return render(EXPORT_FORMAT_TEXT); }, peer_text, &a, &b);
	report("expose.text.100k", a, "prometheus-cpp TextSerializer", b,
	       "walk of the source and Collect() included");
	print("expose.text.100k.cold", a.cold, "prometheus-cpp TextSerializer", b.cold);
	printf("\"conditions\":\"the same, the first scrape after the other side's turn\"}\n");
	measure(
		CLOCK_THREAD_CPUTIME_ID, [] { return render(EXPORT_FORMAT_OPENMETRICS); }, nullptr, &a,
		&b);
	report("expose.openmetrics.100k", a, nullptr, b, "");
	measure(
		CLOCK_THREAD_CPUTIME_ID, [] { return render(EXPORT_FORMAT_PROTOBUF); }, nullptr, &a,
		&b);
	report("expose.protobuf.100k", a, nullptr, b, "");

	char error[256];
	struct http_opts opts = {};
	opts.listen = "127.0.0.1:0";
	struct http *h = http_new(&opts, error, sizeof(error));
	if (!h || export_route(h, "/metrics", &source) ||
	    http_start(h, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	uint16_t port = static_cast<uint16_t>(atoi(strrchr(http_address(h), ':') + 1));
	prometheus::Exposer exposer("127.0.0.1:0", 2);
	exposer.RegisterCollectable(registry);
	uint16_t peer_port = static_cast<uint16_t>(exposer.GetListeningPorts()[0]);
	for (const char *encoding : {"", "Accept-Encoding: gzip\r\n"}) {
		measure(
			CLOCK_MONOTONIC, [&] { return scrape(port, encoding); },
			[&] { return scrape(peer_port, encoding); }, &a, &b);
		report(*encoding ? "expose.http.gzip.100k" : "expose.http.100k", a,
		       "prometheus-cpp Exposer", b, "whole scrape over loopback");
	}
	http_free(h);
	if (collector) {
		measure(
			CLOCK_MONOTONIC, [&] { return scrape(collector, ""); },
			[&] { return scrape(peer_port, ""); }, &a, &b);
		report("expose.collector.100k", a, "prometheus-cpp Exposer", b,
		       "whole scrape of sidelight collect, 100 pods of 1000 metrics");
	}
	return 0;
}
