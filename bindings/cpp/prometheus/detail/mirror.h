/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes copies of the values that the application's own Collectable lists. */
#ifndef SIDELIGHT_PROMETHEUS_MIRROR_H
#define SIDELIGHT_PROMETHEUS_MIRROR_H

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/detail/series.h"
#include "prometheus/family.h"

namespace prometheus
{
namespace detail
{
class Mirror : private Periodic
{
      public:
	explicit Mirror(const std::weak_ptr<Collectable> &from) : from_(from)
	{
		Process::Get().Start(this);
	}
	~Mirror() override
	{
		Process::Get().Stop(this);
		for (auto &copy : copies_)
			copy.second.series.Remove();
	}

      private:
	/* The bounds of a histogram, or the ranks of a summary. */
	using Shape = std::vector<double>;

	struct Copy {
		MetricType type = MetricType::Untyped;
		Series series;
		bool seen = false;
		Shape shape;
		sl_counter_f64 counter{0};
		sl_gauge_f64 gauge{0};
		sl_unknown unknown{0};
		sl_histogram histogram{0, nullptr};
		sl_summary summary{0, 0};
	};

	void Tick(std::unique_lock<std::mutex> &lock) override
	{
		std::vector<MetricFamily> families;

		lock.unlock();
		const bool good = Collect(families);
		lock.lock();
		if (!good)
			return; /* the copies keep their values */
		for (auto &copy : copies_)
			copy.second.seen = false;
		for (const MetricFamily &family : families)
			for (const ClientMetric &m : family.metric)
				Take(family, m);
		for (auto at = copies_.begin(); at != copies_.end();) {
			if (at->second.seen) {
				++at;
				continue;
			}
			at->second.series.Remove();
			at = copies_.erase(at);
		}
	}
	bool Collect(std::vector<MetricFamily> &families) const
	{
		const std::shared_ptr<Collectable> from = from_.lock();

		try {
			if (from)
				families = from->Collect();
		} catch (...) {
			return false;
		}
		return true;
	}
	static Shape ShapeOf(MetricType type, const ClientMetric &m)
	{
		Shape shape;

		if (type == MetricType::Histogram)
			for (const auto &b : m.histogram.bucket)
				if (std::isfinite(b.upper_bound))
					shape.push_back(b.upper_bound);
		if (type == MetricType::Summary)
			for (const auto &q : m.summary.quantile)
				shape.push_back(q.quantile);
		return shape;
	}
	void Take(const MetricFamily &family, const ClientMetric &m)
	{
		Identity id = {family.name, family.help, {}};
		std::string key = family.name;

		for (const auto &label : m.label)
			id.labels[label.name] = label.value;
		for (const auto &label : id.labels)
			key.append(1, '\0')
				.append(label.first)
				.append(1, '\0')
				.append(label.second);
		const Shape shape = ShapeOf(family.type, m);
		auto at = copies_.find(key);
		if (at != copies_.end() && at->second.shape != shape) {
			at->second.series.Remove();
			copies_.erase(at);
			at = copies_.end();
		}
		if (at == copies_.end()) {
			at = copies_.emplace(std::piecewise_construct, std::forward_as_tuple(key),
					     std::forward_as_tuple())
				     .first;
			at->second.shape = shape;
			at->second.type = family.type;
			Open(at->second, family.type, id);
		}
		at->second.seen = true;
		Set(at->second, m);
	}
	static void Open(Copy &c, MetricType type, const Identity &id)
	{
		auto o = Sized<sl_metric_opts>();

		switch (type) {
		case MetricType::Counter:
			o.mirror = true;
			c.counter = c.series.Open<CounterF64Kind>(id, false, o, true);
			break;
		case MetricType::Gauge:
			c.gauge = c.series.Open<GaugeKind>(id, false, o, true);
			break;
		case MetricType::Untyped:
			c.unknown = c.series.Open<UnknownKind>(id, false, o, true);
			break;
		case MetricType::Histogram:
			o.mirror = true;
			o.bounds = c.shape.data();
			o.bound_count = c.shape.size();
			c.histogram = c.series.Open<HistogramKind>(id, false, o, true);
			break;
		case MetricType::Summary:
			o.mirror = true;
			o.quantiles = c.shape.data();
			o.quantile_count = c.shape.size();
			c.summary = c.series.Open<SummaryKind>(id, false, o, true);
			break;
		case MetricType::Info: /* published as in prometheus-cpp, as a gauge of 1 */
			c.gauge = c.series.Open<GaugeKind>({id.name + "_info", id.help, id.labels},
							   false, o, true);
			break;
		}
	}
	/*
	 * Sets the handle of the metric's type. The other handles are 0, so setting them does
	 * nothing.
	 */
	static void Set(const Copy &c, const ClientMetric &m)
	{
		sl_counter_f64_mirror(c.counter, m.counter.value);
		sl_gauge_f64_set(c.gauge,
				 c.type == MetricType::Info ? m.info.value : m.gauge.value);
		sl_unknown_set(c.unknown, m.untyped.value);
		if (c.histogram.bits)
			SetHistogram(c, m.histogram);
		if (c.summary.bits) {
			std::vector<double> values;

			for (const auto &q : m.summary.quantile)
				values.push_back(q.value);
			sl_summary_mirror(c.summary, m.summary.sample_sum, m.summary.sample_count);
			sl_summary_set_quantiles(c.summary, values.data(), values.size());
		}
	}
	static void SetHistogram(const Copy &c, const ClientMetric::Histogram &h)
	{
		std::vector<std::uint64_t> n;
		std::uint64_t before = 0;

		for (const auto &b : h.bucket)
			if (std::isfinite(b.upper_bound)) {
				n.push_back(b.cumulative_count - before);
				before = b.cumulative_count;
			}
		n.push_back(h.sample_count - before);
		sl_histogram_mirror(c.histogram, n.data(), n.size(), h.sample_sum);
	}

	const std::weak_ptr<Collectable> from_;
	std::map<std::string, Copy> copies_;
};
} // namespace detail
} // namespace prometheus

#endif
