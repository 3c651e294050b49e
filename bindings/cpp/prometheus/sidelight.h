/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus/sidelight.h - what the application may say to Sidelight; prometheus-cpp has no such
 * header. None of it is needed: the first metric opens a publisher with these options as they are,
 * and $SIDELIGHT_SERVICE, $SIDELIGHT_SOCKET, $POD_NAME and $POD_NAMESPACE do without code.
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
/* struct sl_publisher_opts has their meanings; empty and 0 are its defaults. */
using Options = detail::Options;

/* Opens the publisher of the process. False: a metric was made before, or errno says why not. */
inline bool Open(const Options &options)
{
	return detail::Process::Get().Open(options);
}
/* For the functions of sidelight.h and span.h: sl_publisher_alarmed(), sl_span_name_create(). */
inline sl_publisher *Publisher()
{
	return detail::Process::Get().Publisher();
}
/*
 * Tells the agent that the process ends in order, rather than died. No thread may use a metric any
 * more, or make one. What was counted stays.
 */
inline void Close()
{
	detail::Process::Get().Close();
}
} // namespace sidelight
} // namespace prometheus

#endif
