// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"math"
	"math/big"
	"sort"
	"sync"
	"time"
)

// Cells of a histogram.
const (
	histSum     = 0
	histRefused = 1
	histFirst   = 2 // classic: the first bucket; exponential: the zero bucket
)

// HistogramOpts are the options of a histogram.
type HistogramOpts struct {
	Opts
	// Buckets are the upper bounds of a classic histogram, finite and ascending. By default, the buckets are exponential,
	// like those of Prometheus' native histograms.
	Buckets []float64
	// Factor is the maximum ratio of the two bounds of an exponential bucket; default 1.1.
	Factor float64
	// Min and Max limit the resolution of an exponential histogram: one bucket counts values from -Min to Min, and another
	// one values above Max. Defaults 1e-6 and 1e6.
	Min, Max float64
}

// exponential describes exponential buckets; scale and first bucket are as in sidelight-region(5).
type exponential struct {
	scale, first int
	count        uint32
	zero         float64
}

// The mantissas of the bounds 2^(j/256) within a power of two at scale 8, rounded down to a float64. A number is above the
// exact bound if and only if it is above the rounded one, because no float64 lies between them.
var (
	boundsOnce sync.Once
	mantissas  [256]uint64
	guesses    [512]uint16 // by the upper 9 bits of a mantissa: the first bound that is not below
)

func fillBounds() {
	const precision = 200
	root := new(big.Float).SetPrec(precision).SetInt64(2)
	for i := 0; i < 8; i++ {
		root.Sqrt(root)
	}
	bound := new(big.Float).SetPrec(precision).SetInt64(1)
	for j := range mantissas {
		rounded := new(big.Float).SetMode(big.ToNegativeInf).SetPrec(53).Set(bound)
		f, _ := rounded.Float64()
		mantissas[j] = math.Float64bits(f) & (1<<52 - 1)
		bound.Mul(bound, root)
	}
	j := 0
	for g := range guesses {
		for j < 256 && mantissas[j] < uint64(g)<<43 {
			j++
		}
		guesses[g] = uint16(j)
	}
}

// bucketOf finds the bucket of a normal number above 0.
func bucketOf(v float64, scale int) int {
	b := math.Float64bits(v)
	m := b & (1<<52 - 1)
	j := int(guesses[m>>43])
	for j < 256 && mantissas[j] < m {
		j++
	}
	shift := uint(8 - scale)
	return ((int(b>>52)-1023)<<8 + j + 1<<shift - 1) >> shift
}

// pick chooses exponential buckets. It returns false if the options are invalid or require too many buckets.
func (o *HistogramOpts) pick() (x exponential, ok bool) {
	boundsOnce.Do(fillBounds)
	factor, min, max := o.Factor, o.Min, o.Max
	if factor == 0 {
		factor = 1.1
	}
	if min == 0 {
		min = 1e-6
	}
	if max == 0 {
		max = 1e6
	}
	const smallest = 0x1p-1022
	if !(factor > 1) || !(min >= smallest) || !(max > min) || max > math.MaxFloat64 {
		return x, false
	}
	x.scale, x.zero = -4, min
	for x.scale < 8 && math.Exp2(math.Exp2(float64(-x.scale))) > factor {
		x.scale++
	}
	x.first = bucketOf(math.Nextafter(min, math.Inf(1)), x.scale)
	last := bucketOf(max, x.scale)
	// A bucket up to 2^1024 would hold infinity, which belongs above the last one.
	if last >= 1024<<8>>uint(8-x.scale) || last-x.first+1 > bucketsMax-2 {
		return x, false
	}
	x.count = uint32(last - x.first + 1)
	return x, true
}

// A Histogram counts observations in buckets.
type Histogram struct {
	site
	bounds []float64 // classic
	exponential
}

// bucket returns the cell of the bucket of v, relative to the first cell, or histRefused if no bucket contains v.
func (h *Histogram) bucket(v float64) uint32 {
	if v != v {
		return histRefused
	}
	if h.count == 0 {
		if len(h.bounds) <= 32 { // most observations are small
			for i, b := range h.bounds {
				if v <= b {
					return histFirst + uint32(i)
				}
			}
			return histFirst + uint32(len(h.bounds))
		}
		return histFirst + uint32(sort.SearchFloat64s(h.bounds, v))
	}
	if v <= h.zero {
		if v < -h.zero {
			return histRefused
		}
		return histFirst
	}
	if v <= math.MaxFloat64 {
		if i := bucketOf(v, h.scale) - h.first; i < int(h.count) {
			return histFirst + 1 + uint32(i)
		}
	}
	return histFirst + 1 + h.count
}

// Observe counts v. NaN, and in an exponential histogram a value below -Min, is counted as refused.
func (h *Histogram) Observe(v float64) { h.observe(v) }

func (h *Histogram) observe(v float64) uint32 {
	cell := h.bucket(v)
	p, base := h.base()
	s := spotOf(p.cell + cell)
	switch {
	case p.region == nil:
	case base == nil:
		mixedAdd(p.shared, s, 1)
		if cell != histRefused {
			mixedAddFloat(p.shared, p.spot, v)
		}
	default:
		sum := numberOf(*wordAt(base, p.at)) + v
		if sum != sum { // infinity and its negative: it would stay for ever
			s = spotOf(p.cell + histRefused)
			cell = histRefused
		}
		ownAdd(base, s, 1)
		if cell != histRefused {
			ownAddFloat(base, p.spot, v)
		}
	}
	procUnpin()
	return cell
}

// ObserveWithExemplar counts v and sets an exemplar, as Counter.AddWithExemplar does.
func (h *Histogram) ObserveWithExemplar(v float64, exemplar Labels) {
	if cell := h.observe(v); cell != histRefused {
		h.load().setExemplar(cell, v, exemplar, time.Now())
	}
}

// Sum returns the sum of the observations.
func (h *Histogram) Sum() float64 {
	p := h.pinned()
	v := p.sumFloat(p.spot)
	procUnpin()
	return v
}

// Count returns the number of observations.
func (h *Histogram) Count() uint64 {
	p := h.pinned()
	n := uint32(len(h.bounds)) + 1
	if h.count != 0 {
		n = h.count + 2
	}
	var v uint64
	for i := uint32(0); i < n; i++ {
		v += p.sum(spotOf(p.cell + histFirst + i))
	}
	procUnpin()
	return v
}

// A Summary has the sum and the number of observations.
type Summary struct{ site }

// Observe counts v. An infinite v, or NaN, is dropped and counted as refused.
func (s *Summary) Observe(v float64) {
	p, base := s.base()
	switch {
	case v-v != 0:
		p.refuse()
	case base != nil:
		ownAdd(base, spotOf(p.cell+1), 1)
		ownAddFloat(base, p.spot, v)
	default:
		mixedAdd(p.shared, spotOf(p.cell+1), 1)
		mixedAddFloat(p.shared, p.spot, v)
	}
	procUnpin()
}

// Sum returns the sum of the observations.
func (s *Summary) Sum() float64 {
	p := s.pinned()
	v := p.sumFloat(p.spot)
	procUnpin()
	return v
}

// Count returns the number of observations.
func (s *Summary) Count() uint64 {
	p := s.pinned()
	v := p.sum(spotOf(p.cell + 1))
	procUnpin()
	return v
}

// A HistogramVec is a family of histograms.
type HistogramVec = Vec[*Histogram]

// A SummaryVec is a family of summaries.
type SummaryVec = Vec[*Summary]

func (p *Publisher) histogram(o *HistogramOpts, names, values []string) *Histogram {
	if len(o.Buckets) != 0 {
		bounds := append([]float64(nil), o.Buckets...)
		if n := len(bounds) - 1; math.IsInf(bounds[n], 1) {
			bounds = bounds[:n]
		}
		return publish(p, &o.Opts, kindHistogram, names, values, func(s *shape) { s.bounds = bounds },
			func() *Histogram { return &Histogram{bounds: bounds} })
	}
	x, _ := o.pick() // if there are no buckets, the shape is refused
	return publish(p, &o.Opts, kindHistogramExp, names, values, func(s *shape) {
		s.scale, s.first, s.zero, s.cells = int16(x.scale), int32(x.first), x.zero, 3+x.count+1
	}, func() *Histogram { return &Histogram{exponential: x} })
}

func (p *Publisher) summary(o *Opts, names, values []string) *Summary {
	return publish(p, o, kindSummary, names, values, nil, func() *Summary { return new(Summary) })
}

// NewHistogram creates a histogram, or returns the existing one.
func (p *Publisher) NewHistogram(o HistogramOpts) *Histogram { return p.histogram(&o, nil, nil) }

// NewHistogramVec creates a family of histograms with these labels.
func (p *Publisher) NewHistogramVec(o HistogramOpts, labels ...string) *HistogramVec {
	return newVec(p, o.Opts, labels, func(values []string) *Histogram { return p.histogram(&o, labels, values) })
}

// NewSummary creates a summary, or returns the existing one.
func (p *Publisher) NewSummary(o Opts) *Summary { return p.summary(&o, nil, nil) }

// NewSummaryVec creates a family of summaries with these labels.
func (p *Publisher) NewSummaryVec(o Opts, labels ...string) *SummaryVec {
	return newVec(p, o, labels, func(values []string) *Summary { return p.summary(&o, labels, values) })
}

// NewHistogram creates a histogram of the default publisher.
func NewHistogram(o HistogramOpts) *Histogram { return Default().NewHistogram(o) }

// NewHistogramVec creates a family of histograms of the default publisher.
func NewHistogramVec(o HistogramOpts, labels ...string) *HistogramVec {
	return Default().NewHistogramVec(o, labels...)
}

// NewSummary creates a summary of the default publisher.
func NewSummary(o Opts) *Summary { return Default().NewSummary(o) }

// NewSummaryVec creates a family of summaries of the default publisher.
func NewSummaryVec(o Opts, labels ...string) *SummaryVec {
	return Default().NewSummaryVec(o, labels...)
}
