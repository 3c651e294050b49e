/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_CHECK_NAMES_H
#define SIDELIGHT_PROMETHEUS_CHECK_NAMES_H

/*
 * Both libraries have headers of these names, so the order of the flags decides which ones are
 * used.
 */
#ifdef PROMETHEUS_CPP_CORE_EXPORT
#error "prometheus-cpp's own headers come before Sidelight's: put the flags of sidelight-prometheus-cpp first"
#endif

#include <string>

#include "prometheus/metric_type.h"

namespace prometheus
{
namespace detail
{
inline bool NameOf(const std::string &name, bool colon)
{
	if (name.empty() || name.compare(0, 2, "__") == 0 || (name[0] >= '0' && name[0] <= '9'))
		return false;
	for (char c : name)
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_' || (colon && c == ':')))
			return false;
	return true;
}
} // namespace detail

/* https://prometheus.io/docs/concepts/data_model/; a beginning of "__" is reserved. */
inline bool CheckMetricName(const std::string &name)
{
	return detail::NameOf(name, true);
}
/*
 * Refuses "le" on histograms and "quantile" on summaries, because their samples have these labels
 * already. Version 1.0 of prometheus-cpp has no parameter `type`.
 */
inline bool CheckLabelName(const std::string &name, MetricType type = MetricType::Untyped)
{
	return detail::NameOf(name, false) && !(type == MetricType::Histogram && name == "le") &&
	       !(type == MetricType::Summary && name == "quantile");
}
} // namespace prometheus

#endif
