// SPDX-License-Identifier: Apache-2.0

// Package metric stands in for OpenTelemetry's.
package metric

import (
	"context"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

type InstrumentKind uint8

type Aggregation interface{}

func DefaultAggregationSelector(InstrumentKind) Aggregation { return nil }

type Exporter interface {
	Temporality(InstrumentKind) metricdata.Temporality
	Aggregation(InstrumentKind) Aggregation
	Export(context.Context, *metricdata.ResourceMetrics) error
	ForceFlush(context.Context) error
	Shutdown(context.Context) error
}
