#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots over time in headless Chromium: ranges, zoom, marks, the cursor, groups, siblings, heat maps, and what is
copied or saved, compared with the collector's API.

usage: test_plots_page.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]

The steps build on one another; the first that fails ends the test.
"""
import csv
import io
import json
import os
import re
import sys
import time
import traceback
import urllib.parse

from support.browser import Browser, BrowserError, NoBrowser
from support.process import check, poll
from axe import is_accessible
from system import System

HASH = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
LEGEND = ("[...document.querySelectorAll('#legend li')].map((l) => ({name: l.parts.name.textContent, "
          "value: l.parts.value.textContent, kind: l.className}))")


def tick(system, pods, times=1):
    for _ in range(times):
        for k, pod in enumerate(pods):
            pod.tell("add", 10 * (k + 1))
            pod.tell("set", 5 * k + 3)
            pod.tell("observe", 0.002 * (k + 1))


class Test:
    def __init__(self, browser, system, shots):
        self.browser, self.system, self.shots = browser, system, shots

    def shot(self, name):
        if self.shots:
            self.page.screenshot(os.path.join(self.shots, name + ".png"))

    def get(self, path, **params):
        status, answer = self.system.get(f"{path}?{urllib.parse.urlencode(params, doseq=True)}")
        check(status == 200, path, params, status, answer)
        return answer

    def id(self, name, pod):
        a = self.get("metrics", q=name, pod=pod)
        return next(m["id"] for m in a["metrics"] if m["name"] == name)

    def hash(self):
        return self.page.run(HASH)

    def press(self, selector):
        self.page.run(f"document.querySelector({json.dumps(selector)}).click()")

    # ---- steps, in order

    def a_system_with_a_death_in_it(self):
        self.system.start_agent()
        self.system.start_collector()
        self.carts = [self.system.pod("cart", f"cart-{i}", "1.0") for i in range(3)]
        self.mail = self.system.pod("mail", "mail-0")
        poll(lambda: len(self.get("metrics", q="test_requests_total")["metrics"]) == 4)
        for _ in range(25):
            tick(self.system, [*self.carts, self.mail])
            time.sleep(0.05)
        self.mail.kill()
        poll(lambda: any(m["kind"] == "death" for m in self.get("marks", last="1h")["marks"]))
        self.requests = self.id("test_requests_total", "cart-1")
        self.latency = self.id("test_latency_seconds", "cart-1")
        self.page = self.browser.page(f"{self.system.url}#tab=metrics&series={self.requests},{self.latency}&window=60")

    def a_range_is_chosen_and_kept_in_the_address(self):
        page = self.page
        page.wait("Number(document.querySelector('#plot').dataset.points) > 100")
        for seconds, name in ((300, "5 min"), (3600, "1 h"), (86400, "All"), (60, "1 min")):
            asked = len(page.requests)
            page.run(f"document.querySelector('[data-window=\"{seconds}\"]').click()")
            check(self.hash()["window"] == str(seconds), name, self.hash())
            check(page.run(f"document.querySelector('[data-window=\"{seconds}\"]').getAttribute('aria-pressed')") == "true")
            page.wait("document.querySelector('#range').textContent === ''")
            poll(lambda asked=asked: page.pump(0.1) or any("/history" in r for r in page.requests[asked:]))
        # All history begins with its first value, and is not fetched whole.
        for r in page.requests:
            if "/history" in r:
                q = urllib.parse.parse_qs(urllib.parse.urlsplit(r).query)
                check(int(q["points"][0]) * len(q["series"][0].split(",")) <= 6000, r)

    def a_drag_zooms_and_back_undoes_it(self):
        page = self.page
        box = page.run("(() => { const r = document.querySelector('#plot .u-over').getBoundingClientRect();"
                       " return [r.x, r.y, r.width, r.height]; })()")
        before = page.run("import('/series.js').then((s) => s.timePlot.range)")

        def drag(a, b):
            y = box[1] + box[3] / 2
            for kind, x in (("mouseMoved", a), ("mousePressed", a), ("mouseMoved", (a + b) / 2), ("mouseMoved", b),
                            ("mouseReleased", b)):
                page.call("Input.dispatchMouseEvent", type=kind, x=box[0] + box[2] * x, y=y, button="left", buttons=1,
                          clickCount=1)
        drag(0.5, 0.75)
        page.wait(f"{HASH}.from")
        h = self.hash()
        length = float(h["to"]) - float(h["from"])
        check(abs(length - (before[1] - before[0]) / 4) < 1.5, h, before)
        check(page.run("document.querySelector('#pause').getAttribute('aria-pressed')") == "true", "not paused")
        poll(lambda: page.pump(0.1) or any(f"start={float(h['from']) - 0.05 * length:.3f}"[:16] in r for r in page.requests)) \
            or check(False, "no finer values were asked for", h)
        drag(0.25, 0.75)
        page.wait(f"Number({HASH}.to) - Number({HASH}.from) < {length * 0.6}")
        self.shot("zoomed")
        # By keyboard, and by the button.
        page.run("document.querySelector('#plot').focus()")
        page.key("[")
        page.wait(f"Math.abs(Number({HASH}.to) - Number({HASH}.from) - {length}) < 0.01")
        page.key("ArrowLeft")
        page.wait(f"Math.abs(Number({HASH}.from) - {float(h['from']) - length / 4}) < 0.01")
        page.key("+")
        page.wait(f"Math.abs(Number({HASH}.to) - Number({HASH}.from) - {length / 2}) < 0.01")
        page.key("[")
        page.click("#back")
        page.wait(f"!{HASH}.from && document.querySelector('#back').disabled")
        check(page.run("document.querySelector('#pause').textContent") == "Pause")

    def back_of_the_browser_leads_to_the_range_before(self):
        page = self.page
        self.press('[data-window="300"]')
        self.press('[data-window="60"]')
        self.press("#pause")
        page.wait(f"{HASH}.from")
        page.run("history.back()")
        page.wait(f"!{HASH}.from && document.querySelector('#pause').textContent === 'Pause'")
        page.run("history.back()")
        page.wait("document.querySelector('[data-window=\"300\"]').getAttribute('aria-pressed') === 'true'")
        page.run("history.forward()")
        page.wait(f"{HASH}.window === '60' && document.querySelector('[data-window=\"60\"]').getAttribute('aria-pressed') === 'true'")

    def an_absolute_range_stands_still(self):
        page, now = self.page, time.time()
        self.press("#when summary")
        page.wait("document.querySelector('#from').value !== ''")
        page.run("(() => { const at = (s) => { const d = new Date(s * 1000); return new Date(d - d.getTimezoneOffset() * 60000)"
                 f".toISOString().slice(0, 23); }}; document.querySelector('#from').value = at({now});"
                 f"document.querySelector('#to').value = at({now - 9}); }})()")
        self.press("#when-form button")
        check(page.run("!document.querySelector('#when-note').hidden"), "a wrong order is not named")
        page.run("(() => { const f = document.querySelector('#from'), t = document.querySelector('#to');"
                 "[f.value, t.value] = [t.value, f.value]; })()")
        self.press("#when-form button")
        page.wait(f"Math.abs(Number({HASH}.to) - {now}) < 0.01 && Math.abs(Number({HASH}.from) - {now - 9}) < 0.01")
        page.pump(0.7)
        asked = sum("/history" in r for r in page.requests)
        page.pump(1.2)
        check(sum("/history" in r for r in page.requests) == asked, "asked again for what stands still")
        page.run("document.activeElement.blur()")
        page.key("p")
        page.wait(f"!{HASH}.from")

    def marks_lead_to_the_seconds_before(self):
        page = self.page
        death = next(m for m in self.get("marks", last="1h")["marks"] if m["kind"] == "death")
        page.wait("[...document.querySelectorAll('.plot-mark')].some((b) => b.title.includes('mail-0 died'))")
        page.run("[...document.querySelectorAll('.plot-mark')].find((b) => b.title.includes('mail-0 died')).click()")
        page.wait(f"Number({HASH}.from) > 0")
        h = self.hash()
        check(float(h["from"]) < death["at"] < float(h["to"]) and float(h["to"]) - float(h["from"]) < 31, h, death)
        self.shot("before")
        page.click("#back")
        page.run("document.activeElement.blur()")
        page.key("b")
        page.wait(f"Math.abs(Number({HASH}.from) - {death['at'] - 20}) < 0.01")
        page.key("[")
        page.wait(f"!{HASH}.from")

    def one_cursor_is_on_all_plots(self):
        page = self.page
        page.run("import('/plot.js').then((p) => { const d = document.createElement('div'); d.id = 'second';"
                 " d.className = 'plot'; d.style.cssText = 'position:fixed;left:0;bottom:0;width:500px;height:100px';"
                 " document.body.append(d); window.second = new p.TimePlot(d, {onZoom() {}, onCursor() {}});"
                 " const now = Date.now() / 1000; second.draw([{key: 'a', slot: 0, unit: '', t: [now - 60, now], v: [1, 2]}],"
                 " now - 60, now); })")
        page.wait("window.second?.plot")
        x, y = page.run("(() => { const r = document.querySelector('#plot .u-over').getBoundingClientRect();"
                        " return [r.x + r.width * 0.4, r.y + r.height / 2]; })()")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 5, y=y)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        page.wait("second.plot.cursor.left > 0")
        a, b = page.run("import('/series.js').then((s) => [s.timePlot.plot, second.plot].map((u) => "
                        "u.posToVal(u.cursor.left, 'x')))")
        check(abs(a - b) < 3, a, b)
        page.run("(() => { second.destroy(); document.querySelector('#second').remove(); })()")

    def what_is_not_there_is_not_shown(self):
        page = self.page
        at = "import('/plot.js').then((p) => p.TimePlot.prototype.valueAt.call({data: [[1, 2], [5, null]], lines: [{gaps: %s}]}, 0, 1))"
        check([page.run(at % gaps) for gaps in ("true", "false")] == [None, 5], "a value in a gap")
        # All history is asked for, even if it has begun more than a day ago.
        asked = page.run("Promise.all([import('/time.js'), import('/state.js')]).then(([t, {state}]) => {"
                         " const now = Date.now() / 1000, was = state.window; state.window = 86400; t.show(now, now - 86400);"
                         " const asked = t.params(); t.forgetOldest(); state.window = was; return asked; })")
        check(asked == {"last": "24h"}, asked)
        # A refusal does not end a series, and a fixed range is asked for again.
        refused = "document.querySelector('#plot-empty').checkVisibility() && document.querySelector('#plot-empty').textContent === '20 others wait'"
        page.run("window.realFetch = window.fetch; window.refused = 0; window.fetch = (address, options) => /api.v1.history/.test(address) ?"
                 " Promise.resolve(new Response('{\"error\": \"20 others wait\"}', {status: 503})).finally(() => refused++) : realFetch(address, options)")
        page.wait(refused)
        page.run("import('/time.js').then((t) => { window.refused = 0; t.go(Date.now() / 1000 - 30, Date.now() / 1000 - 20); })")
        page.wait("window.refused > 0")
        page.run("window.fetch = window.realFetch")
        page.wait(f"!({refused})")
        page.run("import('/time.js').then((t) => t.live())")
        # The page says so if the collector had no time to read all values.
        status = "document.querySelector('#plot-status').textContent"
        page.run("window.fetch = async (address, options) => { const answer = await realFetch(address, options);"
                 " if (!/api.v1.history/.test(address)) return answer; const a = await answer.json();"
                 " (a.series || []).forEach((s) => { s.clipped = true; }); return new Response(JSON.stringify(a)); }")
        page.wait(f"{status}.includes('were not read in time')")
        page.run("window.fetch = window.realFetch")
        page.wait(f"{status} && !{status}.includes('were not read in time')")

    def values_under_the_mouse_are_of_one_moment(self):
        page = self.page
        self.press("#pause")
        page.wait(f"{HASH}.from")
        x, y = page.run("(() => { const r = document.querySelector('#plot .u-over').getBoundingClientRect();"
                        " return [r.x + r.width * 0.4, r.y + r.height / 2]; })()")
        for at in (x - 5, x):
            page.call("Input.dispatchMouseEvent", type="mouseMoved", x=at, y=y)
        tip = "document.querySelector('#plot .plot-tip')"
        page.wait(f"!{tip}.hidden && {tip}.querySelectorAll('div').length === 4")  # a counter, and three quantiles
        said = page.run(f"""Promise.all(['/series.js', '/format.js', '/plot.js'].map((m) => import(m))).then(([s, f, p]) => {{
            const u = s.timePlot.plot, i = u.cursor.idx;
            return [{tip}.querySelector('b').textContent === f.clock(u.data[0][i]), [...{tip}.querySelectorAll('div')].map((d, n) =>
                d.lastChild.textContent === p.valueText(s.timePlot.lines[n], s.timePlot.valueAt(n, i)))]; }})""")
        check(said == [True, [True] * 4], said)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=5)
        page.wait(f"{tip}.hidden")
        self.press("#pause")

    def the_legend_sorts_isolates_and_hides(self):
        page = self.page
        tick(self.system, self.carts)
        depths = [self.id("test_queue_depth", f"cart-{i}") for i in range(3)]
        page.run(f"location.hash = 'tab=metrics&series={','.join(depths)}&window=60'")
        drawn = "import('/series.js').then((s) => s.timePlot.lines.length"
        page.wait(f"{LEGEND}.length === 3")
        page.wait(f"{drawn} === 3)")
        pods = "[...document.querySelectorAll('#legend li')].map((l) => l.parts.pod.textContent.split(' ')[0]).join()"
        check(page.run(pods) == "cart-0,cart-1,cart-2", page.run(pods))
        for order in ("max", "last"):
            page.run(f"(() => {{ const s = document.querySelector('#legend-sort'); s.value = '{order}';"
                     " s.dispatchEvent(new Event('change')); })()")
            page.wait(f"{pods} === 'cart-2,cart-1,cart-0' && {LEGEND}[0].value === '13'")
        self.press("#legend .what")
        page.wait(f"{drawn} === 1)")
        check(page.run(f"{LEGEND}.filter((e) => e.kind.includes('hidden-line')).length") == 2, page.run(LEGEND))
        self.press("#legend .what")
        page.wait(f"{drawn} === 3)")
        page.run("document.querySelector('#legend .what').dispatchEvent(new MouseEvent('click', {bubbles: true, ctrlKey: true}))")
        page.wait(f"{drawn} === 2)")
        self.shot("hidden")
        queries = page.run("import('/save.js').then((s) => s.queries())").split("\n")
        found = [self.get("query", query=q)["data"]["result"] for q in queries]
        check([[r["value"][1] for r in f] for f in found] == [["3"], ["8"], ["13"]], queries, found)

    def groups_are_those_of_the_api(self):
        page = self.page
        page.run(f"location.hash = 'tab=metrics&series={self.requests}&window=60'")
        page.wait(f"{LEGEND}.length === 1")
        self.press('[data-view="group"]')
        page.wait("document.querySelectorAll('#by button').length > 3")
        page.wait(f"{LEGEND}.length === 4 || {LEGEND}.length === 3")
        tick(self.system, self.carts)
        names = page.run(f"{LEGEND}.map((e) => e.name)")
        groups = self.get("group", metric="test_requests_total", by="pod", fn="rate", last="60s")["groups"]
        check(set(names) <= {g["labels"]["pod"] for g in groups} and "cart-0" in names, names, groups)
        check(page.run("document.querySelector('#fn').value") == "rate")
        # Until the beginning of the history is known, all history means one day.
        other = self.browser.page(f"{self.system.url}#tab=metrics&series={self.requests}&view=group&window=86400")
        other.wait("/[34] groups/.test(document.querySelector('#plot-status').textContent)")
        span = other.run("import('/series.js').then((s) => s.timePlot.range[1] - s.timePlot.range[0])")
        check(abs(span - 86400) < 1, span)
        self.browser.end(other)
        self.press('#by [data-label="pod"]')
        self.press('#by [data-label="service"]')
        page.wait(f"{LEGEND}.some((e) => e.name === 'cart') && {LEGEND}.length <= 2")
        check(self.hash()["by"] == "service" and self.hash()["view"] == "group", self.hash())
        page.run("(() => { const f = document.querySelector('#fn'); f.value = 'max';"
                 " f.dispatchEvent(new Event('change')); })()")
        page.wait("document.querySelector('#plot-status').textContent.includes('maximum')")
        self.shot("group")

    def a_pod_is_seen_among_its_siblings(self):
        page = self.page
        self.press('[data-view="siblings"]')
        page.wait(f"{LEGEND}.filter((e) => e.kind.includes('bold')).length === 1 && {LEGEND}.length === 3")
        check(page.run(f"{LEGEND}.find((e) => e.kind.includes('bold')).name") == "cart-1", page.run(LEGEND))
        self.shot("siblings")

    def a_link_and_values_say_what_is_seen(self):
        page = self.page
        self.press("#pause")
        page.wait(f"{HASH}.from")
        page.pump(0.5)
        rows = list(csv.reader(io.StringIO(page.run("import('/save.js').then((s) => s.csv())"))))
        lines = page.run("import('/series.js').then((s) => ({keys: s.timePlot.lines.map((l) => l.id), "
                         "data: s.timePlot.data, range: s.timePlot.range}))")
        check(len(rows[0]) == 1 + len(lines["keys"]) and all("per second" in c for c in rows[0][1:]), rows[0])
        seen = [i for i, t in enumerate(lines["data"][0]) if lines["range"][0] <= t <= lines["range"][1]]
        check(len(rows) - 1 == len(seen) > 3, len(rows), len(seen))
        for row, i in zip(rows[1:], seen):
            check(row[1:] == ["" if c[i] is None else c[i] if isinstance(c[i], str) else row[k + 1]
                              for k, c in enumerate(lines["data"][1:])], row)
            check(all(not t or float(t) == c[i] for t, c in zip(row[1:], lines["data"][1:])), row, i)
        size = page.run("import('/save.js').then((s) => new Promise((done) => s.picture().toBlob((b) => done(b.size))))")
        check(size > 4000, size)
        link = page.run("import('/save.js').then((s) => s.link())")
        other = self.browser.page(link)
        other.wait(f"{LEGEND}.some((e) => e.kind.includes('bold') && e.name === 'cart-1')")
        want = self.hash()
        check(other.run(HASH) == want, other.run(HASH), want)
        check(not other.problems, other.problems)
        other.call("Page.navigate", url="about:blank")
        self.press("#pause")

    def panels_of_grafana_are_answered(self):
        page = self.page

        def panel(hash_, targets=1):
            page.run(f"import('/save.js').then((s) => {{ window.former = JSON.stringify(s.panel()); location.hash = {json.dumps(hash_)}; }})")
            page.wait("document.querySelectorAll('#legend li').length > 0 && "
                      "Number(document.querySelector('#plot').dataset.points) > 0")
            page.wait("import('/save.js').then((s) => JSON.stringify(s.panel()) !== window.former && "
                      f"s.panel().targets.length >= {targets})")
            return page.run("import('/save.js').then((s) => s.panel())")

        def answer(expr):
            for _ in range(2):
                tick(self.system, self.carts)
                time.sleep(0.1)
            return self.get("query", query=expr.replace("$__rate_interval", "30s"))["data"]["result"]
        depth = self.id("test_queue_depth", "cart-2")
        p = panel(f"tab=metrics&series={self.requests},{depth}&window=60", 2)
        check([t["refId"] for t in p["targets"]] == ["A", "B"] and p["type"] == "timeseries", p)
        for t, name in zip(p["targets"], ("cart-1", "cart-2")):
            result = answer(t["expr"])
            check(len(result) == 1 and result[0]["metric"]["pod"] == name, t, result)
        check(answer(p["targets"][1]["expr"])[0]["value"][1] == "13", p)
        p = panel(f"tab=metrics&series={self.requests}&window=60&view=group&by=service&fn=max")
        check(p["targets"][0]["expr"].startswith("max by (service) (rate(test_requests_total"), p)
        check({r["metric"]["service"] for r in answer(p["targets"][0]["expr"])} == {"cart", "mail"}, p)
        p = panel(f"tab=metrics&series={self.requests}&window=60&view=siblings")
        check({r["metric"]["pod"] for r in answer(p["targets"][0]["expr"])} == {"cart-0", "cart-1", "cart-2"}, p)
        p = panel(f"tab=metrics&series={self.latency}&window=60")
        check(re.fullmatch(r"histogram_quantile\(0\.5, sum \(rate\(test_latency_seconds\{.*\}\[\$__rate_interval\]\)\)\)",
                           p["targets"][0]["expr"]), p)

    def names_in_utf_8_are_quoted(self):
        queries = self.page.run("""import('/save.js').then((s) => [
            s.promql({meta: {name: 'http.requests', kind: 'counter'}, pairs: [['käse', '=', 'x']], fn: 'rate', by: ['a.b', 'pod']}, '1m'),
            s.promql({meta: {name: 'latency.seconds', kind: 'histogram'}, pairs: [], fn: 'p90', by: []}, '1m')])""")
        check(queries == ['sum by ("a.b", pod) (rate({"http.requests_total","käse"="x"}[1m]))',
                          'histogram_quantile(0.9, sum (rate({"latency.seconds"}[1m])))'], queries)
        for query in queries:
            check(self.get("query", query=query)["data"]["result"] == [], query)

    def a_heat_map_shows_values_under_the_cursor(self):
        page = self.page
        page.run(f"location.hash = 'tab=metrics&series={self.latency}&window=60&view=heat'")
        page.wait("Number(document.querySelector('#heat').dataset.cells) > 0")
        where = ("import('/series.js').then((s) => { const h = s.heatPlot, u = h.plot;"
                 " const c = h.map.columns.findLast(([, n]) => n.some(Boolean)), row = c[1].findIndex(Boolean);"
                 " const r = u.over.getBoundingClientRect();"
                 " return [r.x + u.valToPos(c[0] - h.map.step_seconds / 2, 'x'), r.y + u.valToPos(row + 0.5, '')]; })")
        page.pump(0.5)
        page.run("document.querySelector('#pause').click()")
        page.pump(0.5)
        x, y = page.run(where)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 3, y=y)
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        page.wait("/: \\d+ of \\d+/.test(document.querySelector('#plot-status').textContent)")
        text = page.run("document.querySelector('#plot-status').textContent")
        check(int(re.search(r": (\d+) of", text)[1]) > 0, text)
        rows = list(csv.reader(io.StringIO(page.run("import('/save.js').then((s) => s.csv())"))))
        check(rows[0][0] == "time" and rows[0][1].startswith("le ") and
              sum(int(v) for r in rows[1:] for v in r[1:]) > 0, rows[:3])
        self.shot("heat")

    def axe_finds_nothing_in_plots(self):
        page = self.page
        plots = {"group": "&view=group&by=service", "heat": "&view=heat"}  # the others have no more

        def show(plot):
            page.run(f"location.hash = 'tab=metrics&series={self.latency}&window=60{plots[plot]}'")
            page.wait("Number(document.querySelector('#heat').dataset.cells) > 0" if plot == "heat" else
                      "Number(document.querySelector('#plot').dataset.points) > 0")
        is_accessible(page, plots, show, lambda page, name: self.shot("plot-" + name),
                      "document.querySelector('#plots')")

    def a_phone_shows_all_of_it_without_scrolling_sideways(self):
        page = self.browser.page(f"{self.system.url}#tab=metrics&series={self.latency}&window=60&view=group", width=390, height=844,
                                 scale=2, mobile=True, dark=True)
        page.wait("Number(document.querySelector('#plot').dataset.points) > 0")
        wide = page.run("[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > 391).map((e) => e.id || e.className)")
        check(page.run("document.documentElement.scrollWidth") <= 390, "wider than a phone:", wide)
        if self.shots:
            page.screenshot(os.path.join(self.shots, "plots-phone.png"))
        check(not page.problems and not self.page.problems, page.problems, self.page.problems)


def main():
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    try:
        browser = Browser()
    except NoBrowser as e:
        print(f"SKIP: {e}")
        return 77
    with browser:
        test = Test(browser, System(os.path.abspath(sys.argv[2])), shots)
        for step in [n for n in vars(Test) if "_" in n and not n.startswith("_")]:
            begun = time.monotonic()
            try:
                getattr(test, step)()
            except (AssertionError, BrowserError, OSError) as e:
                traceback.print_exc()
                print(f"not ok {step}: {e}")
                if hasattr(test, "page"):
                    test.shot("failed")
                    print("console:", test.page.problems)
                return 1
            print(f"ok {step} ({time.monotonic() - begun:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
