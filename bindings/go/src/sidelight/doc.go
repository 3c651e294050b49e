// SPDX-License-Identifier: Apache-2.0

// Package sidelight publishes metrics in memory of this process, which a collector reads without its help: by RDMA, or as
// shared memory. It needs the standard library alone, and Linux.
//
//	var requests = sidelight.NewCounterVec(sidelight.Opts{
//		Name: "http_requests_total",
//		Help: "Requests answered.",
//	}, "route", "code")
//
//	requests.With("/cart", "200").Inc()
//
// There are no errors to handle: without an agent the metrics count all the same, and are seen once there is one. A metric
// that the format has no form or no room for counts nowhere, and is counted by Publisher.Refused.
//
// A Counter, FloatCounter, Histogram or Summary has cells for each processor, which are written without atomic operations:
// an update takes about half of an atomic addition, and processors that update the same metric do not slow each other
// down. All sums are exact. Keep what Vec.With returns where it matters.
//
// The package mirror publishes what a registry of Prometheus' client_golang gathers.
package sidelight
