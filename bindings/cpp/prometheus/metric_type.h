/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_METRIC_TYPE_H
#define SIDELIGHT_PROMETHEUS_METRIC_TYPE_H

namespace prometheus
{
enum class MetricType { Counter, Gauge, Summary, Untyped, Histogram, Info };
} // namespace prometheus

#endif
