// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// Lines and cells: see LINES, STRIPES and THE WRITER in sidelight-region(5).

const (
	lineSize  = 64
	lineCells = 7
)

var lineK = [8]uint64{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
	0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3}

// A spot is the position of a cell within its stripe.
type spot struct {
	at    uintptr // offset of the cell
	check uintptr // offset of the check word of its line
	k     uint64  // weight of the cell in the check word
}

func spotOf(cell uint32) spot {
	line, i := uintptr(cell/lineCells)*lineSize, uintptr(cell%lineCells)
	return spot{line + i*8, line + lineCells*8, lineK[i]}
}

func wordAt(base unsafe.Pointer, at uintptr) *uint64 {
	return (*uint64)(unsafe.Add(base, at))
}

// mix is a cell's term in the check word of a mixed line.
func mix(cell, k uint64) uint64 {
	hi, lo := bits.Mul64(cell, k)
	return lo ^ hi
}

// sealed is the check word of a sealed line.
func sealed(c *[lineCells]uint64) uint64 {
	pair := func(i, k int) uint64 { return mix(c[i]^lineK[i], c[k]^lineK[k]) }
	return pair(0, 1) + pair(2, 3) + pair(4, 5) + mix(c[6]^lineK[6], lineK[0])
}

// cellOf converts a number to the content of a cell; numberOf is its inverse.
func cellOf(v float64) uint64 {
	b := math.Float64bits(v)
	return b ^ b>>32
}

func numberOf(cell uint64) float64 {
	return math.Float64frombits(cell ^ cell>>32)
}

// Plain lines in this P's own stripe. The caller is pinned, so no atomic operations are needed. If a reader sees a line
// between the two stores, the check word does not match, and the line is read again.

func ownAdd(base unsafe.Pointer, s spot, n uint64) {
	*wordAt(base, s.at) += n
	*wordAt(base, s.check) += n * s.k
}

func ownAddFloat(base unsafe.Pointer, s spot, v float64) {
	cell := wordAt(base, s.at)
	old := *cell
	now := cellOf(numberOf(old) + v)
	*cell = now
	*wordAt(base, s.check) += (now - old) * s.k
}

// plainAdd is for plain lines with several writers.
func plainAdd(base unsafe.Pointer, s spot, n uint64) {
	atomic.AddUint64(wordAt(base, s.at), n)
	atomic.AddUint64(wordAt(base, s.check), n*s.k)
}

// Mixed lines, in stripe 0 and in the section "created", which any number of goroutines write. Each adds its own difference
// to the check word, which is correct again once all have done so.

func mixedAdd(base unsafe.Pointer, s spot, n uint64) {
	now := atomic.AddUint64(wordAt(base, s.at), n)
	atomic.AddUint64(wordAt(base, s.check), mix(now, s.k)-mix(now-n, s.k))
}

func mixedSet(base unsafe.Pointer, s spot, v uint64) {
	old := atomic.SwapUint64(wordAt(base, s.at), v)
	if old != v {
		atomic.AddUint64(wordAt(base, s.check), mix(v, s.k)-mix(old, s.k))
	}
}

func mixedAddFloat(base unsafe.Pointer, s spot, v float64) {
	mixedChange(base, s, func(old uint64) uint64 { return cellOf(numberOf(old) + v) })
}

func mixedChange(base unsafe.Pointer, s spot, f func(old uint64) uint64) {
	cell := wordAt(base, s.at)
	for {
		old := atomic.LoadUint64(cell)
		now := f(old)
		if atomic.CompareAndSwapUint64(cell, old, now) {
			atomic.AddUint64(wordAt(base, s.check), mix(now, s.k)-mix(old, s.k))
			return
		}
	}
}

// putLine writes a sealed line, which has one writer at a time. The order of the stores does not matter, because the check
// word matches only if a reader has seen all of them.
func putLine(to unsafe.Pointer, cells *[lineCells]uint64) {
	line := (*[lineCells + 1]uint64)(to)
	copy(line[:], cells[:])
	line[lineCells] = sealed(cells)
}
