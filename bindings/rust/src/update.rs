// SPDX-License-Identifier: Apache-2.0
//! What the handles do.
//!
//! SAFETY of all calls here: the C functions take handles by value, and a handle does not outlive its publisher.
use crate::ffi;
use crate::metric::nanoseconds;
use crate::series::{
    Counter, CounterF64, Gauge, GaugeF64, GaugeHistogram, GaugeTimed, Histogram, Mismatch, StateSet, Summary, Unknown,
};
use crate::span::TraceContext;
use crate::text::Labels;
use std::time::SystemTime;

/// An observation of which more is known, as the trace that it belongs to. The latest one of each counter and bucket is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exemplar<'a> {
    /// Label "trace_id"; 0: none.
    pub trace_id: u128,
    /// Label "span_id"; 0: none.
    pub span_id: u64,
    /// Further labels. All of them take at most 128 bytes, of which the ids take 67.
    pub labels: &'a [(&'a str, &'a str)],
    /// Default: now.
    pub time: Option<SystemTime>,
}

impl From<TraceContext> for Exemplar<'_> {
    fn from(c: TraceContext) -> Self {
        Exemplar { trace_id: c.trace_id, span_id: c.span_id, ..Default::default() }
    }
}

impl Exemplar<'_> {
    fn with_raw<R>(&self, f: impl FnOnce(&ffi::sl_exemplar) -> R) -> R {
        let labels = Labels::new(self.labels);
        f(&ffi::sl_exemplar {
            sz: std::mem::size_of::<ffi::sl_exemplar>(),
            trace_hi: (self.trace_id >> 64) as u64,
            trace_lo: self.trace_id as u64,
            span_id: self.span_id,
            labels: labels.ptr(),
            label_count: labels.len(),
            time_ns: self.time.map_or(0, nanoseconds),
        })
    }
}

#[cfg(target_arch = "x86_64")]
const LINE_K: [u64; 8] = [
    ffi::SL_LINE_K0,
    ffi::SL_LINE_K1,
    ffi::SL_LINE_K2,
    ffi::SL_LINE_K3,
    ffi::SL_LINE_K4,
    ffi::SL_LINE_K5,
    ffi::SL_LINE_K6,
    0,
];

/// sl_counter_add() of sidelight.h: the cell, and the check word of its line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter_add(c: ffi::sl_counter, n: u64) {
    use std::arch::asm;
    let table: *const u64;
    // SAFETY: the address of the library's thread-local table, which is the same for as long as this function runs.
    unsafe {
        asm!(
            "mov {table}, qword ptr fs:[0]",
            "add {table}, qword ptr [rip + sl__thread@GOTTPOFF]",
            table = out(reg) table,
            options(pure, nomem, nostack)
        );
    }
    // SAFETY: the slot of a handle is less than SL_PUBLISHER_SLOTS. Other calls of this thread change the word.
    let base = unsafe { table.add((c.bits >> 32) as usize).read_volatile() };
    if base == 0 {
        // SAFETY: see above.
        return unsafe { ffi::sl__counter_add_slow(c, n) };
    }
    let cell = base.wrapping_add(c.bits);
    // SAFETY: the base is that of a stripe that this thread alone writes; one instruction each, as a signal handler of this
    // thread may count, too.
    unsafe {
        asm!("add qword ptr [{cell}], {n}", cell = in(reg) cell, n = in(reg) n, options(nostack));
        asm!(
            "xadd qword ptr [{check}], {change}",
            check = in(reg) cell | 56,
            change = inout(reg) n.wrapping_mul(LINE_K[(c.bits as usize & 56) >> 3]) => _,
            options(nostack)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter_add(c: ffi::sl_counter, n: u64) {
    // SAFETY: one of each.
    unsafe { ffi::sl_counter_add_batch(&c, &n, 1) }
}

impl Counter<'_> {
    /// Adds 1. Exact in any number of threads.
    #[inline(always)]
    pub fn inc(self) {
        counter_add(self.raw, 1);
    }
    /// Adds n.
    #[inline(always)]
    pub fn add(self, n: u64) {
        counter_add(self.raw, n);
    }
    /// Adds n, and keeps the exemplar.
    pub fn add_exemplar(self, n: u64, exemplar: &Exemplar<'_>) {
        exemplar.with_raw(|e| unsafe { ffi::sl_counter_add_exemplar(self.raw, n, e) });
    }
    /// What a collector would show. Takes a lock.
    pub fn value(self) -> u64 {
        unsafe { ffi::sl_counter_value(self.raw) }
    }
}

impl CounterF64<'_> {
    /// Adds v; a negative, infinite or NaN v is refused.
    #[inline]
    pub fn add(self, v: f64) {
        unsafe { ffi::sl_counter_f64_add(self.raw, v) }
    }
    /// Adds v, and keeps the exemplar.
    pub fn add_exemplar(self, v: f64, exemplar: &Exemplar<'_>) {
        exemplar.with_raw(|e| unsafe { ffi::sl_counter_f64_add_exemplar(self.raw, v, e) });
    }
    /// What a collector would show. Takes a lock.
    pub fn value(self) -> f64 {
        unsafe { ffi::sl_counter_f64_value(self.raw) }
    }
}

impl Gauge<'_> {
    /// The last one wins.
    #[inline]
    pub fn set(self, v: i64) {
        unsafe { ffi::sl_gauge_set(self.raw, v) }
    }
    /// Adds v, which may be negative; exact.
    #[inline]
    pub fn add(self, v: i64) {
        unsafe { ffi::sl_gauge_add(self.raw, v) }
    }
    /// Adds 1.
    #[inline]
    pub fn inc(self) {
        self.add(1);
    }
    /// Subtracts 1.
    #[inline]
    pub fn dec(self) {
        self.add(-1);
    }
    /// What a collector would show.
    pub fn value(self) -> i64 {
        unsafe { ffi::sl_gauge_value(self.raw) }
    }
}

impl GaugeF64<'_> {
    /// The last one wins.
    #[inline]
    pub fn set(self, v: f64) {
        unsafe { ffi::sl_gauge_f64_set(self.raw, v) }
    }
    /// Adds v, which may be negative.
    #[inline]
    pub fn add(self, v: f64) {
        unsafe { ffi::sl_gauge_f64_add(self.raw, v) }
    }
    /// What a collector would show.
    pub fn value(self) -> f64 {
        unsafe { ffi::sl_gauge_f64_value(self.raw) }
    }
}

impl GaugeTimed<'_> {
    /// Sets it now.
    #[inline]
    pub fn set(self, v: f64) {
        unsafe { ffi::sl_gauge_timed_set(self.raw, v) }
    }
    /// Sets it as of this time.
    pub fn set_at(self, v: f64, time: SystemTime) {
        unsafe { ffi::sl_gauge_timed_set_at(self.raw, v, nanoseconds(time)) }
    }
    /// What a collector would show.
    pub fn value(self) -> f64 {
        unsafe { ffi::sl_gauge_timed_value(self.raw) }
    }
}

impl Histogram<'_> {
    /// Counts v, in the metric's unit. NaN is refused.
    #[inline]
    pub fn observe(self, v: f64) {
        // A refused handle points to no buckets, of which the library asks only after it found a stripe.
        unsafe { ffi::sl_histogram_observe(self.raw, v) }
    }
    /// Counts v, and keeps the exemplar.
    pub fn observe_exemplar(self, v: f64, exemplar: &Exemplar<'_>) {
        exemplar.with_raw(|e| unsafe { ffi::sl_histogram_observe_exemplar(self.raw, v, e) });
    }
    /// Adds many observations: the number in each bucket, not cumulated, the last for those above all bounds; and their sum.
    pub fn add(self, buckets: &[u64], sum: f64) -> Result<(), Mismatch> {
        Mismatch::of(unsafe { ffi::sl_histogram_add(self.raw, buckets.as_ptr(), buckets.len(), sum) })
    }
    /// How many observations there are. Takes a lock.
    pub fn count(self) -> u64 {
        unsafe { ffi::sl_histogram_count(self.raw) }
    }
    /// Their sum. Takes a lock.
    pub fn sum(self) -> f64 {
        unsafe { ffi::sl_histogram_sum(self.raw) }
    }
}

impl GaugeHistogram<'_> {
    /// Sets all of it: the number in each bucket, as for [`Histogram::add`].
    pub fn set(self, buckets: &[u64], sum: f64) -> Result<(), Mismatch> {
        Mismatch::of(unsafe { ffi::sl_gauge_histogram_set(self.raw, buckets.as_ptr(), buckets.len(), sum) })
    }
    /// The number of buckets; 0 if refused.
    pub fn size(self) -> usize {
        unsafe { ffi::sl_gauge_histogram_size(self.raw) }
    }
}

impl StateSet<'_> {
    /// Switches the state with this index; out of range: nothing.
    #[inline]
    pub fn set(self, state: u32, on: bool) {
        unsafe { ffi::sl_stateset_set(self.raw, state, on) }
    }
}

impl Summary<'_> {
    /// Counts v; an infinite or NaN v is refused.
    #[inline]
    pub fn observe(self, v: f64) {
        unsafe { ffi::sl_summary_observe(self.raw, v) }
    }
    /// Adds many observations and their sum.
    pub fn add(self, sum: f64, count: u64) {
        unsafe { ffi::sl_summary_add(self.raw, sum, count) }
    }
    /// The values of all quantiles, in the order of their ranks; NaN: unknown.
    pub fn set_quantiles(self, values: &[f64]) -> Result<(), Mismatch> {
        Mismatch::of(unsafe { ffi::sl_summary_set_quantiles(self.raw, values.as_ptr(), values.len()) })
    }
    /// How many observations there are.
    pub fn count(self) -> u64 {
        unsafe { ffi::sl_summary_count(self.raw) }
    }
    /// Their sum.
    pub fn sum(self) -> f64 {
        unsafe { ffi::sl_summary_sum(self.raw) }
    }
}

impl Unknown<'_> {
    /// The last one wins.
    #[inline]
    pub fn set(self, v: f64) {
        unsafe { ffi::sl_unknown_set(self.raw, v) }
    }
    /// What a collector would show.
    pub fn value(self) -> f64 {
        unsafe { ffi::sl_unknown_value(self.raw) }
    }
}
