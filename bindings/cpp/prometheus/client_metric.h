/* SPDX-License-Identifier: Apache-2.0 */
/* The result of collecting one metric. Only the member for its family's type is used. */
#ifndef SIDELIGHT_PROMETHEUS_CLIENT_METRIC_H
#define SIDELIGHT_PROMETHEUS_CLIENT_METRIC_H

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace prometheus
{
struct ClientMetric {
	struct Label {
		std::string name;
		std::string value;

		bool operator<(const Label &other) const
		{
			return std::tie(name, value) < std::tie(other.name, other.value);
		}
		bool operator==(const Label &other) const
		{
			return name == other.name && value == other.value;
		}
	};
	struct Counter {
		double value = 0;
	};
	struct Gauge {
		double value = 0;
	};
	struct Quantile {
		double quantile = 0;
		double value = 0;
	};
	struct Summary {
		std::uint64_t sample_count = 0;
		double sample_sum = 0;
		std::vector<Quantile> quantile;
	};
	struct Bucket {
		std::uint64_t cumulative_count = 0;
		double upper_bound = 0;
	};
	struct Histogram {
		std::uint64_t sample_count = 0;
		double sample_sum = 0;
		std::vector<Bucket> bucket;
	};
	struct Untyped {
		double value = 0;
	};
	struct Info {
		double value = 1;
	};

	std::vector<Label> label;
	Counter counter;
	Gauge gauge;
	Summary summary;
	Histogram histogram;
	Untyped untyped;
	Info info;
	std::int64_t timestamp_ms = 0;
};
} // namespace prometheus

#endif
