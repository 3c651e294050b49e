// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"encoding/binary"
	"math"
	"sync"
	"time"
	"unsafe"
)

// Exemplars as in sidelight-region(5). Each cell with an exemplar has an element.

const (
	exemplarSize   = 256
	exemplarLabels = 152

	exemplarHeadUsed    = 0
	exemplarHeadSet     = 1
	exemplarHeadDropped = 2
)

type exemplars struct {
	mu      sync.Mutex
	at      uint64 // of the section
	max     uint32
	used    uint32 // including the head; 0: the section has no memory yet
	element map[exemplarKey]uint32
	free    []uint32
	number  []uint64 // number of exemplars that each element has had
}

type exemplarKey struct{ id, cell uint32 }

func (e *exemplars) init(at uint64, elements uint32) {
	e.at, e.max, e.element, e.number = at, elements, map[exemplarKey]uint32{}, make([]uint64, elements)
}

func (r *region) countExemplar(cell uint32) {
	if r.exemplars.used == 0 {
		r.refuse()
		return
	}
	plainAdd(unsafe.Add(r.base, r.exemplars.at), spotOf(cell), 1)
}

// elementOf returns the element of a cell, assigning one if necessary. It returns 0 if there is no room.
func (r *region) elementOf(key exemplarKey) uint32 {
	e := &r.exemplars
	index, ok := e.element[key]
	switch n := len(e.free); {
	case ok:
		return index
	case n > 0:
		index = e.free[n-1]
		e.free = e.free[:n-1]
	case e.used == e.max:
		return 0
	default:
		if e.used == 0 {
			if fallocate(r.fd, e.at, uint64(e.max)*exemplarSize) != nil {
				return 0
			}
			e.used = 1
			r.countExemplar(exemplarHeadUsed)
		}
		index = e.used
		e.used++
		r.countExemplar(exemplarHeadUsed)
	}
	e.element[key] = index
	return index
}

// forgetExemplars frees the elements of a removed record. Readers ignore their exemplars, because these contain the creation
// time of the removed record.
func (r *region) forgetExemplars(record *record) {
	e := &r.exemplars
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.element) == 0 {
		return
	}
	for cell := uint32(0); cell < record.shape.cells; cell++ {
		key := exemplarKey{record.id, cell}
		if index, ok := e.element[key]; ok {
			delete(e.element, key)
			e.free = append(e.free, index)
		}
	}
}

// setExemplar sets the exemplar of a cell of the metric. If another goroutine is setting an exemplar in this region, this one
// is dropped. The caller must not be pinned.
func (p *place) setExemplar(cell uint32, value float64, labels Labels, when time.Time) {
	if p == nil || p.region == nil || len(labels) == 0 {
		return
	}
	r := p.region
	e := &r.exemplars
	if !e.mu.TryLock() {
		r.refuse()
		return
	}
	defer e.mu.Unlock()
	if r.mem == nil {
		return
	}
	encoded, err := encodeLabels(labels.list(), true, false)
	if err != nil || len(encoded) > exemplarLabels {
		r.countExemplar(exemplarHeadDropped)
		return
	}
	index := r.elementOf(exemplarKey{p.id, cell})
	if index == 0 {
		r.countExemplar(exemplarHeadDropped)
		return
	}
	// The first 8 bytes of the text are the last cell of line 0. Each following 48 bytes are cells 1 to 6 of another line.
	var text [8 + 3*48]byte
	copy(text[:], encoded)
	e.number[index]++
	at := unsafe.Add(r.base, e.at+uint64(index)*exemplarSize)
	line := [lineCells]uint64{e.number[index] << 16, uint64(p.id) | uint64(cell)<<32, p.created, math.Float64bits(value),
		uint64(when.UnixNano()), uint64(len(encoded)), binary.LittleEndian.Uint64(text[:])}
	putLine(at, &line)
	for i := 1; i < 4; i++ {
		line[0] = e.number[index]<<16 | uint64(i)
		for j := 1; j < lineCells; j++ {
			line[j] = binary.LittleEndian.Uint64(text[8+48*(i-1)+8*(j-1):])
		}
		putLine(unsafe.Add(at, i*lineSize), &line)
	}
	r.countExemplar(exemplarHeadSet)
}
