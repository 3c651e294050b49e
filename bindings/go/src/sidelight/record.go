// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"errors"
	"strings"
	"time"
)

// Assigns records to metrics, and reuses the places of removed records: see "Created" in sidelight-region(5).

// replaceAfter is how long a removed record remains unchanged; tests reduce it.
var replaceAfter = 11 * time.Second

var (
	errFull   = errors.New("all regions are full")
	errClosed = errors.New("the publisher is closed")
	errOther  = errors.New("another metric has this name and these labels")
)

// metric returns the metric with this shape. If there is none, it creates one with fresh() and moves it to its place. A refused
// metric is not published.
func (p *Publisher) metric(s *shape, fresh func() placed) placed {
	m, err := p.find(s, fresh)
	if err != nil {
		p.refuse(s.name, err)
		m = fresh()
		m.put(nil)
	}
	return m
}

func (p *Publisher) find(s *shape, fresh func() placed) (placed, error) {
	if p == nil {
		m := fresh()
		m.put(nil)
		return m, nil
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	old := p.records[s.key()]
	if old != nil && old.removed.IsZero() {
		if !old.shape.equal(s) {
			return nil, errOther
		}
		return old.metric, nil
	}
	e, err := p.record(s, old)
	if err != nil {
		return nil, err
	}
	e.metric = fresh()
	p.show(e)
	return e.metric, nil
}

// show publishes a record whose values are 0, and moves its metric there.
func (p *Publisher) show(e *record) {
	e.region.setCreated(e, uint64(time.Now().UnixNano()))
	e.region.publish(stateLive)
	p.records[e.shape.key()] = e
	if e.metric != nil {
		e.metric.put(e.place(p))
	}
}

// record returns a record for a shape, with values of 0: the record `old` of a removed metric with the same name and labels,
// the place of another removed record, or a new record.
func (p *Publisher) record(s *shape, old *record) (*record, error) {
	switch {
	case old != nil && old.shape.same(s):
		if p.take(old) {
			return old, nil
		}
	case s.kind&replaceable == 0:
		if old != nil {
			return nil, errOther
		}
	default:
		if e := p.vacancy(s); e != nil {
			if p.records[e.shape.key()] == e {
				delete(p.records, e.shape.key())
			}
			e.shape = s
			e.region.write(e)
			return e, nil
		}
	}
	for _, r := range p.regions {
		if r.room(s) {
			return r.add(s)
		}
	}
	if len(p.regions) >= p.options.MaxRegions {
		return nil, errFull
	}
	r, err := p.newRegion(s.cells+blockLines*lineCells, s.length())
	if err != nil {
		return nil, err
	}
	return r.add(s)
}

// Records with the same form may replace each other.
type form struct {
	kind                  kind
	cells, bounds, length uint32
}

func (s *shape) form() form { return form{s.kind, s.cells, uint32(len(s.bounds)), s.length()} }

type vacated struct {
	record *record
	when   time.Time // time of removal; if the record has another one, it has been taken since
}

// vacancy takes the record of this form that was removed first, if it was removed long enough ago.
func (p *Publisher) vacancy(s *shape) *record {
	f := s.form()
	for queue := p.vacant[f]; len(queue) > 0; queue = p.vacant[f] {
		first := queue[0]
		current := first.record.removed == first.when
		if current && time.Since(first.when) < replaceAfter {
			return nil
		}
		p.vacant[f] = queue[1:]
		if current && p.take(first.record) {
			return first.record
		}
	}
	return nil
}

// take sets the values of a removed record to 0. It returns false if that is not possible.
func (p *Publisher) take(e *record) bool {
	if !e.removed.Before(p.quiet) {
		p.quiesce() // a goroutine may still be writing its cells
	}
	if !e.region.clear(e) {
		return false
	}
	e.removed = time.Time{}
	return true
}

func (p *Publisher) quiesce() {
	begun := time.Now()
	quiesce()
	p.quiet = begun
}

// end removes the metric with this name and labels. It returns false if there is none.
func (p *Publisher) end(name, labels string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.records[name+"\x00"+labels]
	if p.closed || e == nil || !e.removed.IsZero() {
		return false
	}
	if e.metric != nil {
		e.metric.put(nil)
	}
	e.metric = nil
	e.region.setCreated(e, 0)
	e.region.publish(stateLive)
	e.region.forgetExemplars(e)
	e.removed = time.Now()
	if f := e.shape.form(); e.shape.kind&replaceable != 0 {
		p.vacant[f] = append(p.vacant[f], vacated{e, e.removed})
	}
	return true
}

// encodedLabels encodes the labels of a record: the constant ones, and those of a family.
func encodedLabels(constant Labels, names, values []string) (string, error) {
	list := constant.list()
	for i, name := range names {
		list = append(list, label{name, strings.ToValidUTF8(values[i], "\uFFFD")})
	}
	return encodeLabels(list, true, len(list) > 0)
}
