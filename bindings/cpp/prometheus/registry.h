/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families with unique names. All of them are published, whether or not the registry is registered
 * with an Exposer. When it is destroyed, for example at the end of main(), their series keep their
 * last values, so that no count is lost, until the process ends or another registry restarts them.
 */
#ifndef SIDELIGHT_PROMETHEUS_REGISTRY_H
#define SIDELIGHT_PROMETHEUS_REGISTRY_H

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/info.h"
#include "prometheus/labels.h"
#include "prometheus/metric_family.h"
#include "prometheus/summary.h"

namespace prometheus
{
/* Any thread may use it. */
class Registry : public Collectable, public detail::PublishesItself
{
      public:
	/*
	 * If a family with this name and these constant labels exists: return it, or throw. If it
	 * has other labels or another type, std::invalid_argument is thrown in either case.
	 */
	enum class InsertBehavior { Merge, Throw };

	explicit Registry(InsertBehavior insert_behavior = InsertBehavior::Merge)
	    : insert_behavior_(insert_behavior)
	{
	}
	Registry(const Registry &) = delete;
	Registry &operator=(const Registry &) = delete;
	Registry(Registry &&) = delete;
	Registry &operator=(Registry &&) = delete;
	~Registry() override = default;

	std::vector<MetricFamily> Collect() const override
	{
		std::lock_guard<std::mutex> guard(mutex_);
		std::vector<MetricFamily> all;

		CollectAll(counters_, all);
		CollectAll(gauges_, all);
		CollectAll(histograms_, all);
		CollectAll(summaries_, all);
		CollectAll(infos_, all);
		return all;
	}
	/* Removes the family and its metrics. Returns false if it is not in this registry. */
	template <typename T> bool Remove(const Family<T> &family)
	{
		std::lock_guard<std::mutex> guard(mutex_);
		List<T> &list = ListOf(static_cast<T *>(nullptr));
		const auto at = std::find_if(
			list.begin(), list.end(),
			[&](const std::unique_ptr<Family<T>> &f) { return f.get() == &family; });

		if (at == list.end())
			return false;
		family.Withdraw();
		list.erase(at);
		return true;
	}

      private:
	template <typename T> friend class detail::Builder;
	template <typename T> using List = std::vector<std::unique_ptr<Family<T>>>;

	List<Counter> &ListOf(const Counter *) { return counters_; }
	List<Gauge> &ListOf(const Gauge *) { return gauges_; }
	List<Histogram> &ListOf(const Histogram *) { return histograms_; }
	List<Summary> &ListOf(const Summary *) { return summaries_; }
	List<Info> &ListOf(const Info *) { return infos_; }

	template <typename T> static Family<T> *Find(const List<T> &list, const std::string &name)
	{
		for (const auto &f : list)
			if (f->GetName() == name)
				return f.get();
		return nullptr;
	}
	template <typename T>
	Family<T> &Add(const std::string &name, const std::string &help, const Labels &labels)
	{
		std::lock_guard<std::mutex> guard(mutex_);
		List<T> &list = ListOf(static_cast<T *>(nullptr));
		Family<T> *there = Find(list, name);

		if (there) {
			if (insert_behavior_ == InsertBehavior::Throw ||
			    there->GetConstantLabels() != labels)
				throw std::invalid_argument("Family name already exists");
			return *there;
		}
		if (Find(counters_, name) || Find(gauges_, name) || Find(histograms_, name) ||
		    Find(summaries_, name) || Find(infos_, name))
			throw std::invalid_argument(
				"Family name already exists with different type");
		list.emplace_back(new Family<T>(name, help, labels));
		return *list.back();
	}
	template <typename T>
	static void CollectAll(const List<T> &list, std::vector<MetricFamily> &all)
	{
		for (const auto &f : list) {
			std::vector<MetricFamily> one = f->Collect();

			std::move(one.begin(), one.end(), std::back_inserter(all));
		}
	}

	const InsertBehavior insert_behavior_;
	mutable std::mutex mutex_;
	List<Counter> counters_;
	List<Gauge> gauges_;
	List<Histogram> histograms_;
	List<Summary> summaries_;
	List<Info> infos_;
};

namespace detail
{
template <typename T> Family<T> &Builder<T>::Register(Registry &registry)
{
	return registry.Add<T>(name_, help_, labels_);
}
} // namespace detail
} // namespace prometheus

#endif
