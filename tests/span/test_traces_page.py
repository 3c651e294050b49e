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
    if len(sys.argv) > 3:
        page.screenshot(sys.argv[3])
    t.stop()
    check(c.stop() == 0 and a.stop() == 0, 'exit codes', a, c)
print(f'{kept} traces on the page')
