/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantiles of the latest observations. Several sketches, started at equal intervals, receive all
 * observations; the oldest one is queried, and then reset.
 */
#ifndef SIDELIGHT_PROMETHEUS_TIME_WINDOW_QUANTILES_H
#define SIDELIGHT_PROMETHEUS_TIME_WINDOW_QUANTILES_H

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "prometheus/detail/ckms_quantiles.h"

namespace prometheus
{
namespace detail
{
/* Not thread-safe. */
class TimeWindowQuantiles
{
	using Clock = std::chrono::steady_clock;

      public:
	TimeWindowQuantiles(const std::vector<CKMSQuantiles::Quantile> &quantiles,
			    Clock::duration max_age, int age_buckets)
	    : sketches_(static_cast<std::size_t>(std::max(1, age_buckets)),
			CKMSQuantiles(quantiles)),
	      turn_(std::max(Clock::duration(1),
			     max_age / static_cast<Clock::rep>(sketches_.size()))),
	      since_(Clock::now())
	{
	}
	double get(double q) { return Oldest().get(q); }
	void insert(double v)
	{
		Oldest();
		for (CKMSQuantiles &sketch : sketches_)
			sketch.insert(v);
	}

      private:
	CKMSQuantiles &Oldest()
	{
		const Clock::duration late = Clock::now() - since_;
		Clock::rep turns = late / turn_;

		since_ += turns * turn_;
		for (turns = std::min(turns, static_cast<Clock::rep>(sketches_.size())); turns > 0;
		     turns--) {
			sketches_[oldest_].reset();
			oldest_ = (oldest_ + 1) % sketches_.size();
		}
		return sketches_[oldest_];
	}

	std::vector<CKMSQuantiles> sketches_;
	std::size_t oldest_ = 0;
	Clock::duration turn_;
	Clock::time_point since_;
};
} // namespace detail
} // namespace prometheus

#endif
