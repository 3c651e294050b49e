// SPDX-License-Identifier: Apache-2.0

// Package sidelight publishes metrics in memory of this process, which a collector reads by RDMA or as shared memory, without
// the help of the process. It needs only the standard library and Linux.
//
//	var requests = sidelight.NewCounterVec(sidelight.Opts{
//		Name: "http_requests_total",
//		Help: "Requests answered.",
//	}, "route", "code")
//
//	requests.With("/cart", "200").Inc()
//
// There are no errors to handle: without an agent, metrics count all the same, and appear once there is an agent. A metric
// that the format cannot express, or that does not fit, is not published; Publisher.Refused counts such metrics.
//
// A Counter, FloatCounter, Histogram or Summary has cells for each processor, which are written without atomic operations:
// an update takes about half the time of an atomic addition, and processors that update the same metric do not slow each
// other down. All sums are exact. Where performance matters, keep the result of Vec.With.
//
// The package mirror publishes what a registry of Prometheus' client_golang gathers.
package sidelight
