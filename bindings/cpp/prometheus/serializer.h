/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_SERIALIZER_H
#define SIDELIGHT_PROMETHEUS_SERIALIZER_H

#include <iosfwd>
#include <sstream>
#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace prometheus
{
class Serializer
{
      public:
	virtual ~Serializer() = default;
	virtual std::string Serialize(const std::vector<MetricFamily> &metrics) const
	{
		std::ostringstream out;

		Serialize(out, metrics);
		return out.str();
	}
	virtual void Serialize(std::ostream &out,
			       const std::vector<MetricFamily> &metrics) const = 0;
};
} // namespace prometheus

#endif
