// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"sync/atomic"
	"time"
)

var samplePeriod = time.Second // tests do not wait that long

// A Gauge is a number that goes up and down.
type Gauge struct {
	site
	timed bool // the next cell says when it was set
}

func (g *Gauge) touch(p *place) {
	if g.timed {
		mixedSet(p.shared, spotOf(p.cell+1), uint64(time.Now().UnixNano()))
	}
}

// Set sets the gauge to v.
func (g *Gauge) Set(v float64) {
	p := g.pinned()
	mixedSet(p.shared, p.spot, cellOf(v))
	g.touch(p)
	procUnpin()
}

// Add adds v, which may be negative.
func (g *Gauge) Add(v float64) {
	p := g.pinned()
	mixedAddFloat(p.shared, p.spot, v)
	g.touch(p)
	procUnpin()
}

// Inc adds 1.
func (g *Gauge) Inc() { g.Add(1) }

// Dec subtracts 1.
func (g *Gauge) Dec() { g.Add(-1) }

// SetToCurrentTime sets the gauge to the seconds since 1970.
func (g *Gauge) SetToCurrentTime() { g.Set(float64(time.Now().UnixNano()) / 1e9) }

// Value returns the gauge's value.
func (g *Gauge) Value() float64 {
	p := g.pinned()
	v := numberOf(atomic.LoadUint64(wordAt(p.shared, p.at)))
	procUnpin()
	return v
}

// A GaugeVec is a family of gauges.
type GaugeVec = Vec[*Gauge]

func (p *Publisher) gauge(o *Opts, names, values []string) *Gauge {
	k := kindGauge
	if o.Combine&7 == MostRecent {
		k = kindTimedGauge
	}
	return publish(p, o, k, names, values, nil, func() *Gauge { return &Gauge{timed: k == kindTimedGauge} })
}

// NewGauge creates a gauge, or returns the existing one.
func (p *Publisher) NewGauge(o Opts) *Gauge { return p.gauge(&o, nil, nil) }

// NewGaugeVec creates a family of gauges with these labels.
func (p *Publisher) NewGaugeVec(o Opts, labels ...string) *GaugeVec {
	return newVec(p, o, labels, func(values []string) *Gauge { return p.gauge(&o, labels, values) })
}

// NewGaugeFunc creates a gauge that f sets once per second, in a goroutine of the publisher, until Close.
func (p *Publisher) NewGaugeFunc(o Opts, f func() float64) {
	g := p.NewGauge(o)
	if p == nil {
		return
	}
	g.Set(f())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sampled = append(p.sampled, func() { g.Set(f()) })
	if len(p.sampled) == 1 {
		go p.sample()
	}
}

func (p *Publisher) sample() {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-p.attach.ended:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		all := p.sampled // only grows
		p.mu.Unlock()
		for _, f := range all {
			f()
		}
	}
}

// NewGaugeFunc creates a gauge of the default publisher that f sets once per second.
func NewGaugeFunc(o Opts, f func() float64) { Default().NewGaugeFunc(o, f) }

// NewGauge creates a gauge of the default publisher.
func NewGauge(o Opts) *Gauge { return Default().NewGauge(o) }

// NewGaugeVec creates a family of gauges of the default publisher.
func NewGaugeVec(o Opts, labels ...string) *GaugeVec { return Default().NewGaugeVec(o, labels...) }
