/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_METRIC_FAMILY_H
#define SIDELIGHT_PROMETHEUS_METRIC_FAMILY_H

#include <string>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_type.h"

namespace prometheus
{
struct MetricFamily {
	std::string name;
	std::string help;
	MetricType type = MetricType::Untyped;
	std::vector<ClientMetric> metric;
};
} // namespace prometheus

#endif
