/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantiles of a stream within errors chosen beforehand: G. Cormode, F. Korn, S. Muthukrishnan, D.
 * Srivastava, "Effective Computation of Biased Quantiles over Data Streams", ICDE 2005, section 5.
 */
#ifndef SIDELIGHT_PROMETHEUS_CKMS_QUANTILES_H
#define SIDELIGHT_PROMETHEUS_CKMS_QUANTILES_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace prometheus
{
namespace detail
{
/* For one thread at a time. */
class CKMSQuantiles
{
      public:
	/* A rank from 0 to 1, and by how much of all observations the answer may be off. */
	struct Quantile {
		Quantile(double rank, double tolerated) : quantile(rank), error(tolerated) {}

		double quantile;
		double error;
	};

	/* The quantiles stay the caller's, and where they are. */
	explicit CKMSQuantiles(const std::vector<Quantile> &quantiles) : quantiles_(&quantiles) {}

	void insert(double v)
	{
		buffer_.push_back(v);
		if (buffer_.size() == kBuffer)
			Flush();
	}
	/* NaN: there were no observations. */
	double get(double q)
	{
		Flush();
		if (samples_.empty())
			return std::numeric_limits<double>::quiet_NaN();
		const double rank = q * count_, limit = rank + Allowed(rank) / 2;
		double before = 0;
		for (std::size_t i = 1; i < samples_.size(); i++) {
			before += samples_[i - 1].g;
			if (before + samples_[i].g + samples_[i].delta > limit)
				return samples_[i - 1].value;
		}
		return samples_.back().value;
	}
	void reset()
	{
		buffer_.clear();
		samples_.clear();
		count_ = 0;
	}

      private:
	static constexpr std::size_t kBuffer = 512;

	/* g: by how much its least rank exceeds that of the sample before; delta: how much its
	 * greatest rank may exceed its least one. */
	struct Sample {
		double value, g, delta;
	};

	/* f(r, n) of the paper, definition 5. */
	double Allowed(double rank) const
	{
		double least = count_ + 1;

		for (const Quantile &q : *quantiles_) {
			if (q.quantile > 0 && rank >= q.quantile * count_)
				least = std::min(least, 2 * q.error * rank / q.quantile);
			if (q.quantile < 1 && rank <= q.quantile * count_)
				least = std::min(least,
						 2 * q.error * (count_ - rank) / (1 - q.quantile));
		}
		return least;
	}
	void Flush()
	{
		std::vector<Sample> merged;
		std::size_t i = 0;
		double rank = 0;

		if (buffer_.empty())
			return;
		std::sort(buffer_.begin(), buffer_.end());
		merged.reserve(samples_.size() + buffer_.size());
		for (double v : buffer_) {
			for (; i < samples_.size() && samples_[i].value <= v; i++) {
				rank += samples_[i].g;
				merged.push_back(samples_[i]);
			}
			const bool end = merged.empty() || i == samples_.size();
			merged.push_back(
				{v, 1, end ? 0 : std::max(0., std::floor(Allowed(rank)) - 1)});
			rank++;
			count_++;
		}
		merged.insert(merged.end(), samples_.begin() + static_cast<std::ptrdiff_t>(i),
			      samples_.end());
		buffer_.clear();
		Compress(merged);
	}
	/* Drops samples, from the greatest on, whose neighbour answers for both. The least stays.
	 */
	void Compress(const std::vector<Sample> &from)
	{
		double rank = count_;
		Sample next = from.back();

		samples_.clear();
		for (std::size_t i = from.size() - 1; i-- > 0;) {
			rank -= from[i + 1].g;
			if (i && from[i].g + next.g + next.delta <= Allowed(rank - from[i].g)) {
				next.g += from[i].g;
				continue;
			}
			samples_.push_back(next);
			next = from[i];
		}
		samples_.push_back(next);
		std::reverse(samples_.begin(), samples_.end());
	}

	const std::vector<Quantile> *quantiles_;
	std::vector<double> buffer_;
	std::vector<Sample> samples_;
	double count_ = 0;
};
} // namespace detail
} // namespace prometheus

#endif
