// SPDX-License-Identifier: Apache-2.0
// What an update costs, beside prometheus-cpp and PCP MMV in the same process: rounds in turn, the
// median of each. Prints one JSON object a line, see docs/benchmarks.md.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <pthread.h>
#include <sched.h>
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

constexpr int kCounters = 256, kValues = 1024, kBatch = 1024;
constexpr double kOverlap = .9;

// CPU time of the thread, which other work on the machine disturbs less than the clock on the wall.
double Now()
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

double WallNow()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

double Quantile(std::vector<double> v, double q)
{
	if (v.empty())
		return NAN;
	std::sort(v.begin(), v.end());
	return v[size_t(q * double(v.size() - 1) + .5)];
}

double Median(const std::vector<double> &v)
{
	return Quantile(v, .5);
}

// "0.75-0.76": the quartiles.
std::string Spread(const std::vector<double> &v)
{
	char text[64];

	snprintf(text, sizeof(text), "%.3g-%.3g", Quantile(v, .25), Quantile(v, .75));
	return text;
}

// The CPUs that we may use.
std::vector<int> Cpus()
{
	std::vector<int> cpus;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			cpus.push_back(i);
	return cpus;
}

// The calling thread runs on this CPU alone, and before others if it may: false if not.
bool Pin(int cpu, int priority)
{
	struct sched_param first = {};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	first.sched_priority = priority;
	return !pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
}

// ns an operation of fn(), which makes n of them.
double Time(uint64_t n, const std::function<void()> &fn)
{
	double start = Now();

	fn();
	return (Now() - start) / double(n);
}

struct Contended {
	// CPU time of an operation and thread; the least share of the interval in which both threads
	// were running; operations of both.
	double ns, overlap;
	uint64_t n;
};

// One of each in turn; the least overlap of them.
struct Attempt {
	Contended ours, theirs, pcp;
	double lost, overlap;
};

// Two threads, each on a CPU of its own, repeat fn(), kBatch operations, from a common start until
// they are told to stop: neither ever runs while the other has not begun or is done. What the
// machine took from either of them is in overlap.
Contended Contend(const std::vector<int> &cpus, const std::function<void()> &fn)
{
	double cpu[2], wall[2];
	uint64_t batches[2] = {};
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;
	pthread_barrier_t start;

	pthread_barrier_init(&start, nullptr, 3);
	for (int i = 0; i < 2; i++)
		threads.emplace_back([&, i] {
			Pin(cpus[size_t(i) % cpus.size()], 1);
			fn(); // the thread's first update
			pthread_barrier_wait(&start);
			double wall_start = WallNow(), cpu_start = Now();
			uint64_t n = 0;
			for (; !stop.load(std::memory_order_relaxed); n++)
				fn();
			cpu[i] = Now() - cpu_start;
			wall[i] = WallNow() - wall_start;
			batches[i] = n;
		});
	pthread_barrier_wait(&start);
	std::this_thread::sleep_for(std::chrono::milliseconds(30));
	stop = true;
	for (auto &t : threads)
		t.join();
	pthread_barrier_destroy(&start);
	return {(cpu[0] / double(batches[0]) + cpu[1] / double(batches[1])) / 2 / kBatch,
		std::max(0., cpu[0] / wall[0] + cpu[1] / wall[1] - 1),
		(batches[0] + batches[1] + 2) * kBatch};
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
// A counter of PCP MMV under two threads: and the share of increments lost. Its values are in a
// file below $PCP_TMP_DIR/mmv that is mapped; no daemon is needed for that.
bool Mmv(const std::vector<int> &cpus, Contended *result, double *lost)
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
		*result = Contend(cpus, [&] {
			for (int i = 0; i < kBatch; i++)
				mmv_inc(map, value);
		});
		*lost = 1 - double(value->ull) / double(result->n);
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
	std::vector<int> cpus = Cpus();

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
	uint64_t before = 0;
	double load[2] = {}, overlap = 0;
	std::vector<Attempt> attempts;
	bool have_pcp = HAVE_PCP;

	// glibc's locks are cheap in a program that never had a second thread: whoever exposes has one.
	std::promise<void> done;
	std::thread second([&] { done.get_future().wait(); });
	getloadavg(&load[0], 1);
	bool fifo = Pin(cpus.back(), 2); // stops threads of 1, see Contend()
	for (int r = 0; r < rounds; r++) {
		one.push_back(Time(many, [&] {
			for (uint64_t n = 0; n < many / kCounters; n++)
				for (struct sl_counter c : counters)
					sl_counter_inc(c);
		}));
		before += many / kCounters;
		one_peer.push_back(Time(few, [&] {
			for (uint64_t n = 0; n < few / kCounters; n++)
				for (prometheus::Counter *c : peers)
					c->Increment();
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
	}
	// Of two threads that did not run at the same time nothing is to be learnt. So there are more
	// attempts than rounds if the machine is busy, and those count in which both ran most.
	for (int good = 0; good < rounds && int(attempts.size()) < 10 * rounds;) {
		const struct sl_counter c = counters[7];
		Attempt a = {};

		a.ours = Contend(cpus, [c] {
			for (int i = 0; i < kBatch; i++)
				sl_counter_inc(c);
		});
		a.theirs = Contend(cpus, [&] {
			for (int i = 0; i < kBatch; i++)
				peers[7]->Increment();
		});
		a.overlap = std::min(a.ours.overlap, a.theirs.overlap);
#if HAVE_PCP
		have_pcp = have_pcp && Mmv(cpus, &a.pcp, &a.lost);
		if (have_pcp)
			a.overlap = std::min(a.overlap, a.pcp.overlap);
#endif
		before += a.ours.n;
		good += a.overlap >= kOverlap;
		attempts.push_back(a);
	}
	std::sort(attempts.begin(), attempts.end(),
		  [](const Attempt &a, const Attempt &b) { return a.overlap > b.overlap; });
	for (int i = 0; i < rounds && i < int(attempts.size()); i++) {
		two.push_back(attempts[size_t(i)].ours.ns);
		two_peer.push_back(attempts[size_t(i)].theirs.ns);
		mmv.push_back(attempts[size_t(i)].pcp.ns);
		lost.push_back(attempts[size_t(i)].lost);
		overlap = attempts[size_t(i)].overlap;
	}
	getloadavg(&load[1], 1);
	done.set_value();
	second.join();
	if (sl_counter_value(counters[7]) != before) {
		fprintf(stderr, "bench: %llu increments, %llu counted\n",
			(unsigned long long)before,
			(unsigned long long)sl_counter_value(counters[7]));
		return 1;
	}

	char text[512];
	snprintf(text, sizeof(text),
		 "%zu CPUs, %s, load average %.2f before, %.2f after, CPU time%s", cpus.size(),
		 COMPILER, load[0], load[1], fifo ? ", SCHED_FIFO" : "");
	std::string machine = Cpu() + ", " + text;
	auto conditions = [&](const char *what, const std::vector<double> &ours,
			      const std::vector<double> &theirs) {
		return "\"conditions\":\"" + std::string(what) + "; median of " +
		       std::to_string(ours.size()) + " rounds in turn, quartiles " + Spread(ours) +
		       ", of the peer " + Spread(theirs) + "; " + machine + "\"";
	};
	Print("publish.counter.1thread", Median(one), Median(one_peer),
	      conditions("256 counters in turn", one, one_peer));
	std::string more;
	if (have_pcp) {
		snprintf(text, sizeof(text), "\"pcp_mmv_ns\":%.4g,\"pcp_mmv_lost\":%.4g,",
			 Median(mmv), Median(lost));
		more = text;
	}
	snprintf(
		text, sizeof(text),
		"both on one counter, none lost; both running at least %.0f %% of the time, the best of "
		"%zu attempts",
		100 * overlap, attempts.size());
	Print("publish.counter.2threads", Median(two), Median(two_peer),
	      more + conditions(text, two, two_peer));
	Print("publish.histogram.1thread", Median(hist), Median(hist_peer),
	      conditions("320 exponential buckets, against 12 classic ones of the peer", hist,
			 hist_peer));
	sl_publisher_close(publisher);
	return 0;
}
