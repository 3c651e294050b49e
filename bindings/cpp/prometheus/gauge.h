/* SPDX-License-Identifier: Apache-2.0 */
/* A number that goes up and down. */
#ifndef SIDELIGHT_PROMETHEUS_GAUGE_H
#define SIDELIGHT_PROMETHEUS_GAUGE_H

#include <atomic>
#include <ctime>

#include "prometheus/client_metric.h"
#include "prometheus/detail/builder.h"
#include "prometheus/detail/series.h"
#include "prometheus/metric_type.h"

namespace prometheus
{
/* Any thread may use it. The last Set() wins, and sums are exact. */
class Gauge
{
      public:
	static const MetricType metric_type{MetricType::Gauge};

	Gauge() = default;
	Gauge(double v) : local_(v) {}
	Gauge(const Gauge &) = delete;
	Gauge &operator=(const Gauge &) = delete;

	void Increment() { Increment(1); }
	void Increment(double v)
	{
		if (shared_.bits)
			sl_gauge_f64_add(shared_, v);
		else
			detail::AtomicAdd(local_, v);
	}
	void Decrement() { Increment(-1); }
	void Decrement(double v) { Increment(-v); }
	void Set(double v)
	{
		if (shared_.bits)
			sl_gauge_f64_set(shared_, v);
		else
			local_.store(v, std::memory_order_relaxed);
	}
	void SetToCurrentTime() { Set(static_cast<double>(std::time(nullptr))); }
	double Value() const
	{
		return shared_.bits ? sl_gauge_f64_value(shared_)
				    : local_.load(std::memory_order_relaxed);
	}
	ClientMetric Collect() const
	{
		ClientMetric m;

		m.gauge.value = Value();
		return m;
	}

      private:
	template <typename T> friend class Family;

	void Publish(const detail::Identity &id)
	{
		const double first = Value();

		shared_ = series_.Open<detail::GaugeKind>(id);
		if (shared_.bits && first != 0)
			Set(first);
	}
	void Withdraw() { series_.Remove(); }

	sl_gauge_f64 shared_{0};
	std::atomic<double> local_{0}; /* value of an unpublished gauge */
	detail::Series series_;
};

inline detail::Builder<Gauge> BuildGauge()
{
	return {};
}
} // namespace prometheus

#include "prometheus/registry.h"

#endif
