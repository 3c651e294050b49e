// SPDX-License-Identifier: Apache-2.0

// Package metricdata stands in for OpenTelemetry's.
package metricdata

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
)

type Temporality uint8

const (
	CumulativeTemporality Temporality = iota + 1
	DeltaTemporality
)

type Aggregation interface{}

type ResourceMetrics struct{ ScopeMetrics []ScopeMetrics }

type ScopeMetrics struct {
	Scope   instrumentation.Scope
	Metrics []Metrics
}

type Metrics struct {
	Name, Description, Unit string
	Data                    Aggregation
}

type DataPoint[N int64 | float64] struct {
	Attributes attribute.Set
	Value      N
}

type Gauge[N int64 | float64] struct{ DataPoints []DataPoint[N] }

type Sum[N int64 | float64] struct {
	DataPoints  []DataPoint[N]
	Temporality Temporality
	IsMonotonic bool
}

type HistogramDataPoint[N int64 | float64] struct {
	Attributes   attribute.Set
	Count        uint64
	Bounds       []float64
	BucketCounts []uint64
	Sum          N
}

type Histogram[N int64 | float64] struct {
	DataPoints  []HistogramDataPoint[N]
	Temporality Temporality
}

type ExponentialHistogram[N int64 | float64] struct{ Temporality Temporality }
