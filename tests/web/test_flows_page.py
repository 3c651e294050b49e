#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The view of connections in headless Chromium, over simulated connections.

usage: test_flows_page.py SERVER [SCREENSHOT-FOLDER]"""
import re
import subprocess
import sys

from support.browser import NoBrowser, launch
from axe import is_accessible

ROWS = "[...document.querySelectorAll('#flows tbody tr')]"


def cell(row, column):
    return f"{ROWS}[{row}]?.cells[{column}].textContent"


def shot(page, name):
    if len(sys.argv) > 2:
        page.screenshot(f"{sys.argv[2]}/{name}.png")


def look(page):
    page.wait("!document.querySelector('#tab-flows').hidden", what="the tab")
    page.click("#tab-flows")
    # Sorted by rate, the busiest connection comes first, with its limit.
    page.wait(f"{cell(0, 0)} === 'losses'", what="the busiest first")
    assert page.run(cell(0, 1)) == "cart-0", page.run(cell(0, 1))
    assert page.run(cell(0, 3)) == "10.0.0.1:8080", page.run(cell(0, 3))
    # The path's RTT is apart from the smoothed one, in which delayed acknowledgements count.
    assert page.run(cell(0, 7)) == "2.00\u202fms" and page.run(cell(0, 8)) == "41.0\u202fµs", (page.run(cell(0, 7)), page.run(cell(0, 8)))
    assert page.run(cell(0, 9)) == "9", page.run(cell(0, 9))
    assert "Losses keep the congestion window small" in page.run(cell(0, 11))
    assert page.run(f"{ROWS}.length") == 200
    assert "of 304" in page.run("document.querySelector('#flows-note').textContent")
    # Where a request's time goes: nearly all of it is the application's.
    page.wait("!document.querySelector('#layers-panel').hidden", what="layers")
    assert page.run("document.querySelectorAll('#layers tbody tr').length") == 3
    assert page.run("document.querySelector('#layers tbody tr').cells[0].textContent") == "cart-0"
    assert page.run("document.querySelector('#layers tbody tr').cells[2].textContent") == "server 8080"
    share = [float(v or 0) for v in page.run(
        "[...document.querySelectorAll('#layers tbody tr')[0].querySelectorAll('.layer-bar i')]"
        ".map((i) => i.style.flexGrow)")]
    assert len(share) == 7 and abs(sum(share) - 1) < 1e-3 and share[3] > 0.99, share
    assert page.run("document.querySelector('#layers tbody tr').cells[5].textContent").endswith("ms")
    assert "3 retransmit" in page.run("document.querySelector('#layers-note').textContent")
    # Latency between hosts: each direction with its bound, negative values as they are, and a whole request.
    page.wait("!document.querySelector('#net-panel').hidden", what="latency between hosts")
    net = page.run("[...document.querySelectorAll('#net tbody tr')[0].cells].map((c) => c.textContent)")
    assert net[:2] == ["node-1 → node-2", "8080"] and "±" in net[2] and "±" in net[3] and net[8] == "2", net
    whole = [(c[0], float(c[1] or 0)) for c in page.run(
        "[...document.querySelectorAll('#net .layer-bar i')].map((i) => [i.className, i.style.flexGrow])")]
    assert len(whole) == 15 and abs(sum(v for _, v in whole) - 1) < 1e-3, whole
    assert [k for k, v in whole if v > 0.9] == ["s3"], whole
    assert "4 lost" in page.run("document.querySelector('#net-note').textContent")
    # Sorted by another column.
    page.click("#flows th[data-sort='rtt']")
    page.wait(f"{cell(0, 4)} === '10.0.0.2:5432'", what="the slowest first")
    assert page.run("location.hash").find("sort=rtt") > 0
    # Unknown values, and values that JSON cannot express.
    assert page.run("import('/format.js').then((f) => [f.seconds(null), f.bytes(undefined), f.rate(null, ''), f.seconds('+Inf'),"
                    " f.withUnit('-Inf', 'ratio'), f.number('NaN')])") == ["–", "–", "–", "+∞", "−∞", "NaN"]
    # Searched.
    page.run("(() => { const q = document.querySelector('#fq'); q.value = 'cart-0 10.0.0.2';"
             "q.dispatchEvent(new Event('input')); })()")
    page.wait(f"{ROWS}.length === 4", what="the connections of cart-0 with 10.0.0.2")
    page.run("(() => { const s = document.querySelector('#flow-state'); s.value = 'closed';"
             "s.dispatchEvent(new Event('change')); })()")
    page.wait(f"{ROWS}.length === 1 && {cell(0, 4)} === '10.0.0.2:40004'", what="the one that ended")
    page.run("(() => { const q = document.querySelector('#fq'); q.value = 'nosuch';"
             "q.dispatchEvent(new Event('input')); })()")
    page.wait("!document.querySelector('#flows-empty').hidden", what="nothing matches")
    page.click("#flows-empty button")
    page.wait(f"{ROWS}.length === 200", what="all again")
    page.wait("!document.querySelector('#layers-panel').hidden", what="layers again")
    # By port, by what limits it, and by service.
    def choose(field, value, event):
        page.run(f"(() => {{ const f = document.querySelector('#{field}'); f.value = '{value}';"
                 f" f.dispatchEvent(new Event('{event}')); }})()")

    rtts = f"{ROWS}.map((r) => [r.cells[7].textContent, r.cells[8].textContent])"
    choose("flow-port", 5432, "input")
    page.wait(f"{ROWS}.length > 0 && {ROWS}.every((r) => /:5432$/.test(r.cells[3].textContent + r.cells[4].textContent)"
              " || r.cells[3].textContent.endsWith(':5432'))", what="one port")
    assert "port=5432" in page.run("location.hash")
    assert all(now != "–" for now, _ in page.run(rtts)), page.run(rtts)
    choose("flow-port", "", "input")
    page.wait(f"{ROWS}.length === 200", what="all ports")
    choose("flow-limit", "loss-fast", "change")
    page.wait(f"{ROWS}.length > 0 && {ROWS}.every((r) => r.cells[0].textContent === 'losses')", what="one cause")
    assert "limit=loss-fast" in page.run("location.hash")
    choose("flow-limit", "", "change")
    page.wait(f"{ROWS}.length === 200", what="all causes")
    choose("flow-service", "nobody", "input")
    page.wait("!document.querySelector('#flows-empty').hidden", what="no such service")
    page.click("#flows-empty button")
    page.wait(f"{ROWS}.length === 200 && document.querySelector('#flow-service').value === ''", what="all services")
    # The names of causes are those of the collector.
    assert page.run("""fetch('api/v1/flows?limit=1000').then((r) => r.json()).then(({flows}) => flows.filter((f) =>
        [...document.querySelector('#flow-limit').options].find((o) => o.value === f.limit)?.text !== f.limit_label)
        .map((f) => f.limit))""") == []
    is_accessible(page, ["flows"], lambda view: page.click(f"#tab-{view}"), shot)
    # Clicking the owner of a flow leads to its plots.
    page.run(f"{ROWS}.find((r) => r.dataset.instance).cells[1].click()")
    page.wait("location.hash.includes('pod=000000000000007c')", what="its metrics")
    problems = [p for p in page.problems if not re.search("api/v1/(traces|services)", p)]  # it keeps none
    assert not problems, problems


def main():
    try:
        browser = launch()
    except NoBrowser as e:
        print(f"SKIP: {e}")
        return 77
    server = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        with browser:
            look(browser.page(f"http://{address}/"))
    finally:
        server.stdin.close()
        server.wait(60)
    return server.returncode


if __name__ == "__main__":
    sys.exit(main())
