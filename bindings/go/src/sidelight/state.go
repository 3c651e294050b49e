// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A StateSet has states that are on or off.
type StateSet struct {
	site
	states []string
}

func (s *StateSet) bit(state string) uint64 {
	for i, name := range s.states {
		if name == state {
			return 1 << uint(i)
		}
	}
	panic(fmt.Sprintf("sidelight: there is no state %q among %q", state, s.states))
}

// Set switches a state on or off. It panics if there is no such state.
func (s *StateSet) Set(state string, on bool) {
	bit := s.bit(state)
	p := s.pinned()
	mixedChange(p.shared, p.spot, func(old uint64) uint64 {
		if on {
			return old | bit
		}
		return old &^ bit
	})
	procUnpin()
}

// SetOnly switches a state on and all others off. It panics if there is no such state.
func (s *StateSet) SetOnly(state string) {
	bit := s.bit(state)
	p := s.pinned()
	mixedSet(p.shared, p.spot, bit)
	procUnpin()
}

// Value reports whether a state is on. It panics if there is no such state.
func (s *StateSet) Value(state string) bool {
	bit := s.bit(state)
	p := s.pinned()
	v := atomic.LoadUint64(wordAt(p.shared, p.at))
	procUnpin()
	return v&bit != 0
}

// A StateSetVec is a family of state sets.
type StateSetVec = Vec[*StateSet]

func (p *Publisher) stateSet(o *Opts, states, names, values []string) *StateSet {
	return publish(p, o, kindStateSet, names, values, func(s *shape) { s.states = states },
		func() *StateSet { return &StateSet{states: states} })
}

// NewStateSet creates a state set, all of whose states are off, or returns the existing one.
func (p *Publisher) NewStateSet(o Opts, states ...string) *StateSet {
	return p.stateSet(&o, append([]string(nil), states...), nil, nil)
}

// NewStateSetVec creates a family of state sets with these labels.
func (p *Publisher) NewStateSetVec(o Opts, states []string, labels ...string) *StateSetVec {
	states = append([]string(nil), states...)
	return newVec(p, o, labels, func(values []string) *StateSet { return p.stateSet(&o, states, labels, values) })
}

// NewStateSet creates a state set of the default publisher.
func NewStateSet(o Opts, states ...string) *StateSet { return Default().NewStateSet(o, states...) }

// NewStateSetVec creates a family of state sets of the default publisher.
func NewStateSetVec(o Opts, states []string, labels ...string) *StateSetVec {
	return Default().NewStateSetVec(o, states, labels...)
}

// An Info publishes facts as labels.
type Info struct {
	pub           *Publisher
	opts          Opts
	names, values []string

	mu    sync.Mutex
	shown string // labels of its series
	there bool
}

// noCells is the metric of a series without cells.
type noCells struct{}

func (noCells) put(*place) {}

// Set replaces the facts.
func (i *Info) Set(facts Labels) {
	i.mu.Lock()
	defer i.mu.Unlock()
	o := i.opts
	o.Labels = make(Labels, len(i.opts.Labels)+len(facts))
	for k, v := range i.opts.Labels {
		o.Labels[k] = v
	}
	for k, v := range facts {
		o.Labels[k] = v
	}
	labels, err := encodedLabels(o.Labels, i.names, i.values)
	if err == nil && i.there && labels == i.shown {
		return
	}
	i.drop()
	publish(i.pub, &o, kindInfo, i.names, i.values, nil, func() noCells { return noCells{} })
	i.shown, i.there = labels, err == nil
}

func (i *Info) drop() {
	if i.there {
		i.pub.end(i.opts.Name, i.shown)
	}
	i.there = false
}

func (i *Info) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop()
}

// An InfoVec is a family of infos.
type InfoVec = Vec[*Info]

func (p *Publisher) info(o *Opts, names, values []string) *Info {
	return &Info{pub: p, opts: *o, names: names, values: values}
}

// NewInfo creates an info, which is published once its facts are set.
func (p *Publisher) NewInfo(o Opts) *Info { return p.info(&o, nil, nil) }

// NewInfoVec creates a family of infos with these labels.
func (p *Publisher) NewInfoVec(o Opts, labels ...string) *InfoVec {
	return newVec(p, o, labels, func(values []string) *Info { return p.info(&o, labels, values) })
}

// NewInfo creates an info of the default publisher.
func NewInfo(o Opts) *Info { return Default().NewInfo(o) }

// NewInfoVec creates a family of infos of the default publisher.
func NewInfoVec(o Opts, labels ...string) *InfoVec { return Default().NewInfoVec(o, labels...) }
