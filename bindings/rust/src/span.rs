// SPDX-License-Identifier: Apache-2.0
//! Spans in memory, which a collector fetches.
use crate::ffi;
use crate::metric::nanoseconds;
use crate::text::c_string;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::raw::c_char;
use std::time::SystemTime;

/// The identity of a span (<https://www.w3.org/TR/trace-context/>). A context without ids is invalid; as a parent, it starts
/// a new
/// trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace's id; 0 means that the context is invalid.
    pub trace_id: u128,
    /// The span's id; 0 means that the context is invalid.
    pub span_id: u64,
    /// The trace-flags; bit 0 means sampled.
    pub flags: u8,
    /// True if the context was received from another process.
    pub remote: bool,
}

impl TraceContext {
    /// Parses a traceparent header. Returns an invalid context if the header is malformed or empty.
    pub fn parse(traceparent: &str) -> TraceContext {
        let mut c = TraceContext::default().to_raw();
        // SAFETY: the call reads text.len() bytes, without requiring a NUL.
        unsafe { ffi::sl_traceparent_parse(traceparent.as_ptr().cast::<c_char>(), traceparent.len(), &mut c) };
        TraceContext::of_raw(&c)
    }
    /// True if it has both ids.
    pub fn is_valid(self) -> bool {
        self.trace_id != 0 && self.span_id != 0
    }
    /// The traceparent header, or None if the context is invalid.
    pub fn traceparent(self) -> Option<String> {
        let mut text = [0u8; ffi::SL_TRACEPARENT_LENGTH as usize + 1];
        // SAFETY: the function writes at most SL_TRACEPARENT_LENGTH + 1 bytes.
        let n = unsafe { ffi::sl_traceparent_format(&self.to_raw(), text.as_mut_ptr().cast::<c_char>()) };
        if n == 0 {
            return None;
        }
        String::from_utf8(text[..n].to_vec()).ok()
    }
    fn to_raw(self) -> ffi::sl_trace_context {
        ffi::sl_trace_context {
            trace_hi: (self.trace_id >> 64) as u64,
            trace_lo: self.trace_id as u64,
            span_id: self.span_id,
            flags: self.flags,
            remote: self.remote as u8,
            reserved: [0; 6],
        }
    }
    fn of_raw(c: &ffi::sl_trace_context) -> TraceContext {
        TraceContext {
            trace_id: u128::from(c.trace_hi) << 64 | u128::from(c.trace_lo),
            span_id: c.span_id,
            flags: c.flags,
            remote: c.remote != 0,
        }
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $raw:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'p> {
            raw: ffi::$raw,
            of: PhantomData<&'p ()>,
        }

        impl $name<'_> {
            pub(crate) fn new(raw: ffi::$raw) -> Self {
                $name { raw, of: PhantomData }
            }
            /// False if it was refused; without [`Options::spans`](crate::Options::spans), a publisher refuses all.
            pub fn is_valid(self) -> bool {
                self.raw.bits >> 32 != 0
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("valid", &self.is_valid()).finish()
            }
        }
    )* };
}

names! {
    /// The name of spans, which names a kind of work.
    SpanName: sl_span_name;
    /// The key of an attribute.
    SpanKey: sl_span_key;
}

/// The role of a span in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SpanKind {
    Internal = ffi::SL_SPAN_INTERNAL as isize,
    Server = ffi::SL_SPAN_SERVER as isize,
    Client = ffi::SL_SPAN_CLIENT as isize,
    Producer = ffi::SL_SPAN_PRODUCER as isize,
    Consumer = ffi::SL_SPAN_CONSUMER as isize,
}

/// The outcome of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SpanStatus {
    Unset = ffi::SL_SPAN_UNSET as isize,
    Ok = ffi::SL_SPAN_OK as isize,
    Error = ffi::SL_SPAN_ERROR as isize,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum SpanValue<'a> {
    Bool(bool),
    I64(i64),
    F64(f64),
    Text(&'a str),
}

macro_rules! values {
    ($($type:ty => $variant:ident),*) => { $(
        impl<'a> From<$type> for SpanValue<'a> {
            fn from(v: $type) -> Self {
                SpanValue::$variant(v.into())
            }
        }
    )* };
}
values!(bool => Bool, i64 => I64, i32 => I64, u32 => I64, f64 => F64, &'a str => Text);

/// A span that ends with its scope. Belongs to one thread at a time.
pub struct Span<'p> {
    raw: ffi::sl_span,
    of: PhantomData<&'p ()>,
}

impl<'p> Span<'p> {
    /// Starts a span now. parent: the context of the enclosing span or of the caller; without it, the span is the root of a
    /// trace.
    pub fn start(name: SpanName<'p>, kind: SpanKind, parent: impl Into<Option<TraceContext>>) -> Span<'p> {
        let parent = parent.into().unwrap_or_default().to_raw();
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the call initialises all of the span that is ever read. The span holds no address of itself: it may move.
        let raw = unsafe {
            std::ptr::write_bytes(raw.as_mut_ptr(), 0, 1);
            ffi::sl_span_start(raw.as_mut_ptr(), name.raw, kind as u32, &parent);
            raw.assume_init()
        };
        Span { raw, of: PhantomData }
    }
    /// The span's identity, which is the parent of the spans of its calls.
    pub fn context(&self) -> TraceContext {
        TraceContext::of_raw(&self.raw.context)
    }
    /// Sets an attribute; replaces an earlier one with the same key. An attribute that does not fit is dropped and counted.
    pub fn set<'a>(&mut self, key: SpanKey<'p>, value: impl Into<SpanValue<'a>>) {
        let span = &mut self.raw;
        // SAFETY: a text is as long as it says.
        unsafe {
            match value.into() {
                SpanValue::Bool(v) => ffi::sl_span_set_bool(span, key.raw, v),
                SpanValue::I64(v) => ffi::sl_span_set_i64(span, key.raw, v),
                SpanValue::F64(v) => ffi::sl_span_set_f64(span, key.raw, v),
                SpanValue::Text(v) => ffi::sl_span_set_text(span, key.raw, v.as_ptr().cast::<c_char>(), v.len()),
            }
        }
    }
    /// Sets the status; the last call wins. message: an error message, or "".
    pub fn status(&mut self, status: SpanStatus, message: &str) {
        let message = if message.is_empty() { None } else { c_string(message) };
        // SAFETY: the message lives until the call returns, which copies it.
        unsafe {
            ffi::sl_span_set_status(
                &mut self.raw,
                status as u32,
                message.as_ref().map_or(std::ptr::null(), |m| m.as_ptr()),
            )
        }
    }
    /// Sets the start time, instead of the time of `start()`.
    pub fn set_start(&mut self, time: SystemTime) {
        // SAFETY: a number.
        unsafe { ffi::sl_span_set_start(&mut self.raw, nanoseconds(time)) }
    }
    /// Sets the end time, instead of the time of `end()`.
    pub fn set_end(&mut self, time: SystemTime) {
        // SAFETY: a number.
        unsafe { ffi::sl_span_set_end(&mut self.raw, nanoseconds(time)) }
    }
    /// Ends the span before the end of its scope.
    pub fn end(self) {}
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        // SAFETY: it was started, and ends once.
        unsafe { ffi::sl_span_end(&mut self.raw) }
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").field("context", &self.context()).finish()
    }
}
