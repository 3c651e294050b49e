// SPDX-License-Identifier: Apache-2.0

// Package otel publishes the metrics of OpenTelemetry's SDK through Sidelight, in memory and without HTTP.
//
//	reader := metric.NewPeriodicReader(otel.New(nil), metric.WithInterval(time.Second))
//	provider := metric.NewMeterProvider(metric.WithReader(reader))
//
// Names and labels follow OpenTelemetry's specification for Prometheus: counters end in _total, characters that Prometheus does not
// allow in names become '_', values of keys that become equal are joined by ';', and the scope is in otel_scope_name and
// otel_scope_version.
package otel

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"sidelight"
)

// An Exporter is for a PeriodicReader, whose interval determines how often readers see changes.
type Exporter struct {
	copier *sidelight.Copier
}

var _ metric.Exporter = (*Exporter)(nil)

// New returns an Exporter. A nil Publisher means sidelight.Default().
func New(p *sidelight.Publisher) *Exporter {
	if p == nil {
		p = sidelight.Default()
	}
	return &Exporter{copier: p.NewCopier()}
}

// Temporality is always cumulative.
func (e *Exporter) Temporality(metric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

// Aggregation is the SDK's default.
func (e *Exporter) Aggregation(kind metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(kind)
}

// Export publishes the metrics, and ends all series that are not among them. The error names the metrics that cannot be published;
// all others are published.
func (e *Exporter) Export(_ context.Context, rm *metricdata.ResourceMetrics) error {
	var series []sidelight.Series
	var refused []string
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			found, ok := seriesOf(m, scope.Scope)
			if !ok {
				refused = append(refused, m.Name)
			}
			series = append(series, found...)
		}
	}
	e.copier.Copy(series, true)
	if refused != nil {
		return errors.New("sidelight: not published, because they are not cumulative or of an unsupported kind: " + strings.Join(refused, ", "))
	}
	return nil
}

// ForceFlush does nothing, because Export publishes before it returns.
func (e *Exporter) ForceFlush(context.Context) error { return nil }

// Shutdown does nothing, so that counts remain readable after the process has exited.
func (e *Exporter) Shutdown(context.Context) error { return nil }

func seriesOf(m metricdata.Metrics, scope instrumentation.Scope) ([]sidelight.Series, bool) {
	s := sidelight.Series{Name: nameOf(m.Name, true), Help: m.Description}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		return sums(s, scope, data)
	case metricdata.Sum[float64]:
		return sums(s, scope, data)
	case metricdata.Gauge[int64]:
		return numbers(s, sidelight.GaugeSeries, scope, data.DataPoints), true
	case metricdata.Gauge[float64]:
		return numbers(s, sidelight.GaugeSeries, scope, data.DataPoints), true
	case metricdata.Histogram[int64]:
		return histograms(s, scope, data)
	case metricdata.Histogram[float64]:
		return histograms(s, scope, data)
	}
	return nil, false
}

func sums[N int64 | float64](s sidelight.Series, scope instrumentation.Scope, data metricdata.Sum[N]) ([]sidelight.Series, bool) {
	kind := sidelight.GaugeSeries
	if data.IsMonotonic {
		kind = sidelight.CounterSeries
		s.Name = strings.TrimSuffix(s.Name, "_total") + "_total"
	}
	if data.Temporality != metricdata.CumulativeTemporality {
		return nil, false
	}
	return numbers(s, kind, scope, data.DataPoints), true
}

func numbers[N int64 | float64](s sidelight.Series, kind sidelight.SeriesKind, scope instrumentation.Scope,
	points []metricdata.DataPoint[N]) (all []sidelight.Series) {
	s.Kind = kind
	for _, p := range points {
		s.Labels, s.Value = labelsOf(p.Attributes, scope), float64(p.Value)
		all = append(all, s)
	}
	return all
}

func histograms[N int64 | float64](s sidelight.Series, scope instrumentation.Scope, data metricdata.Histogram[N]) (
	all []sidelight.Series, ok bool) {
	if data.Temporality != metricdata.CumulativeTemporality {
		return nil, false
	}
	s.Kind = sidelight.HistogramSeries
	for _, p := range data.DataPoints {
		s.Labels, s.Sum, s.Count = labelsOf(p.Attributes, scope), float64(p.Sum), p.Count
		s.Bounds, s.Buckets = p.Bounds, p.BucketCounts
		all = append(all, s)
	}
	return all, true
}

// labelsOf converts attributes to labels. The set is sorted by key.
func labelsOf(set attribute.Set, scope instrumentation.Scope) sidelight.Labels {
	labels := sidelight.Labels{}
	for _, kv := range set.ToSlice() {
		name := nameOf(string(kv.Key), false)
		if before, twice := labels[name]; twice {
			labels[name] = before + ";" + kv.Value.Emit()
		} else {
			labels[name] = kv.Value.Emit()
		}
	}
	if scope.Name != "" {
		labels["otel_scope_name"] = scope.Name
	}
	if scope.Version != "" {
		labels["otel_scope_version"] = scope.Version
	}
	return labels
}

// nameOf converts a name to one that Prometheus allows.
func nameOf(s string, colon bool) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || colon && r == ':' {
			return r
		}
		return '_'
	}, s)
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
