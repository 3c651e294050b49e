// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Rings of spans: see SPANS in sidelight-region(5). Each processor has a ring, whose lock is almost never contended.

const (
	spanLinesMin = 512
	spanLinesMax = 1 << 22
	spanEntries  = 6 // of an index line
)

// Cells of a ring's head.
const (
	headLines = iota
	headRoots
	headIndex
	headSpans
	headDropped
	headCut
)

type rings struct {
	at     uint64 // offset of the section
	heads  uint64 // bytes
	stride uint64
	lines  uint64 // per ring
	ring   []ring // by stripe; ring 0 is not used
}

type ring struct {
	mu    sync.Mutex
	state ringState
	head  [lineCells]uint64
	open  int // entries in the last index line
	index [lineCells]uint64
	_     [64]byte
}

type ringState uint8

const (
	ringNew ringState = iota
	ringReady
	ringNone // without memory, or closed
)

func ringBytes(stripes int, lines uint32) (heads, stride uint64) {
	return roundUp(uint64(stripes)*lineSize, pageSize), 88 * uint64(lines)
}

func newRings(at uint64, stripes int, lines uint32) *rings {
	heads, stride := ringBytes(stripes, lines)
	return &rings{at: at, heads: heads, stride: stride, lines: uint64(lines), ring: make([]ring, stripes)}
}

func (r *region) writeSpan(s *Span, duration time.Duration) {
	n := procPin()
	procUnpin() // a hint; the lock makes it right
	i := 1 + n%(len(r.spans.ring)-1)
	ring := &r.spans.ring[i]
	ring.mu.Lock()
	defer ring.mu.Unlock()
	base := r.spans.at + r.spans.heads + uint64(i)*r.spans.stride
	if ring.state == ringNew {
		ring.state = ringReady
		if fallocate(r.fd, base/pageSize*pageSize, base%pageSize+r.spans.stride) != nil {
			ring.state = ringNone
		}
	}
	if ring.state != ringReady {
		r.refuse()
		return
	}
	ring.write(unsafe.Add(r.base, base), unsafe.Add(r.base, r.spans.at+uint64(i)*lineSize), r.spans.lines, s, duration)
}

// write writes the lines, and then the head, which tells readers where to find them. Each line has its own check word.
func (g *ring) write(base, head unsafe.Pointer, capacity uint64, s *Span, duration time.Duration) {
	hi, lo := binary.BigEndian.Uint64(s.context.TraceID[:]), binary.BigEndian.Uint64(s.context.TraceID[8:])
	id, parent := binary.BigEndian.Uint64(s.context.SpanID[:]), binary.BigEndian.Uint64(s.parent[:])
	if duration < 0 {
		duration = 0
	}
	start := uint64(s.start.UnixNano())
	lines := uint64(1 + (1+s.used+5)/6)
	first := g.head[headLines]
	roots, index, spans := base, unsafe.Add(base, 16*capacity), unsafe.Add(base, 24*capacity)

	line := [lineCells]uint64{first<<16 | lines<<8, hi, lo, id, parent, start, uint64(duration)}
	putLine(unsafe.Add(spans, first%capacity*lineSize), &line)
	for i := uint64(1); i < lines; i++ {
		line = [lineCells]uint64{(first+i)<<16 | lines<<8 | i}
		copy(line[1:], s.words[6*(i-1):1+s.used])
		putLine(unsafe.Add(spans, (first+i)%capacity*lineSize), &line)
	}
	if parent == 0 {
		line = [lineCells]uint64{g.head[headRoots]<<16 | 0xff00, hi, lo, start, uint64(duration), s.words[0] &^ (255 << 56), id}
		putLine(unsafe.Add(roots, g.head[headRoots]%(capacity/4)*lineSize), &line)
		g.head[headRoots]++
	}

	// An entry covers consecutive spans of one trace, so this span may extend the last entry.
	hash := (hi ^ lo) * lineK[0] >> 41 << 41
	entry := first&(1<<32-1) | lines<<32 | hash
	failed := uint64(0)
	if s.words[0]>>36&15 == uint64(StatusError) {
		failed = 1 << 40
	}
	if last := g.index[g.open]; g.open > 0 && last>>41<<41 == hash && last>>32&255+lines <= 255 {
		g.index[g.open] = last + lines<<32 | failed
	} else {
		if g.open == 0 || g.open == spanEntries {
			g.index = [lineCells]uint64{g.head[headIndex]<<16 | 0xfe00}
			g.head[headIndex]++
			g.open = 0
		}
		g.open++
		g.index[g.open] = entry | failed
	}
	putLine(unsafe.Add(index, (g.head[headIndex]-1)%(capacity/8)*lineSize), &g.index)

	g.head[headLines] += lines
	g.head[headSpans]++
	g.head[headDropped] += s.dropped
	g.head[headCut] += s.cut
	var check uint64
	for i, c := range g.head {
		check += c * lineK[i]
	}
	atomic.StoreUint64(wordAt(head, lineCells*8), check) // after all that it refers to
	copy((*[lineCells]uint64)(head)[:], g.head[:])
}

// close prevents further writes of spans.
func (g *rings) close() {
	for i := range g.ring {
		g.ring[i].mu.Lock()
		g.ring[i].state = ringNone
		g.ring[i].mu.Unlock()
	}
}
