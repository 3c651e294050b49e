// SPDX-License-Identifier: Apache-2.0

// Go measures updates of the package sidelight and of client_golang in turns, and prints one line of JSON: for each name
// the nanoseconds of an update, ours and theirs, medians of the turns. A name is missing if it could not be measured.
package main

import (
	"encoding/json"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidelight"
)

// cpu is the CPU time of this process in nanoseconds: what other processes do on a busy machine is not in it.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// alone runs f in one goroutine, and returns the nanoseconds of CPU time of an update.
func alone(f func(n int)) float64 {
	const n = 1e6
	runtime.GOMAXPROCS(1)
	begun := cpu()
	f(n)
	return float64(cpu()-begun) / n
}

// chunk is how many updates are timed together: short, so that most are not interrupted, on a busy machine either.
const chunk = 1000

type span struct{ begun, ended time.Duration }

// together runs f in two goroutines on two CPUs, and returns the median of the nanoseconds that an update of one took while
// the other updated as well: of the chunks that began and ended within 100 us while a chunk of the other did. 0: they did
// not run at the same time.
func together(f func(n int)) float64 {
	const chunks, whole = 3000, 100 * time.Microsecond
	runtime.GOMAXPROCS(2)
	var ran [2][]span
	var all sync.WaitGroup
	origin := time.Now()
	for g := range ran {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for i := 0; i < chunks; i++ {
				begun := time.Since(origin)
				f(chunk)
				ran[g] = append(ran[g], span{begun, time.Since(origin)})
			}
		}(g)
	}
	all.Wait()
	var took []float64
	other := 0
	for _, s := range ran[0] {
		for other < len(ran[1])-1 && ran[1][other].ended < s.ended {
			other++
		}
		o := ran[1][other]
		if o.begun < s.ended && o.ended >= s.ended && s.ended-s.begun < whole && o.ended-o.begun < whole {
			took = append(took, float64(s.ended-s.begun)/chunk)
		}
	}
	if len(took) < 50 {
		return 0
	}
	return median(took)
}

func median(v []float64) float64 {
	sort.Float64s(v)
	return v[len(v)/2]
}

func main() {
	turns, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	bounds := prometheus.DefBuckets
	ours := sidelight.NewCounterVec(sidelight.Opts{Name: "bench_total", Help: "Counted."}, "method").With("GET")
	oursObserved := sidelight.NewHistogram(sidelight.HistogramOpts{Opts: sidelight.Opts{Name: "bench_seconds"}, Buckets: bounds})
	theirsVec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bench_total", Help: "Counted."}, []string{"method"})
	theirs := theirsVec.WithLabelValues("GET")
	theirsObserved := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bench_seconds", Buckets: bounds})
	prometheus.MustRegister(theirsVec, theirsObserved)
	var counted, observed int64 // by both goroutines
	incOurs := func(n int) {
		atomic.AddInt64(&counted, int64(n))
		for i := 0; i < n; i++ {
			ours.Inc()
		}
	}
	incTheirs := func(n int) {
		for i := 0; i < n; i++ {
			theirs.Inc()
		}
	}
	cells := new([8]uint64)
	floor := func(n int) {
		for i := 0; i < n; i++ {
			cells[0]++
			cells[7] += 0x9e3779b97f4a7c15
		}
	}
	steps := []struct {
		name         string
		measure      func(func(int)) float64
		ours, theirs func(int)
	}{
		{"floor", alone, floor, floor},
		{"inc", alone, incOurs, incTheirs},
		{"inc.parallel", together, incOurs, incTheirs},
		{"observe", alone, func(n int) {
			observed += int64(n)
			for i := 0; i < n; i++ {
				oursObserved.Observe(float64(i%100) / 100)
			}
		}, func(n int) {
			for i := 0; i < n; i++ {
				theirsObserved.Observe(float64(i%100) / 100)
			}
		}},
	}
	out := map[string][2]float64{}
	for _, s := range steps {
		var mine, other []float64
		for i := 0; i < 20*turns && (len(mine) < turns || len(other) < turns); i++ {
			if v := s.measure(s.ours); v > 0 {
				mine = append(mine, v)
			}
			if v := s.measure(s.theirs); v > 0 {
				other = append(other, v)
			}
		}
		if len(mine) > 0 && len(other) > 0 {
			out[s.name] = [2]float64{median(mine), median(other)}
		}
	}
	if ours.Value() != uint64(counted) || oursObserved.Count() != uint64(observed) {
		panic("what was counted is not what was measured")
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}
