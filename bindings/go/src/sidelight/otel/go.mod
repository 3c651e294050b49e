// SPDX-License-Identifier: Apache-2.0
module sidelight/otel

go 1.20

require (
	go.opentelemetry.io/otel v1.24.0
	go.opentelemetry.io/otel/sdk/metric v1.24.0
	sidelight v0.0.0
)

replace sidelight => ../
