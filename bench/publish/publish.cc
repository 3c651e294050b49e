// SPDX-License-Identifier: Apache-2.0
// publish.cc [ROUNDS] - nanoseconds per update, beside prometheus-cpp and PCP MMV in the same
// process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
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

#include "bench.h"

namespace
{

constexpr int kCounters = 256, kValues = 1024, kBatch = 1024, kShared = 7;
constexpr double kOverlap = .9;

double Median(std::vector<double> v)
{
	return bench_median(v.data(), v.size());
}

// "0.75-0.76": the quartiles.
std::string Spread(std::vector<double> v)
{
	char text[64];

	snprintf(text, sizeof(text), "%.3g-%.3g", bench_quantile(v.data(), v.size(), .25),
		 bench_quantile(v.data(), v.size(), .75));
	return text;
}

// The CPUs that this process may use.
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

// Pins the calling thread to this CPU; true if it also got real-time priority.
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

// Nanoseconds per operation of fn(), which makes n of them.
double Time(uint64_t n, const std::function<void()> &fn)
{
	double start = bench_cpu_ns();

	fn();
	return (bench_cpu_ns() - start) / double(n);
}

struct Contended {
	// CPU time per operation and thread; the least share of the interval in which both threads
	// ran; operations of both.
	double ns, overlap;
	uint64_t n;
};

// One of each in turn, and the least overlap of them.
struct Attempt {
	Contended ours, floor, theirs, pcp;
	double lost, overlap;
};

// Two threads, each on a CPU of its own, repeat fn(thread), which makes kBatch operations, from a
// common start to a common end. overlap says how much of that time the machine gave to both.
Contended Contend(const std::vector<int> &cpus, const std::function<void(int)> &fn)
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
			fn(i); // the thread's first update
			pthread_barrier_wait(&start);
			double wall_start = bench_wall_ns(), cpu_start = bench_cpu_ns();
			uint64_t n = 0;
			for (; !stop.load(std::memory_order_relaxed); n++)
				fn(i);
			cpu[i] = bench_cpu_ns() - cpu_start;
			wall[i] = bench_wall_ns() - wall_start;
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

void Print(const char *name, double value, double peer, const char *floor_what, double floor,
	   const std::string &conditions)
{
	struct bench_row r = {};

	r.name = name;
	r.unit = "ns";
	r.value = value;
	r.less_is_better = true;
	r.peer = "prometheus-cpp";
	r.peer_value = peer;
	r.floor = floor_what;
	r.floor_value = floor;
	bench_print(&r, "%s", conditions.c_str());
}

struct sl_metric_opts Metric(const char *name)
{
	struct sl_metric_opts o = {};

	o.sz = sizeof(o);
	o.name = name;
	return o;
}

#if HAVE_PCP
// A counter of PCP MMV under two threads, and the share of its increments that were lost. Its
// values are in a mapped file below $PCP_TMP_DIR/mmv; no daemon is needed.
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
		*result = Contend(cpus, [&](int) {
			for (int i = 0; i < kBatch; i++)
				mmv_inc(map, value);
		});
		*lost = 1 - double(value->ull) / double(result->n);
	}
	mmv_stats_free(registry);
	return value != nullptr;
}
#else
bool Mmv(const std::vector<int> &, Contended *, double *)
{
	return false;
}
#endif

// The same metrics of ours and of the peer.
struct Metrics {
	struct sl_publisher *publisher;
	struct sl_counter counters[kCounters];
	struct sl_histogram histogram;
	prometheus::Registry registry;
	prometheus::Counter *peers[kCounters];
	prometheus::Histogram *peer_histogram;
	std::vector<double> values; // log-normal, as latencies are, with a median of 10 ms
	uint64_t increments = 0;    // of counters[kShared]

	Metrics();
	~Metrics() { sl_publisher_close(publisher); }
};

Metrics::Metrics() : values(kValues)
{
	struct sl_publisher_opts opts = {};
	struct sl_metric_opts o = Metric("bench_seconds");
	auto &family = prometheus::BuildCounter().Name("bench_total").Register(registry);

	opts.sz = sizeof(opts);
	opts.service = "bench";
	opts.flags = SL_PUBLISHER_DETACHED;
	publisher = sl_publisher_open(&opts);
	histogram = sl_histogram_create(publisher, &o);
	o = Metric("bench_total");
	for (int i = 0; i < kCounters; i++) {
		std::string number = std::to_string(i);
		struct sl_label label = {"i", number.c_str()};

		o.labels = &label;
		o.label_count = 1;
		counters[i] = sl_counter_create(publisher, &o);
		peers[i] = &family.Add({{"i", number}});
	}
	peer_histogram =
		&prometheus::BuildHistogram()
			 .Name("bench_seconds")
			 .Register(registry)
			 .Add({}, prometheus::Histogram::BucketBoundaries{
					  .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5});
	if (!sl_histogram_valid(histogram) || !sl_counter_valid(counters[kCounters - 1]))
		bench_die("the metrics cannot be created");
	for (double &x : values)
		x = 0.01 * std::exp(bench_normal());
}

// What any counter costs at least: one addition to memory without a lock.
void Add(uint64_t *cell)
{
	__atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

std::string Conditions(const std::string &what, const std::vector<double> &ours,
		       const std::vector<double> &peer)
{
	double load = 0;

	getloadavg(&load, 1);
	return what + "; CPU time, median of " + std::to_string(ours.size()) +
	       " rounds in turn, quartiles " + Spread(ours) + ", of the peer " + Spread(peer) +
	       "; load average " + std::to_string(load).substr(0, 4) +
	       (sched_getscheduler(0) == SCHED_FIFO ? ", SCHED_FIFO" : "");
}

void OneThread(Metrics &m, int rounds)
{
	static uint64_t cells[kCounters], buckets[kValues], sum;
	const uint64_t many = 40000ull * kCounters, few = 2000ull * kCounters;
	std::vector<double> ours, peer, floor, hist, hist_peer, hist_floor;

	for (int r = 0; r < rounds; r++) {
		ours.push_back(Time(many, [&] {
			for (uint64_t n = 0; n < many / kCounters; n++)
				for (struct sl_counter c : m.counters)
					sl_counter_inc(c);
		}));
		m.increments += many / kCounters;
		peer.push_back(Time(few, [&] {
			for (uint64_t n = 0; n < few / kCounters; n++)
				for (prometheus::Counter *c : m.peers)
					c->Increment();
		}));
		floor.push_back(Time(many, [&] {
			for (uint64_t n = 0; n < many / kCounters; n++)
				for (uint64_t &cell : cells)
					Add(&cell);
		}));
		hist.push_back(Time(many / 4, [&] {
			for (uint64_t n = 0; n < many / 4 / kValues; n++)
				for (double x : m.values)
					sl_histogram_observe(m.histogram, x);
		}));
		hist_peer.push_back(Time(few, [&] {
			for (uint64_t n = 0; n < few / kValues; n++)
				for (double x : m.values)
					m.peer_histogram->Observe(x);
		}));
		hist_floor.push_back(Time(many / 4, [&] {
			for (uint64_t n = 0; n < many / 4 / kValues; n++)
				for (uint64_t &bucket : buckets) {
					Add(&bucket);
					Add(&sum);
				}
		}));
	}
	Print("publish.counter.1thread", Median(ours), Median(peer),
	      "256 cells in turn, an addition without a lock each", Median(floor),
	      Conditions("256 counters in turn", ours, peer));
	Print("publish.histogram.1thread", Median(hist), Median(hist_peer),
	      "an addition to a bucket known before and one to a sum of integers",
	      Median(hist_floor),
	      Conditions("320 exponential buckets, against 12 classic ones of the peer", hist,
			 hist_peer));
}

Attempt Try(Metrics &m, const std::vector<int> &cpus, bool *have_pcp)
{
	static struct alignas(256) {
		uint64_t cell;
	} own[2];
	const struct sl_counter c = m.counters[kShared];
	Attempt a = {};

	a.ours = Contend(cpus, [c](int) {
		for (int i = 0; i < kBatch; i++)
			sl_counter_inc(c);
	});
	m.increments += a.ours.n;
	a.theirs = Contend(cpus, [&](int) {
		for (int i = 0; i < kBatch; i++)
			m.peers[kShared]->Increment();
	});
	a.floor = Contend(cpus, [](int thread) {
		for (int i = 0; i < kBatch; i++)
			Add(&own[thread].cell);
	});
	a.overlap = std::min({a.ours.overlap, a.theirs.overlap, a.floor.overlap});
	*have_pcp = *have_pcp && Mmv(cpus, &a.pcp, &a.lost);
	if (*have_pcp)
		a.overlap = std::min(a.overlap, a.pcp.overlap);
	return a;
}

// Threads that do not run at the same time do not contend. A busy machine therefore gets more
// attempts than rounds, and those with the greatest overlap count.
void TwoThreads(Metrics &m, int rounds, const std::vector<int> &cpus)
{
	std::vector<double> ours, peer, floor, mmv, lost;
	std::vector<Attempt> attempts;
	bool have_pcp = HAVE_PCP;
	char text[256];

	for (int good = 0; good < rounds && int(attempts.size()) < 10 * rounds;) {
		attempts.push_back(Try(m, cpus, &have_pcp));
		good += attempts.back().overlap >= kOverlap;
	}
	std::sort(attempts.begin(), attempts.end(),
		  [](const Attempt &a, const Attempt &b) { return a.overlap > b.overlap; });
	const size_t tried = attempts.size();
	attempts.resize(std::min(tried, size_t(rounds)));
	for (const Attempt &a : attempts) {
		ours.push_back(a.ours.ns);
		peer.push_back(a.theirs.ns);
		floor.push_back(a.floor.ns);
		mmv.push_back(a.pcp.ns);
		lost.push_back(a.lost);
	}
	if (sl_counter_value(m.counters[kShared]) != m.increments)
		bench_die("%llu increments, %llu counted", (unsigned long long)m.increments,
			  (unsigned long long)sl_counter_value(m.counters[kShared]));
	snprintf(text, sizeof(text),
		 "both on one counter, none lost; both running at least %.0f %% of the time, the "
		 "best of %zu attempts",
		 100 * attempts.back().overlap, tried);
	std::string what = text;
	if (have_pcp) {
		snprintf(text, sizeof(text),
			 "; PCP MMV: %.3g ns, and %.1f %% of its increments are lost", Median(mmv),
			 100 * Median(lost));
		what += text;
	}
	Print("publish.counter.2threads", Median(ours), Median(peer),
	      "each thread adds to a line of its own", Median(floor), Conditions(what, ours, peer));
}

} // namespace

int main(int argc, char **argv)
{
	const int rounds = bench_rounds(argc, argv, 11);
	const std::vector<int> cpus = Cpus();
	Metrics m;

	// glibc's locks cost next to nothing in a program that never had a second thread; an
	// exposer is one.
	std::promise<void> done;
	std::thread second([&] { done.get_future().wait(); });
	Pin(cpus.back(), 2); // above the threads of Contend(), which it stops
	OneThread(m, rounds);
	TwoThreads(m, rounds, cpus);
	done.set_value();
	second.join();
	return 0;
}
