// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	spanWordsMax  = 41  // of attributes
	spanStringMax = 128 // bytes
)

// SpanKind is the role of a span in its trace.
type SpanKind uint8

// Kinds of spans, as OpenTelemetry has them.
const (
	SpanInternal SpanKind = iota
	SpanServer
	SpanClient
	SpanProducer
	SpanConsumer
)

// SpanStatus is the outcome of a span.
type SpanStatus uint8

// States of spans.
const (
	StatusUnset SpanStatus = iota
	StatusOK
	StatusError
)

// Types of attributes.
const (
	attrString = 1 + iota
	attrInt
	attrFloat
	attrBool
	attrMessage
)

// A SpanContext is the identity of a span, as passed between processes: https://www.w3.org/TR/trace-context/
type SpanContext struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte
	Remote  bool // it came from another process
}

// Valid reports whether both ids are set.
func (c SpanContext) Valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

const traceparentLength = 55

// ParseTraceparent parses the header traceparent. If the header is not valid, neither is the context.
func ParseTraceparent(header string) SpanContext {
	var c SpanContext
	if len(header) < traceparentLength || header[2] != '-' || header[35] != '-' || header[52] != '-' ||
		strings.ToLower(header[:traceparentLength]) != header[:traceparentLength] {
		return SpanContext{}
	}
	// A later version has the same parts, followed by nothing or by a dash.
	if len(header) > traceparentLength && (header[:2] == "00" || header[traceparentLength] != '-') {
		return SpanContext{}
	}
	var version, flags [1]byte
	ok := decodeHex(version[:], header[:2]) && version[0] != 0xff && decodeHex(c.TraceID[:], header[3:35]) &&
		decodeHex(c.SpanID[:], header[36:52]) && decodeHex(flags[:], header[53:55])
	if !ok || !c.Valid() {
		return SpanContext{}
	}
	c.Flags, c.Remote = flags[0], true
	return c
}

func decodeHex(to []byte, text string) bool {
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// Traceparent returns the header for a request to another process, or "" if the context is not valid.
func (c SpanContext) Traceparent() string {
	if !c.Valid() {
		return ""
	}
	return "00-" + hex.EncodeToString(c.TraceID[:]) + "-" + hex.EncodeToString(c.SpanID[:]) + "-" +
		hex.EncodeToString([]byte{c.Flags & 1}) // unknown flags must be sent as 0
}

type spanContextKey struct{}

// ContextWithSpanContext returns a context in which new spans are children of c, such as the traceparent of a request.
func ContextWithSpanContext(ctx context.Context, c SpanContext) context.Context {
	return context.WithValue(ctx, spanContextKey{}, c)
}

// SpanContextFromContext returns the context of the span in ctx, or one that is not valid.
func SpanContextFromContext(ctx context.Context) SpanContext {
	c, _ := ctx.Value(spanContextKey{}).(SpanContext)
	return c
}

// A Span is one operation of a trace. Only one goroutine may use it at a time. It stays in the memory of this process, where a
// collector that keeps its trace reads it. A nil *Span is valid and does nothing.
type Span struct {
	pub     *Publisher
	context SpanContext
	parent  [8]byte
	start   time.Time
	words   [1 + spanWordsMax]uint64 // the first one has kind, status and name
	used    int                      // words used by attributes
	dropped uint64
	cut     uint64
}

// StartSpan starts a span, as a child of that in ctx if there is one, and returns a context with it.
func (p *Publisher) StartSpan(ctx context.Context, name string, kind SpanKind) (context.Context, *Span) {
	parent := SpanContextFromContext(ctx)
	c := SpanContext{TraceID: parent.TraceID, Flags: parent.Flags}
	if !parent.Valid() {
		parent, c.Flags = SpanContext{}, 1
		binary.BigEndian.PutUint64(c.TraceID[:], nextID())
		binary.BigEndian.PutUint64(c.TraceID[8:], nextID())
	}
	binary.BigEndian.PutUint64(c.SpanID[:], nextID())
	ctx = ContextWithSpanContext(ctx, c)
	id, ok := p.stringID(name)
	if !ok {
		return ctx, nil // its children have a parent that is not published
	}
	s := &Span{pub: p, context: c, parent: parent.SpanID, start: time.Now()}
	s.words[0] = uint64(id) | uint64(kind&15)<<32 | uint64(c.Flags)<<40
	if parent.Remote {
		s.words[0] |= 1 << 48
	}
	return ctx, s
}

// StartSpan starts a span of the default publisher.
func StartSpan(ctx context.Context, name string, kind SpanKind) (context.Context, *Span) {
	return Default().StartSpan(ctx, name, kind)
}

// Context of the span.
func (s *Span) Context() SpanContext {
	if s == nil {
		return SpanContext{}
	}
	return s.context
}

// attribute adds an attribute of this type, and returns its words, or nil if there is no room.
func (s *Span) attribute(key string, of uint64, words int) []uint64 {
	if s == nil || s.pub == nil {
		return nil
	}
	var id uint32
	if of != attrMessage {
		var ok bool
		if id, ok = s.pub.stringID(key); !ok {
			s.dropped++
			return nil
		}
	}
	if s.used+1+words > spanWordsMax {
		s.dropped++
		return nil
	}
	at := s.words[1+s.used : 1+s.used+1+words]
	s.used += 1 + words
	s.words[0] += 1 << 56
	at[0] = uint64(id) | of<<32
	return at
}

// SetString sets an attribute. A value longer than 128 bytes is truncated.
func (s *Span) SetString(key, value string) { s.setString(key, attrString, value) }

func (s *Span) setString(key string, of uint64, value string) {
	long := len(value) > spanStringMax
	if long {
		n := spanStringMax
		for n > 0 && !utf8.RuneStart(value[n]) {
			n--
		}
		value = value[:n]
	}
	at := s.attribute(key, of, (len(value)+7)/8)
	if at == nil {
		return
	}
	at[0] |= uint64(len(value)) << 40
	if long {
		at[0] |= 1 << 48
		s.cut++
	}
	for i := range at[1:] {
		var word [8]byte
		copy(word[:], value[8*i:])
		at[1+i] = binary.LittleEndian.Uint64(word[:])
	}
}

func (s *Span) setWord(key string, of, value uint64) {
	if at := s.attribute(key, of, 1); at != nil {
		at[1] = value
	}
}

// SetInt sets an attribute.
func (s *Span) SetInt(key string, value int64) { s.setWord(key, attrInt, uint64(value)) }

// SetFloat sets an attribute.
func (s *Span) SetFloat(key string, value float64) {
	s.setWord(key, attrFloat, math.Float64bits(value))
}

// SetBool sets an attribute.
func (s *Span) SetBool(key string, value bool) {
	var word uint64
	if value {
		word = 1
	}
	s.setWord(key, attrBool, word)
}

// SetStatus sets the outcome, with a message unless it is empty.
func (s *Span) SetStatus(status SpanStatus, message string) {
	if s == nil {
		return
	}
	s.words[0] = s.words[0]&^(15<<36) | uint64(status&15)<<36
	if message != "" {
		s.setString("", attrMessage, message)
	}
}

// End ends and publishes the span. A second call does nothing.
func (s *Span) End() {
	if s == nil || s.pub == nil {
		return
	}
	p := s.pub
	s.pub = nil
	p.spanRegion.writeSpan(s, time.Since(s.start))
}

// ---- ids ----

var (
	idState uint64
	idOnce  sync.Once
)

// nextID returns unique numbers, which are not secret: splitmix64, from a random start.
func nextID() uint64 {
	idOnce.Do(func() {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			binary.LittleEndian.PutUint64(b[:], uint64(time.Now().UnixNano()))
		}
		atomic.StoreUint64(&idState, binary.LittleEndian.Uint64(b[:]))
	})
	for {
		x := atomic.AddUint64(&idState, 0x9e3779b97f4a7c15)
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		if x ^= x >> 31; x != 0 {
			return x
		}
	}
}

// stringID returns the number of the record of a name or key, and creates it if necessary.
func (p *Publisher) stringID(text string) (uint32, bool) {
	if p == nil {
		return 0, false
	}
	p.stringsMu.RLock()
	id, ok := p.strings[text]
	p.stringsMu.RUnlock()
	if ok {
		return id, true
	}
	s := &shape{kind: kindString, name: cut(text, nameMax)}
	if s.name == "" {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.spanRegion
	if p.closed || r.spans == nil {
		return 0, false
	}
	p.stringsMu.Lock()
	defer p.stringsMu.Unlock()
	if id, ok = p.strings[text]; ok {
		return id, true
	}
	if !r.room(s) {
		r.refuse()
		return 0, false
	}
	e, err := r.add(s)
	if err != nil {
		r.refuse()
		return 0, false
	}
	r.setCreated(e, uint64(time.Now().UnixNano()))
	r.publish(stateLive)
	p.strings[text] = e.id
	return e.id, true
}
