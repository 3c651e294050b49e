/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_BUILDER_H
#define SIDELIGHT_PROMETHEUS_BUILDER_H

#include <string>

#include "prometheus/labels.h"

namespace prometheus
{
template <typename T> class Family;
class Registry;

namespace detail
{
template <typename T> class Builder
{
      public:
	Builder &Labels(const ::prometheus::Labels &labels)
	{
		labels_ = labels;
		return *this;
	}
	Builder &Name(const std::string &name)
	{
		name_ = name;
		return *this;
	}
	Builder &Help(const std::string &help)
	{
		help_ = help;
		return *this;
	}
	Family<T> &Register(Registry &registry); /* in registry.h */

      private:
	::prometheus::Labels labels_;
	std::string name_;
	std::string help_;
};
} // namespace detail
} // namespace prometheus

#endif
