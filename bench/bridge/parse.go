// SPDX-License-Identifier: Apache-2.0

// parse FILE ROUNDS - nanoseconds of CPU time per series that Prometheus' text parser (expfmt, of
// Debian's golang-github-prometheus-common-dev) takes: the median of the rounds, in one thread.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"syscall"

	"github.com/prometheus/common/expfmt"
)

func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func main() {
	runtime.GOMAXPROCS(1)
	body, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	rounds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	var took []float64
	for i := 0; i < rounds; i++ {
		var parser expfmt.TextParser
		start := cpu()
		families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		n := 0
		for _, f := range families {
			n += len(f.Metric)
		}
		took = append(took, float64(cpu()-start)/float64(n))
	}
	sort.Float64s(took)
	fmt.Println(took[len(took)/2])
}
