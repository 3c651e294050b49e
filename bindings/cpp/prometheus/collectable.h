/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_COLLECTABLE_H
#define SIDELIGHT_PROMETHEUS_COLLECTABLE_H

#include <vector>

#include "prometheus/metric_family.h"

namespace prometheus
{
/*
 * Whatever can list metrics. Registries and families publish by themselves; one of the
 * application's own is published from the time that an Exposer has it.
 */
class Collectable
{
      public:
	virtual ~Collectable() = default;
	virtual std::vector<MetricFamily> Collect() const = 0;
};
} // namespace prometheus

#endif
