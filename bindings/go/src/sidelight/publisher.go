// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	cellsFirst    = 4096
	cellsMost     = 65536
	schemaPerCell = 128
	regionUsual   = 8 << 20 // bytes; an agent takes no more than 16 MiB, unless it is told otherwise
	regionsMax    = 64      // of a connection
	regionsUsual  = 16
	exemplarsMost = 1024
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

// Options say how a Publisher publishes. The zero value is a good choice.
type Options struct {
	// Service, Pod and Namespace are labels of all series. They default to $SIDELIGHT_SERVICE, $OTEL_SERVICE_NAME or the
	// name of the program; to $POD_NAME or the host's name; and to $POD_NAMESPACE.
	Service, Pod, Namespace string
	// Labels are further labels of all series. What the agent attests of a process, it says itself, whatever is here.
	Labels Labels
	// Socket is that of the agent; default $SIDELIGHT_SOCKET, or /run/sidelight/agent.sock.
	Socket string
	// Cells is the room of the first region; a counter takes one cell, a histogram one per bucket and three more. Default
	// 4096. When a region is full, the publisher makes a further one, of twice the room.
	Cells int
	// MaxRegions bounds the regions; default 16, at most 64. What has no room then is refused.
	MaxRegions int
	// SpanLines is the room for spans of each processor, in lines of 64 bytes: a power of two from 512 on. A span takes two
	// lines or more. Default: no spans are kept. Less is taken where the region became larger than an agent allows.
	SpanLines int
	// ErrorLog gets a line when the first metric is refused, or the agent refuses a region. Default: none is written.
	ErrorLog *log.Logger
}

// A Publisher has memory in which metrics count, and offers it to the agent of the machine, now or when there is one. All
// its methods, and those of its metrics, may be called by any goroutine. They never wait for an agent or a reader.
//
// A nil *Publisher is valid: its metrics count nowhere.
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

// Open makes a publisher. It fails if the options are wrong, or if there is no memory; not for want of an agent.
func Open(options Options) (*Publisher, error) {
	env := func(value string, names ...string) string {
		for _, name := range names {
			if value == "" {
				value = cut(os.Getenv(name), valueMax)
			}
		}
		return value
	}
	o := &options
	o.Service = env(o.Service, "SIDELIGHT_SERVICE", "OTEL_SERVICE_NAME")
	if o.Service == "" {
		o.Service = cut(filepath.Base(os.Args[0]), valueMax)
	}
	o.Pod = env(o.Pod, "POD_NAME")
	if o.Pod == "" {
		host, _ := os.Hostname()
		o.Pod = cut(host, valueMax)
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
		return nil, fmt.Errorf("sidelight: %d lines of spans: not a power of two from %d to %d", n, spanLinesMin, spanLinesMax)
	}
	labels := []label{{"service", o.Service}, {"pod", o.Pod}}
	if o.Namespace != "" {
		labels = append(labels, label{"namespace", o.Namespace})
	}
	encoded, err := encodeLabels(append(labels, o.Labels.list()...), false, false)
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

// Default is the publisher of the functions of this package, which its first use opens with default options. If that
// fails, it is nil, and its metrics count nowhere.
func Default() *Publisher {
	defaultOnce.Do(func() {
		p, err := Open(Options{})
		if err == nil {
			defaultPublisher = p
		}
	})
	return defaultPublisher
}

// newRegion makes a region with room for at least one metric of this size.
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

// replaceAfter is how long a removed record stays as it is; tests do not wait that long.
var replaceAfter = 11 * time.Second

var (
	errFull   = errors.New("all regions are full")
	errClosed = errors.New("the publisher is closed")
	errOther  = errors.New("another metric has this name and these labels")
)

// metric finds or makes the metric of a shape, as fresh() makes it, and moves it to its place. A metric that is refused
// counts nowhere.
func (p *Publisher) metric(s *shape, fresh func() placed) placed {
	m, err := p.find(s, fresh)
	if err != nil {
		p.refuse(s.name, err)
		m = fresh()
		m.put(nil)
	}
	return m
}

func (p *Publisher) find(s *shape, fresh func() placed) (placed, error) {
	if p == nil {
		m := fresh()
		m.put(nil)
		return m, nil
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	old := p.records[s.key()]
	if old != nil && old.removed.IsZero() {
		if !old.shape.equal(s) {
			return nil, errOther
		}
		return old.metric, nil
	}
	e, err := p.record(s, old)
	if err != nil {
		return nil, err
	}
	e.metric = fresh()
	p.show(e)
	return e.metric, nil
}

// show publishes a record whose values are 0, and lets its metric count in it.
func (p *Publisher) show(e *record) {
	e.region.setCreated(e, uint64(time.Now().UnixNano()))
	e.region.publish(stateLive)
	p.records[e.shape.key()] = e
	if e.metric != nil {
		e.metric.put(e.place(p))
	}
}

// record takes a place for a shape: that of old, which had the same name and labels, of any other removed record, or a new
// one. Its values are 0.
func (p *Publisher) record(s *shape, old *record) (*record, error) {
	switch {
	case old != nil && old.shape.same(s):
		if p.take(old) {
			return old, nil
		}
	case s.kind&replaceable == 0:
		if old != nil {
			return nil, errOther
		}
	default:
		if e := p.vacancy(s); e != nil {
			if p.records[e.shape.key()] == e {
				delete(p.records, e.shape.key())
			}
			e.shape = s
			e.region.write(e)
			return e, nil
		}
	}
	for _, r := range p.regions {
		if r.room(s) {
			return r.add(s)
		}
	}
	if len(p.regions) >= p.options.MaxRegions {
		return nil, errFull
	}
	r, err := p.newRegion(s.cells+blockLines*lineCells, s.length())
	if err != nil {
		return nil, err
	}
	return r.add(s)
}

// A form is what two records have in common of which one may replace the other.
type form struct {
	kind                  kind
	cells, bounds, length uint32
}

func (s *shape) form() form { return form{s.kind, s.cells, uint32(len(s.bounds)), s.length()} }

type vacated struct {
	record *record
	when   time.Time // if another than the record's, it was taken since
}

// vacancy takes the record of this form that was removed first, if that is long enough ago.
func (p *Publisher) vacancy(s *shape) *record {
	f := s.form()
	for queue := p.vacant[f]; len(queue) > 0; queue = p.vacant[f] {
		first := queue[0]
		current := first.record.removed == first.when
		if current && time.Since(first.when) < replaceAfter {
			return nil
		}
		p.vacant[f] = queue[1:]
		if current && p.take(first.record) {
			return first.record
		}
	}
	return nil
}

// take brings a removed record to 0. False: its values cannot be brought to 0.
func (p *Publisher) take(e *record) bool {
	if !e.removed.Before(p.quiet) {
		p.quiesce() // a goroutine may still be writing its cells
	}
	if !e.region.clear(e) {
		return false
	}
	e.removed = time.Time{}
	return true
}

func (p *Publisher) quiesce() {
	begun := time.Now()
	quiesce()
	p.quiet = begun
}

// end removes the metric of this name and labels. False: there is none.
func (p *Publisher) end(name, labels string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.records[name+"\x00"+labels]
	if p.closed || e == nil || !e.removed.IsZero() {
		return false
	}
	if e.metric != nil {
		e.metric.put(nil)
	}
	e.metric = nil
	e.region.setCreated(e, 0)
	e.region.publish(stateLive)
	e.region.forgetExemplars(e)
	e.removed = time.Now()
	if f := e.shape.form(); e.shape.kind&replaceable != 0 {
		p.vacant[f] = append(p.vacant[f], vacated{e, e.removed})
	}
	return true
}

func (p *Publisher) refuse(name string, why error) {
	p.refused.Add(1)
	p.mu.Lock()
	if len(p.regions) > 0 {
		p.regions[0].refuse()
	}
	p.mu.Unlock()
	if !p.logged.Swap(true) {
		p.logf("a metric is not published, and further ones are counted without a word metric=%q reason=%q", name, why.Error())
	}
}

func (p *Publisher) logf(format string, args ...any) {
	if p.options.ErrorLog != nil {
		p.options.ErrorLog.Printf("sidelight: "+format, args...)
	}
}

// Refused counts the metrics that were not published: their names or labels are wrong, others have them, or there was no
// room.
func (p *Publisher) Refused() uint64 {
	if p == nil {
		return 0
	}
	return p.refused.Load()
}

// Attached reports whether an agent has the memory.
func (p *Publisher) Attached() bool { return p != nil && p.attach.attached.Load() }

// Alarmed reports whether a collector finds this process anomalous: a reason to log more.
func (p *Publisher) Alarmed() bool { return p != nil && p.attach.alarmed() }

// Close tells the agent that the publisher ends, and gives the memory back. Its metrics count nowhere from now on. A
// process that ends without it is noticed all the same.
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

// encodedLabels of a record: constant ones, and those of a family.
func encodedLabels(constant Labels, names, values []string) (string, error) {
	list := constant.list()
	for i, name := range names {
		list = append(list, label{name, strings.ToValidUTF8(values[i], "\uFFFD")})
	}
	return encodeLabels(list, true, len(list) > 0)
}
