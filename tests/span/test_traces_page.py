#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page lists the kept traces and draws the spans of the selected one."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
from support.browser import Browser, NoBrowser
from support.process import Part, check, skip, workdir
from support.sidelight import Agent, Collector

sidelight, traffic = sys.argv[1:3]
d = workdir()
try:
    browser = Browser()
except NoBrowser as e:
    skip(f'no browser: {e}')
with browser:
    a = Agent(folder=d)
    c = Collector([a])
    page = browser.page(c.url + '/')
    page.wait("document.getElementById('health').textContent !== '…'")
    check(page.run("document.getElementById('tab-traces').hidden"), 'a tab without traces')
    t = Part(traffic, f'{d}/agent.sock', '300', '2000')
    made = t.ready()
    kept = int(made['slow']) + int(made['failed'])
    page.wait("!document.getElementById('tab-traces').hidden")
    page.click('#tab-traces')
    page.wait(f"document.querySelectorAll('#traces tbody tr').length === {kept}")
    row = f"#traces tbody tr[data-trace='{made['slow_id']}']"
    page.wait(f'document.querySelector("{row}") !== null')
    text = page.run(f'document.querySelector("{row}").textContent')
    check('slow' in text and 'GET /cart' in text and 'front' in text, text)
    page.click(row)
    page.wait("document.querySelectorAll('#waterfall .span').length === 6")
    names = page.run("[...document.querySelectorAll('#waterfall .span-name')]"
                     ".map((e) => e.textContent).join('|')")
    check(names == 'front GET /cart|cart cart.get|cart call db|db db.query|db row|db row', names)
    # The root is as wide as the whole, and a child lies within its parent.
    boxes = page.run("JSON.stringify([...document.querySelectorAll('#waterfall i')]"
                     ".map((e) => [parseFloat(e.style.left), parseFloat(e.style.width)]))")
    boxes = __import__('json').loads(boxes)
    check(boxes[0][0] == 0 and abs(boxes[0][1] - 100) < 0.1, str(boxes))
    check(all(x >= boxes[0][0] and x + w <= 100.1 for x, w in boxes), str(boxes))
    failed = f"#traces tbody tr[data-trace='{made['failed_id']}']"
    page.click(failed)
    page.wait("document.querySelectorAll('#waterfall .span-error').length === 1")
    check('deadlock' in page.run("document.querySelector('#waterfall .span-error').closest('.span').title"),
          'no message')
    check('kept because a span failed' in page.run("document.getElementById('trace-note').textContent"), 'no reason')

    # Searched by each field, sorted, and the address shows the same again.
    def field(name, value):
        page.run(f"(() => {{ const f = document.querySelector('[data-trace={name}]'); f.value = {value!r};"
                 " for (const type of ['input', 'change']) f.dispatchEvent(new Event(type, {bubbles: true})); })()")

    rows, slow_ones, failed_ones = "document.querySelectorAll('#traces tbody tr')", int(made['slow']), int(made['failed'])
    for name, value, n in (('status', 'failed', failed_ones), ('least', '20', slow_ones), ('attribute', 'db.ratio=0.25', kept),
                           ('service', 'db', kept), ('root', 'cart', kept)):
        field(name, value)
        page.wait(f'{rows}.length === {n}', what=f'{n} traces with {name} {value}')
        page.wait(f'location.hash.includes("trace-{name}=")', what=f'{name} in the address')
        field(name, '')
        page.wait(f'{rows}.length === {kept} && !location.hash.includes("trace-{name}=")', what=f'all without {name}')
    field('attribute', 'db.ratio=7')
    page.wait("document.getElementById('traces-empty').textContent.includes('Nothing matches')")
    page.click('#traces-empty button')
    page.wait(f'{rows}.length === {kept}')
    starts = sorted(x['start'] for x in c.api('traces?limit=10000')['traces'])
    half = starts[len(starts) // 2]
    later = len(c.api(f'traces?limit=10000&start={int(half)}')['traces'])
    field('from', page.run(f"import('/format.js').then((f) => f.isoTime({int(half)}).slice(0, 19))"))
    page.wait(f"{rows}.length === {later} && location.hash.includes('trace-from={int(half)}')", what=f'{later} of them')
    page.run('history.back()')
    page.wait(f"{rows}.length === {kept} && document.querySelector('[data-trace=from]').value === ''")
    page.click("#traces th[data-sort='duration'] button")
    slowest = c.api('traces?sort=duration&limit=1')['traces'][0]['trace_id']
    page.wait(f"{rows}[0].dataset.trace === '{slowest}'")
    other = browser.page(page.run('location.href'))
    other.wait(f"{rows}[0]?.dataset.trace === '{slowest}' && document.querySelectorAll('#waterfall .span').length === 6")
    if len(sys.argv) > 3:
        page.screenshot(sys.argv[3])
    t.stop()
    check(c.stop() == 0 and a.stop() == 0, 'exit codes', a, c)
print(f'{kept} traces on the page')
