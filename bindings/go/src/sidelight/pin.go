// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"runtime"
	_ "unsafe" // go:linkname
)

// A goroutine has no identity, but the processor (P) on which it runs has one. While a goroutine is pinned, no other one
// runs on its P, and it goes to no other P: it may write the stripe of the P by plain stores, like a thread its own in C.
// A P that passes from one thread of the system to another does so by atomic operations of the scheduler, which order
// these stores. sync.Pool rests on the same two functions. Whatever is pinned calls nothing that may block or allocate.
//
// It costs a third of the alternatives that are as exact: two atomic additions, to the cell and its check word, to a stripe
// that is known; a stripe out of a sync.Pool; or a mutex, which costs even more.

//go:linkname procPin runtime.procPin
//go:nosplit
func procPin() int

//go:linkname procUnpin runtime.procUnpin
//go:nosplit
func procUnpin()

// quiesce returns once every pinned section that was running has ended: the world stops only when no goroutine is pinned.
func quiesce() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
}
