// SPDX-License-Identifier: Apache-2.0

// Package mirror publishes through Sidelight what a registry of client_golang gathers. An instrumented service needs one more
// line of code.
//
//	stop := mirror.Start(prometheus.DefaultGatherer, mirror.Options{})
//	defer stop()
//
// Metrics keep their types: counters, gauges, summaries, classic and native histograms, and untyped values, with exemplars.
// Metrics of the package sidelight take less time, and readers see each update at once instead of after an interval.
package mirror

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"sidelight"
)

// Options are the options of a Mirror. The zero value is a good choice.
type Options struct {
	// Publisher publishes the metrics; default sidelight.Default().
	Publisher *sidelight.Publisher
	// Interval is the time between two calls of Gather; default 5 s.
	Interval time.Duration
	// ErrorLog receives the first error of Publish, and no more until Publish has succeeded. Default: log.Default().
	ErrorLog *log.Logger
}

// A Mirror publishes what a Gatherer gathers.
type Mirror struct {
	gatherer prometheus.Gatherer
	copier   *sidelight.Copier
	interval time.Duration
	errorLog *log.Logger
}

// New returns a Mirror. It publishes nothing before Run or Publish.
func New(g prometheus.Gatherer, o Options) *Mirror {
	if o.Publisher == nil {
		o.Publisher = sidelight.Default()
	}
	if o.Interval <= 0 {
		o.Interval = 5 * time.Second
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.Default()
	}
	return &Mirror{gatherer: g, copier: o.Publisher.NewCopier(), interval: o.Interval, errorLog: o.ErrorLog}
}

// Start runs a new Mirror in a goroutine. stop publishes once more, and returns when the goroutine has ended.
func Start(g prometheus.Gatherer, o Options) (stop func()) {
	m := New(g, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Run publishes at once, then in each interval, and a last time when ctx is done.
func (m *Mirror) Run(ctx context.Context) {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	failing := false
	for last := false; ; {
		err := m.Publish()
		if err != nil && !failing {
			m.errorLog.Printf("sidelight: not everything is published: %v", err)
		}
		failing = err != nil
		if last {
			return
		}
		select {
		case <-ctx.Done():
			last = true
		case <-ticker.C:
		}
	}
}

// Publish gathers and publishes once. If Gather fails, Publish returns its error, but still publishes the gathered metrics;
// otherwise it ends series that are no longer gathered. It also returns an error for metrics that it cannot copy.
func (m *Mirror) Publish() error {
	families, err := m.gatherer.Gather()
	complete := err == nil
	var series []sidelight.Series
	for _, f := range families {
		for _, metric := range f.Metric {
			s := sidelight.Series{Name: f.GetName(), Help: f.GetHelp(), Labels: labelsOf(metric.Label)}
			if fill(&s, f.GetType(), metric) {
				series = append(series, s)
			} else if complete {
				err = fmt.Errorf("%s is of a type or a schema that is not known, and not published", f.GetName())
			}
		}
	}
	m.copier.Copy(series, complete)
	return err
}

func labelsOf(pairs []*dto.LabelPair) sidelight.Labels {
	labels := make(sidelight.Labels, len(pairs))
	for _, pair := range pairs {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// fill returns false for a metric that this package cannot copy, such as a type that a later client_golang added.
func fill(s *sidelight.Series, t dto.MetricType, m *dto.Metric) bool {
	switch {
	case t == dto.MetricType_COUNTER && m.Counter != nil:
		s.Kind, s.Value = sidelight.CounterSeries, m.Counter.GetValue()
		s.Exemplars = appendExemplar(nil, 0, m.Counter.Exemplar)
	case t == dto.MetricType_GAUGE && m.Gauge != nil:
		s.Kind, s.Value = sidelight.GaugeSeries, m.Gauge.GetValue()
	case t == dto.MetricType_SUMMARY && m.Summary != nil:
		s.Kind, s.Sum, s.Count = sidelight.SummarySeries, m.Summary.GetSampleSum(), m.Summary.GetSampleCount()
		for _, q := range m.Summary.Quantile {
			s.Bounds = append(s.Bounds, q.GetQuantile())
			s.Quantiles = append(s.Quantiles, q.GetValue())
		}
	case (t == dto.MetricType_HISTOGRAM || t == dto.MetricType_GAUGE_HISTOGRAM) && m.Histogram != nil:
		s.Kind = sidelight.HistogramSeries
		if t == dto.MetricType_GAUGE_HISTOGRAM {
			s.Kind = sidelight.GaugeHistogramSeries
		}
		s.Sum = m.Histogram.GetSampleSum()
		if native(m.Histogram) {
			if m.Histogram.GetSchema() < -4 || m.Histogram.GetSchema() > 8 || m.Histogram.GetSampleCountFloat() > 0 {
				return false
			}
			s.Native = nativeBuckets(m.Histogram)
		} else {
			classicBuckets(s, m.Histogram)
		}
	case t == dto.MetricType_UNTYPED && m.Untyped != nil:
		s.Kind, s.Value = sidelight.UnknownSeries, m.Untyped.GetValue()
	default:
		return false
	}
	return true
}

func appendExemplar(to []sidelight.Exemplar, bucket int, e *dto.Exemplar) []sidelight.Exemplar {
	if e == nil {
		return to
	}
	when := time.Now()
	if e.Timestamp != nil {
		when = time.Unix(e.Timestamp.GetSeconds(), int64(e.Timestamp.GetNanos()))
	}
	return append(to, sidelight.Exemplar{Bucket: bucket, Value: e.GetValue(), Labels: labelsOf(e.Label), Time: when})
}

// classicBuckets are cumulative in the model, without the last one unless it has an exemplar.
func classicBuckets(s *sidelight.Series, h *dto.Histogram) {
	var below uint64
	for i, b := range h.Bucket {
		if math.IsInf(b.GetUpperBound(), 1) {
			s.Exemplars = appendExemplar(s.Exemplars, i, b.Exemplar)
			continue
		}
		s.Bounds = append(s.Bounds, b.GetUpperBound())
		s.Buckets = append(s.Buckets, b.GetCumulativeCount()-below)
		s.Exemplars = appendExemplar(s.Exemplars, i, b.Exemplar)
		below = b.GetCumulativeCount()
	}
	s.Buckets = append(s.Buckets, h.GetSampleCount()-below)
}

// native reports whether a histogram has native buckets, which are preferred to classic ones, as in Prometheus.
func native(h *dto.Histogram) bool {
	return h.Schema != nil && (h.GetZeroThreshold() > 0 || h.GetZeroCount() > 0 || len(h.PositiveSpan) > 0 ||
		len(h.NegativeSpan) > 0)
}

func nativeBuckets(h *dto.Histogram) *sidelight.NativeBuckets {
	n := &sidelight.NativeBuckets{Schema: int(h.GetSchema()), ZeroThreshold: h.GetZeroThreshold(), ZeroCount: h.GetZeroCount()}
	n.First, n.Counts = expand(h.PositiveSpan, h.PositiveDelta)
	_, negative := expand(h.NegativeSpan, h.NegativeDelta)
	for _, count := range negative {
		n.Negative += count
	}
	return n
}

// expand converts spans and differences to the counts of consecutive buckets. It leaves out buckets beyond the limits of
// sidelight-region(5).
func expand(spans []*dto.BucketSpan, deltas []int64) (first int, counts []uint64) {
	const most = 1 << 12
	at, value, next := 0, int64(0), 0
	for i, span := range spans {
		at += int(span.GetOffset())
		if i == 0 {
			first = at
		}
		for j := uint32(0); j < span.GetLength() && next < len(deltas); j++ {
			value += deltas[next]
			next++
			if place := at - first; place >= 0 && place < most {
				for len(counts) <= place {
					counts = append(counts, 0)
				}
				counts[place] = uint64(value)
			}
			at++
		}
	}
	return first, counts
}
