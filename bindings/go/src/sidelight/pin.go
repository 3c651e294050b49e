// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"runtime"
	_ "unsafe" // go:linkname
)

// A goroutine has no identity, but the processor (P) on which it runs has one. A pinned goroutine stays on its P, and no
// other one runs there. It may therefore write the P's stripe by plain stores, as a thread writes its own stripe in C. When
// the scheduler moves a P from one thread of the system to another, its atomic operations order these stores. sync.Pool is
// based on the same two functions. A pinned goroutine must not call anything that may block or allocate.
//
// This takes a third of the time of the alternatives with exact sums: two atomic additions, to the cell and its check word,
// in a known stripe; or a stripe from a sync.Pool. A mutex takes even longer.

//go:linkname procPin runtime.procPin
//go:nosplit
func procPin() int

//go:linkname procUnpin runtime.procUnpin
//go:nosplit
func procUnpin()

// quiesce waits until all pinned sections that are running have ended. It stops the world, which happens only when no
// goroutine is pinned.
func quiesce() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
}
