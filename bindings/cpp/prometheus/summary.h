/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Number and sum of observations, and quantiles of the latest ones. Number and sum are published
 * with each observation, the quantiles every $SIDELIGHT_COLLECT_SECONDS, by default 5.
 */
#ifndef SIDELIGHT_PROMETHEUS_SUMMARY_H
#define SIDELIGHT_PROMETHEUS_SUMMARY_H

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/detail/builder.h"
#include "prometheus/detail/ckms_quantiles.h"
#include "prometheus/detail/series.h"
#include "prometheus/detail/time_window_quantiles.h"
#include "prometheus/metric_type.h"

namespace prometheus
{
/* Any thread may use it; observations take a lock. */
class Summary : private detail::Periodic
{
      public:
	/* {rank, error}: for {0.5, 0.05}, the result's rank is between 0.45 and 0.55. */
	using Quantiles = std::vector<detail::CKMSQuantiles::Quantile>;

	static const MetricType metric_type{MetricType::Summary};

	/* The quantiles cover the last max_age, which advances in age_buckets steps. */
	Summary(const Quantiles &quantiles,
		std::chrono::milliseconds max_age = std::chrono::seconds(60), int age_buckets = 5)
	    : quantiles_(quantiles), window_(quantiles_, max_age, age_buckets)
	{
	}
	Summary(const Summary &) = delete;
	Summary &operator=(const Summary &) = delete;
	~Summary() override
	{
		if (!ranks_.empty())
			detail::Process::Get().Stop(this);
	}

	void Observe(double v)
	{
		{
			std::lock_guard<std::mutex> guard(mutex_);

			count_++;
			sum_ += v;
			if (!quantiles_.empty())
				window_.insert(v);
		}
		sl_summary_observe(shared_, v);
		if (!ranks_.empty())
			detail::Process::Get().ContinueInChild();
	}
	ClientMetric Collect() const
	{
		std::lock_guard<std::mutex> guard(mutex_);
		ClientMetric m;
		ClientMetric::Quantile value;

		m.summary.sample_count = shared_.bits ? sl_summary_count(shared_) : count_;
		m.summary.sample_sum = shared_.bits ? sl_summary_sum(shared_) : sum_;
		for (const auto &q : quantiles_) {
			value.quantile = q.quantile;
			value.value = window_.get(q.quantile);
			m.summary.quantile.push_back(value);
		}
		return m;
	}

      private:
	template <typename T> friend class Family;

	void Publish(const detail::Identity &id)
	{
		auto o = detail::Sized<sl_metric_opts>();

		for (const auto &q : quantiles_)
			if (q.quantile >= 0 && q.quantile <= 1)
				ranks_.push_back(q.quantile);
		std::sort(ranks_.begin(), ranks_.end());
		ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
		o.quantiles = ranks_.data();
		o.quantile_count = ranks_.size();
		shared_ = series_.Open<detail::SummaryKind>(id, false, o);
		if (!shared_.bits)
			ranks_.clear();
		if (!ranks_.empty()) {
			PublishQuantiles();
			detail::Process::Get().Start(this);
		}
	}
	void Withdraw() { series_.Remove(); }

	void Tick(std::unique_lock<std::mutex> &) override { PublishQuantiles(); }
	void PublishQuantiles()
	{
		std::lock_guard<std::mutex> guard(mutex_);
		std::vector<double> values;

		for (double rank : ranks_)
			values.push_back(window_.get(rank));
		sl_summary_set_quantiles(shared_, values.data(), values.size());
	}

	sl_summary shared_{0, 0};
	const Quantiles quantiles_;
	std::vector<double> ranks_; /* as published, ascending; empty if there are none */
	mutable std::mutex mutex_;  /* protects the members below */
	mutable detail::TimeWindowQuantiles window_;
	std::uint64_t count_ = 0;
	double sum_ = 0;
	detail::Series series_;
};

inline detail::Builder<Summary> BuildSummary()
{
	return {};
}
} // namespace prometheus

#include "prometheus/registry.h"

#endif
