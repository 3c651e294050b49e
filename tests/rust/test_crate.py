#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_crate.py RUSTC CRATE BUILD: the crate as a user builds it with cargo, offline: a program, the examples of the
documentation, and programs that the compiler must refuse as they would use memory that is gone."""
import os
import re
import shutil
import subprocess
import sys

from support.process import check, skip, workdir

RUSTC, CRATE, BUILD = sys.argv[1:4]
CARGO = '/usr/bin/cargo' if os.path.exists('/usr/bin/cargo') else shutil.which('cargo')
FOLDER = workdir()
MANIFEST = '''[package]
name = "shop"
version = "0.1.0"
edition = "2021"

[dependencies]
sidelight = { path = "../sidelight" }
'''
PROGRAM = '''
use sidelight::{Counter, Histogram, Options, Publisher};
fn assert_handle<T: Copy + Send + Sync>(_: T) {}
static PLACE: std::sync::Mutex<Option<Counter<'static>>> = std::sync::Mutex::new(None);
fn main() {
    let c = sidelight::publisher().counter(("shop_total", "Counted."));
    *PLACE.lock().unwrap() = Some(c);
    std::thread::spawn(move || c.inc()).join().unwrap();
    let h: Histogram<'static> = sidelight::publisher().histogram("shop_seconds");
    h.observe(1.0);
    assert_handle(c);
    assert_handle(h);
    let p = Publisher::open(&Options::new().detached()).unwrap();
    assert_handle(p.counter_family("other_total"));
    println!("{} {}", PLACE.lock().unwrap().unwrap().value(), h.count());
}
'''
# Code that must not compile, with the number of the compiler's error.
REFUSED = {
    'a handle outlives its publisher': ('E0505', '''use sidelight::{Options, Publisher};
fn main() { let p = Publisher::open(&Options::new()).unwrap(); let c = p.counter("a_total"); drop(p); c.inc(); }'''),
    'a family outlives its publisher': ('E0597', '''use sidelight::{Options, Publisher};
fn main() { let f; { let p = Publisher::open(&Options::new()).unwrap(); f = p.counter_family("a_total"); } f.with(&[("a", "b")]).inc(); }'''),
    'a metric of a family outlives its publisher': ('E0597', '''use sidelight::{Options, Publisher};
fn main() { let c; { let p = Publisher::open(&Options::new()).unwrap(); c = p.gauge_family("a").with(&[("a", "b")]); } c.set(1); }'''),
    'a span outlives its publisher': ('E0597', '''use sidelight::{Options, Publisher, Span, SpanKind};
fn main() { let s; { let p = Publisher::open(&Options::new()).unwrap(); s = Span::start(p.span_name("a"), SpanKind::Server, None); } s.end(); }'''),
}
ENV = {**os.environ, 'CARGO_HOME': f'{FOLDER}/home', 'CARGO_TARGET_DIR': f'{FOLDER}/target', 'RUSTC': RUSTC,
       'RUSTDOC': f'{os.path.dirname(RUSTC)}/rustdoc', 'SIDELIGHT_LIB_DIR': f'{BUILD}/lib', 'LD_LIBRARY_PATH': f'{BUILD}/lib',
       'SIDELIGHT_SOCKET': f'{FOLDER}/none.sock', 'RUSTFLAGS': '-D warnings'}


def cargo(*words, where='shop'):
    return subprocess.run([CARGO, *words, '--offline'], cwd=f'{FOLDER}/{where}', env=ENV, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


def program(text):
    os.makedirs(f'{FOLDER}/shop/src', exist_ok=True)
    for name, content in (('Cargo.toml', MANIFEST), ('src/main.rs', text)):
        with open(f'{FOLDER}/shop/{name}', 'w') as f:
            f.write(content)


def main():
    if not CARGO:
        skip('no cargo (Debian package cargo)')
    shutil.copytree(CRATE, f'{FOLDER}/sidelight', ignore=shutil.ignore_patterns('target', 'Cargo.lock'))
    program(PROGRAM)
    p = cargo('run')
    check(p.returncode == 0 and p.stdout == '1 1\n', p.stdout, p.stderr)
    for what, (error, text) in REFUSED.items():
        program(text)
        p = cargo('check')
        check(p.returncode != 0 and re.findall(r'error\[(E\d+)\]', p.stderr) == [error], what, p.stderr)
    p = cargo('test', where='sidelight')
    check(p.returncode == 0 and re.search(r'test result: ok\. [1-9]', p.stdout), p.stdout, p.stderr)
    print(f'{len(REFUSED)} programs were refused')


main()
