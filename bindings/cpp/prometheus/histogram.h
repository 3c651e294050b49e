/* SPDX-License-Identifier: Apache-2.0 */
/* Observations counted in buckets. NaN is refused, and counted as refused. */
#ifndef SIDELIGHT_PROMETHEUS_HISTOGRAM_H
#define SIDELIGHT_PROMETHEUS_HISTOGRAM_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/detail/builder.h"
#include "prometheus/detail/series.h"
#include "prometheus/metric_type.h"

namespace prometheus
{
/* Any thread may use it. */
class Histogram
{
      public:
	using BucketBoundaries = std::vector<double>;

	static const MetricType metric_type{MetricType::Histogram};

	/* buckets: upper bounds, ascending; larger observations have another bucket. */
	Histogram(const BucketBoundaries &buckets) : boundaries_(buckets), bounds_(buckets)
	{
		if (std::adjacent_find(buckets.begin(), buckets.end(),
				       std::greater_equal<double>()) != buckets.end())
			throw std::invalid_argument("Bucket Boundaries must be strictly sorted");
		/* A region has at least one bound; all are finite, and +Inf is implied. */
		if (!bounds_.empty() && std::isinf(bounds_.back()))
			bounds_.pop_back();
		if (bounds_.empty())
			bounds_.push_back(std::numeric_limits<double>::max());
		local_.resize(bounds_.size() + 1);
	}
	Histogram(const Histogram &) = delete;
	Histogram &operator=(const Histogram &) = delete;

	void Observe(double v)
	{
		if (__builtin_expect(shared_.bits != 0, 1))
			sl_histogram_observe(shared_, v);
		else
			ObserveLocal(v);
	}
	/* bucket_increments: observations in each bucket, which is one number more than bounds. */
	void ObserveMultiple(const std::vector<double> &bucket_increments,
			     const double sum_of_values)
	{
		std::vector<std::uint64_t> n(bounds_.size() + 1);

		if (bucket_increments.size() != boundaries_.size() + 1)
			throw std::length_error("as many increments as buckets are needed");
		for (std::size_t i = 0; i < bucket_increments.size(); i++)
			if (bucket_increments[i] >= 0)
				n[std::min(i, n.size() - 1)] +=
					static_cast<std::uint64_t>(bucket_increments[i]);
		if (shared_.bits)
			sl_histogram_add(shared_, n.data(), n.size(), sum_of_values);
		else
			AddLocal(n, sum_of_values);
	}
	ClientMetric Collect() const
	{
		const double infinity = std::numeric_limits<double>::infinity();
		ClientMetric m;
		ClientMetric::Histogram &h = m.histogram;
		std::vector<std::uint64_t> n = Read(h.sample_sum);

		for (std::size_t i = 0; i < n.size(); i++) {
			ClientMetric::Bucket b;

			h.sample_count += n[i];
			b.cumulative_count = h.sample_count;
			b.upper_bound = i < bounds_.size() ? bounds_[i] : infinity;
			if (i >= boundaries_.size() && i < bounds_.size())
				continue; /* the application gave no bound */
			h.bucket.push_back(b);
		}
		return m;
	}

      private:
	template <typename T> friend class Family;

	void Publish(const detail::Identity &id)
	{
		auto o = detail::Sized<sl_metric_opts>();

		o.bounds = bounds_.data();
		o.bound_count = bounds_.size();
		shared_ = series_.Open<detail::HistogramKind>(id, false, o);
	}
	void Withdraw() { series_.Remove(); }

	void ObserveLocal(double v)
	{
		std::vector<std::uint64_t> n(bounds_.size() + 1);

		if (std::isnan(v))
			return;
		n[std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin()] = 1;
		AddLocal(n, v);
	}
	void AddLocal(const std::vector<std::uint64_t> &n, double sum)
	{
		std::lock_guard<std::mutex> guard(mutex_);

		for (std::size_t i = 0; i < n.size(); i++)
			local_[i] += n[i];
		sum_ += sum;
	}
	std::vector<std::uint64_t> Read(double &sum) const
	{
		std::lock_guard<std::mutex> guard(mutex_);
		std::vector<std::uint64_t> n = local_;

		sum = sum_;
		if (shared_.bits) {
			sl_histogram_buckets(shared_, n.data(), n.size());
			sum = sl_histogram_sum(shared_);
		}
		return n;
	}

	sl_histogram shared_{0, nullptr};
	const BucketBoundaries boundaries_; /* as the application gave them */
	BucketBoundaries bounds_;
	mutable std::mutex
		mutex_; /* protects the members below, which an unpublished histogram uses */
	std::vector<std::uint64_t> local_;
	double sum_ = 0;
	detail::Series series_;
};

inline detail::Builder<Histogram> BuildHistogram()
{
	return {};
}
} // namespace prometheus

#include "prometheus/registry.h"

#endif
