// SPDX-License-Identifier: Apache-2.0
//! The C interface, sidelight/sidelight.h and span.h, by its own names; tests/rust/test_abi.py holds each line against the
//! headers.
#![allow(non_camel_case_types, non_upper_case_globals, dead_code)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

macro_rules! handles {
    ($($name:ident),*) => { $(
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            pub bits: u64,
        }
    )* };
}
handles!(
    sl_counter,
    sl_counter_f64,
    sl_gauge,
    sl_gauge_f64,
    sl_stateset,
    sl_gauge_timed,
    sl_unknown,
    sl_counter_family,
    sl_counter_f64_family,
    sl_gauge_family,
    sl_gauge_f64_family,
    sl_stateset_family,
    sl_histogram_family,
    sl_gauge_timed_family,
    sl_unknown_family,
    sl_summary_family,
    sl_gauge_histogram_family,
    sl_span_name,
    sl_span_key
);

pub enum sl_publisher {}
pub enum sl__buckets {}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sl_histogram {
    pub bits: u64,
    pub buckets: *const sl__buckets,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sl_gauge_histogram {
    pub bits: u64,
    pub buckets: *const sl__buckets,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sl_summary {
    pub bits: u64,
    pub quantiles: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_label {
    pub key: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_publisher_opts {
    pub sz: usize,
    pub service: *const c_char,
    pub pod: *const c_char,
    pub kube_namespace: *const c_char,
    pub labels: *const sl_label,
    pub label_count: usize,
    pub socket: *const c_char,
    pub max_cells: u32,
    pub max_threads: u32,
    pub schema_bytes: u32,
    pub flags: u32,
    pub span_bytes: u32,
    pub exemplars: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_publisher_stats {
    pub sz: usize,
    pub metrics: u32,
    pub refused: u32,
    pub cells_used: u32,
    pub cells_max: u32,
    pub stripes_used: u32,
    pub stripes_max: u32,
    pub threads_sharing: u32,
    pub attaches: u32,
    pub regions: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_publisher_verdict {
    pub sz: usize,
    pub known: bool,
    pub anomalous: bool,
    pub score: f64,
    pub sequence: u64,
    pub time_ns: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_metric_opts {
    pub sz: usize,
    pub name: *const c_char,
    pub help: *const c_char,
    pub unit: *const c_char,
    pub labels: *const sl_label,
    pub label_count: usize,
    pub scale: c_int,
    pub use_scale: bool,
    pub min: f64,
    pub max: f64,
    pub bounds: *const f64,
    pub bound_count: usize,
    pub states: *const *const c_char,
    pub state_count: usize,
    pub quantiles: *const f64,
    pub quantile_count: usize,
    pub combine: c_uint,
    pub live: bool,
    pub mirror: bool,
    pub utf8: bool,
    pub created_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_exemplar {
    pub sz: usize,
    pub trace_hi: u64,
    pub trace_lo: u64,
    pub span_id: u64,
    pub labels: *const sl_label,
    pub label_count: usize,
    pub time_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct sl_trace_context {
    pub trace_hi: u64,
    pub trace_lo: u64,
    pub span_id: u64,
    pub flags: u8,
    pub remote: u8,
    pub reserved: [u8; 6],
}

#[repr(C)]
pub struct sl_span {
    pub context: sl_trace_context,
    pub parent_id: u64,
    pub start: u64,
    pub end: u64,
    pub slot: u32,
    pub epoch: u32,
    pub clock: u8,
    pub remote: u8,
    pub words: u8,
    pub dropped: u8,
    pub cut: u8,
    pub set: u8,
    pub stream: [u64; 47],
}

pub const SL_PUBLISHER_DETACHED: u32 = 1;
pub const SL_PUBLISHER_EDGE: u32 = 2;
pub const SL_PUBLISHER_FIXED: u32 = 4;
pub const SL_SPAN_BYTES: u32 = 128 << 10;
pub const SL_TRACEPARENT_LENGTH: u32 = 55;
pub const SL_PUBLISHER_SLOTS: u32 = 64;
pub const SL_COMBINE_DEFAULT: u32 = 0;
pub const SL_COMBINE_SUM: u32 = 1;
pub const SL_COMBINE_MIN: u32 = 2;
pub const SL_COMBINE_MAX: u32 = 3;
pub const SL_COMBINE_MOST_RECENT: u32 = 4;
pub const SL_COMBINE_ALL: u32 = 5;
pub const SL_SPAN_INTERNAL: u32 = 0;
pub const SL_SPAN_SERVER: u32 = 1;
pub const SL_SPAN_CLIENT: u32 = 2;
pub const SL_SPAN_PRODUCER: u32 = 3;
pub const SL_SPAN_CONSUMER: u32 = 4;
pub const SL_SPAN_UNSET: u32 = 0;
pub const SL_SPAN_OK: u32 = 1;
pub const SL_SPAN_ERROR: u32 = 2;
pub const SL_LOG_ERROR: u32 = 0;
pub const SL_LOG_WARN: u32 = 1;
pub const SL_LOG_INFO: u32 = 2;
pub const SL_LOG_DEBUG: u32 = 3;
pub const SL_LINE_K0: u64 = 0x9e3779b97f4a7c15;
pub const SL_LINE_K1: u64 = 0xbf58476d1ce4e5b9;
pub const SL_LINE_K2: u64 = 0x94d049bb133111eb;
pub const SL_LINE_K3: u64 = 0xd6e8feb86659fd93;
pub const SL_LINE_K4: u64 = 0xa0761d6478bd642f;
pub const SL_LINE_K5: u64 = 0xe7037ed1a0b428db;
pub const SL_LINE_K6: u64 = 0x8ebc6af09c88c6e3;

pub type sl_log_fn = Option<unsafe extern "C" fn(level: c_uint, line: *const c_char, arg: *mut c_void)>;

#[link(name = "sidelight")]
extern "C" {
    pub fn sl_version() -> *const c_char;
    pub fn sl_set_log(f: sl_log_fn, arg: *mut c_void);

    pub fn sl_publisher_open(opts: *const sl_publisher_opts) -> *mut sl_publisher;
    pub fn sl_publisher_close(p: *mut sl_publisher);
    pub fn sl_publisher_attached(p: *const sl_publisher) -> bool;
    pub fn sl_publisher_fd(p: *const sl_publisher) -> c_int;
    pub fn sl_publisher_stats(p: *const sl_publisher, stats: *mut sl_publisher_stats) -> c_int;
    pub fn sl_publisher_verdict(p: *const sl_publisher, verdict: *mut sl_publisher_verdict) -> c_int;

    pub fn sl_counter_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_counter;
    pub fn sl_counter_f64_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_counter_f64;
    pub fn sl_gauge_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge;
    pub fn sl_gauge_f64_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_f64;
    pub fn sl_gauge_timed_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_timed;
    pub fn sl_histogram_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_histogram;
    pub fn sl_histogram_create_classic(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_histogram;
    pub fn sl_gauge_histogram_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_histogram;
    pub fn sl_gauge_histogram_create_classic(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_histogram;
    pub fn sl_stateset_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_stateset;
    pub fn sl_summary_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_summary;
    pub fn sl_unknown_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_unknown;
    pub fn sl_info_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> c_int;
    pub fn sl_info_remove(p: *mut sl_publisher, o: *const sl_metric_opts) -> c_int;

    pub fn sl_counter_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_counter_family;
    pub fn sl_counter_with(f: sl_counter_family, labels: *const sl_label, count: usize) -> sl_counter;
    pub fn sl_counter_remove(f: sl_counter_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_counter_clear(f: sl_counter_family) -> c_int;
    pub fn sl_counter_f64_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_counter_f64_family;
    pub fn sl_counter_f64_with(f: sl_counter_f64_family, labels: *const sl_label, count: usize) -> sl_counter_f64;
    pub fn sl_counter_f64_remove(f: sl_counter_f64_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_counter_f64_clear(f: sl_counter_f64_family) -> c_int;
    pub fn sl_gauge_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_family;
    pub fn sl_gauge_with(f: sl_gauge_family, labels: *const sl_label, count: usize) -> sl_gauge;
    pub fn sl_gauge_remove(f: sl_gauge_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_gauge_clear(f: sl_gauge_family) -> c_int;
    pub fn sl_gauge_f64_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_f64_family;
    pub fn sl_gauge_f64_with(f: sl_gauge_f64_family, labels: *const sl_label, count: usize) -> sl_gauge_f64;
    pub fn sl_gauge_f64_remove(f: sl_gauge_f64_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_gauge_f64_clear(f: sl_gauge_f64_family) -> c_int;
    pub fn sl_gauge_timed_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_gauge_timed_family;
    pub fn sl_gauge_timed_with(f: sl_gauge_timed_family, labels: *const sl_label, count: usize) -> sl_gauge_timed;
    pub fn sl_gauge_timed_remove(f: sl_gauge_timed_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_gauge_timed_clear(f: sl_gauge_timed_family) -> c_int;
    pub fn sl_histogram_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_histogram_family;
    pub fn sl_histogram_family_create_classic(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_histogram_family;
    pub fn sl_histogram_with(f: sl_histogram_family, labels: *const sl_label, count: usize) -> sl_histogram;
    pub fn sl_histogram_remove(f: sl_histogram_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_histogram_clear(f: sl_histogram_family) -> c_int;
    pub fn sl_gauge_histogram_family_create(
        p: *mut sl_publisher,
        o: *const sl_metric_opts,
    ) -> sl_gauge_histogram_family;
    pub fn sl_gauge_histogram_family_create_classic(
        p: *mut sl_publisher,
        o: *const sl_metric_opts,
    ) -> sl_gauge_histogram_family;
    pub fn sl_gauge_histogram_with(
        f: sl_gauge_histogram_family,
        labels: *const sl_label,
        count: usize,
    ) -> sl_gauge_histogram;
    pub fn sl_gauge_histogram_remove(f: sl_gauge_histogram_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_gauge_histogram_clear(f: sl_gauge_histogram_family) -> c_int;
    pub fn sl_stateset_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_stateset_family;
    pub fn sl_stateset_with(f: sl_stateset_family, labels: *const sl_label, count: usize) -> sl_stateset;
    pub fn sl_stateset_remove(f: sl_stateset_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_stateset_clear(f: sl_stateset_family) -> c_int;
    pub fn sl_summary_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_summary_family;
    pub fn sl_summary_with(f: sl_summary_family, labels: *const sl_label, count: usize) -> sl_summary;
    pub fn sl_summary_remove(f: sl_summary_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_summary_clear(f: sl_summary_family) -> c_int;
    pub fn sl_unknown_family_create(p: *mut sl_publisher, o: *const sl_metric_opts) -> sl_unknown_family;
    pub fn sl_unknown_with(f: sl_unknown_family, labels: *const sl_label, count: usize) -> sl_unknown;
    pub fn sl_unknown_remove(f: sl_unknown_family, labels: *const sl_label, count: usize) -> c_int;
    pub fn sl_unknown_clear(f: sl_unknown_family) -> c_int;

    pub fn sl__counter_add_slow(c: sl_counter, n: u64);
    pub fn sl_counter_add_batch(counters: *const sl_counter, n: *const u64, count: usize);
    pub fn sl_counter_add_exemplar(c: sl_counter, n: u64, exemplar: *const sl_exemplar);
    pub fn sl_counter_f64_add(c: sl_counter_f64, v: f64);
    pub fn sl_counter_f64_add_exemplar(c: sl_counter_f64, v: f64, exemplar: *const sl_exemplar);
    pub fn sl_gauge_set(g: sl_gauge, v: i64);
    pub fn sl_gauge_add(g: sl_gauge, v: i64);
    pub fn sl_gauge_f64_set(g: sl_gauge_f64, v: f64);
    pub fn sl_gauge_f64_add(g: sl_gauge_f64, v: f64);
    pub fn sl_gauge_timed_set(g: sl_gauge_timed, v: f64);
    pub fn sl_gauge_timed_set_at(g: sl_gauge_timed, v: f64, time_ns: u64);
    pub fn sl_histogram_observe(h: sl_histogram, v: f64);
    pub fn sl_histogram_observe_exemplar(h: sl_histogram, v: f64, exemplar: *const sl_exemplar);
    pub fn sl_histogram_add(h: sl_histogram, buckets: *const u64, n: usize, sum: f64) -> c_int;
    pub fn sl_gauge_histogram_set(h: sl_gauge_histogram, buckets: *const u64, n: usize, sum: f64) -> c_int;
    pub fn sl_gauge_histogram_size(h: sl_gauge_histogram) -> usize;
    pub fn sl_stateset_set(s: sl_stateset, state: c_uint, on: bool);
    pub fn sl_summary_observe(s: sl_summary, v: f64);
    pub fn sl_summary_add(s: sl_summary, sum: f64, count: u64);
    pub fn sl_summary_set_quantiles(s: sl_summary, values: *const f64, n: usize) -> c_int;
    pub fn sl_unknown_set(u: sl_unknown, v: f64);

    pub fn sl_counter_value(c: sl_counter) -> u64;
    pub fn sl_counter_f64_value(c: sl_counter_f64) -> f64;
    pub fn sl_gauge_value(g: sl_gauge) -> i64;
    pub fn sl_gauge_f64_value(g: sl_gauge_f64) -> f64;
    pub fn sl_gauge_timed_value(g: sl_gauge_timed) -> f64;
    pub fn sl_histogram_count(h: sl_histogram) -> u64;
    pub fn sl_histogram_sum(h: sl_histogram) -> f64;
    pub fn sl_summary_count(s: sl_summary) -> u64;
    pub fn sl_summary_sum(s: sl_summary) -> f64;
    pub fn sl_unknown_value(u: sl_unknown) -> f64;

    pub fn sl_traceparent_parse(text: *const c_char, length: usize, context: *mut sl_trace_context) -> c_int;
    pub fn sl_traceparent_format(context: *const sl_trace_context, text: *mut c_char) -> usize;
    pub fn sl_span_name_create(p: *mut sl_publisher, name: *const c_char) -> sl_span_name;
    pub fn sl_span_key_create(p: *mut sl_publisher, key: *const c_char) -> sl_span_key;
    pub fn sl_span_start(span: *mut sl_span, name: sl_span_name, kind: c_uint, parent: *const sl_trace_context);
    pub fn sl_span_set_i64(span: *mut sl_span, key: sl_span_key, value: i64);
    pub fn sl_span_set_f64(span: *mut sl_span, key: sl_span_key, value: f64);
    pub fn sl_span_set_bool(span: *mut sl_span, key: sl_span_key, value: bool);
    pub fn sl_span_set_text(span: *mut sl_span, key: sl_span_key, value: *const c_char, bytes: usize);
    pub fn sl_span_set_status(span: *mut sl_span, status: c_uint, message: *const c_char);
    pub fn sl_span_set_start(span: *mut sl_span, ns: u64);
    pub fn sl_span_set_end(span: *mut sl_span, ns: u64);
    pub fn sl_span_end(span: *mut sl_span);
}
