// SPDX-License-Identifier: Apache-2.0

// Kit_writer is the package as a writer that tests/conformance/kit.py examines.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"sidelight"
)

func main() {
	p, err := sidelight.Open(sidelight.Options{Service: "kit", Cells: 700, ErrorLog: log.Default()})
	if err != nil {
		log.Fatal(err)
	}
	var (
		requests    *sidelight.Counter
		seconds     *sidelight.FloatCounter
		temperature *sidelight.Gauge
		latency     *sidelight.Histogram
		size        *sidelight.Summary
		state       *sidelight.StateSet
		removable   = p.NewCounterVec(sidelight.Opts{Name: "kit_removable_total", Help: "Comes and goes."}, "of")
	)
	create := func() {
		requests = p.NewCounterVec(sidelight.Opts{Name: "kit_requests_total", Help: "Requests."}, "method", "code").With("get", "200")
		seconds = p.NewFloatCounter(sidelight.Opts{Name: "kit_seconds_total", Unit: "seconds"})
		temperature = p.NewGauge(sidelight.Opts{Name: "kit_temperature"})
		latency = p.NewHistogram(sidelight.HistogramOpts{Opts: sidelight.Opts{Name: "kit_latency_seconds"}, Buckets: []float64{0.1, 1, 10}})
		size = p.NewSummary(sidelight.Opts{Name: "kit_size_bytes"})
		state = p.NewStateSet(sidelight.Opts{Name: "kit_state"}, "up", "down")
		p.NewInfo(sidelight.Opts{Name: "kit_build_info"}).Set(sidelight.Labels{"version": `1.2 "ä"`})
	}
	count := func(rounds int) {
		for i := 1; i <= rounds; i++ {
			requests.Inc()
			seconds.Add(0.5)
			temperature.Set(float64(i) * 0.25)
			latency.Observe([]float64{0.05, 0.5, 5, 50}[(i-1)%4])
			size.Observe(2)
			state.SetOnly([]string{"up", "down"}[i%2])
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		switch words[0] {
		case "make":
			create()
			fmt.Println("ok counter counter_f64 gauge_f64 histogram info stateset summary")
			continue
		case "count":
			n, _ := strconv.Atoi(words[1])
			count(n)
		case "traced":
			p.NewCounter(sidelight.Opts{Name: "kit_traced_total"}).AddWithExemplar(1, sidelight.Labels{words[1]: words[2]})
		case "named":
			p.NewCounterVec(sidelight.Opts{Name: "kit.größe"}, words[1]).With(words[2]).Inc()
		case "labels":
			removable.With(words[1]).Inc()
		case "remove":
			removable.Remove(words[1])
		}
		fmt.Println("ok")
	}
	p.Close()
}
