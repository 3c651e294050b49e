// SPDX-License-Identifier: Apache-2.0
//! app.rs: a service that uses the crate. On each line of stdin it does that ("more"), and answers by one line of JSON.
use sidelight::{Combine, Exemplar, Metric, Options, Publisher, SpanKind, SpanStatus, StateSet, TraceContext};
use std::io::{stdin, stdout, BufRead, Write};
use std::thread;
use std::time::{Duration, SystemTime};

extern "C" {
    fn fork() -> i32;
    fn prctl(option: i32, argument: u64) -> i32;
}

struct App<'p> {
    publisher: &'p Publisher,
    requests: sidelight::Family<'p, sidelight::Counter<'p>>,
    plain: sidelight::Counter<'p>,
    seconds: sidelight::CounterF64<'p>,
    queue: sidelight::Gauge<'p>,
    level: sidelight::GaugeF64<'p>,
    latest: sidelight::GaugeTimed<'p>,
    took: sidelight::Histogram<'p>,
    native: sidelight::Histogram<'p>,
    lengths: sidelight::GaugeHistogram<'p>,
    state: StateSet<'p>,
    ages: sidelight::Summary<'p>,
    other: sidelight::Unknown<'p>,
}

impl<'p> App<'p> {
    fn new(p: &'p Publisher) -> App<'p> {
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        assert!(p.info(Metric::new("app_build_info").label("version", "1.2 \"ä\"")));
        assert!(p.info(Metric::new("app_old_info").label("version", "1")));
        assert!(p.remove_info(Metric::new("app_old_info").label("version", "1")));
        App {
            publisher: p,
            requests: p.counter_family(("app_requests_total", "Two lines,\nand a \"quote\".")),
            plain: p.counter(Metric::new("app_plain_total").created(long_ago)),
            seconds: p.counter_f64(Metric::new("app_busy_seconds_total").unit("seconds")),
            queue: p.gauge(("app_queue", "Jobs.")),
            level: p.gauge_f64(Metric::new("app_level").combine(Combine::Max).live()),
            latest: p.gauge_timed("app_latest"),
            took: p.histogram(Metric::new("app_took_seconds").help("Time.").buckets(&[0.125, 1.0, 10.0])),
            native: p.histogram(Metric::new("app_native").scale(0).range(0.5, 8.0)),
            lengths: p.gauge_histogram(Metric::new("app_lengths").buckets(&[1.0, 2.0])),
            state: p.state_set(Metric::new("app_state").states(&["up", "down"])),
            ages: p.summary(Metric::new("app_ages").quantiles(&[0.5, 0.9])),
            other: p.unknown("app_other"),
        }
    }

    fn more(&self) -> String {
        self.plain.inc();
        self.plain.add(2);
        self.seconds.add(0.5);
        self.seconds.add(-1.0); // refused
        self.queue.set(7);
        self.queue.inc();
        self.queue.dec();
        self.queue.add(-9);
        self.level.set(1.25);
        self.level.add(0.25);
        self.latest.set(3.0);
        self.latest.set_at(4.0, SystemTime::now());
        self.took.observe(0.0625);
        self.took.observe(5.0);
        self.took.add(&[1, 0, 2, 0], 8.0).unwrap();
        assert!(self.took.add(&[1], 1.0).is_err());
        self.native.observe(3.0);
        assert_eq!(self.lengths.size(), 3);
        self.lengths.set(&[4, 5, 6], 30.0).unwrap();
        assert!(self.lengths.set(&[4], 30.0).is_err());
        self.state.set(0, true);
        self.state.set(1, false);
        self.state.set(99, true);
        self.ages.observe(2.0);
        self.ages.add(10.0, 4);
        self.ages.set_quantiles(&[2.0, 3.0]).unwrap();
        assert!(self.ages.set_quantiles(&[1.0]).is_err());
        self.other.set(6.5);
        self.requests.with(&[("route", "/a"), ("code", "200")]).inc();
        self.requests.with(&[("code", "200"), ("route", "/a")]).add(3);
        self.requests.with(&[("route", "ü\"\\\n")]).inc();
        self.requests.with(&[("route", "/gone")]).inc();
        assert!(self.requests.remove(&[("route", "/gone")]));
        assert!(!self.requests.remove(&[("route", "/gone")]));
        let passing = self.publisher.counter_family("app_passing_total");
        passing.with(&[("of", "x")]).inc();
        assert!(passing.clear());
        "null".into()
    }

    /// The values that the handles themselves return.
    fn values(&self) -> String {
        format!(
            "[{}, {}, {}, {}, {}, {}, {}, {}, {}, {}]",
            self.plain.value(),
            self.seconds.value(),
            self.queue.value(),
            self.level.value(),
            self.latest.value(),
            self.took.count(),
            self.took.sum(),
            self.ages.count(),
            self.ages.sum(),
            self.other.value()
        )
    }

    /// Invalid metrics do nothing.
    fn refused(&self) -> String {
        let p = self.publisher;
        let before = p.stats().refused;
        let bad = p.counter("0bad");
        bad.inc();
        let nul = p.counter("a_total\0b");
        let label = self.requests.with(&[("route", "a\0b")]);
        label.inc();
        let other_kind = p.gauge("app_plain_total");
        other_kind.set(3);
        let empty = p.histogram(Metric::new("app_empty").buckets(&[2.0, 1.0]));
        empty.observe(1.0);
        assert!(empty.add(&[1], 1.0).is_ok());
        let family = p.counter_family("1bad");
        family.with(&[("a", "b")]).inc();
        assert!(!family.remove(&[("a", "b")]) && !family.clear());
        let valid = [bad.is_valid(), nul.is_valid(), label.is_valid(), other_kind.is_valid(), empty.is_valid()];
        assert_eq!(valid, [false; 5]);
        assert!(!family.is_valid() && !p.span_name("a\0").is_valid());
        (p.stats().refused - before).to_string()
    }

    fn exemplars(&self) -> String {
        let context = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(context.traceparent().unwrap(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert!(context.is_valid() && context.remote && !TraceContext::parse("nonsense").is_valid());
        self.plain.add_exemplar(1, &context.into());
        self.seconds.add_exemplar(0.25, &Exemplar { labels: &[("user", "7")], ..Default::default() });
        self.took.observe_exemplar(0.5, &Exemplar { trace_id: 0xab, ..Default::default() });
        "null".into()
    }

    fn spans(&self) -> String {
        let caller = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let (get, ask) = (self.publisher.span_name("GET /cart"), self.publisher.span_name("ask"));
        let (items, user) = (self.publisher.span_key("cart.items"), self.publisher.span_key("user"));
        assert!(get.is_valid() && ask.is_valid() && items.is_valid() && user.is_valid());
        let mut root = sidelight::Span::start(get, SpanKind::Server, caller);
        assert_eq!(root.context().trace_id, caller.trace_id);
        root.set(items, 3);
        root.set(user, "ä");
        root.set(user, true);
        root.set(user, 0.5);
        let child = sidelight::Span::start(ask, SpanKind::Client, root.context());
        assert_eq!(child.context().trace_id, caller.trace_id);
        let moved = thread::scope(|s| s.spawn(move || child).join().unwrap());
        moved.end();
        root.status(SpanStatus::Error, "out of carts");
        root.set_start(SystemTime::now() - Duration::from_secs(2));
        root.set_end(SystemTime::now());
        drop(root);
        assert!(sidelight::Span::start(get, SpanKind::Internal, None).context().is_valid());
        "null".into()
    }

    /// Two threads, with handles that they share.
    fn threads(&self) -> String {
        let (plain, took, ages) = (self.plain, self.took, self.ages);
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(move || {
                    for i in 0..100_000 {
                        plain.inc();
                        took.observe(if i % 2 == 0 { 0.5 } else { 2.0 });
                        ages.observe(1.0);
                    }
                });
            }
        });
        plain.value().to_string()
    }

    /// A child that counts 100 times, and waits until it is killed.
    fn forked(&self) -> String {
        let pid = unsafe { fork() };
        if pid != 0 {
            return pid.to_string();
        }
        // PR_SET_PDEATHSIG, SIGKILL: a test that fails leaves no process.
        assert_eq!(unsafe { prctl(1, 9) }, 0);
        for _ in 0..100 {
            self.plain.inc();
        }
        loop {
            thread::park();
        }
    }

    fn full(&self) -> String {
        for i in 0..2000 {
            self.requests.with(&[("route", format!("/full/{i}"))]).inc();
        }
        self.publisher.stats().refused.to_string()
    }

    fn forge(&self) -> String {
        self.requests.with(&[("process", "1"), ("host", "victim"), ("uid", "0")]).inc();
        "null".into()
    }
}

fn main() {
    let fixed = std::env::args().nth(1);
    let mut options = Options::new().spans().label("zone", "a");
    if fixed.is_some() {
        options = options.max_cells(300).schema_bytes(65536).max_threads(8).exemplars(7).fixed();
    }
    assert!(Publisher::open(&Options::new().pod("a\0b")).is_err());
    assert!(Publisher::open(&Options::new().label("0", "")).is_err());
    assert_eq!(sidelight::version(), "0.1.0");
    let publisher = Publisher::open(&options).unwrap();
    let app = App::new(&publisher);
    for line in stdin().lock().lines() {
        let answer = match line.unwrap().as_str() {
            "more" => app.more(),
            "values" => app.values(),
            "refused" => app.refused(),
            "exemplars" => app.exemplars(),
            "spans" => app.spans(),
            "threads" => app.threads(),
            "fork" => app.forked(),
            "full" => app.full(),
            "forge" => app.forge(),
            "attached" => publisher.attached().to_string(),
            "alarmed" => (publisher.alarmed() || publisher.verdict().known).to_string(),
            other => panic!("{other}"),
        };
        println!("{answer}");
        stdout().flush().unwrap();
    }
}
