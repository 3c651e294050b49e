// SPDX-License-Identifier: Apache-2.0

// Package attribute stands in for OpenTelemetry's, which Debian 12 has in an older version: what an exporter sees.
package attribute

import "encoding/json"

type Key string

type Value struct{ V interface{} }

// Emit shows a list as JSON.
func (v Value) Emit() string {
	if s, ok := v.V.(string); ok {
		return s
	}
	text, _ := json.Marshal(v.V)
	return string(text)
}

type KeyValue struct {
	Key   Key
	Value Value
}

type Set struct{ Sorted []KeyValue }

func (s *Set) ToSlice() []KeyValue { return s.Sorted }
