// SPDX-License-Identifier: Apache-2.0
//! Handles of metrics, and families of them.
use crate::ffi;
use crate::text::Labels;
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_int;

/// The number of values does not match the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of values does not match the metric")
    }
}

impl std::error::Error for Mismatch {}

impl Mismatch {
    pub(crate) fn of(err: c_int) -> Result<(), Mismatch> {
        if err == 0 {
            Ok(())
        } else {
            Err(Mismatch)
        }
    }
}

/// The functions of the C interface for one kind of metric. p must be a publisher, and o must be valid until the call
/// returns.
pub trait Kind: Copy {
    #[doc(hidden)]
    fn create(p: *mut ffi::sl_publisher, o: &ffi::sl_metric_opts, classic: bool) -> Self;
    #[doc(hidden)]
    fn family(p: *mut ffi::sl_publisher, o: &ffi::sl_metric_opts, classic: bool) -> u64;
    #[doc(hidden)]
    fn with(family: u64, labels: &Labels) -> Self;
    #[doc(hidden)]
    fn remove(family: u64, labels: &Labels) -> c_int;
    #[doc(hidden)]
    fn clear(family: u64) -> c_int;
}

/// Metrics with the same name and different labels.
pub struct Family<'p, M: Kind> {
    bits: u64,
    of: PhantomData<(&'p (), fn() -> M)>,
}

impl<M: Kind> Clone for Family<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Kind> Copy for Family<'_, M> {}

impl<M: Kind> fmt::Debug for Family<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("valid", &self.is_valid()).finish()
    }
}

impl<M: Kind> Family<'_, M> {
    pub(crate) fn new(bits: u64) -> Self {
        Family { bits, of: PhantomData }
    }
    /// False if the family was refused; then its metrics are refused, too.
    pub fn is_valid(self) -> bool {
        self.bits >> 32 != 0
    }
    /// Returns the metric with these labels. Takes a lock and searches a table, so keep the result.
    pub fn with<K: AsRef<str>, V: AsRef<str>>(self, labels: &[(K, V)]) -> M {
        M::with(self.bits, &Labels::new(labels))
    }
    /// Removes the metric with these labels; returns false if there is none. A new metric with these labels starts at 0. Do
    /// not
    /// use handles of the removed metric: their updates are lost, and after 11 s they may count in another metric.
    pub fn remove<K: AsRef<str>, V: AsRef<str>>(self, labels: &[(K, V)]) -> bool {
        M::remove(self.bits, &Labels::new(labels)) == 0
    }
    /// Removes all metrics of the family. Returns false if the family was refused.
    pub fn clear(self) -> bool {
        M::clear(self.bits) == 0
    }
}

macro_rules! kind {
    (
        $(#[$doc:meta])* $name:ident($raw:ident, $family:ident),
        $create:ident $(or $create_classic:ident)?, $family_create:ident $(or $family_classic:ident)?,
        $with:ident, $remove:ident, $clear:ident
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'p> {
            pub(crate) raw: ffi::$raw,
            of: PhantomData<&'p ()>,
        }

        // SAFETY: any thread may use a handle, and its target is never freed.
        unsafe impl Send for $name<'_> {}
        unsafe impl Sync for $name<'_> {}

        impl $name<'_> {
            /// False if the metric was refused; then its functions do nothing.
            pub fn is_valid(self) -> bool {
                self.raw.bits >> 32 != 0
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("valid", &self.is_valid()).finish()
            }
        }

        // SAFETY of the calls: see the trait.
        impl Kind for $name<'_> {
            fn create(p: *mut ffi::sl_publisher, o: &ffi::sl_metric_opts, classic: bool) -> Self {
                let _ = classic;
                $( if classic { return $name { raw: unsafe { ffi::$create_classic(p, o) }, of: PhantomData }; } )?
                $name { raw: unsafe { ffi::$create(p, o) }, of: PhantomData }
            }
            fn family(p: *mut ffi::sl_publisher, o: &ffi::sl_metric_opts, classic: bool) -> u64 {
                let _ = classic;
                $( if classic { return unsafe { ffi::$family_classic(p, o) }.bits; } )?
                unsafe { ffi::$family_create(p, o) }.bits
            }
            fn with(family: u64, labels: &Labels) -> Self {
                let family = ffi::$family { bits: family };
                $name { raw: unsafe { ffi::$with(family, labels.ptr(), labels.len()) }, of: PhantomData }
            }
            fn remove(family: u64, labels: &Labels) -> c_int {
                unsafe { ffi::$remove(ffi::$family { bits: family }, labels.ptr(), labels.len()) }
            }
            fn clear(family: u64) -> c_int {
                unsafe { ffi::$clear(ffi::$family { bits: family }) }
            }
        }
    };
}

kind! {
    /// A whole number that only increases.
    Counter(sl_counter, sl_counter_family),
    sl_counter_create,
    sl_counter_family_create,
    sl_counter_with, sl_counter_remove, sl_counter_clear
}
kind! {
    /// A number that only increases.
    CounterF64(sl_counter_f64, sl_counter_f64_family),
    sl_counter_f64_create,
    sl_counter_f64_family_create,
    sl_counter_f64_with, sl_counter_f64_remove, sl_counter_f64_clear
}
kind! {
    /// A whole number that goes up and down.
    Gauge(sl_gauge, sl_gauge_family),
    sl_gauge_create,
    sl_gauge_family_create,
    sl_gauge_with, sl_gauge_remove, sl_gauge_clear
}
kind! {
    /// A number that goes up and down.
    GaugeF64(sl_gauge_f64, sl_gauge_f64_family),
    sl_gauge_f64_create,
    sl_gauge_f64_family_create,
    sl_gauge_f64_with, sl_gauge_f64_remove, sl_gauge_f64_clear
}
kind! {
    /// A gauge that records when it was set, for [`Combine::MostRecent`](crate::Combine::MostRecent), its default.
    GaugeTimed(sl_gauge_timed, sl_gauge_timed_family),
    sl_gauge_timed_create,
    sl_gauge_timed_family_create,
    sl_gauge_timed_with, sl_gauge_timed_remove, sl_gauge_timed_clear
}
kind! {
    /// Observations in buckets.
    Histogram(sl_histogram, sl_histogram_family),
    sl_histogram_create or sl_histogram_create_classic,
    sl_histogram_family_create or sl_histogram_family_create_classic,
    sl_histogram_with, sl_histogram_remove, sl_histogram_clear
}
kind! {
    /// A histogram of a current state.
    GaugeHistogram(sl_gauge_histogram, sl_gauge_histogram_family),
    sl_gauge_histogram_create or sl_gauge_histogram_create_classic,
    sl_gauge_histogram_family_create or sl_gauge_histogram_family_create_classic,
    sl_gauge_histogram_with, sl_gauge_histogram_remove, sl_gauge_histogram_clear
}
kind! {
    /// A set of states, each of which is on or off.
    StateSet(sl_stateset, sl_stateset_family),
    sl_stateset_create,
    sl_stateset_family_create,
    sl_stateset_with, sl_stateset_remove, sl_stateset_clear
}
kind! {
    /// Number and sum of observations, and quantiles computed elsewhere.
    Summary(sl_summary, sl_summary_family),
    sl_summary_create,
    sl_summary_family_create,
    sl_summary_with, sl_summary_remove, sl_summary_clear
}
kind! {
    /// A number of unknown type.
    Unknown(sl_unknown, sl_unknown_family),
    sl_unknown_create,
    sl_unknown_family_create,
    sl_unknown_with, sl_unknown_remove, sl_unknown_clear
}
