// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"math"
	"sync/atomic"
	"time"
)

// A Counter is a whole number that only grows. Processors that update it do not wait for each other.
type Counter struct{ site }

// Inc adds 1.
func (c *Counter) Inc() { addOwn(&c.site, 1) }

// Add adds n.
func (c *Counter) Add(n uint64) { addOwn(&c.site, n) }

// addPinned adds n to the stripe of this P; if it has none, to stripe 0.
func addPinned(s *site, n uint64) {
	// What base() does, without the call.
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

// AddWithExemplar adds n, and gives an example of what was counted: a trace id, for instance. The labels have at most 150
// bytes; of two goroutines that set one at the same time, one sets it.
func (c *Counter) AddWithExemplar(n uint64, exemplar Labels) {
	c.Add(n)
	c.load().setExemplar(0, float64(n), exemplar, time.Now())
}

// Value is what was counted so far.
func (c *Counter) Value() uint64 {
	p := c.pinned()
	v := p.sum(p.spot)
	procUnpin()
	return v
}

// A FloatCounter is a number that only grows.
type FloatCounter struct{ site }

// Inc adds 1.
func (c *FloatCounter) Inc() { c.Add(1) }

// Add adds v. One that is negative, infinite or no number is dropped and counted as refused.
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

// AddWithExemplar adds v, and gives an example of what was counted, as that of Counter.
func (c *FloatCounter) AddWithExemplar(v float64, exemplar Labels) {
	c.Add(v)
	c.load().setExemplar(0, v, exemplar, time.Now())
}

// Value is what was counted so far.
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

// NewCounter makes a counter, or returns the one that is there.
func (p *Publisher) NewCounter(o Opts) *Counter { return p.counter(&o, nil, nil) }

// NewCounterVec makes a family of counters with these labels.
func (p *Publisher) NewCounterVec(o Opts, labels ...string) *CounterVec {
	return newVec(p, o, labels, func(values []string) *Counter { return p.counter(&o, labels, values) })
}

// NewFloatCounter makes a float counter, or returns the one that is there.
func (p *Publisher) NewFloatCounter(o Opts) *FloatCounter { return p.floatCounter(&o, nil, nil) }

// NewFloatCounterVec makes a family of float counters with these labels.
func (p *Publisher) NewFloatCounterVec(o Opts, labels ...string) *FloatCounterVec {
	return newVec(p, o, labels, func(values []string) *FloatCounter { return p.floatCounter(&o, labels, values) })
}

// NewCounter makes a counter of the default publisher.
func NewCounter(o Opts) *Counter { return Default().NewCounter(o) }

// NewCounterVec makes a family of counters of the default publisher.
func NewCounterVec(o Opts, labels ...string) *CounterVec {
	return Default().NewCounterVec(o, labels...)
}

// NewFloatCounter makes a float counter of the default publisher.
func NewFloatCounter(o Opts) *FloatCounter { return Default().NewFloatCounter(o) }

// NewFloatCounterVec makes a family of float counters of the default publisher.
func NewFloatCounterVec(o Opts, labels ...string) *FloatCounterVec {
	return Default().NewFloatCounterVec(o, labels...)
}
