// SPDX-License-Identifier: Apache-2.0
//! What a metric is: name, help, labels, buckets.
use crate::ffi;
use crate::text::{c_string, or_null, Labels};
use std::ffi::CString;
use std::ptr;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a collector that shows the processes of a service as one combines their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Combine {
    Default = ffi::SL_COMBINE_DEFAULT as isize,
    Sum = ffi::SL_COMBINE_SUM as isize,
    Min = ffi::SL_COMBINE_MIN as isize,
    Max = ffi::SL_COMBINE_MAX as isize,
    /// For timed gauges only.
    MostRecent = ffi::SL_COMBINE_MOST_RECENT as isize,
    /// One series per process.
    All = ffi::SL_COMBINE_ALL as isize,
}

/// Describes a metric or a family of metrics. Often a name, or a name and a help text, is enough.
#[derive(Clone, Debug)]
pub struct Metric {
    name: String,
    help: String,
    unit: String,
    labels: Vec<(String, String)>,
    bounds: Vec<f64>,
    scale: Option<i32>,
    range: (f64, f64),
    states: Vec<String>,
    quantiles: Vec<f64>,
    combine: Combine,
    live: bool,
    utf8: bool,
    created_ns: u64,
}

impl Metric {
    /// The name matches `[a-zA-Z_:][a-zA-Z0-9_:]*`, and by convention has a base unit, and `_total` for counters.
    pub fn new(name: impl Into<String>) -> Metric {
        Metric {
            name: name.into(),
            help: String::new(),
            unit: String::new(),
            labels: Vec::new(),
            bounds: Vec::new(),
            scale: None,
            range: (0.0, 0.0),
            states: Vec::new(),
            quantiles: Vec::new(),
            combine: Combine::Default,
            live: false,
            utf8: false,
            created_ns: 0,
        }
    }
    /// One line of text that describes the metric.
    pub fn help(mut self, help: impl Into<String>) -> Metric {
        self.help = help.into();
        self
    }
    /// "seconds", "bytes", ...; by convention the name ends with it.
    pub fn unit(mut self, unit: impl Into<String>) -> Metric {
        self.unit = unit.into();
        self
    }
    /// Adds a label. Not for families, whose `with()` takes the labels.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Metric {
        self.labels.push((key.into(), value.into()));
        self
    }
    /// For histograms: ascending upper bounds, without infinity. By default, the buckets are exponential.
    pub fn buckets(mut self, bounds: &[f64]) -> Metric {
        self.bounds = bounds.to_vec();
        self
    }
    /// For exponential histograms: a factor of 2^(2^-scale) between buckets; by default 3, a factor of 1.09.
    pub fn scale(mut self, scale: i32) -> Metric {
        self.scale = Some(scale);
        self
    }
    /// For exponential histograms: the range of values that have buckets of their own; by default 1e-6 to 1e6.
    pub fn range(mut self, min: f64, max: f64) -> Metric {
        self.range = (min, max);
        self
    }
    /// For state sets: the names of the states.
    pub fn states(mut self, states: &[&str]) -> Metric {
        self.states = states.iter().map(|s| s.to_string()).collect();
        self
    }
    /// For summaries: ranks from 0 to 1, ascending.
    pub fn quantiles(mut self, ranks: &[f64]) -> Metric {
        self.quantiles = ranks.to_vec();
        self
    }
    /// How the values of several processes are combined.
    pub fn combine(mut self, combine: Combine) -> Metric {
        self.combine = combine;
        self
    }
    /// Combines only the values of processes that are alive.
    pub fn live(mut self) -> Metric {
        self.live = true;
        self
    }
    /// Name and label keys may be any UTF-8.
    pub fn utf8(mut self) -> Metric {
        self.utf8 = true;
        self
    }
    /// The time since which the metric counts; by default now.
    pub fn created(mut self, since: SystemTime) -> Metric {
        self.created_ns = nanoseconds(since);
        self
    }

    pub(crate) fn is_classic(&self) -> bool {
        !self.bounds.is_empty()
    }
    /// Calls f with the options in C. If a text contains a NUL, the name is empty, and the library refuses and counts the
    /// metric.
    pub(crate) fn with_opts<R>(&self, f: impl FnOnce(&ffi::sl_metric_opts) -> R) -> R {
        let nul = [&self.name, &self.help, &self.unit].iter().any(|s| s.contains('\0'))
            || self.states.iter().any(|s| s.contains('\0'));
        let name = if nul { CString::default() } else { c_string(&self.name).unwrap_or_default() };
        let (help, unit) = (c_string(&self.help), c_string(&self.unit));
        let labels = Labels::new(&self.labels);
        let states: Vec<CString> = self.states.iter().filter_map(|s| c_string(s)).collect();
        let state_ptrs: Vec<_> = states.iter().map(|s| s.as_ptr()).collect();
        f(&ffi::sl_metric_opts {
            sz: std::mem::size_of::<ffi::sl_metric_opts>(),
            name: name.as_ptr(),
            help: or_null(&help),
            unit: or_null(&unit),
            labels: if labels.len() > 0 { labels.ptr() } else { ptr::null() },
            label_count: labels.len(),
            scale: self.scale.unwrap_or(0),
            use_scale: self.scale.is_some(),
            min: self.range.0,
            max: self.range.1,
            bounds: self.bounds.as_ptr(),
            bound_count: self.bounds.len(),
            states: state_ptrs.as_ptr(),
            state_count: state_ptrs.len(),
            quantiles: self.quantiles.as_ptr(),
            quantile_count: self.quantiles.len(),
            combine: self.combine as u32,
            live: self.live,
            mirror: false,
            utf8: self.utf8,
            created_ns: self.created_ns,
        })
    }
}

impl From<&str> for Metric {
    fn from(name: &str) -> Metric {
        Metric::new(name)
    }
}

impl From<(&str, &str)> for Metric {
    fn from((name, help): (&str, &str)) -> Metric {
        Metric::new(name).help(help)
    }
}

/// Nanoseconds since 1970. An earlier time is 0, which means now to the library.
pub(crate) fn nanoseconds(t: SystemTime) -> u64 {
    t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
