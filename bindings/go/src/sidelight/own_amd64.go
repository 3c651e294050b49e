// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"encoding/binary"
	"unsafe"
)

// addOwn is addPinned without procPin() and procUnpin(). Both change one word of the thread, so that each update would wait
// for the previous one. Go never preempts a goroutine in a function in assembler, which is therefore pinned without them.
//
//go:noescape
func addOwn(s *site, n uint64)

// offsetOfP is where the runtime's struct m, a thread, points to its P. The runtime exports only procPin(), which returns the
// number of the P: its machine code has the offset. 0: another release of Go has other code there; addOwn calls addPinned.
var offsetOfP = func() uintptr {
	const known = "\x49\x8b\x4e\x30" + // MOVQ 0x30(R14), CX: the goroutine's m
		"\xff\x81\x00\x00\x00\x00" + // INCL locks(CX)
		"\x48\x8b\x89\x00\x00\x00\x00" + // MOVQ p(CX), CX
		"\x48\x63\x01\xc3" // MOVLQSX 0(CX), AX: the number; RET
	pin := procPin
	code := ***(***[len(known)]byte)(unsafe.Pointer(&pin))
	offset := binary.LittleEndian.Uint32(code[13:])
	binary.LittleEndian.PutUint32(code[6:], 0)
	binary.LittleEndian.PutUint32(code[13:], 0)
	if string(code[:]) != known {
		return 0
	}
	return uintptr(offset)
}()
