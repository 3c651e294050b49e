// SPDX-License-Identifier: Apache-2.0
//! The owner of the memory.
use crate::ffi;
use crate::metric::Metric;
use crate::series::{
    Counter, CounterF64, Family, Gauge, GaugeF64, GaugeHistogram, GaugeTimed, Histogram, Kind, StateSet, Summary,
    Unknown,
};
use crate::span::{SpanKey, SpanName};
use crate::text::{c_string, or_null, Labels};
use std::ffi::CStr;
use std::os::raw::{c_char, c_uint, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;
use std::{fmt, io, mem, ptr};

/// Options of a publisher. Options that are not set have libsidelight's defaults.
#[derive(Clone, Debug, Default)]
pub struct Options {
    service: Option<String>,
    pod: String,
    namespace: String,
    socket: String,
    labels: Vec<(String, String)>,
    max_cells: u32,
    max_threads: u32,
    schema_bytes: u32,
    span_bytes: u32,
    exemplars: u32,
    flags: u32,
}

macro_rules! option {
    ($($(#[$doc:meta])* $name:ident: $type:ty),*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Options {
            self.$name = $name.into();
            self
        }
    )* };
}

impl Options {
    /// Options with default values.
    pub fn new() -> Options {
        Options::default()
    }
    /// Label "service"; default: `$SIDELIGHT_SERVICE`, or the program's name.
    pub fn service(mut self, service: impl Into<String>) -> Options {
        self.service = Some(service.into());
        self
    }
    option! {
        /// Label "pod"; default: `$POD_NAME`, the container's id, or `SERVICE-PID`.
        pod: &str,
        /// Label "namespace"; default: `$POD_NAMESPACE`, or none.
        namespace: &str,
        /// Path of the agent's socket; default: `$SIDELIGHT_SOCKET`, or /run/sidelight/agent.sock.
        socket: &str,
        /// Number of cells in the first region; a counter or a gauge takes one.
        max_cells: u32,
        /// Number of threads that count without atomic operations.
        max_threads: u32,
        /// Room for names, help texts and labels.
        schema_bytes: u32,
        /// Maximum number of counters and buckets that have an exemplar.
        exemplars: u32
    }
    /// Adds a label to all series.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Options {
        self.labels.push((key.into(), value.into()));
        self
    }
    /// Reserves room for about a thousand spans per thread. [`Options::span_bytes`] sets another size.
    pub fn spans(self) -> Options {
        self.span_bytes(ffi::SL_SPAN_BYTES)
    }
    /// Room for the spans of one thread.
    pub fn span_bytes(mut self, bytes: u32) -> Options {
        self.span_bytes = bytes;
        self
    }
    /// The callers of this service publish no spans to Sidelight, so a span with a remote parent is the root of its trace.
    pub fn edge(mut self) -> Options {
        self.flags |= ffi::SL_PUBLISHER_EDGE;
        self
    }
    /// Refuses metrics that do not fit, instead of taking more memory.
    pub fn fixed(mut self) -> Options {
        self.flags |= ffi::SL_PUBLISHER_FIXED;
        self
    }
    /// Does not look for an agent.
    pub fn detached(mut self) -> Options {
        self.flags |= ffi::SL_PUBLISHER_DETACHED;
        self
    }
}

/// Memory of this process that a collector reads. Metrics borrow it. When it is dropped, it tells the agent that it closes.
pub struct Publisher {
    raw: *mut ffi::sl_publisher,
}

// SAFETY: the C functions that take a publisher are thread-safe, except for sl_publisher_close(), which only drop() calls.
unsafe impl Send for Publisher {}
unsafe impl Sync for Publisher {}

/// Statistics of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stats {
    pub metrics: u32,
    /// Refused metrics and observations.
    pub refused: u32,
    pub cells_used: u32,
    pub cells_max: u32,
    pub stripes_used: u32,
    pub stripes_max: u32,
    /// Threads beyond `max_threads`, which share a stripe. They count exactly, too, by atomic operations.
    pub threads_sharing: u32,
    /// How often an agent has admitted the first region.
    pub attaches: u32,
    pub regions: u32,
}

/// The verdict of a collector that analyses this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// False without analysis, and if the verdict has expired.
    pub known: bool,
    /// False unless known.
    pub anomalous: bool,
    /// At least 0; 1 is the threshold.
    pub score: f64,
    /// Grows with each change.
    pub sequence: u64,
    /// Time of the verdict by the collector's clock, in nanoseconds since 1970.
    pub time_ns: i64,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $metric:ident, $family:ident: $type:ident;)*) => { $(
        $(#[$doc])*
        pub fn $metric(&self, metric: impl Into<Metric>) -> $type<'_> {
            let metric = metric.into();
            metric.with_opts(|o| $type::create(self.raw, o, metric.is_classic()))
        }
        /// A family of such metrics, which differ only in their labels; `with()` returns the metric with given labels.
        pub fn $family(&self, metric: impl Into<Metric>) -> Family<'_, $type<'_>> {
            let metric = metric.into();
            Family::new(metric.with_opts(|o| $type::family(self.raw, o, metric.is_classic())))
        }
    )* };
}

impl Publisher {
    /// Creates the memory, and a thread that passes it to the agent as soon as there is one. Fails if an option is malformed,
    /// or if memory or descriptors are exhausted.
    pub fn open(options: &Options) -> io::Result<Publisher> {
        let service = options.service.clone().or_else(|| std::env::var("SIDELIGHT_SERVICE").ok());
        let texts =
            [service.unwrap_or_default(), options.pod.clone(), options.namespace.clone(), options.socket.clone()];
        let labels = Labels::new(&options.labels);
        if texts.iter().any(|s| s.contains('\0')) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let texts = texts.map(|s| c_string(&s));
        let opts = ffi::sl_publisher_opts {
            sz: mem::size_of::<ffi::sl_publisher_opts>(),
            service: or_null(&texts[0]),
            pod: or_null(&texts[1]),
            kube_namespace: or_null(&texts[2]),
            labels: labels.ptr(),
            label_count: labels.len(),
            socket: or_null(&texts[3]),
            max_cells: options.max_cells,
            max_threads: options.max_threads,
            schema_bytes: options.schema_bytes,
            flags: options.flags,
            span_bytes: options.span_bytes,
            exemplars: options.exemplars,
        };
        // SAFETY: opts and all that it points to live until the call returns.
        let raw = unsafe { ffi::sl_publisher_open(&opts) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Publisher { raw })
    }

    kinds! {
        /// A whole number that only increases.
        counter, counter_family: Counter;
        /// A number that only increases.
        counter_f64, counter_f64_family: CounterF64;
        /// A whole number that goes up and down.
        gauge, gauge_family: Gauge;
        /// A number that goes up and down.
        gauge_f64, gauge_f64_family: GaugeF64;
        /// A gauge that records when it was set.
        gauge_timed, gauge_timed_family: GaugeTimed;
        /// Observations in buckets: those of `Metric::buckets()`, or exponential ones.
        histogram, histogram_family: Histogram;
        /// A histogram of a current state, whose buckets may decrease.
        gauge_histogram, gauge_histogram_family: GaugeHistogram;
        /// A set of states, each of which is on or off.
        state_set, state_set_family: StateSet;
        /// Number and sum of observations, and quantiles computed elsewhere.
        summary, summary_family: Summary;
        /// A number of unknown type.
        unknown, unknown_family: Unknown;
    }
    /// Publishes a metric whose value is its labels. Returns false if it is refused.
    pub fn info(&self, metric: impl Into<Metric>) -> bool {
        // SAFETY: the options live until the call returns.
        metric.into().with_opts(|o| unsafe { ffi::sl_info_create(self.raw, o) }) == 0
    }
    /// Removes the info with this name and these labels. Returns false if there is none.
    pub fn remove_info(&self, metric: impl Into<Metric>) -> bool {
        // SAFETY: as above.
        metric.into().with_opts(|o| unsafe { ffi::sl_info_remove(self.raw, o) }) == 0
    }
    /// Creates a name for spans. It names a kind of work, such as "GET /cart", and contains no ids.
    pub fn span_name(&self, name: &str) -> SpanName<'_> {
        let name = c_string(name).unwrap_or_default();
        // SAFETY: the name lives until the call returns.
        SpanName::new(unsafe { ffi::sl_span_name_create(self.raw, name.as_ptr()) })
    }
    /// Creates the key of an attribute, such as "http.response.status_code".
    pub fn span_key(&self, key: &str) -> SpanKey<'_> {
        let key = c_string(key).unwrap_or_default();
        // SAFETY: the key lives until the call returns.
        SpanKey::new(unsafe { ffi::sl_span_key_create(self.raw, key.as_ptr()) })
    }

    /// True while an agent has the memory.
    pub fn attached(&self) -> bool {
        // SAFETY: raw is valid, or NULL.
        unsafe { ffi::sl_publisher_attached(self.raw) }
    }
    /// True while a collector finds this process anomalous, so that it can log more. Costs one load, so call it as often as
    /// you like.
    #[inline]
    pub fn alarmed(&self) -> bool {
        // SAFETY: this is the first word of a publisher, which sl_publisher_alarmed() in sidelight.h also reads.
        !self.raw.is_null() && unsafe { (*self.raw.cast::<AtomicU32>()).load(Ordering::Relaxed) } != 0
    }
    /// The collector's verdict on this process. Makes no system call.
    pub fn verdict(&self) -> Verdict {
        let sz = mem::size_of::<ffi::sl_publisher_verdict>();
        let mut v =
            ffi::sl_publisher_verdict { sz, known: false, anomalous: false, score: 0.0, sequence: 0, time_ns: 0 };
        // SAFETY: v.sz is the size of v. If raw is NULL, the call leaves v unchanged.
        unsafe { ffi::sl_publisher_verdict(self.raw, &mut v) };
        Verdict { known: v.known, anomalous: v.anomalous, score: v.score, sequence: v.sequence, time_ns: v.time_ns }
    }
    /// Statistics of this publisher.
    pub fn stats(&self) -> Stats {
        // SAFETY: a structure of numbers may be all zeroes.
        let mut s: ffi::sl_publisher_stats = unsafe { mem::zeroed() };
        s.sz = mem::size_of_val(&s);
        // SAFETY: s.sz is the size of s.
        unsafe { ffi::sl_publisher_stats(self.raw, &mut s) };
        Stats {
            metrics: s.metrics,
            refused: s.refused,
            cells_used: s.cells_used,
            cells_max: s.cells_max,
            stripes_used: s.stripes_used,
            stripes_max: s.stripes_max,
            threads_sharing: s.threads_sharing,
            attaches: s.attaches,
            regions: s.regions,
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // SAFETY: no borrow of the publisher is left.
        unsafe { ffi::sl_publisher_close(self.raw) };
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("attached", &self.attached()).field("stats", &self.stats()).finish()
    }
}

/// The publisher of the process. The first call opens it with default options, and it is never closed. If it cannot be
/// opened,
/// all its metrics are refused.
pub fn publisher() -> &'static Publisher {
    static ONCE: Once = Once::new();
    static mut PUBLISHER: *const Publisher = ptr::null();
    ONCE.call_once(|| {
        let p = Publisher::open(&Options::new()).unwrap_or(Publisher { raw: ptr::null_mut() });
        // SAFETY: written once, before any read.
        unsafe { PUBLISHER = Box::leak(Box::new(p)) };
    });
    // SAFETY: has been written, and is never written again.
    unsafe { &*PUBLISHER }
}

/// The version of the loaded libsidelight.
pub fn version() -> &'static str {
    // SAFETY: a string in static storage.
    unsafe { CStr::from_ptr(ffi::sl_version()) }.to_str().unwrap_or("")
}

/// The level of a message from the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// Passes the library's messages to f, in any thread. With None, which is the default, messages are dropped.
pub fn set_log(f: Option<fn(LogLevel, &str)>) {
    unsafe extern "C" fn call(level: c_uint, line: *const c_char, arg: *mut c_void) {
        // SAFETY: arg is the function pointer passed below, and line is a string.
        let (f, line) = (mem::transmute::<*mut c_void, fn(LogLevel, &str)>(arg), CStr::from_ptr(line));
        let level = match level {
            ffi::SL_LOG_ERROR => LogLevel::Error,
            ffi::SL_LOG_WARN => LogLevel::Warn,
            ffi::SL_LOG_INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        };
        // A panic must not unwind into C.
        let _ = catch_unwind(|| f(level, &line.to_string_lossy()));
    }
    // SAFETY: a function pointer is valid as long as the process runs.
    unsafe {
        match f {
            Some(f) => ffi::sl_set_log(Some(call), f as *mut c_void),
            None => ffi::sl_set_log(None, ptr::null_mut()),
        }
    }
}
