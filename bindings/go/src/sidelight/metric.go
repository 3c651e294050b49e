// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"fmt"
	"sync"
)

// Combine determines how a reader combines the values of a service's processes if it shows them as one series, as
// sidelight collect --sum-processes does.
type Combine uint16

// Ways to combine. The zero value means the sum for counters, histograms and summaries; gauges are not combined.
const (
	Sum Combine = 1 + iota
	Min
	Max
	MostRecent // the value that was set last
	Each       // no combination

	Live Combine = 8 // added to another one: only processes that are alive
)

// Opts are the options of a metric.
type Opts struct {
	// Name matches [a-zA-Z_:][a-zA-Z0-9_:]*. The name of a metric with labels may be any UTF-8.
	Name string
	// Help is a description for people, of at most 1023 bytes.
	Help string
	// Unit is for people, too, such as "seconds" or "bytes".
	Unit string
	// Labels are constant labels, which are the same for all metrics of a family.
	Labels Labels
	// Combine determines how the values of several processes are combined.
	Combine Combine
}

func (o *Opts) shape(k kind, names, values []string) (*shape, error) {
	labels, err := encodedLabels(o.Labels, names, values)
	if err == nil && o.Combine&7 > Each {
		err = fmt.Errorf("there is no way to combine of number %d", o.Combine)
	}
	s := &shape{kind: k, flags: uint16(o.Combine), name: o.Name, unit: o.Unit, help: cut(o.Help, helpMax), labels: labels}
	if labels != "" || !legacyName.MatchString(o.Name) || k == kindInfo {
		s.kind |= replaceable
	}
	return s, err
}

// publish creates a metric from opts. edit completes the shape.
func publish[T placed](p *Publisher, o *Opts, k kind, names, values []string, edit func(*shape), fresh func() T) T {
	s, err := o.shape(k, names, values)
	if edit != nil {
		edit(s)
	}
	if err == nil {
		m, same := p.metric(s, func() placed { return fresh() }).(T)
		if same {
			return m
		}
		err = errOther
	}
	if p != nil {
		p.refuse(o.Name, err)
	}
	m := fresh()
	m.put(nil)
	return m
}

// A Vec is a family of metrics with the same name and different values of labels.
type Vec[T any] struct {
	pub      *Publisher
	opts     Opts
	names    []string
	make     func(values []string) T
	mu       sync.RWMutex
	children map[string]child[T]
}

type child[T any] struct {
	metric T
	values []string
}

func newVec[T any](p *Publisher, o Opts, names []string, make func(values []string) T) *Vec[T] {
	return &Vec[T]{pub: p, opts: o, names: append([]string(nil), names...), make: make, children: map[string]child[T]{}}
}

func (v *Vec[T]) appendKey(to []byte, values []string) []byte {
	if len(values) != len(v.names) {
		// Do not print the values, which would move the caller's slice to the heap.
		panic(fmt.Sprintf("sidelight: %s has the labels %q, and not %d of them", v.opts.Name, v.names, len(values)))
	}
	for _, value := range values {
		to = append(to, value...)
		to = append(to, 0xff) // is in no UTF-8
	}
	return to
}

// With returns the metric with these values of labels, in the order of their names, and creates it if necessary. Where
// performance matters, keep the result, because With takes longer than an update. It panics if the number of values is wrong.
func (v *Vec[T]) With(values ...string) T {
	var room [128]byte
	key := v.appendKey(room[:0], values)
	v.mu.RLock()
	c, ok := v.children[string(key)]
	v.mu.RUnlock()
	if ok {
		return c.metric
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok = v.children[string(key)]
	if !ok {
		c.values = append(c.values, values...)
		c.metric = v.make(c.values)
		v.children[string(key)] = c
	}
	return c.metric
}

// Remove removes the series with these values of labels. Metrics that With returned for it are no longer published.
// Remove reports whether there was one.
func (v *Vec[T]) Remove(values ...string) bool {
	key := string(v.appendKey(nil, values))
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.children[key]
	if ok {
		v.remove(key)
	}
	return ok
}

func (v *Vec[T]) remove(key string) {
	c := v.children[key]
	if o, ok := any(c.metric).(interface{ end() }); ok {
		o.end() // it has series of its own
	} else if labels, err := encodedLabels(v.opts.Labels, v.names, c.values); err == nil {
		v.pub.end(v.opts.Name, labels)
	}
	delete(v.children, key)
}

// Reset removes all series of the family.
func (v *Vec[T]) Reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key := range v.children {
		v.remove(key)
	}
}
