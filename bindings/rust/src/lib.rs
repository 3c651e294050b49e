// SPDX-License-Identifier: Apache-2.0
//! Publish metrics and spans in memory that a collector reads by itself.
//!
//! ```no_run
//! let publisher = sidelight::publisher();
//! let requests = publisher.counter_family(("http_requests_total", "Requests answered."));
//! let ok = requests.with(&[("route", "/cart"), ("code", "200")]);
//! let took = publisher.histogram(sidelight::Metric::new("http_request_seconds").buckets(&[0.1, 1.0]));
//! // in any thread, exact, about 1 ns:
//! ok.inc();
//! took.observe(0.02);
//! ```
//!
//! - A handle ([`Counter`], [`Gauge`], [`Histogram`], ...) is a small value: `Copy`, `Send`, `Sync`. It lives no longer than
//!   its publisher; that of [`publisher()`] lives as long as the process.
//! - There are no errors to handle: a refused metric does nothing. Refusals are counted ([`Stats::refused`]), and the first
//!   one is logged. Without an agent, the process counts all the same, and its values appear once there is an agent.
//! - An update takes no lock, makes no system call and allocates nothing, except the first one of a thread. Signal handlers
//!   may call it.
//! - After `fork()`, the child publishes in memory of its own, starting at 0.
//!
//! Over libsidelight, whose manual is sidelight(3).
#![warn(missing_docs)]

mod ffi;
mod metric;
mod publisher;
mod series;
mod span;
mod text;
mod update;

pub use metric::{Combine, Metric};
pub use publisher::{publisher, set_log, version, LogLevel, Options, Publisher, Stats, Verdict};
pub use series::{
    Counter, CounterF64, Family, Gauge, GaugeF64, GaugeHistogram, GaugeTimed, Histogram, Mismatch, StateSet, Summary,
    Unknown,
};
pub use span::{Span, SpanKey, SpanKind, SpanName, SpanStatus, SpanValue, TraceContext};
pub use update::Exemplar;
