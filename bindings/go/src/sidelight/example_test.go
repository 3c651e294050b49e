// SPDX-License-Identifier: Apache-2.0

package sidelight_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"sidelight"
)

func ExampleOpen() {
	p, err := sidelight.Open(sidelight.Options{Service: "shop", Labels: sidelight.Labels{"zone": "b"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	jobs := p.NewGauge(sidelight.Opts{Name: "shop_jobs", Help: "Jobs that wait.", Combine: sidelight.Sum})
	jobs.Set(7)
	fmt.Println(jobs.Value())
	// Output: 7
}

func ExampleNewGaugeFunc() {
	sidelight.NewGaugeFunc(sidelight.Opts{Name: "shop_goroutines", Help: "Goroutines."}, func() float64 {
		return float64(runtime.NumGoroutine())
	})
}

func ExampleCounterVec() {
	requests := sidelight.NewCounterVec(sidelight.Opts{Name: "http_requests_total", Help: "Requests answered."}, "route", "code")
	answered := requests.With("/cart", "200") // keep it: Inc alone is several times faster
	for i := 0; i < 3; i++ {
		answered.Inc()
	}
	fmt.Println(requests.With("/cart", "200").Value())
	requests.Remove("/cart", "200")
	// Output: 3
}

func ExampleHistogram() {
	seconds := sidelight.NewHistogram(sidelight.HistogramOpts{
		Opts: sidelight.Opts{Name: "http_request_seconds", Help: "Time to answer.", Unit: "seconds"},
	})
	begun := time.Now()
	seconds.Observe(time.Since(begun).Seconds())
	fmt.Println(seconds.Count())
	// Output: 1
}

func ExamplePublisher_StartSpan() {
	p, err := sidelight.Open(sidelight.Options{Service: "shop", SpanLines: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	http.HandleFunc("/cart", func(w http.ResponseWriter, r *http.Request) {
		ctx := sidelight.ContextWithSpanContext(r.Context(), sidelight.ParseTraceparent(r.Header.Get("traceparent")))
		ctx, span := p.StartSpan(ctx, "GET /cart", sidelight.SpanServer)
		defer span.End()
		span.SetInt("cart.items", 3)
		lookUp(ctx)
	})
}

func lookUp(context.Context) {}
