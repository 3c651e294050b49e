// SPDX-License-Identifier: Apache-2.0

// Go measures updates of the package sidelight and of client_golang in turns, and prints one line of JSON: for each name
// the nanoseconds of CPU time of an update, ours and theirs, medians of the turns.
package main

import (
	"encoding/json"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"syscall"

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

// measure runs f(n) in each of some goroutines, and returns the nanoseconds of CPU time of one of the n.
func measure(goroutines, n int, f func(n int)) float64 {
	runtime.GOMAXPROCS(goroutines)
	var all sync.WaitGroup
	begun := cpu()
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			f(n)
		}()
	}
	all.Wait()
	return float64(cpu()-begun) / float64(n*goroutines)
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
	incOurs := func(n int) {
		for i := 0; i < n; i++ {
			ours.Inc()
		}
	}
	incTheirs := func(n int) {
		for i := 0; i < n; i++ {
			theirs.Inc()
		}
	}
	steps := []struct {
		name          string
		goroutines, n int
		ours, theirs  func(int)
	}{
		{"inc", 1, 5e6, incOurs, incTheirs},
		{"inc.parallel", 2, 5e6, incOurs, incTheirs},
		{"observe", 1, 2e6, func(n int) {
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
	var incs, observations uint64
	for _, s := range steps {
		var mine, other []float64
		for i := 0; i < turns; i++ {
			mine = append(mine, measure(s.goroutines, s.n, s.ours))
			other = append(other, measure(s.goroutines, s.n, s.theirs))
		}
		out[s.name] = [2]float64{median(mine), median(other)}
		if s.name == "observe" {
			observations += uint64(turns * s.n)
		} else {
			incs += uint64(turns * s.n * s.goroutines)
		}
	}
	if ours.Value() != incs || oursObserved.Count() != observations {
		panic("what was counted is not what was measured")
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}
