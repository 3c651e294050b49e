#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups, heat maps and marks of a real collector, held against its history and its buckets.

usage: test_past.py SIDELIGHT PUBLISHER

The steps build on one another; the first that fails ends the test.
"""
import math
import os
import sys
import time
import traceback
import urllib.parse

from support.process import PATIENCE, check, poll
from system import System

HOLD = 5  # s for which a value holds, as group.c has it


def near(a, b, within=1e-6):
    return math.isclose(a, b, rel_tol=within, abs_tol=1e-9)


class Test:
    def __init__(self, system):
        self.s = system

    def get(self, path, **params):
        status, answer = self.s.get(f"{path}?{urllib.parse.urlencode(params, doseq=True)}")
        check(status == 200, path, params, status, answer)
        return answer

    def ids(self, name):
        """{pod: series} of a metric."""
        a = self.get("metrics", q=name, limit=1000)
        return {a["pods"][m["id"].split("/")[0]]["pod"]: m["id"] for m in a["metrics"] if m["name"] == name}

    def history(self, series, start, end):
        a = self.get("history", series=series, start=start, end=end, points=10000)["series"][0]
        check(not a["decimated"] and not a["clipped"], a["recorded"])
        return list(zip(a["t"], a["v"]))

    def group(self, metric, fn, start, end, **more):
        a = self.get("group", metric=metric, fn=fn, start=start, end=end, **more)
        check(not a["clipped"], a)
        return a

    # ---- steps, in order

    def pods_count_and_observe(self):
        self.s.start_agent(grace="3s")
        self.s.start_collector()
        self.pods = {name: self.s.pod("cart", name, "1.0") for name in ("cart-0", "cart-1")}
        self.pods["mail-0"] = self.s.pod("mail", "mail-0")
        poll(lambda: len(self.ids("test_latency_seconds")) == 3)
        self.latency, self.requests = self.ids("test_latency_seconds"), self.ids("test_requests_total")
        before = self.buckets()
        self.begun = time.time()
        for i in range(40):
            for k, pod in enumerate(self.pods.values()):
                pod.tell("add", 10 + 7 * k)
                pod.tell("set", i * (k + 1))
                pod.tell("observe", 0.001 * (1 + k) * (1 + i % 5))
            time.sleep(0.05)
        self.after = self.expect_buckets(before)
        self.ended = time.time()
        time.sleep(2.1)  # the observations of a second are known at its end

    def buckets(self):
        ids = self.ids("test_latency_seconds")
        a = self.get("buckets", series=",".join(ids.values()))
        return {s["id"]: {str(b[1]): b[2] for b in s["buckets"]} for s in a["series"]}

    def expect_buckets(self, before):
        """Returns the observations since then, once the collector has read them: 40 in each."""
        def fresh():
            now = self.buckets()
            diff = {i: {k: n - before.get(i, {}).get(k, 0) for k, n in b.items()} for i, b in now.items()}
            return all(sum(d.values()) == 40 for d in diff.values()) and diff
        return poll(fresh)

    def sums_of_gauges_are_those_of_the_history(self):
        start, end = self.begun + 0.5, self.ended
        a = self.group("test_queue_depth", "sum", start, end, by="service", points=20)
        points = {pod: self.history(i, start - 20, end) for pod, i in self.ids("test_queue_depth").items()}
        check([g["labels"] for g in a["groups"]] == [{"service": "cart"}, {"service": "mail"}], a)
        compared = 0
        for g in a["groups"]:
            for t, v in g["points"]:
                last = [[x for x in points[pod] if t - HOLD <= x[0] <= t] for pod in points
                        if pod.startswith(g["labels"]["service"])]
                want = sum(x[-1][1] for x in last if x)
                check(v == want, g["labels"], t, v, want)
                compared += 1
        check(compared > 20, compared)
        peaks = self.group("test_queue_depth", "max", start, end, points=10)["groups"][0]
        width = peaks["points"][1][0] - peaks["points"][0][0]
        for t, v in peaks["points"]:
            # Times of JSON are cut to microseconds; a point right at an edge may be on either side.
            inside = [x[1] for p in points.values() for x in p if t - width + 1e-5 < x[0] <= t - 1e-5]
            check(not inside or v >= max(inside), t, v, inside)  # none, if a busy collector read nothing meanwhile

    def rates_are_those_of_the_history(self):
        start, end = self.begun + 0.5, self.ended
        a = self.group("test_requests_total", "rate", start, end, by="pod", points=8)
        check(a["per_second"] and a["kind"] == "counter" and len(a["groups"]) == 3, a)
        whole = self.group("test_requests_total", "rate", start, end, points=8)["groups"][0]
        check(whole["series"] == 3 and whole["labels"] == {}, whole)
        ids, compared = self.ids("test_requests_total"), 0
        for i, (t, v) in enumerate(whole["points"]):
            parts = [g["points"][i][1] for g in a["groups"]]
            if None not in parts:
                check(near(v, sum(parts)), t, v, parts)
        for g in a["groups"]:
            points = self.history(ids[g["labels"]["pod"]], start - 20, end)
            for i, (t, v) in enumerate(g["points"]):
                before = [x for x in points if x[0] <= t - a["step_seconds"]]
                inside = [x for x in points if t - a["step_seconds"] < x[0] <= t]
                if not before or not inside or v is None:
                    continue
                want = (inside[-1][1] - before[-1][1]) / (inside[-1][0] - before[-1][0])
                check(near(v, want, 1e-3), g["labels"], t, v, want)
                compared += 1
        check(compared > 12, compared)

    def a_heat_map_has_every_observation(self):
        start, end = self.begun - 3, self.ended + 3
        # A busy collector may take a second's observations late.
        def complete():
            a = self.get("heat", series=",".join(self.after), start=start, end=min(end, time.time()), columns=1000)
            return sum(map(sum, (c for _, c in a["columns"]))) == 120 and a
        a = poll(complete)
        check(a and a["kept"] and a["series"] == 3, a)
        want = {}
        for diff in self.after.values():
            for bound, n in diff.items():
                want[bound] = want.get(bound, 0) + n
        got = {}
        for _, counts in a["columns"]:
            for bound, n in zip(a["bounds"], counts):
                if n:
                    got[str(bound)] = got.get(str(bound), 0) + n
        check(got == {k: n for k, n in want.items() if n}, got, want)
        self.heat = a

    def quantiles_are_of_all_pods_together(self):
        """p90 by interpolation within the bucket of its rank, on a scale that is exponential."""
        a = self.group("test_latency_seconds", "p90", self.begun - 3, min(self.ended + 3, time.time()), points=1000)
        by_time = dict((t, v) for t, v in a["groups"][0]["points"])
        lows, compared = [self.heat["low"]] + self.heat["bounds"][:-1], 0
        for t, counts in self.heat["columns"]:
            rank, below = 0.9 * sum(counts), 0
            if t not in by_time or not sum(counts):
                continue
            for low, high, n in zip(lows, self.heat["bounds"], counts):
                if n and below + n >= rank:
                    want = low * (high / low) ** ((rank - below) / n)
                    break
                below += n
            check(near(by_time[t], want, 1e-9), t, by_time[t], want)
            compared += 1
        check(compared >= 2, compared, a)

    def what_does_not_fit_is_refused(self):
        start = self.begun
        for path, code, word in (
                ("group", 400, "missing parameter metric"),
                ("group?metric=no_such", 404, "no such metric"),
                ("group?metric=test_queue_depth&fn=rate", 400, "not a counter"),
                ("group?metric=test_queue_depth&fn=p99", 400, "not a histogram"),
                ("group?metric=test_queue_depth&fn=median", 400, "expected one of"),
                ("group?metric=test_queue_depth&by=a,,b", 400, "separated by commas"),
                ("group?metric=test_queue_depth&by=" + "a," * 200 + "a", 400, "characters are allowed"),
                ("group?metric=test_queue_depth&match=pod", 400, "LABEL=VALUE"),
                ("group?metric=test_queue_depth&match=pod=~(", 400, "regular expression"),
                ("group?metric=test_queue_depth&match=pod=~(a*)*b&match==x", 400, "LABEL=VALUE"),
                ("group?metric=test_queue_depth&points=0", 400, "1 to 2000"),
                ("group?metric=test_queue_depth&last=25h", 400, "up to 24h"),
                ("group?metric=test_queue_depth&last=-1s", 400, "up to 24h"),
                (f"group?metric=test_queue_depth&start={start}&last=1s", 400, "specify either"),
                (f"group?metric=test_queue_depth&start={start}&end={start}", 400, "must be before"),
                ("group?metric=test_queue_depth&start=nan&end=inf", 400, "expected a time"),
                ("group?metric=test_queue_depth&start=1&end=1e11", 400, "at most 24h"),
                ("group?metric=test_queue_depth&fn=sum&fn=max", 400, "more than once"),
                ("heat", 400, "missing parameter series"),
                ("heat?series=1/1", 404, "no such series"),
                (f"heat?series={self.ids('test_queue_depth')['cart-0']}", 400, "not a histogram"),
                (f"heat?series={self.ids('test_latency_seconds')['cart-0']},{self.ids('test_size_seconds')['cart-0']}",
                 400, "exponential and classic"),
                (f"heat?series={self.ids('test_latency_seconds')['cart-0']}&columns=100000", 400, "1 to 1000"),
                (f"heat?series={self.ids('test_latency_seconds')['cart-0']}&last=10ms", 400, "shorter than one step"),
                ("marks?start=x", 400, "expected a time"),
                ("history?series=1/1&start=5&end=4", 400, "must be before")):
            status, answer = self.s.get(path)
            check(status == code and word in answer["error"], path[:100], status, answer)
        some = self.group("test_queue_depth", "sum", self.begun, self.ended, by="pod",
                          match=["service=cart", "pod!=cart-1"])
        check([g["labels"]["pod"] for g in some["groups"]] == ["cart-0"], some)
        some = self.get("group", metric="test_queue_depth", by="pod", match="pod=~.*-0", limit=1)
        check(some["matching"] == 2 and len(some["groups"]) == 1 and some["clipped"], some)

    def a_deployment_and_a_death_are_marks(self):
        self.mailed = self.history(self.requests["mail-0"], self.begun - 3, self.ended)
        self.pods["cart-0"].tell("close")
        self.s.pod("cart", "cart-2", "2.0")
        self.s.pod("cart", "cart-3", "2.0")
        self.pods["mail-0"].kill()

        def seen():
            marks = self.get("marks", last="1h")["marks"]
            texts = {m["kind"]: m["text"] for m in marks if m["service"] in ("cart", "mail", "")}
            ok = ("deployment" in texts and "death" in texts and "(2 pods)" in texts["deployment"])
            return ok and (marks, texts)
        marks, texts = poll(seen) or check(False, self.get("marks", last="1h"))
        check(texts["deployment"] == "cart: 2.0 replaced 1.0 (2 pods)", texts)
        check(texts["death"] == f"mail-0 died (pid {self.pods['mail-0'].pid})", texts)
        check(texts["collector"] == "the collector started", texts)
        check([m["at"] for m in marks] == sorted(m["at"] for m in marks), marks)
        check(sum(m["kind"] == "start" for m in marks) == 3, marks)
        none = self.get("marks", start=self.begun - 100, end=self.begun - 90)
        check(none["marks"] == [] and none["truncated"] is False, none)

    def the_past_of_ended_pods_remains(self):
        latency, requests = (series["mail-0"] for series in (self.latency, self.requests))
        why = poll(lambda: self.get("buckets", series=latency)["series"][0].get("error"))
        check(why == "the publisher has ended", why)
        heat = self.get("heat", series=latency, start=self.begun - 3, end=self.ended + 3, columns=1000)
        check(sum(sum(counts) for _, counts in heat["columns"]) == 40, heat)
        past = self.history(requests, self.begun - 3, self.ended)
        check(past == self.mailed, past, self.mailed)


def main():
    test = Test(System(os.path.abspath(sys.argv[2])))
    for step in [name for name in vars(Test) if "_" in name and not name.startswith("_") and
                 name != "expect_buckets"]:
        begun = time.monotonic()
        try:
            getattr(test, step)()
        except (AssertionError, OSError) as e:
            traceback.print_exc()
            print(f"not ok {step}: {e}")
            for part in filter(None, (test.s.agent, test.s.collector)):
                print(f"{part}: {part.logged()[-2000:]}")
            return 1
        print(f"ok {step} ({time.monotonic() - begun:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
