// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A place tells where the cells of a metric and their record are. It is immutable; a metric whose series ends gets another
// place.
type place struct {
	spot           // position of the first cell
	own     *table // bases of the stripes, by P
	shared  unsafe.Pointer
	region  *region // nil: nowhere
	pub     *Publisher
	cell    uint32
	id      uint32 // of the record
	created uint64
}

// A placed metric has a place.
type placed interface {
	// put moves the metric to a place; nil means that it is no longer published.
	put(*place)
}

// nowhere is the place of metrics that are not published. Nobody reads it, so races on it are harmless. The race detector does
// not check it, because, like any region, it is outside of Go's heap.
var nowhere = func() *place {
	sink, err := syscall.Mmap(-1, 0, int(roundUp((bucketsMax+2+lineCells)/lineCells*lineSize, pageSize)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		panic("sidelight: mmap: " + err.Error()) // only 40 KiB: without them, Go itself could not run
	}
	p := &place{spot: spotOf(0), own: new(table), shared: unsafe.Pointer(&sink[0])}
	for i := range p.own {
		p.own[i] = p.shared
	}
	return p
}()

// A site is the part that all metrics have in common: a pointer to their place, which changes when the series ends. It is not
// an atomic.Pointer, whose methods Go 1.19 does not inline; the calls would take as long as the rest of an update.
type site struct{ at unsafe.Pointer }

func (s *site) load() *place { return (*place)(atomic.LoadPointer(&s.at)) }

func (s *site) put(p *place) {
	if p == nil {
		p = nowhere
	}
	atomic.StorePointer(&s.at, unsafe.Pointer(p))
}

// base pins the goroutine, and returns the place and the base of its P's stripe. If the base is nil, the caller writes stripe
// 0, by atomic operations. It must write before it calls procUnpin().
func (s *site) base() (*place, unsafe.Pointer) {
	for {
		id := procPin()
		p := s.load()
		if p == nil { // a zero value that no function of this package created
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

// refuse counts a dropped observation. The caller may be pinned.
func (p *place) refuse() {
	if p.region != nil {
		p.region.refuse()
	}
}

// sum adds up a cell over the stripes. The caller is pinned.
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

// pinned pins the goroutine and returns the place, for callers that read cells or write stripe 0 before procUnpin().
func (s *site) pinned() *place {
	procPin()
	if p := s.load(); p != nil {
		return p
	}
	return nowhere
}
