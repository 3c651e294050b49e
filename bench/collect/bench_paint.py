#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_paint.py BUILD [VISITS] - page.first_paint, page.list and page.longest_task: the page of a collector with 1,000
pods and 50,000 series in a real Chromium."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
import bench  # noqa: E402
from bench import Stage, check, median, poll, say  # noqa: E402
from support.browser import Browser, NoBrowser  # noqa: E402
from support.http import get_json  # noqa: E402

BUILD = sys.argv[1]
VISITS = int(sys.argv[2]) if len(sys.argv) > 2 else 11
SERVICES, PODS, METRICS = 20, 50, 50  # of a service, and of a pod
LIVE = 20  # seconds for which each view is watched
VIEWS = 'services', 'metrics', 'pods', 'map', 'health'

# Runs before the page's own scripts: the time of the first frame after the list of pods has rows with data, and the tasks
# that kept the page from answering.
WATCH = """(() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration)))
        .observe({type: 'longtask', buffered: true});
    const look = () => {
        const row = document.querySelector('#pods .row:not([hidden]):not(.loading)');
        if (row && row.textContent.length > 5)
            window.listed = performance.now();
        else
            requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
BYTES = "performance.getEntriesByType('resource').reduce((sum, e) => sum + e.decodedBodySize, 0)"


def start_pods(s):
    for i in range(SERVICES):
        s.start(bench.OTHERS, 'generate', 'metrics', '--socket', s.socket, '--service', f'service-{i:02}', '--pods', PODS,
                '--pods-per-process', 15, '--metrics', METRICS, '--kinds', 'counter,gauge,histogram', '--updates', 10**9,
                '--rate', 5, '--wait', '60s')


def visit(browser, url):
    """Milliseconds from the navigation to the first paint, and to the list of pods."""
    page = browser.page('about:blank')
    page.call('Page.addScriptToEvaluateOnNewDocument', source=WATCH)
    page.go(f'{url}#tab=pods')
    page.wait('window.listed')
    took = page.wait(PAINT), page.run('window.listed')
    check(not page.problems, page.problems)
    browser.end(page)
    return took


def watch(page, view):
    """What a view costs while it is live: its longest task in milliseconds, bytes of answers per second, elements."""
    page.run(f"document.querySelector('#tab-{view}').click()")
    page.pump(2)  # the tasks that fill it count, too
    if view == 'metrics':
        page.run("document.querySelector('#metrics .row').click()")  # its plot is live
    page.run('performance.setResourceTimingBufferSize(5000); performance.clearResourceTimings()')
    page.pump(LIVE)
    tasks = page.run('window.tasks.splice(0)')
    return max(tasks, default=0), page.run(BYTES) / LIVE, page.run("document.querySelectorAll('*').length")


def main():
    with Browser() as browser, Stage(os.path.join(BUILD, 'sidelight'), 0) as s:
        start_pods(s)
        _, address = s.collect('--period', '1s', '--analyse')
        url = f'http://{address}/'

        def totals():
            return get_json(url + 'api/v1/status')[1]['totals']
        check(poll(lambda: totals()['pods_live'] >= SERVICES * PODS, 120, 0.5), totals)
        time.sleep(20)  # the last 10 s, of which the views show rates
        seen = totals()
        took = [visit(browser, url) for _ in range(VISITS)]
        page = browser.page('about:blank')
        page.call('Page.addScriptToEvaluateOnNewDocument', source=WATCH)
        page.go(url)
        page.wait("document.querySelectorAll('#services .row').length > 5")
        page.run('window.tasks.splice(0)')
        costs = {view: watch(page, view) for view in VIEWS}
        check(not page.problems, page.problems)
        paints, lists = ([t[i] / 1000 for t in took] for i in (0, 1))
        of = f'{seen["pods_live"]:,} pods, {seen["series"]:,} series, {VISITS} visits, Chromium headless'
        say('page.first_paint', round(median(paints), 3), 's', f'median; {min(paints):.2f} to {max(paints):.2f} s; {of}')
        say('page.list', round(median(lists), 3), 's', f'median; {min(lists):.2f} to {max(lists):.2f} s; {of}')
        say('page.longest_task', round(max(c[0] for c in costs.values())), 'ms',
            f'{LIVE} s live in each view: ' + '; '.join(f'{view} {task:.0f} ms, {size / 1000:.0f} kB/s, {nodes} elements'
                                                        for view, (task, size, nodes) in costs.items()))


try:
    main()
except NoBrowser as e:
    print(f'SKIP: {e}', file=sys.stderr)
    sys.exit(77)
