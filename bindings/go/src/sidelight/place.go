// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A place is where the cells of a metric are, and whose record they have. It does not change; a metric whose series ends
// goes to another place.
type place struct {
	spot           // of the first cell
	own     *table // bases of the stripes, by P
	shared  unsafe.Pointer
	region  *region // nil: nowhere
	pub     *Publisher
	cell    uint32
	id      uint32 // of the record
	created uint64
}

// A placed metric has its cells somewhere.
type placed interface {
	// put moves the metric to a place; nil: it ends, and counts nowhere.
	put(*place)
}

// nowhere takes what ended metrics count. It is outside of Go's heap like any region: the race detector looks at neither,
// and has nothing to look at here, as nobody reads it.
var nowhere = func() *place {
	sink, err := syscall.Mmap(-1, 0, int(roundUp((bucketsMax+2+lineCells)/lineCells*lineSize, pageSize)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		panic("sidelight: mmap: " + err.Error()) // of 40 KiB: Go itself would not run
	}
	p := &place{spot: spotOf(0), own: new(table), shared: unsafe.Pointer(&sink[0])}
	for i := range p.own {
		p.own[i] = p.shared
	}
	return p
}()

// A site is what all metrics have: a place that changes when the series ends. In Go 1.19 the methods of atomic.Pointer are
// not inlined, which would cost as much as the rest of an update.
type site struct{ at unsafe.Pointer }

func (s *site) load() *place { return (*place)(atomic.LoadPointer(&s.at)) }

func (s *site) put(p *place) {
	if p == nil {
		p = nowhere
	}
	atomic.StorePointer(&s.at, unsafe.Pointer(p))
}

// base pins the goroutine and returns the place and the base of its P's stripe, which the caller writes before it calls
// procUnpin(); nil: it writes stripe 0, by atomic operations.
func (s *site) base() (*place, unsafe.Pointer) {
	for {
		id := procPin()
		p := s.load()
		if p == nil { // of a metric that no function of this package made
			p = nowhere
		}
		if uint(id) >= maxStripes {
			return p, nil
		}
		if base := atomic.LoadPointer(&p.own[id]); base != nil {
			return p, base
		}
		if p.region == nil || p.region.denied[id].Load() {
			return p, nil
		}
		procUnpin()
		p.claim(id)
	}
}

// claim gives a stripe to a P that has none.
func (p *place) claim(id int) {
	p.pub.mu.Lock()
	p.region.claim(id)
	p.pub.mu.Unlock()
}

// refuse counts an observation that was dropped; pinned or not.
func (p *place) refuse() {
	if p.region != nil {
		p.region.refuse()
	}
}

// sum adds up a cell over the stripes; pinned.
func (p *place) sum(s spot) uint64 {
	v := atomic.LoadUint64(wordAt(p.shared, s.at))
	if p.region == nil {
		return 0
	}
	for i := range p.own {
		if base := atomic.LoadPointer(&p.own[i]); base != nil {
			v += atomic.LoadUint64(wordAt(base, s.at))
		}
	}
	return v
}

func (p *place) sumFloat(s spot) float64 {
	v := numberOf(atomic.LoadUint64(wordAt(p.shared, s.at)))
	if p.region == nil {
		return 0
	}
	for i := range p.own {
		if base := atomic.LoadPointer(&p.own[i]); base != nil {
			v += numberOf(atomic.LoadUint64(wordAt(base, s.at)))
		}
	}
	return v
}

// pinned returns the place, for what reads it or writes stripe 0 before procUnpin().
func (s *site) pinned() *place {
	procPin()
	if p := s.load(); p != nil {
		return p
	}
	return nowhere
}
