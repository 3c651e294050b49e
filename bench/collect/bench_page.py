#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_page.py BUILD [FAULTS] - fault.page: seconds from the injection of a fault until a real Chromium shows the
verdict with the metrics to blame, the trace kept because of it, and the samples from before."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
import bench  # noqa: E402
from bench import Part, check, poll, quantile, workdir  # noqa: E402
from support.browser import Browser, NoBrowser  # noqa: E402

BUILD = sys.argv[1]
FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
EXE = os.path.join(BUILD, 'sidelight')

# Runs within the page at each frame: notes when the list of incidents has a new open incident that names what is to
# blame, and when this incident names a trace.
WATCH = """(() => {
    window.seen = {};
    window.known = window.known || new Set();
    const look = () => {
        for (const row of document.querySelectorAll('#anomalies tbody tr')) {
            const text = [...row.cells].map((c) => c.textContent);
            const key = text[3];
            if (window.known.has(key))
                continue;
            if (!window.seen.verdict && text[0] === 'open' && text[6].includes('shop_'))
                window.seen.verdict = Date.now() / 1000, window.key = key, window.seen.blame = text[6];
            if (key === window.key && !window.seen.trace && text[8])
                window.seen.trace = Date.now() / 1000;
        }
        if (window.watching) requestAnimationFrame(look);
    };
    window.watching = true;
    requestAnimationFrame(look);
})()"""
DONE = "(() => { window.watching = false; if (window.key) window.known.add(window.key); window.key = null; })()"


class System:
    """An agent, a pod that can be made ill, and one collector at a time."""

    def __init__(self):
        self.folder = workdir()
        self.socket = self.folder + '/agent.sock'
        self.agent = Part(EXE, 'agent', '--socket', self.socket, '--no-rest', '--hostname', 'node-1')
        self.agent.ready()
        self.pod = subprocess.Popen([os.path.join(BUILD, 'tests/act/act-pod'), self.socket, 'shop-0'],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.collector = None

    def tell(self, line):
        self.pod.stdin.write(line + '\n')
        self.pod.stdin.flush()
        self.pod.stdout.readline()

    def api(self, path):
        return json.loads(bench.get(self.address, '/api/v1/' + path, 60))

    def collect(self, model):
        self.stop_collector()
        self.collector = Part(EXE, 'collect', '--agent', self.socket, '--listen', '127.0.0.1:0', '--period', '10ms',
                              # The warm-up is short: at one false alarm per hour the threshold would stay wide for long.
                              '--analyse', '--analyse-step', '200ms', '--warm-up', '10s', '--false-alarms', '60',
                              '--model', model)
        self.address = self.collector.ready()['listen']

        def learned():
            pods = [x for x in self.api('pods?q=shop-0')['pods'] if 'verdict' in x]
            return pods and not pods[0]['verdict']['learning'] and not self.api('anomalies')['analysis']['learning']
        check(poll(learned, 60, 0.1), 'the pod is not learned', self.collector)

    def stop_collector(self):
        if self.collector:
            check(self.collector.stop() == 0, 'the collector failed', self.collector)
        self.collector = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pod.stdin.close()
        self.pod.wait(60)
        self.stop_collector()
        self.agent.stop()


def one_fault(s, page, series):
    """{what is shown: seconds from the fault}"""
    page.run(WATCH)
    page.pump(0.2)
    s.tell('fault')
    begin = time.time()
    for _ in range(100):
        page.pump(0.05)
        seen = page.run('window.seen')
        if 'trace' in seen:
            break
    # The page draws the metric from its history, which includes the time before.
    before = page.run(f"fetch('/api/v1/history?series={series}&last=30s&points=4000')"
                      ".then((r) => r.json()).then((a) => a.series[0].t)")
    s.tell('fine')
    page.run(DONE)
    took = {k: seen[k] - begin for k in ('verdict', 'trace') if k in seen}
    took['before'] = sum(begin - 5 < t < begin for t in before) > 100
    return took


def faults(browser, s):
    model = os.path.join(s.folder, 'model')
    s.collect(model)
    time.sleep(20)  # more training
    s.stop_collector()
    for _ in range(FAULTS):
        # Each fault is the first that its collector sees: repeated faults become usual.
        shutil.copy(model, model + '.used')
        s.collect(model + '.used')
        page = browser.page(f'http://{s.address}/#tab=anomalies')
        page.wait("!document.querySelector('#view-anomalies').hidden", 20)
        instance = [x['instance'] for x in s.api('pods?q=shop-0')['pods']][0]
        page.pump(9)  # recent levels are known after 40 steps
        yield one_fault(s, page, instance + '/0')
        page.close()
        time.sleep(1)  # the pod is well before the next collector reads it


def main():
    with Browser() as browser, System() as s:
        found = list(faults(browser, s))
    shown = [max(f['verdict'], f['trace']) for f in found if 'trace' in f and 'verdict' in f]
    verdicts = [f['verdict'] for f in found if 'verdict' in f]
    check(shown, f'none of {FAULTS} faults was shown within 5 s')
    bench.say('fault.page', round(quantile(shown, 0.5), 2), 's',
              f'median of {len(shown)} of {FAULTS} faults (the others: not within 5 s); {min(shown):.2f} to '
              f'{max(shown):.2f} s, 90th percentile {quantile(shown, 0.9):.2f}, {sum(x <= 1 for x in shown)} within a '
              f'second; the verdict alone: median {quantile(verdicts, 0.5):.2f}, {min(verdicts):.2f} to '
              f'{max(verdicts):.2f} s; samples from before at full resolution: {sum(f["before"] for f in found)}; read '
              f'every 10 ms, scored every 200 ms')


try:
    main()
except NoBrowser as e:
    print(f'SKIP: {e}', file=sys.stderr)
    sys.exit(77)
