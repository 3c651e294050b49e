/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIDELIGHT_PROMETHEUS_LABELS_H
#define SIDELIGHT_PROMETHEUS_LABELS_H

#include <map>
#include <string>

namespace prometheus
{
using Labels = std::map<std::string, std::string>;
} // namespace prometheus

#endif
