/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge_options.h - options of the bridges. The agent passes them on to the program
 * sidelight-bridge.
 */
#ifndef SL_CLI_BRIDGE_OPTIONS_H
#define SL_CLI_BRIDGE_OPTIONS_H

#include "bridge/run.h"
#include "cli/common/common.h"

/* Option rows for users; o points to the struct bridge_opts to fill. */
#define CLI_OPTIONS_BRIDGE(o)                                                                                      \
	BASE_LIST(                                                                                                 \
		"scrape", 0, &(o)->scrapes, "URL",                                                                 \
		"publish the metrics at this URL; ,job=NAME, ,interval=TIME, ,timeout=TIME, "                      \
		",config=FILE (in the format of Prometheus' http_client_config) and ,native may "                  \
		"follow; repeatable"),                                                                             \
		BASE_TIME("scrape-interval", 0, &(o)->interval_ns, 1e6, 3.6e12, "DURATION",                        \
			  "time between two scrapes of a target, or reads of --textfile"),                         \
		BASE_STRING("textfile", 0, &(o)->textfile, "DIR",                                                  \
			    "publish the metrics in the *.prom files of this folder"),                             \
		BASE_FLAG(                                                                                         \
			"host", 0, &(o)->host,                                                                     \
			"publish metrics of this machine and its containers, with the names of node_exporter and " \
			"cAdvisor"),                                                                               \
		BASE_TIME("host-interval", 0, &(o)->host_interval_ns, 1e7, 3.6e12, "DURATION",                     \
			  "time between two readings of --host"),                                                  \
		BASE_LIST(                                                                                         \
			"statsd", 0, &(o)->statsd, "unix:PATH|ADDR:PORT",                                          \
			"receive StatsD and DogStatsD as datagrams, or, with tcp:ADDR:PORT or unix-stream:PATH, "  \
			"over connections; ADDR defaults to loopback; repeatable"),                                \
		BASE_STRING(                                                                                       \
			"statsd-dialect", 0, &(o)->dialect, "DIALECT",                                             \
			"statsd (default: a sign changes a gauge) or dogstatsd (a sign is part of the value; "     \
			"container IDs and timestamps are used)"),                                                 \
		BASE_STRING(                                                                                       \
			"statsd-mapping", 0, &(o)->mapping, "FILE",                                                \
			"rules that map names to names and labels, in the format of statsd_exporter"),             \
		BASE_TIME("statsd-expire", 0, &(o)->expire_ns, 0, 0, "DURATION",                                   \
			  "end a StatsD series that is not updated for this long; 0 means never"),                 \
		BASE_STRING(                                                                                       \
			"otlp", 0, &(o)->otlp, "unix:PATH|ADDR:PORT",                                              \
			"receive OpenTelemetry metrics at /v1/metrics; ADDR defaults to loopback"),                \
		BASE_STRING(                                                                                       \
			"otlp-resource-labels", 0, &(o)->otlp_labels, "KEY[,KEY...]",                              \
			"add these resource attributes as labels to all points received by --otlp"),               \
		BASE_FLAG(                                                                                         \
			"otlp-utf8", 0, &(o)->otlp_utf8,                                                           \
			"keep the names received by --otlp unchanged, instead of replacing characters with _"),    \
		BASE_UINT(                                                                                         \
			"exponential-scale", 0, &(o)->scale, BRIDGE_SCALE, BRIDGE_SCALE_MAX, "N",                  \
			"bucket factor of exponential histograms of --otlp and --scrape: 2^(2^-N)")

/* Option rows for the agent, which sets them when it starts sidelight-bridge. */
#define CLI_OPTIONS_BRIDGE_OF_AGENT(o)                                                          \
	CLI_OPTIONS_WEB(&(o)->web_config, &(o)->roles_file, &(o)->insecure),                    \
		BASE_STRING("socket", 0, &(o)->socket, "PATH", "the agent's publisher socket"), \
		CLI_OPTION_UNCONFINED(&(o)->unconfined),                                        \
		BASE_FLAG("restarted", 0, &(o)->restarted,                                      \
			  "start even if a file is no longer valid")

#endif
