/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics that differ only in their labels. */
#ifndef SIDELIGHT_PROMETHEUS_FAMILY_H
#define SIDELIGHT_PROMETHEUS_FAMILY_H

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/check_names.h"
#include "prometheus/client_metric.h"
#include "prometheus/collectable.h"
#include "prometheus/detail/series.h"
#include "prometheus/labels.h"
#include "prometheus/metric_family.h"

namespace prometheus
{
class Registry;

namespace detail
{
/* Marks a Collectable whose metrics are in shared memory anyway, so that no copies are made. */
class PublishesItself
{
      protected:
	~PublishesItself() = default;
};
} // namespace detail

/* T: Counter, Gauge, Histogram or Summary. Any thread may use it. */
template <typename T> class Family : public Collectable, public detail::PublishesItself
{
      public:
	/* Throws std::invalid_argument for a malformed name. */
	Family(const std::string &name, const std::string &help, const Labels &constant_labels)
	    : name_(name), help_(help), constant_labels_(constant_labels)
	{
		if (!CheckMetricName(name_))
			throw std::invalid_argument("Invalid metric name");
		for (const auto &label : constant_labels_)
			CheckLabel(label.first);
	}

	/*
	 * Returns the metric with these labels. If there is none, constructs a T from the arguments
	 * and publishes it. Throws std::invalid_argument if a label is malformed or is also a
	 * constant label of the family. Takes a lock, so keep the result.
	 */
	template <typename... Args> T &Add(const Labels &labels, Args &&...args)
	{
		std::lock_guard<std::mutex> guard(mutex_);
		const auto at = metrics_.find(labels);

		if (at != metrics_.end())
			return *at->second;
		for (const auto &label : labels) {
			CheckLabel(label.first);
			if (constant_labels_.count(label.first))
				throw std::invalid_argument("Duplicate label name");
		}
		std::unique_ptr<T> metric(new T(args...));
		detail::Identity id = {name_, help_, labels};
		id.labels.insert(constant_labels_.begin(), constant_labels_.end());
		metric->Publish(id);
		return *metrics_.emplace(labels, std::move(metric)).first->second;
	}
	/* Removes the metric; readers no longer see it. Ignores metrics of other families. */
	void Remove(T *metric)
	{
		std::lock_guard<std::mutex> guard(mutex_);

		for (auto at = metrics_.begin(); at != metrics_.end(); ++at)
			if (at->second.get() == metric) {
				metric->Withdraw();
				metrics_.erase(at);
				return;
			}
	}
	bool Has(const Labels &labels) const
	{
		std::lock_guard<std::mutex> guard(mutex_);

		return metrics_.count(labels);
	}
	const std::string &GetName() const { return name_; }
	const Labels GetConstantLabels() const { return constant_labels_; }

	std::vector<MetricFamily> Collect() const override
	{
		std::lock_guard<std::mutex> guard(mutex_);
		MetricFamily family;

		if (metrics_.empty())
			return {};
		family.name = name_;
		family.help = help_;
		family.type = T::metric_type;
		for (const auto &metric : metrics_) {
			ClientMetric m = metric.second->Collect();

			AddLabels(m, constant_labels_);
			AddLabels(m, metric.first);
			family.metric.push_back(std::move(m));
		}
		return {family};
	}

      private:
	friend class Registry;

	static void CheckLabel(const std::string &name)
	{
		if (!CheckLabelName(name, T::metric_type))
			throw std::invalid_argument("Invalid label name");
	}
	static void AddLabels(ClientMetric &m, const Labels &labels)
	{
		for (const auto &label : labels) {
			ClientMetric::Label l;

			l.name = label.first;
			l.value = label.second;
			m.label.push_back(l);
		}
	}
	void Withdraw() const
	{
		std::lock_guard<std::mutex> guard(mutex_);

		for (const auto &metric : metrics_)
			metric.second->Withdraw();
	}

	const std::string name_, help_;
	const Labels constant_labels_;
	mutable std::mutex mutex_;
	std::map<Labels, std::unique_ptr<T>> metrics_;
};
} // namespace prometheus

#endif
