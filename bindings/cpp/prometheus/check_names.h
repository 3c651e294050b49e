/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_CHECK_NAMES_H
#define SIDELIGHT_PROMETHEUS_CHECK_NAMES_H

#include <string>

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
inline bool CheckLabelName(const std::string &name)
{
	return detail::NameOf(name, false);
}
} // namespace prometheus

#endif
