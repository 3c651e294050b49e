// SPDX-License-Identifier: Apache-2.0
//! kit_writer.rs - the crate as a writer that tests/conformance examines; its README.md has the words.
use sidelight::{
    Counter, CounterF64, Exemplar, Gauge, GaugeF64, Histogram, Metric, Options, Publisher, StateSet, Summary, Unknown,
};
use std::io::stdin;
use std::thread::sleep;
use std::time::Duration;

struct Metrics<'p> {
    requests: Counter<'p>,
    seconds: CounterF64<'p>,
    depth: Gauge<'p>,
    temperature: GaugeF64<'p>,
    latency: Histogram<'p>,
    state: StateSet<'p>,
    size: Summary<'p>,
    unknown: Unknown<'p>,
}

impl<'p> Metrics<'p> {
    fn make(p: &'p Publisher) -> Metrics<'p> {
        assert!(p.info(Metric::new("kit_build_info").label("version", "1.2 \"ä\"")));
        Metrics {
            requests: p.counter(
                Metric::new("kit_requests_total").help("Requests.").label("code", "200").label("method", "get"),
            ),
            seconds: p.counter_f64("kit_seconds_total"),
            depth: p.gauge("kit_depth"),
            temperature: p.gauge_f64("kit_temperature"),
            latency: p.histogram(Metric::new("kit_latency_seconds").buckets(&[0.1, 1.0, 10.0])),
            state: p.state_set(Metric::new("kit_state").states(&["up", "down"])),
            size: p.summary("kit_size_bytes"),
            unknown: p.unknown("kit_unknown"),
        }
    }
    fn count(&self, rounds: i64) {
        for i in 1..=rounds {
            self.requests.inc();
            self.seconds.add(0.5);
            self.depth.set(-i);
            self.temperature.set(i as f64 / 4.0);
            self.latency.observe([0.05, 0.5, 5.0, 50.0][(i - 1) as usize % 4]);
            self.state.set(0, i % 2 == 0);
            self.state.set(1, i % 2 == 1);
            self.size.observe(2.0);
            self.unknown.set(i as f64);
            if i % 100 == 0 {
                sleep(Duration::from_millis(1));
            }
        }
    }
}

fn main() {
    let publisher = Publisher::open(&Options::new().service("kit")).unwrap();
    let removable = publisher.counter_family("kit_removable_total");
    let mut metrics = None;
    for line in stdin().lines() {
        let line = line.unwrap();
        match line.split_once(' ') {
            Some(("count", n)) => metrics.get_or_insert_with(|| Metrics::make(&publisher)).count(n.parse().unwrap()),
            Some(("traced", label)) => {
                let label = label.split_once(' ').unwrap();
                let exemplar = Exemplar { labels: &[label], ..Default::default() };
                publisher.counter("kit_traced_total").add_exemplar(1, &exemplar);
            }
            Some(("named", label)) => {
                let (key, value) = label.split_once(' ').unwrap();
                publisher.counter(Metric::new("kit.größe").utf8().label(key, value)).inc();
            }
            Some(("labels", of)) => removable.with(&[("of", of)]).inc(),
            Some(("remove", of)) => assert!(removable.remove(&[("of", of)])),
            _ => {
                metrics = Some(Metrics::make(&publisher));
                println!("ok counter counter_f64 gauge gauge_f64 histogram info stateset summary unknown");
                continue;
            }
        }
        println!("ok");
    }
}
