/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number that only increases. Increment() is one addition, without a lock, to memory that only
 * this thread writes; it takes about a nanosecond. Whole numbers are counted exactly. The fractions
 * of other numbers are added up separately, and readers see the sum of both.
 */
#ifndef SIDELIGHT_PROMETHEUS_COUNTER_H
#define SIDELIGHT_PROMETHEUS_COUNTER_H

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>

#include "prometheus/client_metric.h"
#include "prometheus/detail/builder.h"
#include "prometheus/detail/series.h"
#include "prometheus/metric_type.h"

namespace prometheus
{
/* Any thread may use it. */
class Counter
{
      public:
	static const MetricType metric_type{MetricType::Counter};

	Counter() = default;
	Counter(const Counter &) = delete;
	Counter &operator=(const Counter &) = delete;

	void Increment()
	{
		if (__builtin_expect(whole_.bits != 0, 1))
			sl_counter_inc(whole_);
		else
			Add(1);
	}
	/* A negative or NaN value changes nothing. */
	void Increment(double v)
	{
		if (whole_.bits && v >= 0 && v < 9007199254740992.0 /* 2^53 */) {
			const auto n = static_cast<std::uint64_t>(v);

			sl_counter_add(whole_, n);
			if (static_cast<double>(n) == v)
				return;
			v -= static_cast<double>(n);
		}
		Add(v);
	}
	double Value() const
	{
		return static_cast<double>(sl_counter_value(whole_)) +
		       sl_counter_f64_value({fraction_.load(std::memory_order_acquire)}) +
		       local_.load(std::memory_order_relaxed);
	}
	ClientMetric Collect() const
	{
		ClientMetric m;

		m.counter.value = Value();
		return m;
	}

      private:
	template <typename T> friend class Family;

	/* A counter of seconds has fractions from the first update, so it needs no whole part. */
	void Publish(const detail::Identity &id)
	{
		if (id.name.find("_seconds") != std::string::npos) {
			fraction_.store(whole_series_.Open<detail::CounterF64Kind>(id).bits,
					std::memory_order_release);
			return;
		}
		whole_ = whole_series_.Open<detail::CounterKind>(id);
		if (whole_.bits)
			id_.reset(new detail::Identity(id));
	}
	void Withdraw()
	{
		whole_series_.Remove();
		fraction_series_.Remove();
	}

	void Add(double v)
	{
		std::uint64_t fraction = fraction_.load(std::memory_order_acquire);

		if (!(v >= 0))
			return;
		if (!fraction && id_)
			fraction = OpenFraction();
		if (fraction)
			sl_counter_f64_add({fraction}, v);
		else
			detail::AtomicAdd(local_, v);
	}
	std::uint64_t OpenFraction()
	{
		std::lock_guard<std::mutex> guard(opening_);
		std::uint64_t bits = fraction_.load(std::memory_order_relaxed);

		if (!bits) {
			bits = fraction_series_.Open<detail::CounterF64Kind>(*id_, true).bits;
			fraction_.store(bits, std::memory_order_release);
		}
		return bits;
	}

	sl_counter whole_{0};
	std::atomic<std::uint64_t> fraction_{0}; /* bits of a sl_counter_f64 */
	std::atomic<double> local_{0};		 /* value of an unpublished counter */
	std::mutex opening_;
	std::unique_ptr<const detail::Identity> id_;
	detail::Series whole_series_, fraction_series_;
};

inline detail::Builder<Counter> BuildCounter()
{
	return {};
}
} // namespace prometheus

#include "prometheus/registry.h"

#endif
