// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// maxStripes is the maximum number of P with a stripe of their own; further ones share stripe 0.
const maxStripes = 128

// blockLines is the number of lines over which consecutive metrics of one cell are spread, because updates of the same line
// wait for each other.
const blockLines = 8

// A table has the base of each P's stripe, or nil if it is not in use yet.
type table [maxStripes]unsafe.Pointer

// A region is memory in the format of sidelight-region(5). The publisher's lock protects everything but own, denied and cells.
type region struct {
	own    table
	denied [maxStripes]atomic.Bool // P that write stripe 0
	shared unsafe.Pointer          // stripe 0
	closed atomic.Bool

	fd        int
	mem       []byte
	base      unsafe.Pointer
	size      uint64
	instance  uint64
	stride    uint64
	stripes   int // maximum number, including stripe 0
	cellsMax  uint32
	schemaAt  uint64
	schemaMax uint32
	createdAt uint64
	exemplars exemplars
	spans     *rings

	schemaUsed, linesUsed, cellsUsed, records uint32
	stripesUsed                               int
	block, blockUsed                          uint32 // cells of blockLines lines
	generation                                uint64
	hot                                       [lineCells]uint64 // as published, except for hotRefused
	claimed                                   []int
	allocated                                 map[uint64]uint64 // first byte of a section -> end of its allocated memory
	dense                                     bool
	again                                     uint // EAGAIN answers since it was last admitted; used by attachment.run() alone
}

type regionOptions struct {
	labels     string
	cells      uint32
	schema     uint32 // bytes
	exemplars  uint32 // elements, including the head
	spanLines  uint32 // lines of a ring; 0: no spans
	stripesMax int
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

func memfd() (int, error) {
	const cloexec, allowSealing, noexecSeal, sysMemfdCreate = 1, 2, 8, sysMemfdCreate
	name := []byte("sidelight\x00")
	flags := uintptr(cloexec | allowSealing | noexecSeal)
	fd, _, e := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), flags, 0)
	if e == syscall.EINVAL { // before Linux 6.3
		fd, _, e = syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), flags&^noexecSeal, 0)
	}
	if e != 0 {
		return -1, os.NewSyscallError("memfd_create", e)
	}
	return int(fd), nil
}

func startTicks() uint64 {
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return ticks
}

func newRegion(o regionOptions) (*region, error) {
	// Line 0 of the stripes stays empty. It is at the start of a page, like the number of a P, which each update reads: a
	// load waits for an earlier store to the same place of another page (4K aliasing).
	o.cells += lineCells
	r := &region{cellsMax: o.cells, schemaMax: o.schema, allocated: map[uint64]uint64{}, stripesUsed: 1, cellsUsed: lineCells}
	r.stripes = o.stripesMax + 1
	r.stride = roundUp(uint64(o.cells+lineCells-1)/lineCells*lineSize, pageSize)
	at := uint64(2 * pageSize)
	var sections []section
	add := func(kind, stride uint32, length uint64) uint64 {
		start := at
		sections = append(sections, section{kind, stride, start, length})
		at = roundUp(at+length, pageSize)
		return start
	}
	sections = append(sections, section{sectionHot, lineSize, pageSize, lineSize})
	stripesAt := add(sectionStripes, uint32(r.stride), uint64(r.stripes)*r.stride)
	r.schemaAt = add(sectionSchema, 8, uint64(o.schema))
	created := roundUp(uint64(o.cells+lineCells-1)/lineCells*lineSize, pageSize)
	r.createdAt = add(sectionCreated, lineSize, created)
	r.exemplars.init(add(sectionExemplars, exemplarSize, uint64(o.exemplars)*exemplarSize), o.exemplars)
	if o.spanLines != 0 {
		heads, stride := ringBytes(r.stripes, o.spanLines)
		r.spans = newRings(add(sectionSpans, uint32(stride), heads+uint64(r.stripes)*stride), r.stripes, o.spanLines)
	}
	r.size = at
	if r.size > 1<<32 {
		return nil, fmt.Errorf("a region of %d bytes is too large", r.size)
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	r.instance = binary.LittleEndian.Uint64(random[:]) | 1
	if err := r.makeMemory(stripesAt, created); err != nil {
		return nil, err
	}
	r.shared = unsafe.Add(r.base, stripesAt)
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	h := header{size: r.size, instance: r.instance, created: uint64(time.Now().UnixNano()), startTicks: startTicks(),
		pid: uint32(os.Getpid()), bootID: bootIDOf(boot), sections: sections, labels: o.labels}
	h.encode(r.mem[:headerSize])
	r.hot[hotState] = 0
	r.publish(stateLive)
	return r, nil
}

func (r *region) makeMemory(stripesAt, created uint64) (err error) {
	const addSeals, sealShrink, sealGrow = 1033, 2, 4
	if r.fd, err = memfd(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			syscall.Close(r.fd)
		}
	}()
	if err = syscall.Fchmod(r.fd, 0o444); err != nil {
		return os.NewSyscallError("fchmod", err)
	}
	if err = syscall.Ftruncate(r.fd, int64(r.size)); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(r.fd), addSeals, sealShrink|sealGrow); e != 0 {
		return os.NewSyscallError("fcntl", e)
	}
	for _, part := range [][2]uint64{{0, 2 * pageSize}, {stripesAt, pageSize}, {r.createdAt, created}} {
		if err = r.allocate(part[0], part[1]); err != nil {
			return err
		}
	}
	if r.spans != nil {
		if err = r.allocate(r.spans.at, r.spans.heads); err != nil {
			return err
		}
	}
	r.mem, err = syscall.Mmap(r.fd, 0, int(r.size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.base = unsafe.Pointer(&r.mem[0])
	return nil
}

// allocate allocates the pages from first on, because touching a page that the system cannot provide raises SIGBUS.
func (r *region) allocate(first, length uint64) error {
	done, ok := r.allocated[first]
	if !ok {
		done = first
	}
	end := roundUp(first+length, pageSize)
	if end > r.size {
		end = r.size
	}
	if end <= done {
		return nil
	}
	err := fallocate(r.fd, done, end-done)
	if err == nil {
		r.allocated[first] = end
	}
	return err
}

func fallocate(fd int, first, length uint64) error {
	for {
		if err := syscall.Fallocate(fd, 0, int64(first), int64(length)); err != syscall.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// allocateAll fills holes, for an agent that registers memory: it accepts no memory with holes.
func (r *region) allocateAll() error {
	if r.dense {
		return nil
	}
	err := r.allocate(0, r.size)
	r.dense = err == nil
	return err
}

func (r *region) stripe(n int) unsafe.Pointer { return unsafe.Add(r.shared, uint64(n)*r.stride) }

func (r *region) hotLine() unsafe.Pointer { return unsafe.Add(r.base, pageSize) }

// publish writes the hot line, after everything that it refers to. The check word changes last, so that no reader accepts a
// half-written line. publish adds differences, because refuse() may add to the line at the same time.
func (r *region) publish(state uint64) {
	r.generation++
	now := [lineCells]uint64{r.generation, uint64(r.schemaUsed), uint64(r.linesUsed), uint64(r.stripesUsed), state,
		uint64(time.Now().UnixNano()), r.hot[hotRefused]}
	var check uint64
	for _, i := range []int{hotLines, hotStripes, hotSchema, hotGeneration, hotChanged, hotState} {
		difference := now[i] - r.hot[i]
		atomic.AddUint64(wordAt(r.hotLine(), uintptr(i)*8), difference)
		check += difference * lineK[i]
	}
	atomic.AddUint64(wordAt(r.hotLine(), lineCells*8), check)
	r.hot = now
}

// refuse counts a refusal. Any goroutine may call it. It is pinned, so that free() waits for it.
func (r *region) refuse() {
	procPin()
	if !r.closed.Load() {
		plainAdd(r.hotLine(), spotOf(hotRefused), 1)
	}
	procUnpin()
}

// place returns the first cell of the next metric with this many cells, and the end of the used cells including it.
func (r *region) place(cells uint32) (first, end uint32) {
	if cells == 1 && r.blockUsed%(blockLines*lineCells) != 0 {
		i := r.blockUsed
		return r.block + i%blockLines*lineCells + i/blockLines, r.cellsUsed
	}
	if cells == 1 {
		return r.cellsUsed, r.cellsUsed + blockLines*lineCells
	}
	return r.cellsUsed, r.cellsUsed + cells
}

func (r *region) room(s *shape) bool {
	_, end := r.place(s.cells)
	return end <= r.cellsMax && r.records < r.cellsMax && uint64(r.schemaUsed)+uint64(s.length()) <= uint64(r.schemaMax)
}

// A record is a record of the schema.
type record struct {
	region  *region
	shape   *shape
	cell    uint32 // the first
	id      uint32
	at      uint32    // in the schema
	created uint64    // latest creation time
	removed time.Time // zero if it is in use
	metric  placed    // the metric that counts in it, or nil
}

// add creates a record, which is not published yet, with cells of 0. It requires room().
func (r *region) add(s *shape) (*record, error) {
	first, end := r.place(s.cells)
	length := s.length()
	lines := r.linesUsed
	if s.cells != 0 {
		if n := (first + s.cells + lineCells - 1) / lineCells; n > lines {
			lines = n
		}
	}
	if err := r.allocate(r.schemaAt, uint64(r.schemaUsed+length)); err != nil {
		return nil, err
	}
	for _, stripe := range append([]int{0}, r.claimed...) {
		at := uint64(uintptr(r.stripe(stripe)) - uintptr(r.base))
		if err := r.allocate(at, uint64(lines)*lineSize); err != nil {
			return nil, err
		}
	}
	if s.cells == 1 {
		if r.blockUsed%(blockLines*lineCells) == 0 {
			r.block, r.blockUsed = first, 0
		}
		r.blockUsed++
	}
	record := &record{region: r, shape: s, id: r.records, at: r.schemaUsed}
	if s.cells != 0 {
		record.cell = first
	}
	r.write(record)
	r.cellsUsed, r.linesUsed = end, lines
	r.schemaUsed += length
	r.records++
	return record, nil
}

func (r *region) write(e *record) {
	at := r.schemaAt + uint64(e.at)
	e.shape.encode(r.mem[at:at+uint64(e.shape.length())], e.cell, e.id, uint32(r.generation+1))
}

// setCreated sets the creation time of a record; 0 removes it. Call publish() afterwards. Readers distinguish two uses of a
// record by this time, so it always increases.
func (r *region) setCreated(e *record, ns uint64) {
	if ns != 0 {
		if ns <= e.created {
			ns = e.created + 1
		}
		e.created = ns
	}
	mixedSet(unsafe.Add(r.base, r.createdAt), spotOf(e.id), ns)
}

// clear sets the values of a removed record to 0. Call quiesce() before. The cells in the stripes belong to their P, which
// may be writing other cells of the same line; therefore, stripe 0 gets the negative of their sum. clear returns false if
// the sum is not finite.
func (r *region) clear(e *record) bool {
	for i := uint32(0); i < e.shape.cells; i++ {
		s := spotOf(e.cell + i)
		if !e.shape.isSum(i) {
			var sum uint64
			for _, stripe := range r.claimed {
				sum += atomic.LoadUint64(wordAt(r.stripe(stripe), s.at))
			}
			mixedSet(r.shared, s, -sum)
			continue
		}
		var sum float64
		for _, stripe := range r.claimed {
			sum += numberOf(atomic.LoadUint64(wordAt(r.stripe(stripe), s.at)))
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return false
		}
		mixedSet(r.shared, s, cellOf(0-sum))
	}
	return true
}

// claim assigns a stripe to a P that has none, or denies it one. The caller is not pinned, and holds the publisher's lock.
func (r *region) claim(p int) {
	if p >= maxStripes || r.denied[p].Load() || atomic.LoadPointer(&r.own[p]) != nil || r.mem == nil {
		return
	}
	stripe := p + 1
	base := r.stripe(stripe)
	lines := uint64(r.linesUsed)
	if stripe >= r.stripes || r.allocate(uint64(uintptr(base)-uintptr(r.base)), lines*lineSize) != nil {
		r.denied[p].Store(true)
		return
	}
	r.claimed = append(r.claimed, stripe)
	if stripe >= r.stripesUsed {
		r.stripesUsed = stripe + 1
		r.publish(r.hot[hotState])
	}
	atomic.StorePointer(&r.own[p], base)
}

// free frees the memory. Nobody may write it any more: set closed, move all metrics elsewhere, and call quiesce() before.
func (r *region) free() {
	r.exemplars.mu.Lock()
	defer r.exemplars.mu.Unlock()
	syscall.Munmap(r.mem)
	syscall.Close(r.fd)
	r.mem = nil
}

// place returns the place of a record.
func (e *record) place(p *Publisher) *place {
	return &place{spot: spotOf(e.cell), own: &e.region.own, shared: e.region.shared, region: e.region, pub: p, cell: e.cell,
		id: e.id, created: e.created}
}

// stripesWanted returns the number of P that may exist.
func stripesWanted() int {
	n := runtime.GOMAXPROCS(0)
	if cpus := runtime.NumCPU(); n < cpus {
		n = cpus
	}
	if n > maxStripes {
		n = maxStripes
	}
	return n
}
