// SPDX-License-Identifier: Apache-2.0
// update.cc [ROUNDS] - nanoseconds per update through prometheus-cpp's interface, as one line of
// JSON. The same source is compiled against our headers and against prometheus-cpp.
#include <cmath>
#include <cstdio>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "bench.h"

namespace
{

constexpr int kCounters = 256, kValues = 1024;

template <class F> double Time(uint64_t n, F fn)
{
	const double start = bench_cpu_ns();

	fn();
	return (bench_cpu_ns() - start) / double(n);
}

double Median(std::vector<double> v)
{
	return bench_median(v.data(), v.size());
}

} // namespace

int main(int argc, char **argv)
{
	const int rounds = bench_rounds(argc, argv, 5);
	const uint64_t n = 4000ull * kCounters;
	prometheus::Registry registry;
	auto &family = prometheus::BuildCounter().Name("bench_total").Register(registry);
	auto &histogram =
		prometheus::BuildHistogram()
			.Name("bench_seconds")
			.Register(registry)
			.Add({}, prometheus::Histogram::BucketBoundaries{
					 .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5});
	std::vector<prometheus::Counter *> counters;
	std::vector<double> values(kValues), inc, add, observe;
	// glibc's locks cost next to nothing in a program that never had a second thread; an
	// exposer is one.
	std::promise<void> done;
	std::thread second([&] { done.get_future().wait(); });

	for (int i = 0; i < kCounters; i++)
		counters.push_back(&family.Add({{"i", std::to_string(i)}}));
	for (double &x : values)
		x = 0.01 * std::exp(bench_normal());
	for (int r = 0; r < rounds; r++) {
		inc.push_back(Time(n, [&] {
			for (uint64_t i = 0; i < n / kCounters; i++)
				for (prometheus::Counter *c : counters)
					c->Increment();
		}));
		add.push_back(Time(n, [&] {
			for (uint64_t i = 0; i < n / kCounters; i++)
				for (prometheus::Counter *c : counters)
					c->Increment(3);
		}));
		observe.push_back(Time(n / 4, [&] {
			for (uint64_t i = 0; i < n / 4 / kValues; i++)
				for (double x : values)
					histogram.Observe(x);
		}));
	}
	if (counters[7]->Value() != double(rounds) * double(n / kCounters) * 4)
		bench_die("%g counted", counters[7]->Value());
	done.set_value();
	second.join();
	std::printf("{\"inc\": %g, \"add\": %g, \"observe\": %g}\n", Median(inc), Median(add),
		    Median(observe));
	return 0;
}
