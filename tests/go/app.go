// SPDX-License-Identifier: Apache-2.0

// App is a service that does on each line of stdin what it says, and answers by one line. Half of its metrics are those of
// the package sidelight, half are in a registry of client_golang that it mirrors.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"sidelight"
	"sidelight/mirror"
)

var (
	publisher *sidelight.Publisher
	requests  *sidelight.CounterVec
	bytes     *sidelight.FloatCounter
	queue     *sidelight.Gauge
	latest    *sidelight.Gauge
	seconds   *sidelight.Histogram
	sizes     *sidelight.Histogram
	summary   *sidelight.Summary
	state     *sidelight.StateSet
)

func count(n int) {
	for i := 0; i < n; i++ {
		requests.With("/"+strconv.Itoa(i%3), "200").Inc()
		bytes.Add(0.5)
		seconds.Observe(float64(i % 3))
		sizes.Observe(float64(i%3) * 100)
		summary.Observe(2)
	}
	queue.Set(7)
	latest.Set(float64(os.Getpid()))
	state.SetOnly("running")
}

func goroutines(n int) {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			count(n)
		}()
	}
	all.Wait()
}

// full has no room for most of its metrics.
func full() uint64 {
	p, err := sidelight.Open(sidelight.Options{Service: "small", Cells: 60, MaxRegions: 1})
	if err != nil {
		log.Fatal(err)
	}
	vec := p.NewCounterVec(sidelight.Opts{Name: "small_total"}, "n")
	for i := 0; i < 1000; i++ {
		vec.With(strconv.Itoa(i)).Inc()
	}
	return p.Refused()
}

// more fills the first region, and goes on in further ones.
func more() uint64 {
	vec := publisher.NewCounterVec(sidelight.Opts{Name: "app_more_total"}, "n")
	for i := 0; i < 20000; i++ {
		vec.With(strconv.Itoa(i)).Inc()
	}
	return publisher.Refused()
}

// forge claims labels of identity, which are the agent's word.
func forge() {
	p, err := sidelight.Open(sidelight.Options{Service: "forger", Labels: sidelight.Labels{"process": "1"}})
	if err != nil {
		log.Fatal(err)
	}
	p.NewCounter(sidelight.Opts{Name: "forged_total"}).Inc()
}

func trace() string {
	ctx, root := publisher.StartSpan(context.Background(), "GET /cart", sidelight.SpanServer)
	root.SetInt("cart.items", 3)
	root.SetString("user", "ä"+strings.Repeat("u", 200))
	_, child := publisher.StartSpan(ctx, "look up", sidelight.SpanClient)
	child.SetFloat("ratio", 0.5)
	child.SetBool("cached", true)
	time.Sleep(20 * time.Millisecond)
	child.SetStatus(sidelight.StatusError, "no such item")
	child.End()
	root.SetStatus(sidelight.StatusError, "")
	root.End()
	return root.Context().Traceparent()
}

// A registry with a metric of each type, and the metrics of Go itself.
var (
	registry  = prometheus.NewRegistry()
	pCounter  = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "p_requests_total", Help: "Two lines,\nand a \"quote\"."}, []string{"route"})
	pGauge    = prometheus.NewGauge(prometheus.GaugeOpts{Name: "p_queue", Help: "Jobs."})
	pSummary  = prometheus.NewSummary(prometheus.SummaryOpts{Name: "p_sizes", Help: "Bytes.", Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01}})
	pClassic  = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "p_seconds", Help: "Time.", Buckets: []float64{0.1, 1, 10}})
	pNative   = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "p_native", Help: "Size.", NativeHistogramBucketFactor: 1.1})
	pUntyped  = prometheus.NewUntypedFunc(prometheus.UntypedOpts{Name: "p_untyped", Help: "Something."}, func() float64 { return 42 })
	pFloating = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "p_special"}, []string{"v"})
)

func observe(n int) {
	for i := 0; i < n; i++ {
		pCounter.WithLabelValues("/" + strconv.Itoa(i%3)).Inc()
		pSummary.Observe(float64(i % 10))
		pClassic.Observe(float64(i % 3))
		pNative.Observe(float64(i % 30))
	}
	pCounter.WithLabelValues("/0").(prometheus.ExemplarAdder).AddWithExemplar(1, prometheus.Labels{"trace_id": "0af7"})
	pGauge.Set(3.25)
	pFloating.WithLabelValues("inf").Set(math.Inf(1))
	pFloating.WithLabelValues("é\\\"\n").Set(-0.1)
}

// show returns what client_golang itself exposes, in one line.
func show() string {
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			log.Fatal(err)
		}
	}
	text, err := json.Marshal(b.String())
	if err != nil {
		log.Fatal(err)
	}
	return string(text)
}

func answer(words []string) any {
	switch words[0] {
	case "count":
		count(3000)
	case "goroutines":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			log.Fatal(err)
		}
		goroutines(n)
	case "full":
		return full()
	case "more":
		return more()
	case "forge":
		forge()
	case "trace":
		return trace()
	case "remove":
		return requests.Remove("/2", "200")
	case "exemplar":
		requests.With("/0", "200").AddWithExemplar(1, sidelight.Labels{"trace_id": "beef"})
		seconds.ObserveWithExemplar(0.5, sidelight.Labels{"trace_id": "cafe"})
	case "attached":
		return publisher.Attached()
	case "alarmed":
		return publisher.Alarmed()
	case "refused":
		return publisher.Refused()
	case "observe":
		observe(300)
	case "delete":
		return pCounter.DeleteLabelValues("/2")
	case "show":
		return show()
	case "exec":
		// The image is another one in the same process. Its input begins after this line.
		fmt.Println("done")
		log.Fatal(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	default:
		log.Fatalf("no such command: %q", words)
	}
	return "done"
}

func main() {
	runtime.GOMAXPROCS(4)
	var err error
	publisher, err = sidelight.Open(sidelight.Options{SpanLines: 4096, ErrorLog: log.Default()})
	if err != nil {
		log.Fatal(err)
	}
	o := func(name, help string) sidelight.Opts { return sidelight.Opts{Name: name, Help: help} }
	requests = publisher.NewCounterVec(o("app_requests_total", "Two lines,\nand a \"quote\"."), "route", "code")
	bytes = publisher.NewFloatCounter(o("app_bytes_total", "Bytes."))
	queue = publisher.NewGauge(sidelight.Opts{Name: "app_queue", Help: "Jobs.", Combine: sidelight.Sum})
	latest = publisher.NewGauge(sidelight.Opts{Name: "app_latest", Help: "Set last.", Combine: sidelight.MostRecent})
	seconds = publisher.NewHistogram(sidelight.HistogramOpts{Opts: o("app_seconds", "Time."), Buckets: []float64{0.1, 1, 10}})
	sizes = publisher.NewHistogram(sidelight.HistogramOpts{Opts: o("app_sizes", "Sizes.")})
	summary = publisher.NewSummary(o("app_summary", "Bytes."))
	state = publisher.NewStateSet(o("app_state", "Of work."), "starting", "running")
	publisher.NewInfo(o("app_build_info", "What it is.")).Set(sidelight.Labels{"version": "1.2"})

	registry.MustRegister(pCounter, pGauge, pSummary, pClassic, pNative, pUntyped, pFloating, collectors.NewGoCollector())
	stop := mirror.Start(registry, mirror.Options{Publisher: publisher, Interval: 100 * time.Millisecond, ErrorLog: log.Default()})

	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(answer(strings.Fields(in.Text())))
	}
	stop()
	if err := publisher.Close(); err != nil {
		log.Fatal(err)
	}
}
