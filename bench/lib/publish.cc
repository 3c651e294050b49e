// SPDX-License-Identifier: Apache-2.0
// What an update costs, beside prometheus-cpp and PCP MMV in the same process: rounds in turn, the
// median of each. Prints one JSON object a line, see docs/benchmarks.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <sidelight/sidelight.h>
#if HAVE_PCP
extern "C" {
#include <pcp/pmapi.h>
#include <pcp/mmv_stats.h>
}
#endif

namespace
{

constexpr int kCounters = 256, kValues = 1024;

// CPU time of the thread, which other work on the machine disturbs less than the clock on the wall.
double Now()
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

double Median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

// ns an operation of fn(), which makes n of them.
double Time(uint64_t n, const std::function<void()> &fn)
{
	double start = Now();

	fn();
	return (Now() - start) / double(n);
}

// ns an operation and thread: each of two threads makes n, both start together.
double TimeTwo(uint64_t n, const std::function<void()> &fn)
{
	double took[2];
	pthread_barrier_t start;
	std::vector<std::thread> threads;

	pthread_barrier_init(&start, nullptr, 2);
	for (double &t : took)
		threads.emplace_back([&] {
			pthread_barrier_wait(&start);
			t = Time(n, fn);
		});
	for (auto &t : threads)
		t.join();
	pthread_barrier_destroy(&start);
	return (took[0] + took[1]) / 2;
}

std::string Cpu()
{
	std::ifstream f("/proc/cpuinfo");
	std::string line;

	while (std::getline(f, line))
		if (line.rfind("model name", 0) == 0)
			return line.substr(line.find(':') + 2);
	return "unknown CPU";
}

void Print(const char *name, double value, double peer, const std::string &more)
{
	printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"ns\",\"peer\":\"prometheus-cpp\","
	       "\"peer_value\":%.4g,\"ratio\":%.4g,%s}\n",
	       name, value, peer, peer / value, more.c_str());
	fflush(stdout);
}

struct sl_metric_opts Metric(const char *name)
{
	struct sl_metric_opts o = {};

	o.sz = sizeof(o);
	o.name = name;
	return o;
}

#if HAVE_PCP
// A counter of PCP MMV under two threads: ns an increment, and the share of increments lost. Its
// values are in a file below $PCP_TMP_DIR/mmv that is mapped; no daemon is needed for that.
bool Mmv(uint64_t n, double *ns, double *lost)
{
	static int round;
	std::string file = "sl-bench-" + std::to_string(getpid()) + "-" + std::to_string(round++);
	pmUnits units = {};

	mmv_registry_t *registry = mmv_stats_registry(file.c_str(), 321, MMV_FLAG_PROCESS);
	if (!registry)
		return false;
	mmv_stats_add_metric(registry, "counter", 1, MMV_TYPE_U64, MMV_SEM_COUNTER, units, 0, "",
			     "");
	void *map = mmv_stats_start(registry);
	pmAtomValue *value = map ? mmv_lookup_value_desc(map, "counter", "") : nullptr;
	if (value) {
		*ns = TimeTwo(n, [&] {
			for (uint64_t i = 0; i < n; i++)
				mmv_inc(map, value);
		});
		*lost = 1 - double(value->ull) / (2.0 * double(n));
	}
	mmv_stats_free(registry);
	return value != nullptr;
}
#endif

} // namespace

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 11;
	struct sl_publisher_opts opts = {};
	std::vector<double> v(kValues);

	opts.sz = sizeof(opts);
	opts.service = "bench";
	opts.flags = SL_PUBLISHER_DETACHED;
	struct sl_publisher *publisher = sl_publisher_open(&opts);
	struct sl_counter counters[kCounters];
	prometheus::Registry registry;
	auto &family = prometheus::BuildCounter().Name("bench_total").Register(registry);
	prometheus::Counter *peers[kCounters];
	for (int i = 0; i < kCounters; i++) {
		std::string number = std::to_string(i);
		struct sl_label label = {"i", number.c_str()};
		struct sl_metric_opts o = Metric("bench_total");

		o.labels = &label;
		o.label_count = 1;
		counters[i] = sl_counter_create(publisher, &o);
		peers[i] = &family.Add({{"i", number}});
	}
	struct sl_metric_opts o = Metric("bench_seconds");
	struct sl_histogram histogram = sl_histogram_create(publisher, &o);
	auto &peer_histogram =
		prometheus::BuildHistogram()
			.Name("bench_seconds")
			.Register(registry)
			.Add({}, prometheus::Histogram::BucketBoundaries{
					 .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5});
	if (!sl_histogram_valid(histogram) || !sl_counter_valid(counters[kCounters - 1])) {
		fprintf(stderr, "bench: could not create the metrics\n");
		return 1;
	}
	srand48(1);
	for (double &x : v) // log-normal, as latencies are: a median of 10 ms
		x = 0.01 * std::exp(std::sqrt(-2 * std::log(1 - drand48())) *
				    std::cos(2 * M_PI * drand48()));

	const uint64_t many = 40000ull * kCounters, few = 2000ull * kCounters;
	std::vector<double> one, one_peer, two, two_peer, hist, hist_peer, mmv, lost;
	struct sl_counter shared = counters[7];
	uint64_t before = sl_counter_value(shared);
	for (int r = 0; r < rounds; r++) {
		one.push_back(Time(many, [&] {
			for (uint64_t n = 0; n < many / kCounters; n++)
				for (int i = 0; i < kCounters; i++)
					sl_counter_inc(counters[i]);
		}));
		before += many / kCounters;
		one_peer.push_back(Time(few, [&] {
			for (uint64_t n = 0; n < few / kCounters; n++)
				for (int i = 0; i < kCounters; i++)
					peers[i]->Increment();
		}));
		two.push_back(TimeTwo(many, [&] {
			for (uint64_t n = 0; n < many; n++)
				sl_counter_inc(shared);
		}));
		before += 2 * many;
		two_peer.push_back(TimeTwo(few, [&] {
			for (uint64_t n = 0; n < few; n++)
				peers[7]->Increment();
		}));
		hist.push_back(Time(many / 4, [&] {
			for (uint64_t n = 0; n < many / 4 / kValues; n++)
				for (double x : v)
					sl_histogram_observe(histogram, x);
		}));
		hist_peer.push_back(Time(few, [&] {
			for (uint64_t n = 0; n < few / kValues; n++)
				for (double x : v)
					peer_histogram.Observe(x);
		}));
#if HAVE_PCP
		double ns, share;
		if (Mmv(few * 4, &ns, &share)) {
			mmv.push_back(ns);
			lost.push_back(share);
		}
#endif
	}
	if (sl_counter_value(shared) != before) {
		fprintf(stderr, "bench: %llu increments, %llu counted\n",
			(unsigned long long)before, (unsigned long long)sl_counter_value(shared));
		return 1;
	}

	std::string conditions = Cpu() + ", " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) +
				 " CPUs, " COMPILER ", median of " + std::to_string(rounds) +
				 " rounds in turn, CPU time";
	Print("publish.counter.1thread", Median(one), Median(one_peer),
	      "\"conditions\":\"256 counters in turn; " + conditions + "\"");
	char more[256] = "";
	if (!mmv.empty())
		snprintf(more, sizeof(more), "\"pcp_mmv_ns\":%.4g,\"pcp_mmv_lost\":%.4g,",
			 Median(mmv), Median(lost));
	Print("publish.counter.2threads", Median(two), Median(two_peer),
	      std::string(more) + "\"conditions\":\"both on one counter, none lost; " + conditions +
		      "\"");
	Print("publish.histogram.1thread", Median(hist), Median(hist_peer),
	      "\"conditions\":\"320 exponential buckets, against 12 classic ones of the peer; " +
		      conditions + "\"");
	sl_publisher_close(publisher);
	return 0;
}
