/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that does not change while the process runs, such as its version. The labels hold the text.
 */
#ifndef SIDELIGHT_PROMETHEUS_INFO_H
#define SIDELIGHT_PROMETHEUS_INFO_H

#include <memory>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/detail/builder.h"
#include "prometheus/detail/series.h"
#include "prometheus/metric_type.h"

namespace prometheus
{
/* Thread-safe. */
class Info
{
      public:
	static const MetricType metric_type{MetricType::Info};

	Info() = default;
	Info(const Info &) = delete;
	Info &operator=(const Info &) = delete;

	ClientMetric Collect() const
	{
		ClientMetric m;

		m.info.value = 1;
		return m;
	}

      private:
	template <typename T> friend class Family;

	void Publish(const detail::Identity &id)
	{
		id_.reset(new detail::Identity(id));
		Call(sl_info_create);
		series_.Claim({id.name + "_info", id.help, id.labels});
	}
	void Withdraw()
	{
		Call(sl_info_remove);
		series_.Remove();
	}
	void Call(int (*call)(sl_publisher *, const sl_metric_opts *)) const
	{
		if (!id_)
			return;
		const std::vector<sl_label> labels = detail::LabelArray(id_->labels);
		auto o = detail::Sized<sl_metric_opts>();

		o.name = id_->name.c_str();
		o.help = id_->help.empty() ? nullptr : id_->help.c_str();
		o.labels = labels.data();
		o.label_count = labels.size();
		call(detail::Process::Get().Publisher(), &o);
	}

	std::unique_ptr<const detail::Identity> id_;
	detail::Series series_;
};

inline detail::Builder<Info> BuildInfo()
{
	return {};
}
} // namespace prometheus

#include "prometheus/registry.h"

#endif
