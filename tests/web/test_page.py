#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The live page in headless Chromium, over a real agent, collector and publishers.

usage: test_page.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]

The steps build on one another; the first that fails ends the test.
"""
import json
import math
import sys
import time

from support.process import PATIENCE, check, poll, wait_until
from steps import Walk, walk

ROWS = "[...document.querySelectorAll('#metrics .row:not([hidden])')]"
OURS = ROWS + ".filter((r) => r.cells.metric.textContent.startsWith('test_'))"
PODS = ("[...document.querySelectorAll('#pods .row:not([hidden])')]"
        ".filter((r) => !r.cells.name.textContent.startsWith('sidelight-agent'))")


def value_of(page, name):
    """The exact value that the page holds for a metric, as text."""
    return page.run(f"({ROWS}.find((r) => r.cells.metric.textContent === {json.dumps(name)})"
                    "?.cells.value.dataset.value) ?? null")


def wait_value(page, name, value):
    page.wait(f"{ROWS}.some((r) => r.cells.metric.textContent === {json.dumps(name)} && "
              f"r.cells.value.dataset.value === {json.dumps(str(value))})",
              what=f"{name} = {value} on the page")


def metric(system, name, query=""):
    status, answer = system.get(f"metrics?q={name}{query}")
    check(status == 200 and len(answer["metrics"]) == 1, name, status, answer)
    return answer["metrics"][0]


class Test(Walk):
    def open(self, hash_="", **more):
        page = self.browser.page(self.system.url + "#" + (hash_ or "tab=metrics&all=1"), **more)
        self.pages.append(page)
        return page

    def until(self, page, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            check(time.monotonic() < end, f"not within {PATIENCE} s:", what)
            page.pump(0.1)

    # ---- steps, in order

    def without_an_agent_the_page_says_which_one_is_missing(self):
        self.system.start_collector()
        page = self.page = self.open()
        page.wait("document.querySelector('#health').textContent === 'no agent'")
        page.wait("!document.querySelector('#metrics-empty').hidden && document.querySelector("
                  f"'#metrics-empty').textContent.includes({json.dumps(self.system.socket)})")
        self.shot(page, "no-agent")

    def without_pods_the_page_says_how_to_make_one(self):
        self.system.start_agent()
        page = self.page
        # On a busy machine rounds may be late, which is no matter here.
        page.wait("['collecting', 'late'].includes(document.querySelector('#health').textContent)")
        page.wait("document.querySelector('#metrics-empty').textContent.includes('No pods yet')")
        self.shot(page, "no-pods")

    def a_published_value_appears(self):
        self.cart = self.system.pod("cart", "cart-0")
        self.cart.tell("add", 12345)
        self.cart.tell("set", -42)
        wait_value(self.page, "test_requests_total", 12345)
        wait_value(self.page, "test_queue_depth", -42)

    def a_value_that_counts_on_changes_on_the_page(self):
        self.cart.tell("add", 54321)
        self.cart.tell("load", 0.25)
        wait_value(self.page, "test_requests_total", 66666)
        wait_value(self.page, "test_load_ratio", 0.25)

    def a_part_that_does_not_come_is_come_back_for(self):
        page = self.open()
        page.call("Network.setBlockedURLs", urls=["*/format.js"])
        page.go(self.system.url + "?again#tab=metrics&all=1")
        page.wait("document.querySelector('#health')?.textContent === 'reloading'")
        page.call("Network.setBlockedURLs", urls=[])
        page.wait("['collecting', 'late'].includes(document.querySelector('#health')?.textContent)")
        wait_value(page, "test_requests_total", 66666)
        self.pages.remove(page)  # its console complained, and rightly

    def labels_are_text_and_nothing_else(self):
        text = self.page.run(f"{ROWS}.find((r) => r.cells.metric.textContent === 'test_queue_depth')"
                             ".cells.labels.textContent")
        check(text == 'path="/a"b\\<script>é"', text)

    def the_api_answers_what_was_published(self):
        for i in range(100):
            self.cart.tell("observe", 0.001 * (i + 1))
        self.cart.tell("observe", 50)
        self.cart.tell("add", 2**63)
        poll(lambda: metric(self.system, "test_requests_total")["value"] >= 2**63)
        m = metric(self.system, "test_requests_total")
        check(m["value"] == 66666 + 2**63 and m["kind"] == "counter", m)
        check(m["labels"] == {"code": "200"} and m["help"] == "Requests that the test made.", m)
        check(metric(self.system, "test_queue_depth")["value"] == -42)
        check(metric(self.system, "test_load_ratio")["value"] == 0.25)
        breaker = metric(self.system, "test_breaker")
        check(breaker["states"] == {"closed": False, "open": True, "half_open": False}, breaker)
        check(metric(self.system, "test_build")["kind"] == "info")

        h = metric(self.system, "test_latency_seconds")["histogram"]
        check(h["exponential"] and h["count"] == 101, h)
        check(math.isclose(h["sum"], 0.001 * 5050 + 50, rel_tol=1e-9), h)
        for key, truth in (("p50", 0.0505), ("p90", 0.0909)):
            check(abs(math.log2(h[key] / truth)) < 1 / 8, key, h)
        h = metric(self.system, "test_size_seconds")["histogram"]
        check(not h["exponential"] and h["count"] == 101, h)
        check(math.isclose(h["p50"], 0.0505, rel_tol=1e-9) and h["p99"] <= 0.1, h)

        status, pods = self.system.get("pods?q=cart-0")
        pod = pods["pods"][0]
        check(status == 200 and pod["pid"] == self.cart.pid and pod["state"] == "live", pod)
        check(pod["labels"]["zone"] == "eu-1" and pod["metrics"] == 7, pod)
        status, hosts = self.system.get("hosts")
        check(hosts["hosts"][0]["condition"] == "up", hosts)
        check(hosts["hosts"][0]["target"] == self.system.socket, hosts)
        status, s = self.system.get("status")
        check(s["totals"]["pods_live"] >= 1 and s["totals"]["rounds"] > 10, s)
        check(s["workers"][0]["rounds_per_second"] > 1, s)
        status, latency = self.system.get("latency")
        check(latency["total"]["count"] > 0 and latency["total"]["p50_seconds"] > 0, latency)

    def history_holds_each_step_at_its_time(self):
        pod = metric(self.system, "test_queue_depth")
        before = time.time()
        for v in range(20):
            self.cart.tell("set", v)
            wait_until(lambda v=v: metric(self.system, "test_queue_depth")["value"] == v, f"the collector sees {v}",
                       every=0.005)
        status, h = self.system.get(f"history?series={pod['id']}&last=30s&points=10000")
        s = h["series"][0]
        check(status == 200 and s["recorded"] == len(s["t"]) == len(s["v"]), s)
        check(s["t"] == sorted(s["t"]), "out of order")
        seen = [v for t, v in zip(s["t"], s["v"]) if t >= before]
        check(set(range(20)) <= set(seen), "steps are missing", seen)
        status, few = self.system.get(f"history?series={pod['id']}&last=30s&points=16")
        few = few["series"][0]
        check(few["decimated"] and few["points"] <= 16, few)
        check(min(few["v"]) == min(s["v"]) and max(few["v"]) == max(s["v"]), few["v"])

    def a_plot_is_drawn_from_history(self):
        page = self.page
        page.run(f"{ROWS}.find((r) => r.cells.metric.textContent === 'test_requests_total').click()")
        page.run(f"{ROWS}.find((r) => r.cells.metric.textContent === 'test_queue_depth').click()")
        for i in range(30):
            self.cart.tell("add", 1000 * (i % 3))
            self.cart.tell("set", 30 + i % 7)
            page.pump(0.05)
        page.wait("Number(document.querySelector('#plot').dataset.points) > 100")
        coloured = page.run(
            "(() => { const c = document.querySelector('#plot canvas');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let i = 0; i < d.length; i += 4) {"
            "const spread = Math.max(d[i], d[i+1], d[i+2]) - Math.min(d[i], d[i+1], d[i+2]);"
            "n += d[i+3] > 100 && spread > 80; } return n; })()")
        check(coloured > 500, "pixels of lines:", coloured)
        legend = page.run("document.querySelector('#legend').textContent")
        check("test_requests_total" in legend and "cart-0" in legend, legend)
        page.wait("document.querySelectorAll('#legend li').length === 2")
        check("series=" in page.run("location.hash"))
        self.shot(page, "plot")

    def pause_holds_the_picture(self):
        page = self.page
        page.click("#pause")
        page.pump(0.6)
        asked = sum("/history" in r for r in page.requests)
        page.pump(1.2)
        check(sum("/history" in r for r in page.requests) == asked, "asked while paused")
        page.run("document.querySelector('#pause').click()")
        self.until(page, lambda: sum("/history" in r for r in page.requests) > asked + 2, "going on")

    def quantiles_of_a_histogram_are_drawn_over_time(self):
        page = self.page
        page.run("document.querySelector('#clear').click()")
        page.run(f"{ROWS}.find((r) => r.cells.metric.textContent === 'test_latency_seconds').click()")
        for _ in range(60):
            self.cart.tell("observe", 0.004)
            self.cart.tell("observe", 0.004)
            page.pump(0.05)
        text = page.wait("(document.querySelector('#legend .num').textContent.match("
                         "/p50 [^]*p90 [^]*p99 .*/) || [null])[0]")
        # Within the bucket of 4 ms, which is 9 % wide.
        check("p50" in text and 3.6 < float(text.split()[1].replace("\u202f", " ").split()[0]) < 4.4,
              text)
        self.shot(page, "quantiles")
        page.run("document.querySelector('#clear').click()")
        check(page.run("document.querySelector('#plots').hidden"))

    def search_filters_by_name_label_and_pod(self):
        page = self.page
        self.mail = self.system.pod("mail", "mail-0")
        self.mail.tell("add", 7)
        page.wait(f"{OURS}.length === 14")
        page.type("#q", "test_requests")
        page.wait(f"{ROWS}.length === 2")
        page.type("#q", "test_requests mail")
        page.wait(f"{ROWS}.length === 1")
        wait_value(page, "test_requests_total", 7)
        check("q=test_requests" in page.run("location.hash"))
        page.type("#q", "code=2 pod=cart-0")
        page.wait(f"{ROWS}.length === 2")
        page.type("#q", "no such thing")
        page.wait("document.querySelector('#metrics-empty').textContent.includes('Nothing matches')")
        self.shot(page, "nothing-matches")
        page.run("document.querySelector('#metrics-empty button').click()")
        page.wait(f"{OURS}.length === 14")

    def a_killed_pod_is_marked_dead_and_a_closed_one_closed(self):
        page = self.page
        page.click("#tab-pods")
        page.wait(f"{PODS}.length === 2 && {PODS}.every((r) => r.dataset.state === 'live')")
        self.mail.kill()
        start = time.monotonic()
        page.wait(f"{PODS}.find((r) => r.cells.name.textContent === 'mail-0')?.dataset.state "
                  "=== 'dead'")
        self.dead_after = time.monotonic() - start
        page.wait("document.querySelector('#v-pods').textContent.includes('1 dead')")
        check(page.run(f"{PODS}[0].cells.badge.textContent") == "dead", "the dead come first")
        closed = self.system.pod("batch", "batch-0")
        page.wait(f"{PODS}.length === 3")
        closed.tell("close")
        page.wait(f"{PODS}.find((r) => r.cells.name.textContent === 'batch-0').dataset.state "
                  "=== 'closed'")
        self.shot(page, "dead")
        # The pod's last values stay, and can be told from those of live pods.
        page.run(f"{PODS}.find((r) => r.dataset.state === 'dead').click()")
        page.wait(f"{ROWS}.length === 7 && {ROWS}.every((r) => r.classList.contains('gone'))")
        wait_value(page, "test_requests_total", 7)
        check("pod=" in page.run("location.hash"))
        page.click("#pod-filter")
        page.wait(f"{OURS}.length > 14")

    def hosts_and_read_latency_are_shown(self):
        page = self.page
        page.click("#health")
        page.wait("document.querySelector('#hosts tbody .badge')?.textContent === 'up'")
        says = "document.querySelector('#health-says').textContent"
        page.wait(f"{says}.includes('Reads arrive ') && {says}.includes(' of memory')")
        page.wait("document.querySelector('#latency canvas') && "
                  "document.querySelectorAll('#workers tbody tr').length >= 2")
        self.shot(page, "reads")
        page.click("#tab-metrics")

    def ten_thousand_series_scroll_and_are_searched(self):
        page = self.page
        self.cart.tell("many", 10000)
        page.wait("document.querySelector('#metrics').getAttribute('aria-rowcount') > 10000")
        check(page.run("document.querySelectorAll('#metrics .row').length") < 100, "too many rows")
        page.run("(() => { const l = document.querySelector('#metrics'); l.scrollTop = 150000; })()")
        page.wait(f"{ROWS}.filter((r) => r.cells.metric.textContent === 'test_many_total').length > 10")
        labels = page.run(f"{ROWS}.map((r) => [r.cells.labels.textContent, "
                          "r.cells.value.dataset.value])")
        for label, value in labels:
            check(not label.startswith("shard=") or int(label[7:12]) == int(value), label, value)
        page.type("#q", "shard=09876")
        wait_value(page, "test_many_total", 9876)
        self.shot(page, "many")
        page.type("#q", "")
        page.wait("document.querySelector('#metrics').getAttribute('aria-rowcount') > 10000")

    def everything_is_reached_by_keyboard(self):
        page = self.page
        page.run("document.activeElement.blur()")
        page.key("/", code="Slash")
        check(page.run("document.activeElement.id") == "q", "/ did not go to the search")
        page.call("Input.insertText", text="cart-0 test_l")
        page.wait(f"{ROWS}.length === 2")
        page.key("ArrowDown")
        check(page.run("document.activeElement.id") == "metrics")
        active = ("document.getElementById(document.querySelector('#metrics')"
                  ".getAttribute('aria-activedescendant'))?.dataset.index")
        for key, index in (("Home", "0"), ("ArrowDown", "1"), ("ArrowUp", "0"), ("End", "1"),
                           ("PageUp", "0")):
            page.key(key)
            check(page.run(active) == index, key, page.run(active))
        page.key("Enter")
        page.wait("document.querySelectorAll('#legend li').length === 1")
        check(page.run(f"{ROWS}[0].getAttribute('aria-selected')") == "true")
        page.key("p")
        check(page.run("document.querySelector('#pause').getAttribute('aria-pressed')") == "true")
        page.key("p")
        page.run("document.querySelector('#tab-metrics').focus()")
        page.key("ArrowRight")
        check(page.run("document.activeElement.id") == "tab-pods")
        check(page.run("!document.querySelector('#view-pods').hidden"))

    def an_address_shows_the_same_again(self):
        hash_ = self.page.run("location.hash.slice(1)")
        check("tab=pods" in hash_ and "q=cart-0" in hash_ and "series=" in hash_, hash_)
        page = self.open(hash_ + "&window=60&mode=raw", width=390, height=844, mobile=True, dark=True)
        page.wait("!document.querySelector('#view-pods').hidden")
        page.wait("document.querySelectorAll('#legend li').length === 1")
        check(page.run("document.querySelector('[data-window=\"60\"]').getAttribute('aria-pressed')")
              == "true")
        check(page.run("document.documentElement.scrollWidth") <= 390, "wider than a phone")
        page.wait("Number(document.querySelector('#plot').dataset.points) > 10")
        self.shot(page, "phone")
        page.call("Page.navigate", url="about:blank")

    def numbers_are_written_as_people_read_them(self):
        page = self.page
        got = page.run("""import('/format.js').then((f) => [
            f.number(0), f.number(123456), f.number(1234567), f.number(0.125), f.number(-1500.4),
            f.number(999.96), f.number(NaN), f.bytes(1536), f.bytes(17), f.seconds(0.00123),
            f.seconds(2.5e-7), f.seconds(90), f.age(65), f.age(0.02), f.withUnit(0.931, 'ratio'),
            f.rate(2048, 'bytes'), f.rate(NaN, ''), f.unitOf({name: 'x_bytes_total', unit: ''}),
            f.trimmed('1.50 s'), f.trimmed('2.00 s'), f.trimmed('100/s')])""")
        want = ["0", "123 456", "1.235 M", "0.125", "−1 500", "1 000", "NaN", "1.50 KiB", "17 B",
                "1.23 ms", "250 ns", "90.0 s", "1 m 05 s", "20 ms", "93.10 %", "2.00 KiB/s", "–", "bytes",
                "1.5 s", "2 s", "100/s"]
        check([g.replace("\u202f", " ") for g in got] == want, got)
        got = page.run("""import('/format.js').then((f) => { const now = Date.now() / 1000, before = now - 172800;
            return [f.moment(now) === f.clock(now, false), f.moment(before) === f.dateTime(before)]; })""")
        check(got == [True, True], got)
        got = page.run("""import('/plot.js').then((p) => p.rates([0, 1, 2, 3, 4.5, 5, 6, 7],
            [0, 10, 20, 30, 45, 5, 15, 25], 1))""")
        check(got == [[1, 2, 3, 4.5, 5, 6], [10, 10, 10, 10, None, 10]] or
              got[1][:3] == [10, 10, 10] and None in got[1], got)

    def the_sparkline_has_no_old_values(self):
        # A value per second, then none for 100 s, as if another view was open.
        spark = self.page.run("""import('/app.js').then(({observe}) => {
            const at = (t, value) => observe({id: '00000000000000ff/1', kind: 'gauge', value}, {last_read: t}, t);
            for (let t = 1000; t < 1060; t++)
                at(t, 1);
            at(1160, 2);
            return at(1163, 3).spark; })""")
        check(spark == [2, 3, 3, 3], spark)

    def a_hidden_page_asks_only_for_its_title(self):
        page = self.page
        page.call("Page.bringToFront")
        page.wait("!document.hidden")
        page.run("Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
                 "document.dispatchEvent(new Event('visibilitychange'))")
        page.pump(0.8)
        asked = len(page.requests)
        self.until(page, lambda: len(page.requests) > asked, "the title")
        page.pump(1.6)
        also = {r.split('/api/v1/')[-1].split('?')[0] for r in page.requests[asked:]}
        check(also <= {'status', 'incidents'}, also)
        asked = len(page.requests)
        page.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        self.until(page, lambda: len(page.requests) > asked, "going on")

    def bad_questions_get_4xx_with_the_reason(self):
        for path, code in (("metrics?limit=x", 400), ("metrics?kind=y", 400), ("history", 400),
                           ("history?series=1/1", 404), ("history?series=a/1&last=z", 400),
                           ("pods?state=z", 400), ("nothing", 404)):
            status, answer = self.system.get(path)
            check(status == code and answer["error"], path, status, answer)

    def no_address_but_the_collectors_was_asked_and_the_console_is_silent(self):
        for page in self.pages:
            page.pump(0.1)
            for request in page.requests:
                check(request.startswith((self.system.url, "about:blank")), "outside:", request)
            check(not page.problems, page.problems)
        page = self.open()
        outcome = page.run("new Promise((done) => { document.addEventListener("
                           "'securitypolicyviolation', (e) => done(e.violatedDirective));"
                           "fetch('http://127.0.0.1:1/').catch(() => setTimeout(done, 2000)); })")
        check(outcome == "connect-src", "the policy let it through:", outcome)
        self.pages.remove(page)

    def when_the_collector_is_away_the_page_says_so_and_comes_back(self):
        page = self.page
        page.call("Page.bringToFront")
        page.click("#tab-metrics")
        self.system.collector.stop()
        page.wait("!document.querySelector('#away').hidden && "
                  "document.querySelector('#health').textContent === 'no answer'")
        self.shot(page, "away")
        self.cart.tell("load", 0.75)
        self.system.start_collector()
        page.wait("document.querySelector('#away').hidden")
        wait_value(page, "test_load_ratio", 0.75)


sys.exit(walk(Test))
