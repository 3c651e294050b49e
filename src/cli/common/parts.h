/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - the parts that a build may lack, for tables of options. Each has the name of its meson
 * option; docs/packages.md describes them.
 */
#ifndef SL_CLI_COMMON_PARTS_H
#define SL_CLI_COMMON_PARTS_H

#include "base/base.h"

#define CLI_PART_ANALYSIS     BASE_PART("analysis", "analysis", HAVE_ANALYSIS)
#define CLI_PART_BRIDGE	      BASE_PART("bridges", "bridge", HAVE_BRIDGE)
#define CLI_PART_DTA	      BASE_PART("DTA", "dta", HAVE_DTA)
#define CLI_PART_FABRIC_TCP   BASE_PART("READs over TCP", "fabric-tcp", HAVE_FABRIC_TCP)
#define CLI_PART_KAFKA	      BASE_PART("Kafka", "kafka", HAVE_KAFKA)
#define CLI_PART_REMOTE_WRITE BASE_PART("remote write", "remote-write", HAVE_REMOTE_WRITE)
#define CLI_PART_TCP	      BASE_PART("TCP telemetry", "tcp", HAVE_TCP)
#define CLI_PART_TLS	      BASE_PART("TLS", "tls", HAVE_TLS)
#define CLI_PART_VERBS	      BASE_PART("RDMA", "verbs", HAVE_VERBS)

#endif
