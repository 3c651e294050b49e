/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_COLLECTABLE_H
#define SIDELIGHT_PROMETHEUS_COLLECTABLE_H

#include <vector>

#include "prometheus/metric_family.h"

namespace prometheus
{
/*
 * An object that can list metrics. Registries and families publish by themselves; the application's
 * own classes are published once they are registered with an Exposer.
 */
class Collectable
{
      public:
	virtual ~Collectable() = default;
	virtual std::vector<MetricFamily> Collect() const = 0;
};
} // namespace prometheus

#endif
