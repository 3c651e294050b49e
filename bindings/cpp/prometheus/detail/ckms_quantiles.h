/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantiles of a stream with given maximum errors: G. Cormode, F. Korn, S. Muthukrishnan, D.
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
/* Not thread-safe. */
class CKMSQuantiles
{
      public:
	/* A rank from 0 to 1, and the maximum error of the result's rank. */
	struct Quantile {
		Quantile(double rank, double tolerated) : quantile(rank), error(tolerated) {}

		double quantile;
		double error;
	};

	/* The caller owns the quantiles, which must outlive this object. */
	explicit CKMSQuantiles(const std::vector<Quantile> &quantiles) : quantiles_(&quantiles) {}

	void insert(double v)
	{
		buffer_.push_back(v);
		if (buffer_.size() == kBuffer)
			Flush();
	}
	/* Returns NaN if there were no observations. */
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

	/*
	 * g: difference between the minimum ranks of this sample and the previous one; delta:
	 * difference between this sample's maximum and minimum rank.
	 */
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
	/*
	 * Merges samples into their greater neighbour where the errors allow it, starting with the
	 * greatest sample. Keeps the least one.
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
