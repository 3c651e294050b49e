// SPDX-License-Identifier: Apache-2.0
// expose.cc [-n SERIES] [-r ROUNDS] [-c PORT] - nanoseconds per series of a scrape of 100,000
// series, beside prometheus-cpp with the same series. PORT is that of a collector with as many
// series.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "bench.h"
extern "C" {
#include "export/serve.h"
}

namespace
{

constexpr size_t kFamilies = 100; // half of them counters, half gauges
size_t series_each = 1000;
unsigned int rounds = 7;

// ---- the series ----

// As in the collector, the text of all labels is written once and lies in the order of the walk.
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

const struct export_source source = {nullptr, walk_begin, walk_family, walk_series, walk_end, nullptr, false, nullptr};

std::vector<std::string> label_values(size_t j)
{
	std::string n = std::to_string(j);

	return {"shop", "shop-" + n, "default", "node-1", std::to_string(1000 + j), "200"};
}

// Counters are integers of 1 to 16 digits, gauges have all digits of a double.
void make_families()
{
	families.reserve(kFamilies); // series point into a family's text, so families must not move
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
			s.u64 = bench_random() >> (bench_random() % 40 + 11);
			s.f64 = static_cast<double>(bench_random() >> 11) * 0x1p-53;
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

// The same series in the peer.
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

// ---- measuring ----

struct Result {
	std::vector<double> warm, cold; // nanoseconds per series; cold: after the other side's turn
	size_t bytes;
};

double total()
{
	return static_cast<double>(kFamilies * series_each);
}

// A turn is five scrapes: the first finds the caches as the other side left them, the last as this
// side did.
void turn(double (*clock)(), const std::function<size_t()> &scrape, Result *r)
{
	constexpr int kScrapes = 5;

	for (int i = 0; i < kScrapes; i++) {
		double start = clock();

		r->bytes = scrape();
		double ns = (clock() - start) / total();
		if (i == 0)
			r->cold.push_back(ns);
		if (i == kScrapes - 1)
			r->warm.push_back(ns);
	}
}

double median(std::vector<double> v)
{
	return bench_median(v.data(), v.size());
}

// Both sides and the floor in turns. What runs in this thread alone is measured by its CPU time, a
// scrape by wall time. The floor is given how many bytes a scrape of ours has.
void figure(const char *name, double (*clock)(), const std::function<size_t()> &ours,
	    const char *peer_name, const std::function<size_t()> &peer, const char *floor_what,
	    const std::function<size_t(size_t)> &floor, const char *conditions)
{
	Result a = {}, b = {}, c = {};
	struct bench_row row = {};

	for (unsigned int i = 0; i < rounds; i++) {
		turn(clock, ours, &a);
		if (peer)
			turn(clock, peer, &b);
		if (floor)
			turn(
				clock, [&] { return floor(a.bytes); }, &c);
	}
	row.name = name;
	row.unit = "ns/series";
	row.less_is_better = true;
	row.value = median(a.warm);
	row.peer = peer_name;
	row.peer_value = median(b.warm);
	row.floor = floor_what;
	row.floor_value = median(c.warm);
	const char *fifo = sched_getscheduler(0) == SCHED_FIFO ? " (SCHED_FIFO)" : "";
	bench_print(&row, "%.0f series, 6 labels, %zu bytes%s, median of %u turns%s", total(),
		    a.bytes, conditions, rounds, fifo);
	if (clock == bench_cpu_ns && peer) {
		std::string cold = std::string(name) + ".cold";

		row.name = cold.c_str();
		row.value = median(a.cold);
		row.peer_value = median(b.cold);
		row.floor = nullptr;
		bench_print(&row, "the first scrape after the other side's turn");
	}
}

// ---- what is measured ----

size_t render(enum export_format format)
{
	static char buf[32768]; // the server's size
	struct export_render *r = export_render_new(&source, format, true);
	size_t bytes = 0;
	ssize_t n;

	while ((n = export_render_read(r, buf, sizeof(buf))) > 0)
		bytes += static_cast<size_t>(n);
	export_render_free(r);
	return n ? 0 : bytes;
}

// A scrape over loopback; returns the bytes of the answer, headers included.
size_t scrape(uint16_t port, const char *headers)
{
	static char buf[1 << 18];
	struct sockaddr_in to = {};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	std::string request =
		std::string("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n") +
		headers + "\r\n";
	size_t bytes = 0;
	ssize_t n;

	to.sin_family = AF_INET;
	to.sin_port = htons(port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, reinterpret_cast<struct sockaddr *>(&to), sizeof(to)) ||
	    send(fd, request.data(), request.size(), 0) < 0) {
		bench_die("no scrape of port %u: %s", port, strerror(errno));
	}
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		bytes += static_cast<size_t>(n);
	close(fd);
	return bytes;
}

// The floor of a text: as many bytes copied out of the labels' memory.
size_t copy(size_t bytes)
{
	static char buf[32768];
	size_t family = 0, at = 0;

	for (size_t left = bytes; left;) {
		const std::string &from = families[family].text;
		size_t n = std::min({left, sizeof(buf), from.size() - at});

		memcpy(buf, from.data() + at, n);
		__asm__ volatile("" ::"r"(buf) : "memory");
		left -= n;
		at += n;
		if (at == from.size()) {
			at = 0;
			family = (family + 1) % families.size();
		}
	}
	return bytes;
}

// The floor of a scrape: as many bytes sent by a thread that does nothing else.
class Sender
{
      public:
	Sender() : listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), text(1 << 18, 'x')
	{
		struct sockaddr_in at = {};
		socklen_t size = sizeof(at);

		at.sin_family = AF_INET;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		if (bind(listener, reinterpret_cast<struct sockaddr *>(&at), size) ||
		    listen(listener, 4) ||
		    getsockname(listener, reinterpret_cast<struct sockaddr *>(&at), &size))
			bench_die("no socket: %s", strerror(errno));
		port = ntohs(at.sin_port);
		thread = std::thread([this] { run(); });
	}
	~Sender()
	{
		shutdown(listener, SHUT_RDWR);
		thread.join();
		close(listener);
	}
	size_t scrape_of(size_t bytes)
	{
		wanted = bytes;
		return scrape(port, "");
	}

      private:
	void run()
	{
		for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
			char request[4096];
			ssize_t n = recv(fd, request, sizeof(request), 0);

			for (size_t left = wanted; n > 0 && left; left -= static_cast<size_t>(n))
				n = send(fd, text.data(), std::min(left, text.size()),
					 MSG_NOSIGNAL);
			close(fd);
		}
	}

	int listener;
	uint16_t port;
	std::string text;
	size_t wanted = 0;
	std::thread thread;
};

void renderers(const std::shared_ptr<prometheus::Registry> &registry)
{
	const char *const bytes_copied = "as many bytes copied out of the labels' memory";
	prometheus::TextSerializer serializer;

	figure(
		"expose.text.100k", bench_cpu_ns, [] { return render(EXPORT_FORMAT_TEXT); },
		"prometheus-cpp TextSerializer",
		[&] { return serializer.Serialize(registry->Collect()).size(); }, bytes_copied,
		copy, ", walk of the source and Collect() included");
	figure(
		"expose.openmetrics.100k", bench_cpu_ns,
		[] { return render(EXPORT_FORMAT_OPENMETRICS); }, nullptr, nullptr, bytes_copied, copy,
		"");
	figure(
		"expose.protobuf.100k", bench_cpu_ns, [] { return render(EXPORT_FORMAT_PROTOBUF); },
		nullptr, nullptr, bytes_copied, copy, "");
}

void scrapes(const std::shared_ptr<prometheus::Registry> &registry, uint16_t collector)
{
	const char *const peer_name = "prometheus-cpp Exposer";
	const char *const bytes_sent = "as many bytes sent over loopback by a thread";
	char error[256];
	struct http_opts opts = {};
	prometheus::Exposer exposer("127.0.0.1:0", 2);
	Sender sender;

	opts.listen = "127.0.0.1:0";
	struct http *h = http_new(&opts, error, sizeof(error));
	if (!h || export_route(h, "/metrics", &source) || http_start(h, error, sizeof(error)))
		bench_die("%s", error);
	uint16_t port = static_cast<uint16_t>(atoi(strrchr(http_address(h), ':') + 1));
	exposer.RegisterCollectable(registry);
	uint16_t peer_port = static_cast<uint16_t>(exposer.GetListeningPorts()[0]);
	auto peer = [&] { return scrape(peer_port, ""); };
	auto floor = [&](size_t bytes) { return sender.scrape_of(bytes); };
	const char *gzip = "Accept-Encoding: gzip\r\n";

	figure(
		"expose.http.100k", bench_wall_ns, [&] { return scrape(port, ""); }, peer_name,
		peer, bytes_sent, floor, ", whole scrape over loopback");
	figure(
		"expose.http.gzip.100k", bench_wall_ns, [&] { return scrape(port, gzip); },
		peer_name, [&] { return scrape(peer_port, gzip); }, nullptr, nullptr,
		", whole scrape over loopback");
	if (collector)
		figure(
			"expose.collector.100k", bench_wall_ns,
			[&] { return scrape(collector, ""); }, peer_name, peer, bytes_sent, floor,
			", whole scrape of sidelight collect, 100 pods of 1000 metrics");
	http_free(h);
}

} // namespace

int main(int argc, char **argv)
{
	uint16_t collector = 0;

	for (int c; (c = getopt(argc, argv, "n:r:c:")) != -1;) {
		unsigned long v = optarg ? strtoul(optarg, nullptr, 10) : 0;

		if (c == 'n')
			series_each = std::max(1ul, v / kFamilies);
		else if (c == 'r')
			rounds = static_cast<unsigned int>(std::clamp(v, 1ul, 100ul));
		else if (c == 'c')
			collector = static_cast<uint16_t>(v);
		else
			return 2;
	}
	make_families();
	auto registry = make_registry();
	renderers(registry);
	scrapes(registry, collector);
	return 0;
}
