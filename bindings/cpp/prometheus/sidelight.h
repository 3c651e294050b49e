/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus/sidelight.h - options of Sidelight, which prometheus-cpp does not have. They are not
 * required: the first metric opens a publisher with the default options, and the environment
 * variables SIDELIGHT_SERVICE, SIDELIGHT_SOCKET, POD_NAME and POD_NAMESPACE set the most important
 * ones.
 */
#ifndef SIDELIGHT_PROMETHEUS_SIDELIGHT_H
#define SIDELIGHT_PROMETHEUS_SIDELIGHT_H

#include <cstdint>
#include <string>

#include "prometheus/detail/process.h"
#include "prometheus/labels.h"

namespace prometheus
{
namespace sidelight
{
/* The members are as in struct sl_publisher_opts; empty strings and 0 mean its defaults. */
using Options = detail::Options;

/* Opens the publisher of the process. Returns false with errno; EBUSY if it is open already. */
inline bool Open(const Options &options)
{
	return detail::Process::Get().Open(options);
}
/* For functions of the C library such as sl_publisher_alarmed() and sl_span_name_create(). */
inline sl_publisher *Publisher()
{
	return detail::Process::Get().Publisher();
}
/*
 * Tells the agent that the process ends normally. No thread may use or create a metric any more.
 * The last values stay visible.
 */
inline void Close()
{
	detail::Process::Get().Close();
}
} // namespace sidelight
} // namespace prometheus

#endif
