// SPDX-License-Identifier: Apache-2.0

// otel_app hands to the exporter what a reader of OpenTelemetry's SDK does: on each line of stdin, that many counts.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"sidelight"
	"sidelight/otel"
)

func set(pairs ...interface{}) (s attribute.Set) {
	for i := 0; i < len(pairs); i += 2 {
		s.Sorted = append(s.Sorted, attribute.KeyValue{Key: attribute.Key(pairs[i].(string)), Value: attribute.Value{V: pairs[i+1]}})
	}
	return s
}

func measured(n int64) *metricdata.ResourceMetrics {
	const total = metricdata.CumulativeTemporality
	requests := func(points ...metricdata.DataPoint[int64]) metricdata.Metrics {
		return metricdata.Metrics{Name: "shop.requests", Description: "From OpenTelemetry.",
			Data: metricdata.Sum[int64]{DataPoints: points, Temporality: total, IsMonotonic: true}}
	}
	load := metricdata.Gauge[float64]{}
	if n < 3 {
		load.DataPoints = []metricdata.DataPoint[float64]{{Value: float64(n) / 4}}
	}
	return &metricdata.ResourceMetrics{ScopeMetrics: []metricdata.ScopeMetrics{
		{Scope: instrumentation.Scope{Name: "shop", Version: "1.0"}, Metrics: []metricdata.Metrics{
			requests(metricdata.DataPoint[int64]{Attributes: set("http.route", "/a"), Value: n},
				metricdata.DataPoint[int64]{Attributes: set("http.route", "/b", "http_route", "/c"), Value: 2 * n}),
			{Name: "shop.queue", Data: metricdata.Sum[float64]{DataPoints: []metricdata.DataPoint[float64]{
				{Attributes: set("kinds", []string{"x", "y"}), Value: float64(-n)}}, Temporality: total}},
			{Name: "shop.load", Data: load},
			{Name: "shop.seconds", Data: metricdata.Histogram[float64]{Temporality: total,
				DataPoints: []metricdata.HistogramDataPoint[float64]{{Count: uint64(3 * n), Sum: 6.5 * float64(n),
					Bounds: []float64{1, 5}, BucketCounts: []uint64{uint64(n), uint64(n), uint64(n)}}}}},
			{Name: "shop.delta", Data: metricdata.Sum[int64]{Temporality: metricdata.DeltaTemporality, IsMonotonic: true}},
			{Name: "shop.sizes", Data: metricdata.ExponentialHistogram[int64]{Temporality: total}},
		}},
		{Scope: instrumentation.Scope{Name: "other"}, Metrics: []metricdata.Metrics{
			requests(metricdata.DataPoint[int64]{Attributes: set("http.route", "/a"), Value: 5 * n})}},
	}}
}

func main() {
	exporter := otel.New(nil)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n, _ := strconv.ParseInt(in.Text(), 10, 64)
		fmt.Println(exporter.Export(context.Background(), measured(n)))
	}
	sidelight.Default().Close()
}
