#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_page.py SIDELIGHT POD [FAULTS] - fault.page: from the moment at which a pod gets ill until a
real Chromium shows the verdict with what is to blame, the trace that was kept because of it, and
the samples from before."""
import json
import os
import shutil
import statistics
import sys
import time

FAULTS = int(sys.argv.pop(3)) if len(sys.argv) > 3 else 12
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'tests'))
from support.analysis import System  # noqa: E402
from support.browser import Browser, NoBrowser  # noqa: E402

# When the first row of the list of anomalies is a new one that goes on and says what is to blame, and
# when it names a trace. Looked at with each frame, in the page: nothing here waits for this script.
WATCH = """(() => {
    window.seen = {};
    window.known = window.known || new Set();
    const look = () => {
        for (const row of document.querySelectorAll('#anomalies tbody tr')) {
            const text = [...row.cells].map((c) => c.textContent);
            const key = text[3];
            if (window.known.has(key))
                continue;
            if (!window.seen.verdict && text[0] === 'anomalous' && text[6].includes('shop_'))
                window.seen.verdict = Date.now() / 1000, window.key = key, window.seen.blame = text[6];
            if (key === window.key && !window.seen.trace && text[7])
                window.seen.trace = Date.now() / 1000;
        }
        if (window.watching) requestAnimationFrame(look);
    };
    window.watching = true;
    requestAnimationFrame(look);
})()"""
DONE = "(() => { window.watching = false; if (window.key) window.known.add(window.key); window.key = null; })()"


def one(s, page, series):
    """{what: seconds from the fault to it}"""
    page.run(WATCH)
    page.pump(0.2)
    s.pod.tell('fault')
    begin = time.time()
    for _ in range(100):
        page.pump(0.05)
        seen = page.run('window.seen')
        if 'trace' in seen:
            break
    # By now the page draws the same metric from its history, and the time before is in it.
    before = page.run(f"fetch('/api/v1/history?series={series}&last=30s&points=4000')"
                      ".then((r) => r.json()).then((a) => a.series[0].t)")
    s.pod.tell('fine')
    page.run(DONE)
    took = {k: seen[k] - begin for k in ('verdict', 'trace') if k in seen}
    if 'verdict' in took and sum(begin - 5 < t < begin for t in before) > 100:
        took['before'] = took['verdict']
    return took


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def main():
    all_ = []
    with Browser() as browser, System(sys.argv[2]) as s:
        model = os.path.join(s.folder, 'model')
        s.collect('--model', model)
        s.learned()
        time.sleep(20)  # what is usual is known a little better
        # Each fault is the first one that its collector sees: ten of a kind are usual after a while.
        for i in range(FAULTS):
            if not i:
                s.stop_collector()
            shutil.copy(model, model + '.used')
            s.collect('--model', model + '.used')
            s.learned()
            page = browser.page(f"http://{s.collector.address}/#tab=anomalies")
            page.wait("!document.querySelector('#view-anomalies').hidden", 20)
            instance = [x['instance'] for x in s.api('pods?q=shop-0')['pods']][0]
            page.pump(9)  # recent levels are known after 40 steps
            all_.append(one(s, page, instance + '/0'))
            page.close()
            time.sleep(1)  # the pod is fine before the next collector looks at it
    shown = [max(a['verdict'], a['trace']) for a in all_ if 'trace' in a and 'verdict' in a]
    verdicts = [a['verdict'] for a in all_ if 'verdict' in a]
    print(json.dumps({
        'name': 'fault.page', 'value': round(quantile(shown, 0.5), 2), 'unit': 's', 'peer': None,
        'peer_value': None, 'ratio': None,
        'conditions': f'median of {len(shown)} of {FAULTS} faults (the others: not within 5 s); '
        f'{min(shown):.2f} to {max(shown):.2f} s, 90th percentile {quantile(shown, 0.9):.2f}, within a '
        f'second {sum(x <= 1 for x in shown)}; the verdict and what is to blame alone: median '
        f'{quantile(verdicts, 0.5):.2f}, {min(verdicts):.2f} to {max(verdicts):.2f} s; samples from before it '
        f'at full resolution: {sum("before" in a for a in all_)} times; rounds of 10 ms, steps of '
        f'200 ms, learned for half a minute, a fresh collector for each; headless Chromium on the same machine, load average '
        f'{os.getloadavg()[0]:.1f}; mean {statistics.mean(shown):.2f}'}), flush=True)


try:
    main()
except NoBrowser as e:
    print(f'fault.page: skipped: {e}', file=sys.stderr)
    sys.exit(77)
