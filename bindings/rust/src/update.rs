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

/// Additional information on one observation, such as its trace. Only the latest exemplar of each counter and bucket is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exemplar<'a> {
    /// Label "trace_id"; 0 leaves it out.
    pub trace_id: u128,
    /// Label "span_id"; 0 leaves it out.
    pub span_id: u64,
    /// Further labels. All labels together take at most 152 bytes, with a NUL after each key and value; the ids take 67.
    pub labels: &'a [(&'a str, &'a str)],
    /// Time of the observation; by default now.
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

/// Like sl_counter_add() in sidelight.h: updates the cell, and the check word of its line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter_add(c: ffi::sl_counter, n: u64) {
    use std::arch::asm;
    let table: *const u64;
    // SAFETY: the address of the library's thread-local table does not change while this function runs.
    unsafe {
        asm!(
            "mov {table}, qword ptr fs:[0]",
            "add {table}, qword ptr [rip + sl__thread@GOTTPOFF]",
            table = out(reg) table,
            options(pure, nomem, nostack)
        );
    }
    // SAFETY: the slot of a handle is less than SL_PUBLISHER_SLOTS, and only calls of this thread change the word.
    let base = unsafe { table.add((c.bits >> 32) as usize).read_volatile() };
    if base == 0 {
        // SAFETY: see above.
        return unsafe { ffi::sl__counter_add_slow(c, n) };
    }
    let cell = base.wrapping_add(c.bits);
    // SAFETY: only this thread writes the stripe at base. Each addition is one instruction, because a signal handler of this
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
    // SAFETY: the batch has one counter and one number.
    unsafe { ffi::sl_counter_add_batch(&c, &n, 1) }
}

impl Counter<'_> {
    /// Adds 1. The sum is exact with any number of threads.
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
    /// Sets the value. If several threads set it at once, the last one wins.
    #[inline]
    pub fn set(self, v: i64) {
        unsafe { ffi::sl_gauge_set(self.raw, v) }
    }
    /// Adds v, which may be negative. The sum is exact.
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
    /// Sets the value. If several threads set it at once, the last one wins.
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
    /// Sets the value, with the current time.
    #[inline]
    pub fn set(self, v: f64) {
        unsafe { ffi::sl_gauge_timed_set(self.raw, v) }
    }
    /// Sets the value, with the given time.
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
        // A refused handle has no buckets, but the library reads them only after it has found a stripe.
        unsafe { ffi::sl_histogram_observe(self.raw, v) }
    }
    /// Counts v, and keeps the exemplar.
    pub fn observe_exemplar(self, v: f64, exemplar: &Exemplar<'_>) {
        exemplar.with_raw(|e| unsafe { ffi::sl_histogram_observe_exemplar(self.raw, v, e) });
    }
    /// Adds many observations: their number in each bucket (not cumulative; the last bucket is above all bounds), and their
    /// sum.
    pub fn add(self, buckets: &[u64], sum: f64) -> Result<(), Mismatch> {
        Mismatch::of(unsafe { ffi::sl_histogram_add(self.raw, buckets.as_ptr(), buckets.len(), sum) })
    }
    /// How many observations there are. Takes a lock.
    pub fn count(self) -> u64 {
        unsafe { ffi::sl_histogram_count(self.raw) }
    }
    /// Returns the sum of the observations. Takes a lock.
    pub fn sum(self) -> f64 {
        unsafe { ffi::sl_histogram_sum(self.raw) }
    }
}

impl GaugeHistogram<'_> {
    /// Sets all buckets, as in [`Histogram::add`], and the sum.
    pub fn set(self, buckets: &[u64], sum: f64) -> Result<(), Mismatch> {
        Mismatch::of(unsafe { ffi::sl_gauge_histogram_set(self.raw, buckets.as_ptr(), buckets.len(), sum) })
    }
    /// The number of buckets, or 0 if the histogram was refused.
    pub fn size(self) -> usize {
        unsafe { ffi::sl_gauge_histogram_size(self.raw) }
    }
}

impl StateSet<'_> {
    /// Switches the state with this index on or off. Does nothing if the index is out of range.
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
    /// Adds the number of many observations, and their sum.
    pub fn add(self, sum: f64, count: u64) {
        unsafe { ffi::sl_summary_add(self.raw, sum, count) }
    }
    /// Sets the values of all quantiles, in the order of their ranks; NaN means unknown.
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
    /// Sets the value. If several threads set it at once, the last one wins.
    #[inline]
    pub fn set(self, v: f64) {
        unsafe { ffi::sl_unknown_set(self.raw, v) }
    }
    /// What a collector would show.
    pub fn value(self) -> f64 {
        unsafe { ffi::sl_unknown_value(self.raw) }
    }
}
