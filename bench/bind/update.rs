// SPDX-License-Identifier: Apache-2.0
//! update.rs - nanoseconds per update through the crate for Rust, as one line of JSON: what update_c.c does in C.
use sidelight::{Metric, Options, Publisher};

#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, to: *mut Timespec) -> i32;
}

const COUNTERS: usize = 256;
const VALUES: usize = 1024;
const ROUNDS: usize = 5;

/// CPU time of this thread.
fn now() -> f64 {
    let mut t = Timespec { sec: 0, nsec: 0 };
    assert_eq!(unsafe { clock_gettime(3, &mut t) }, 0);
    t.sec as f64 * 1e9 + t.nsec as f64
}

fn time(n: usize, f: impl FnOnce()) -> f64 {
    let start = now();
    f();
    (now() - start) / n as f64
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(|a, b| a.partial_cmp(b).unwrap());
    v[v.len() / 2]
}

fn main() {
    let n = 4000 * COUNTERS;
    let publisher = Publisher::open(&Options::new()).unwrap();
    let family = publisher.counter_family("bench_total");
    let counters: Vec<_> = (0..COUNTERS).map(|i| family.with(&[("i", i.to_string())])).collect();
    let bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
    let histogram = publisher.histogram(Metric::new("bench_seconds").buckets(&bounds));
    let values: Vec<f64> = (0..VALUES).map(|i| 0.0001 * 1.01f64.powi((i * 617 % VALUES) as i32)).collect();
    let (mut inc, mut observe) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        inc.push(time(n, || {
            for _ in 0..n / COUNTERS {
                for c in &counters {
                    c.inc();
                }
            }
        }));
        observe.push(time(n / 4, || {
            for _ in 0..n / 4 / VALUES {
                for &v in &values {
                    histogram.observe(v);
                }
            }
        }));
    }
    assert_eq!(counters[7].value(), (ROUNDS * n / COUNTERS) as u64);
    println!("{{\"inc\": {}, \"observe\": {}}}", median(inc), median(observe));
}
