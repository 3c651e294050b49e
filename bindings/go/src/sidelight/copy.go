// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"sync"
	"time"
)

// SeriesKind is the type of a Series.
type SeriesKind int

// Kinds of series.
const (
	UnknownSeries SeriesKind = iota
	CounterSeries
	GaugeSeries
	SummarySeries
	HistogramSeries
	GaugeHistogramSeries
)

// A Series is a metric with its value, from another library.
type Series struct {
	Kind       SeriesKind
	Name, Help string
	Labels     Labels
	// Value of a counter, a gauge or a metric of unknown type.
	Value float64
	// Sum and Count of a summary; Sum of a histogram, whose count is that of its buckets.
	Sum   float64
	Count uint64
	// Bounds are the upper bounds of a histogram's buckets without the infinite one, or the ranks of a summary's quantiles.
	Bounds []float64
	// Quantiles are the values of the quantiles, as many as Bounds.
	Quantiles []float64
	// Buckets are the observations in each bucket, not cumulative; one more than Bounds.
	Buckets []uint64
	// Native, if not nil, replaces Bounds and Buckets.
	Native *NativeBuckets
	// Exemplars of a counter or a histogram.
	Exemplars []Exemplar
}

// NativeBuckets are the buckets of a Prometheus native histogram.
type NativeBuckets struct {
	Schema        int // scale, -4 to 8; buckets of a finer scale are merged
	ZeroThreshold float64
	ZeroCount     uint64
	Negative      uint64   // observations in negative buckets, which the format cannot hold: counted as refused
	First         int      // number of the first of Counts
	Counts        []uint64 // observations in positive buckets
}

// An Exemplar describes one of the counted events.
type Exemplar struct {
	Bucket int // classic histograms
	Value  float64
	Labels Labels
	Time   time.Time
}

// A Copier publishes series that another library counts.
type Copier struct {
	pub    *Publisher
	mu     sync.Mutex
	turn   uint64
	copies map[string]*copied
}

type copied struct {
	site
	shape *shape
	turn  uint64
	times map[int]time.Time // times of exemplars, by bucket
}

// NewCopier returns a Copier without series.
func (p *Publisher) NewCopier() *Copier { return &Copier{pub: p, copies: map[string]*copied{}} }

// Copy publishes the values of these series. If complete is set, it removes earlier series that are not among them.
func (c *Copier) Copy(series []Series, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	for i := range series {
		c.copy(&series[i])
	}
	if !complete {
		return
	}
	for key, m := range c.copies {
		if m.turn != c.turn {
			c.end(key, m)
		}
	}
}

func (c *Copier) end(key string, m *copied) {
	c.pub.end(m.shape.name, m.shape.labels)
	delete(c.copies, key)
}

func (c *Copier) copy(s *Series) {
	shape, err := s.shape()
	if err != nil {
		if c.pub != nil {
			c.pub.refuse(s.Name, err)
		}
		return
	}
	key := shape.key()
	m := c.copies[key]
	if m != nil && !m.shape.holds(shape, s.Native) {
		c.end(key, m)
		m = nil
	}
	if m == nil {
		if s.Native != nil {
			shape.widen()
		}
		m = publishCopy(c.pub, shape)
		c.copies[key] = m
	}
	m.turn = c.turn
	m.set(s)
}

// publishCopy creates the series. If it is refused, it is not published, and not tried again until the library removes it.
func publishCopy(p *Publisher, s *shape) *copied {
	fresh := func() placed { return &copied{shape: s, times: map[int]time.Time{}} }
	m, same := p.metric(s, fresh).(*copied)
	if !same {
		p.refuse(s.name, errOther)
		m = fresh().(*copied)
		m.put(nil)
	}
	return m
}

func (s *Series) shape() (*shape, error) {
	labels, err := encodeLabels(s.Labels.list(), true, true)
	out := &shape{flags: flagMirror, name: s.Name, help: cut(s.Help, helpMax), labels: labels, bounds: s.Bounds}
	switch s.Kind {
	case CounterSeries:
		out.kind = kindFloatCounter
	case GaugeSeries:
		out.kind = kindGauge
	case SummarySeries:
		out.kind = kindSummary
	case HistogramSeries:
		out.kind = kindHistogram
	case GaugeHistogramSeries:
		out.kind = kindGaugeHist
	default:
		out.kind = kindUnknown
	}
	if n := s.Native; n != nil {
		if s.Kind == HistogramSeries {
			out.kind = kindHistogramExp
		} else {
			out.kind = kindGaugeHistExp
		}
		out.bounds, out.zero = nil, n.ZeroThreshold
		first, counts, scale := n.coarse()
		out.scale, out.first = int16(scale), int32(first)
		out.cells = 4 + uint32(len(counts))
		if out.cells > bucketsMax+2 {
			out.cells = bucketsMax + 2
		}
	}
	out.kind |= replaceable
	return out, err
}

// coarse returns the buckets at a scale that the format supports, and at least one bucket.
func (n *NativeBuckets) coarse() (first int, counts []uint64, scale int) {
	first, counts, scale = n.First, n.Counts, n.Schema
	for ; scale > 8; scale-- {
		joined := make([]uint64, len(counts)/2+1)
		start := (first + 1) >> 1 // bucket i lies in bucket ceil(i / 2)
		for i, count := range counts {
			joined[(first+i+1)>>1-start] += count
		}
		first, counts = start, joined
	}
	if len(counts) == 0 {
		counts = []uint64{0}
	}
	return first, counts, scale
}

// holds reports whether the record has room for a later value of the series.
func (s *shape) holds(now *shape, native *NativeBuckets) bool {
	if native == nil {
		return s.equal(now)
	}
	last, end := s.first+int32(s.cells)-4, now.first+int32(now.cells)-4
	return s.kind == now.kind && s.scale == now.scale && s.zero == now.zero && s.first <= now.first && end <= last
}

// widen extends the range of an exponential histogram by a factor of 16 at both ends, because a later copy may need more buckets.
func (s *shape) widen() {
	more := uint32(4)
	if s.scale > 0 {
		more <<= uint(s.scale)
	}
	for s.cells+2*more > bucketsMax+2 && more > 0 {
		more /= 2
	}
	s.first -= int32(more)
	s.cells += 2 * more
}

func (m *copied) set(s *Series) {
	p := m.pinned()
	put := func(cell int, v uint64) { mixedSet(p.shared, spotOf(p.cell+uint32(cell)), v) }
	switch {
	case s.Native != nil:
		first, counts, _ := s.Native.coarse()
		offset := first - int(m.shape.first)
		last := int(m.shape.cells) - 1
		put(histSum, cellOf(s.Sum))
		put(histRefused, s.Native.Negative)
		put(histFirst, s.Native.ZeroCount)
		var above uint64
		for i := histFirst + 1; i < last; i++ {
			var v uint64
			if j := i - histFirst - 1 - offset; j >= 0 && j < len(counts) {
				v = counts[j]
			}
			put(i, v)
		}
		for j, count := range counts {
			if j+offset+histFirst+1 >= last {
				above += count
			}
		}
		put(last, above)
	case s.Kind == SummarySeries:
		put(0, cellOf(s.Sum))
		put(1, s.Count)
		for i := range s.Bounds {
			v := s.Value
			if i < len(s.Quantiles) {
				v = s.Quantiles[i]
			}
			put(2+i, cellOf(v))
		}
	case s.Kind == HistogramSeries || s.Kind == GaugeHistogramSeries:
		put(histSum, cellOf(s.Sum))
		for i := 0; i <= len(s.Bounds) && i < len(s.Buckets); i++ {
			put(histFirst+i, s.Buckets[i])
		}
	default:
		put(0, cellOf(s.Value))
	}
	procUnpin()
	for _, x := range s.Exemplars {
		cell := x.Bucket
		if s.Kind == HistogramSeries {
			cell += histFirst
		}
		if s.Native == nil && cell < int(m.shape.cells) && !m.times[cell].Equal(x.Time) {
			m.times[cell] = x.Time
			p.setExemplar(uint32(cell), x.Value, x.Labels, x.Time)
		}
	}
}
