// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	cellsMost     = 65536
	schemaPerCell = 128
	regionUsual   = 8 << 20 // bytes; an agent takes no more than 16 MiB, unless it is told otherwise
	exemplarsMost = 1024
)

// A Publisher has the memory of metrics, and offers it to the agent of this host as soon as there is one. All
// its methods, and those of its metrics, may be called by any goroutine. They never wait for an agent or a reader.
//
// A nil *Publisher is valid: its metrics are not published.
type Publisher struct {
	options Options
	labels  string
	attach  *attachment
	refused atomic.Uint64
	logged  atomic.Bool

	stringsMu sync.RWMutex // taken after mu
	strings   map[string]uint32

	mu      sync.Mutex
	regions []*region
	records map[string]*record
	vacant  map[form][]vacated // removed records, in the order of their removal
	quiet   time.Time          // when quiesce() was called last
	closed  bool
	sampled []func()

	spanRegion *region // the first one
}

// Open creates a publisher. It fails if the options are invalid or there is no memory. It does not need a running agent.
func Open(options Options) (*Publisher, error) {
	if err := options.fill(); err != nil {
		return nil, fmt.Errorf("sidelight: %w", err)
	}
	labels := []label{{"service", options.Service}, {"pod", options.Pod}}
	if options.Namespace != "" {
		labels = append(labels, label{"namespace", options.Namespace})
	}
	encoded, err := encodeLabels(append(labels, options.Labels.list()...), false, false)
	if err == nil && len(encoded) > headerLabelsMax {
		err = fmt.Errorf("labels are longer than %d bytes", headerLabelsMax)
	}
	if err != nil {
		return nil, fmt.Errorf("sidelight: %w", err)
	}
	p := &Publisher{options: options, labels: encoded, records: map[string]*record{}, vacant: map[form][]vacated{},
		strings: map[string]uint32{}}
	p.attach = newAttachment(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spanRegion, err = p.newRegion(0, 0); err != nil {
		return nil, fmt.Errorf("sidelight: %w", err)
	}
	go p.attach.run()
	return p, nil
}

var (
	defaultOnce      sync.Once
	defaultPublisher *Publisher
)

// Default returns the publisher that this package's functions use. The first use opens it with default options. If that
// fails, it is nil, and its metrics are not published.
func Default() *Publisher {
	defaultOnce.Do(func() {
		p, err := Open(Options{})
		if err == nil {
			defaultPublisher = p
		}
	})
	return defaultPublisher
}

// newRegion creates a region with room for at least one metric of this size.
func (p *Publisher) newRegion(cells, schema uint32) (*region, error) {
	o := regionOptions{labels: p.labels, stripesMax: stripesWanted(), exemplars: exemplarsMost}
	stripes := uint32(o.stripesMax + 1)
	grown := uint32(p.options.Cells)
	for i := 0; i < len(p.regions) && grown < cellsMost; i++ {
		grown *= 2
	}
	if most := regionUsual / (stripes*lineSize/lineCells + schemaPerCell); len(p.regions) > 0 && grown > most {
		grown = most
	}
	if len(p.regions) == 0 {
		o.spanLines = uint32(p.options.SpanLines)
		for o.spanLines > spanLinesMin && uint64(stripes)*88*uint64(o.spanLines) > regionUsual {
			o.spanLines /= 2
		}
	}
	o.cells, o.schema = grown, grown*schemaPerCell
	if o.cells < cells {
		o.cells = cells
	}
	if o.schema < schema {
		o.schema = schema
	}
	o.schema = uint32(roundUp(uint64(o.schema), pageSize))
	r, err := newRegion(o)
	if err != nil {
		return nil, err
	}
	p.regions = append(p.regions, r)
	p.attach.offer(r)
	return r, nil
}

func (p *Publisher) refuse(name string, why error) {
	p.refused.Add(1)
	p.mu.Lock()
	if len(p.regions) > 0 {
		p.regions[0].refuse()
	}
	p.mu.Unlock()
	if !p.logged.Swap(true) {
		p.logf("a metric is not published; further refusals are only counted metric=%q reason=%q", name, why.Error())
	}
}

func (p *Publisher) logf(format string, args ...any) {
	if p.options.ErrorLog != nil {
		p.options.ErrorLog.Printf("sidelight: "+format, args...)
	}
}

// Refused returns the number of metrics that were not published: a name or label was invalid or already in use, or there was no
// room.
func (p *Publisher) Refused() uint64 {
	if p == nil {
		return 0
	}
	return p.refused.Load()
}

// Attached reports whether an agent has admitted the memory.
func (p *Publisher) Attached() bool { return p != nil && p.attach.attached.Load() }

// Alarmed reports whether a collector finds this process anomalous, so that it can log more.
func (p *Publisher) Alarmed() bool { return p != nil && p.attach.alarmed() }

// Close tells the agent that the publisher ends, and frees its memory. Its metrics are no longer published. If a process exits
// without Close, the agent detects it.
func (p *Publisher) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for _, e := range p.records {
		if e.metric != nil {
			e.metric.put(nil)
		}
	}
	for _, r := range p.regions {
		r.publish(stateClosed)
		r.closed.Store(true)
	}
	if p.spanRegion.spans != nil {
		p.spanRegion.spans.close()
	}
	quiesce()
	p.mu.Unlock()
	p.attach.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.regions {
		r.free()
	}
	p.records, p.vacant = nil, nil
	return nil
}
