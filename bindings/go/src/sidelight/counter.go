// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"math"
	"sync/atomic"
	"time"
)

// A Counter is a whole number that only increases. Processors that update it do not wait for each other.
type Counter struct{ site }

// Inc adds 1.
func (c *Counter) Inc() { addOwn(&c.site, 1) }

// Add adds n.
func (c *Counter) Add(n uint64) { addOwn(&c.site, n) }

// addPinned adds n to the stripe of this P; if it has none, to stripe 0.
func addPinned(s *site, n uint64) {
	// This is base(), inlined.
	id := procPin()
	p := s.load()
	if p != nil && uint(id) < maxStripes {
		if base := atomic.LoadPointer(&p.own[id]); base != nil {
			ownAdd(base, p.spot, n)
			procUnpin()
			return
		}
	}
	procUnpin()
	p, base := s.base()
	if base != nil {
		ownAdd(base, p.spot, n)
	} else {
		mixedAdd(p.shared, p.spot, n)
	}
	procUnpin()
}

// AddWithExemplar adds n and sets an exemplar, such as a trace id. Its labels have at most 150 bytes. If two goroutines set
// exemplars at the same time, one exemplar is dropped.
func (c *Counter) AddWithExemplar(n uint64, exemplar Labels) {
	c.Add(n)
	c.load().setExemplar(0, float64(n), exemplar, time.Now())
}

// Value returns the count so far.
func (c *Counter) Value() uint64 {
	p := c.pinned()
	v := p.sum(p.spot)
	procUnpin()
	return v
}

// A FloatCounter is a number that only increases.
type FloatCounter struct{ site }

// Inc adds 1.
func (c *FloatCounter) Inc() { c.Add(1) }

// Add adds v. A negative or infinite v, or NaN, is dropped and counted as refused.
func (c *FloatCounter) Add(v float64) {
	p, base := c.base()
	switch {
	case !(v >= 0 && v <= math.MaxFloat64):
		p.refuse()
	case base != nil:
		ownAddFloat(base, p.spot, v)
	default:
		mixedAddFloat(p.shared, p.spot, v)
	}
	procUnpin()
}

// AddWithExemplar adds v and sets an exemplar, as Counter.AddWithExemplar does.
func (c *FloatCounter) AddWithExemplar(v float64, exemplar Labels) {
	c.Add(v)
	c.load().setExemplar(0, v, exemplar, time.Now())
}

// Value returns the count so far.
func (c *FloatCounter) Value() float64 {
	p := c.pinned()
	v := p.sumFloat(p.spot)
	procUnpin()
	return v
}

// A CounterVec is a family of counters.
type CounterVec = Vec[*Counter]

// A FloatCounterVec is a family of float counters.
type FloatCounterVec = Vec[*FloatCounter]

func (p *Publisher) counter(o *Opts, names, values []string) *Counter {
	return publish(p, o, kindCounter, names, values, nil, func() *Counter { return new(Counter) })
}

func (p *Publisher) floatCounter(o *Opts, names, values []string) *FloatCounter {
	return publish(p, o, kindFloatCounter, names, values, nil, func() *FloatCounter { return new(FloatCounter) })
}

// NewCounter creates a counter, or returns the existing one.
func (p *Publisher) NewCounter(o Opts) *Counter { return p.counter(&o, nil, nil) }

// NewCounterVec creates a family of counters with these labels.
func (p *Publisher) NewCounterVec(o Opts, labels ...string) *CounterVec {
	return newVec(p, o, labels, func(values []string) *Counter { return p.counter(&o, labels, values) })
}

// NewFloatCounter creates a float counter, or returns the existing one.
func (p *Publisher) NewFloatCounter(o Opts) *FloatCounter { return p.floatCounter(&o, nil, nil) }

// NewFloatCounterVec creates a family of float counters with these labels.
func (p *Publisher) NewFloatCounterVec(o Opts, labels ...string) *FloatCounterVec {
	return newVec(p, o, labels, func(values []string) *FloatCounter { return p.floatCounter(&o, labels, values) })
}

// NewCounter creates a counter of the default publisher.
func NewCounter(o Opts) *Counter { return Default().NewCounter(o) }

// NewCounterVec creates a family of counters of the default publisher.
func NewCounterVec(o Opts, labels ...string) *CounterVec {
	return Default().NewCounterVec(o, labels...)
}

// NewFloatCounter creates a float counter of the default publisher.
func NewFloatCounter(o Opts) *FloatCounter { return Default().NewFloatCounter(o) }

// NewFloatCounterVec creates a family of float counters of the default publisher.
func NewFloatCounterVec(o Opts, labels ...string) *FloatCounterVec {
	return Default().NewFloatCounterVec(o, labels...)
}
