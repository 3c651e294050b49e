// SPDX-License-Identifier: Apache-2.0
// kit_writer.cc - the C++ binding as a writer that tests/conformance examines; its README.md has
// the words.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/sidelight.h>
#include <prometheus/summary.h>

using namespace prometheus;

namespace
{

struct Metrics {
	explicit Metrics(Registry &r)
	    : requests(BuildCounter()
			       .Name("kit_requests_total")
			       .Help("Requests.")
			       .Register(r)
			       .Add({{"code", "200"}, {"method", "get"}})),
	      seconds(BuildCounter().Name("kit_seconds_total").Register(r).Add({})),
	      depth(BuildGauge().Name("kit_depth").Register(r).Add({})),
	      temperature(BuildGauge().Name("kit_temperature").Register(r).Add({})),
	      latency(BuildHistogram()
			      .Name("kit_latency_seconds")
			      .Register(r)
			      .Add({}, Histogram::BucketBoundaries{0.1, 1, 10})),
	      size(BuildSummary().Name("kit_size_bytes").Register(r).Add({}, Summary::Quantiles{}))
	{
	}
	void Count(long rounds)
	{
		static const double latencies[] = {0.05, 0.5, 5, 50};

		for (long i = 1; i <= rounds; i++) {
			requests.Increment();
			seconds.Increment(0.5);
			depth.Set(static_cast<double>(-i));
			temperature.Set(static_cast<double>(i) / 4);
			latency.Observe(latencies[(i - 1) % 4]);
			size.Observe(2);
			if (i % 100 == 0)
				usleep(1000);
		}
	}

	Counter &requests, &seconds;
	Gauge &depth, &temperature;
	Histogram &latency;
	Summary &size;
};

} // namespace

int main()
{
	Registry registry;
	auto &removable = BuildCounter().Name("kit_removable_total").Register(registry);
	std::unique_ptr<Metrics> metrics;
	std::string word, of;

	if (!sidelight::Publisher())
		return 1;
	while (std::cin >> word) {
		if (word == "make") {
			metrics.reset(new Metrics(registry));
			std::cout << "ok counter counter_f64 gauge gauge_f64 histogram summary"
				  << std::endl;
			continue;
		}
		std::cin >> of;
		if (word == "traced" || word == "named") { /* prometheus-cpp has neither */
			std::cin >> of;
			std::cout << "ok lacks" << std::endl;
			continue;
		}
		if (word == "count")
			metrics->Count(std::atol(of.c_str()));
		else if (word == "labels")
			removable.Add({{"of", of}}).Increment();
		else if (word == "remove")
			removable.Remove(&removable.Add({{"of", of}}));
		std::cout << "ok" << std::endl;
	}
	sidelight::Close();
	return 0;
}
