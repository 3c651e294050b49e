// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
)

const (
	cellsFirst    = 4096
	regionsMax    = 64 // of a connection
	regionsUsual  = 16
	defaultSocket = "/run/sidelight/agent.sock"
)

// Labels are the names and values of labels.
type Labels map[string]string

func (l Labels) list() []label {
	out := make([]label, 0, len(l))
	for k, v := range l {
		out = append(out, label{k, v})
	}
	return out
}

// Options are the options of a Publisher. The zero value is a good choice.
type Options struct {
	// Service, Pod and Namespace are labels of all series. They default to $SIDELIGHT_SERVICE, $OTEL_SERVICE_NAME or the
	// name of the program; to $POD_NAME, the container that the process runs in, or SERVICE-PID; and to
	// $POD_NAMESPACE.
	Service, Pod, Namespace string
	// Labels are further labels of all series. They cannot replace what the agent attests.
	Labels Labels
	// Socket is the path of the agent's socket; default $SIDELIGHT_SOCKET, or /run/sidelight/agent.sock.
	Socket string
	// Cells is the number of cells in the first region; a counter takes one cell, a histogram three and one per bucket.
	// Default 4096. When a region is full, the publisher creates another one, with twice as many cells.
	Cells int
	// MaxRegions is the maximum number of regions; default 16, at most 64. Metrics that do not fit then are refused.
	MaxRegions int
	// SpanLines is the room for spans of each processor, in lines of 64 bytes: a power of two from 512 on. A span takes two
	// lines or more. By default, no spans are published. If the region would be larger than agents accept, there is less room.
	SpanLines int
	// ErrorLog receives a line when the first metric is refused, and when the agent refuses a region. By default, none is
	// written.
	ErrorLog *log.Logger
}

// fill sets the defaults of options that are not set.
func (o *Options) fill() error {
	env := func(value string, names ...string) string {
		for _, name := range names {
			if value == "" {
				value = cut(os.Getenv(name), valueMax)
			}
		}
		return value
	}
	o.Service = env(o.Service, "SIDELIGHT_SERVICE", "OTEL_SERVICE_NAME")
	if o.Service == "" {
		o.Service = cut(filepath.Base(os.Args[0]), valueMax)
	}
	o.Pod = env(o.Pod, "POD_NAME")
	if o.Pod == "" {
		o.Pod = containerID()
	}
	if o.Pod == "" && (os.Getpid() == 1 || os.Getenv("KUBERNETES_SERVICE_HOST") != "") {
		// The container's id is hidden. In Kubernetes, the host name is the pod's name, whereas replicas have equal PIDs.
		host, _ := os.Hostname()
		o.Pod = cut(host, valueMax)
	}
	if o.Pod == "" {
		o.Pod = fmt.Sprintf("%s-%d", cut(o.Service, 200), os.Getpid())
	}
	o.Namespace = env(o.Namespace, "POD_NAMESPACE")
	for _, path := range []string{os.Getenv("SIDELIGHT_SOCKET"), defaultSocket} {
		if o.Socket == "" {
			o.Socket = path
		}
	}
	if o.Cells <= 0 {
		o.Cells = cellsFirst
	}
	if o.MaxRegions <= 0 {
		o.MaxRegions = regionsUsual
	}
	if o.MaxRegions > regionsMax {
		o.MaxRegions = regionsMax
	}
	if n := o.SpanLines; n != 0 && (n < spanLinesMin || n > spanLinesMax || n&(n-1) != 0) {
		return fmt.Errorf("%d lines of spans: not a power of two from %d to %d", n, spanLinesMin, spanLinesMax)
	}
	return nil
}
