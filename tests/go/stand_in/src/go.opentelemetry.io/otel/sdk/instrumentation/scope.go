// SPDX-License-Identifier: Apache-2.0

// Package instrumentation stands in for OpenTelemetry's.
package instrumentation

type Scope struct{ Name, Version string }
