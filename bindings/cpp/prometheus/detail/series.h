/* SPDX-License-Identifier: Apache-2.0 */
/* One metric's series in shared memory, and the kinds of series. */
#ifndef SIDELIGHT_PROMETHEUS_SERIES_H
#define SIDELIGHT_PROMETHEUS_SERIES_H

#include <atomic>
#include <string>

#include "prometheus/detail/process.h"

namespace prometheus
{
namespace detail
{
#define SL__PROMETHEUS_KIND(Name, kind, suffix)                                         \
	struct Name##Kind {                                                             \
		using Handle = struct sl_##kind;                                        \
		using Family = struct sl_##kind##_family;                               \
		static constexpr const char *kName = #kind;                             \
		static Handle Make(sl_publisher *p, const sl_metric_opts *o)            \
		{                                                                       \
			return sl_##kind##_create##suffix(p, o);                        \
		}                                                                       \
		static Family MakeFamily(sl_publisher *p, const sl_metric_opts *o)      \
		{                                                                       \
			return sl_##kind##_family_create##suffix(p, o);                 \
		}                                                                       \
		static Handle With(Family f, const sl_label *labels, std::size_t count) \
		{                                                                       \
			return sl_##kind##_with(f, labels, count);                      \
		}                                                                       \
		static void Remove(Family f, const sl_label *labels, std::size_t count) \
		{                                                                       \
			sl_##kind##_remove(f, labels, count);                           \
		}                                                                       \
	}
SL__PROMETHEUS_KIND(Counter, counter, );
SL__PROMETHEUS_KIND(CounterF64, counter_f64, );
SL__PROMETHEUS_KIND(Gauge, gauge_f64, );
SL__PROMETHEUS_KIND(Histogram, histogram, _classic);
SL__PROMETHEUS_KIND(Summary, summary, );
SL__PROMETHEUS_KIND(Unknown, unknown, );
#undef SL__PROMETHEUS_KIND

/* For metrics that are not published, because they are in no registry or were refused. */
inline void AtomicAdd(std::atomic<double> &to, double v)
{
	double old = to.load(std::memory_order_relaxed);

	while (!to.compare_exchange_weak(old, old + v, std::memory_order_relaxed))
		;
}

class Series
{
      public:
	Series() = default;
	Series(const Series &) = delete;
	Series &operator=(const Series &) = delete;
	~Series() { Leave(false); }

	/* Returns a handle of 0 if refused. mirror: for copies of values, not for an instrument. */
	template <class Kind>
	typename Kind::Handle Open(const Identity &id, bool fraction = false,
				   const sl_metric_opts &shape = Sized<sl_metric_opts>(),
				   bool mirror = false)
	{
		const std::string key = KeyOf(id, fraction);
		const typename Kind::Handle h = Process::Get().Enter<Kind>(key, id, fraction, shape,
									   mirror);
		if (h.bits)
			key_ = key;
		return h;
	}
	/* Prevents copies of a series that is published by other means. */
	void Claim(const Identity &id)
	{
		key_ = KeyOf(id, false);
		Process::Get().Claim(key_);
	}
	/* Removes the series, unless another metric uses it as well. */
	void Remove() { Leave(true); }

      private:
	static std::string KeyOf(const Identity &id, bool fraction)
	{
		std::string key = fraction ? "+" : "=";

		key += id.name;
		for (const auto &label : id.labels)
			key.append(1, '\0')
				.append(label.first)
				.append(1, '\0')
				.append(label.second);
		return key;
	}
	void Leave(bool remove)
	{
		if (!key_.empty())
			Process::Get().Leave(key_, remove);
		key_.clear();
	}

	std::string key_;
};
} // namespace detail
} // namespace prometheus

#endif
