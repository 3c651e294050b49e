// SPDX-License-Identifier: Apache-2.0
//! Strings and labels for C.
use crate::ffi;
use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr;

/// Returns None if the string contains a NUL, because C would see a shorter string.
pub(crate) fn c_string(s: &str) -> Option<CString> {
    CString::new(s).ok()
}

/// Returns NULL for an empty string, so that the library uses its default.
pub(crate) fn or_null(s: &Option<CString>) -> *const c_char {
    match s {
        Some(s) if !s.as_bytes().is_empty() => s.as_ptr(),
        _ => ptr::null(),
    }
}

/// Labels that C reads; they point into `_text`.
pub struct Labels {
    label: Vec<ffi::sl_label>,
    _text: Vec<(CString, CString)>,
}

impl Labels {
    /// A label that contains a NUL gets an empty key, which every function refuses.
    pub(crate) fn new<K: AsRef<str>, V: AsRef<str>>(labels: &[(K, V)]) -> Labels {
        let text: Vec<(CString, CString)> = labels
            .iter()
            .map(|(k, v)| match (c_string(k.as_ref()), c_string(v.as_ref())) {
                (Some(k), Some(v)) => (k, v),
                _ => Default::default(),
            })
            .collect();
        let label = text.iter().map(|(k, v)| ffi::sl_label { key: k.as_ptr(), value: v.as_ptr() }).collect();
        Labels { label, _text: text }
    }
    pub(crate) fn ptr(&self) -> *const ffi::sl_label {
        self.label.as_ptr()
    }
    pub(crate) fn len(&self) -> usize {
        self.label.len()
    }
}
