// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAddOwnFindsTheStripeOfItsP(t *testing.T) {
	if offsetOfP == 0 {
		if strings.HasPrefix(runtime.Version(), "go1.19") {
			t.Fatal("the code of procPin() is not known")
		}
		t.Skip("SKIP: the code of procPin() is another one in " + runtime.Version())
	}
	p := open(t, Options{})
	c := p.NewCounter(Opts{Name: "c_total"})
	const rounds = 10000
	parallel(t, 8, func(int) {
		for i := 0; i < rounds; i++ {
			c.Inc() // the first one of a P claims its stripe
			place := c.load()
			id := procPin()
			base := atomic.LoadPointer(&place.own[id])
			if base == nil {
				procUnpin()
				continue
			}
			before := *wordAt(base, place.at)
			c.Add(3)
			after := *wordAt(base, place.at)
			procUnpin()
			if after != before+3 {
				t.Errorf("P %d counted %d in its stripe, and not 3", id, after-before)
				return
			}
			if i%100 == 0 {
				runtime.Gosched()
			}
		}
	})
	verify(t, p)
}
