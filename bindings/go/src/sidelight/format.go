// SPDX-License-Identifier: Apache-2.0

package sidelight

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

// Encodes region format 1, minor version 1: see sidelight-region(5). This file must not use memory maps, processes or sockets.

const (
	headerSize = 4096
	pageSize   = 4096
	minor      = 1

	sectionHot       = 1
	sectionStripes   = 2
	sectionSchema    = 3
	sectionSpans     = 5
	sectionCreated   = 19
	sectionExemplars = 20

	nameMax         = 255
	helpMax         = 1023
	valueMax        = 1023
	labelsMax       = 32
	headerLabelsMax = 3576
	bucketsMax      = 4096
	statesMax       = 64
	quantilesMax    = 64
	bytesMax        = 65535
)

// Cells of the hot line.
const (
	hotGeneration = iota
	hotSchema
	hotLines
	hotStripes
	hotState
	hotChanged
	hotRefused
)

const (
	stateLive   = 1
	stateClosed = 3
)

type kind uint16

const (
	kindCounter      kind = 1
	kindFloatCounter kind = 2
	kindGauge        kind = 4
	kindHistogramExp kind = 5
	kindHistogram    kind = 6
	kindInfo         kind = 7
	kindStateSet     kind = 8
	kindSummary      kind = 9
	kindUnknown      kind = 10
	kindGaugeHist    kind = 11
	kindGaugeHistExp kind = 12
	kindTimedGauge   kind = 13
	kindString       kind = 16

	replaceable kind = 32 // added to one of the kinds above
)

const flagMirror = 16

var (
	legacyName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	legacyKey  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	unitRule   = regexp.MustCompile(`^[a-zA-Z0-9_:]*$`)
)

const fnvBasis = 0xcbf29ce484222325

func fnv1a(h uint64, data []byte) uint64 {
	for _, b := range data {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return h
}

func validText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// cut returns valid UTF-8 without NUL, with at most `most` bytes, cut between two characters.
func cut(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return s
}

type label struct{ key, value string }

// encodeLabels checks labels and encodes them. sorted: in the order of keys, as in a record. utf8Keys: keys may be any UTF-8.
func encodeLabels(labels []label, sorted, utf8Keys bool) (string, error) {
	if len(labels) > labelsMax {
		return "", fmt.Errorf("more than %d labels", labelsMax)
	}
	if sorted {
		labels = append([]label(nil), labels...)
		sort.Slice(labels, func(i, j int) bool { return labels[i].key < labels[j].key })
	}
	var b strings.Builder
	for i, l := range labels {
		if !validText(l.key, nameMax) || l.key == "" || strings.HasPrefix(l.key, "__") || !utf8Keys && !legacyKey.MatchString(l.key) {
			return "", fmt.Errorf("%q is not the name of a label", l.key)
		}
		if !validText(l.value, valueMax) {
			return "", fmt.Errorf("the value of the label %q is longer than %d bytes, has a NUL or is not UTF-8", l.key, valueMax)
		}
		for _, before := range labels[:i] {
			if before.key == l.key {
				return "", fmt.Errorf("the label %q comes twice", l.key)
			}
		}
		b.WriteString(l.key)
		b.WriteByte(0)
		b.WriteString(l.value)
		b.WriteByte(0)
	}
	if b.Len() > bytesMax {
		return "", fmt.Errorf("labels are longer than %d bytes", bytesMax)
	}
	return b.String(), nil
}

type section struct {
	kind, stride   uint32
	offset, length uint64
}

type header struct {
	size, instance, created, startTicks uint64
	pid                                 uint32
	bootID                              [16]byte
	sections                            []section
	labels                              string
}

func (h *header) encode(to []byte) {
	le := binary.LittleEndian
	copy(to, "SIDELGHT")
	le.PutUint16(to[8:], 1)
	le.PutUint16(to[10:], minor)
	le.PutUint32(to[12:], headerSize)
	le.PutUint64(to[16:], h.size)
	le.PutUint32(to[24:], 1)
	le.PutUint32(to[28:], h.pid)
	le.PutUint64(to[32:], h.instance)
	le.PutUint64(to[40:], h.created)
	le.PutUint64(to[48:], h.startTicks)
	copy(to[56:], h.bootID[:])
	le.PutUint32(to[72:], uint32(len(h.sections)))
	le.PutUint32(to[76:], uint32(len(h.labels)))
	for i, s := range h.sections {
		at := to[80+24*i:]
		le.PutUint32(at, s.kind)
		le.PutUint32(at[4:], s.stride)
		le.PutUint64(at[8:], s.offset)
		le.PutUint64(at[16:], s.length)
	}
	copy(to[512:], h.labels)
	le.PutUint64(to[4088:], fnv1a(fnvBasis, to[:4088]))
}

// A shape is the description of a metric in its record, except for the place of its cells.
type shape struct {
	kind       kind // with replaceable
	flags      uint16
	name, unit string
	help       string
	labels     string // encoded
	bounds     []float64
	states     []string
	scale      int16
	first      int32 // bucket
	zero       float64
	cells      uint32
}

func (s *shape) base() kind {
	if s.kind&replaceable != 0 {
		return s.kind &^ replaceable
	}
	return s.kind
}

// key identifies the series.
func (s *shape) key() string { return s.name + "\x00" + s.labels }

// check computes the number of cells. It returns an error if the format cannot express the shape.
func (s *shape) check() error {
	k := s.base()
	legacy := legacyName.MatchString(s.name)
	switch {
	case s.name == "" || !validText(s.name, nameMax) || !legacy && s.kind < kindSummary:
		return fmt.Errorf("%q is not the name of a metric", s.name)
	case !unitRule.MatchString(s.unit) || len(s.unit) > nameMax:
		return fmt.Errorf("%q is not a unit", s.unit)
	}
	for i, b := range s.bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= s.bounds[i-1] {
			return errors.New("bounds are finite and ascend")
		}
	}
	switch k {
	case kindHistogram, kindGaugeHist:
		if len(s.bounds) > bucketsMax-1 {
			return fmt.Errorf("more than %d bounds", bucketsMax-1)
		}
		s.cells = 3 + uint32(len(s.bounds))
	case kindSummary:
		if n := len(s.bounds); n > quantilesMax || n > 0 && (s.bounds[0] < 0 || s.bounds[n-1] > 1) {
			return errors.New("quantiles are from 0 to 1, and few")
		}
		s.cells = 2 + uint32(len(s.bounds))
	case kindHistogramExp, kindGaugeHistExp:
		if s.cells < 5 || s.cells > bucketsMax+2 || s.scale < -4 || s.scale > 8 || !(s.zero >= 0) || math.IsInf(s.zero, 0) ||
			s.first < -(1<<20) || s.first > 1<<20 {
			return errors.New("no such exponential buckets")
		}
	case kindInfo, kindString:
		s.cells = 0
	case kindTimedGauge:
		s.cells = 2
	case kindStateSet:
		if err := s.checkStates(); err != nil {
			return err
		}
		s.cells = 1
	default:
		s.cells = 1
	}
	forbidden := map[kind]string{kindHistogram: "le", kindHistogramExp: "le", kindGaugeHist: "le", kindGaugeHistExp: "le",
		kindSummary: "quantile", kindStateSet: s.name}[k]
	if forbidden != "" && strings.Contains("\x00"+s.labels, "\x00"+forbidden+"\x00") && hasKey(s.labels, forbidden) {
		return fmt.Errorf("the label %q is not for this kind of metric", forbidden)
	}
	return nil
}

func hasKey(labels, key string) bool {
	parts := strings.Split(labels, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i] == key {
			return true
		}
	}
	return false
}

func (s *shape) checkStates() error {
	if len(s.states) == 0 || len(s.states) > statesMax || strings.Contains(s.name, ":") {
		return fmt.Errorf("a state set has 1 to %d states, and no colon in its name", statesMax)
	}
	seen := map[string]bool{}
	for _, state := range s.states {
		if state == "" || !validText(state, nameMax) || seen[state] {
			return fmt.Errorf("the state %q is empty, too long, not UTF-8 or there twice", state)
		}
		seen[state] = true
	}
	return nil
}

func (s *shape) stateBytes() string {
	if len(s.states) == 0 {
		return ""
	}
	return strings.Join(s.states, "\x00") + "\x00"
}

// length is the length of the record. For a replaceable record it is rounded up further, so that more records fit in its place.
func (s *shape) length() uint32 {
	to := 8
	if s.kind&replaceable != 0 {
		to = 64
	}
	n := 64 + 8*len(s.bounds) + len(s.name) + len(s.unit) + len(s.help) + len(s.labels) + len(s.stateBytes())
	return uint32((n + to - 1) / to * to)
}

// isSum reports whether the value of this cell is the sum of f64 numbers in the stripes.
func (s *shape) isSum(cell uint32) bool {
	switch s.base() {
	case kindFloatCounter:
		return true
	case kindHistogram, kindHistogramExp, kindSummary:
		return cell == 0
	}
	return false
}

// equal reports whether both describe the same metric, ignoring help and flags.
func (s *shape) equal(t *shape) bool {
	if s.kind != t.kind || s.cells != t.cells || s.scale != t.scale || s.first != t.first || s.zero != t.zero ||
		len(s.bounds) != len(t.bounds) || s.stateBytes() != t.stateBytes() {
		return false
	}
	for i, b := range s.bounds {
		if b != t.bounds[i] {
			return false
		}
	}
	return true
}

// same reports whether both have the same record.
func (s *shape) same(t *shape) bool {
	return s.equal(t) && s.flags == t.flags && s.help == t.help && s.unit == t.unit
}

func (s *shape) encode(to []byte, cell, id, generation uint32) {
	le := binary.LittleEndian
	for i := range to {
		to[i] = 0
	}
	states := s.stateBytes()
	le.PutUint32(to, uint32(len(to)))
	le.PutUint16(to[4:], uint16(s.kind))
	le.PutUint16(to[6:], s.flags)
	le.PutUint32(to[8:], cell)
	le.PutUint32(to[12:], s.cells)
	le.PutUint32(to[16:], id)
	le.PutUint32(to[20:], generation)
	for i, n := range []int{len(s.name), len(s.unit), len(s.help), len(s.labels), len(states), len(s.bounds)} {
		le.PutUint16(to[24+2*i:], uint16(n))
	}
	le.PutUint16(to[36:], uint16(s.scale))
	le.PutUint16(to[38:], uint16(len(s.states)))
	le.PutUint32(to[40:], uint32(s.first))
	le.PutUint64(to[48:], math.Float64bits(s.zero))
	at := to[64:]
	for _, b := range s.bounds {
		le.PutUint64(at, math.Float64bits(b))
		at = at[8:]
	}
	for _, part := range []string{s.name, s.unit, s.help, s.labels, states} {
		at = at[copy(at, part):]
	}
	le.PutUint64(to[56:], fnv1a(fnvBasis, to))
}

// bootIDOf decodes the content of /proc/sys/kernel/random/boot_id.
func bootIDOf(text []byte) (id [16]byte) {
	digits, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err == nil && len(digits) == len(id) {
		copy(id[:], digits)
	}
	return id
}
