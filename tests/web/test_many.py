#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page over very many series, in headless Chromium: what it holds and asks for does not grow with them.

usage: test_many.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]

SL_TEST_SCALE=10 has 100,000 series. The steps build on one another; the first that fails ends the test.
"""
import sys

from support.process import SCALE, check
from support.sidelight import generate, report
from steps import Walk, walk

PER_POD, PODS = 1000, int(10 * SCALE)
COUNT = "Number(document.querySelector('#metrics').getAttribute('aria-rowcount'))"
ROWS = "[...document.querySelectorAll('#metrics .row:not([hidden])')]"


class Test(Walk):
    def _publish(self, service, pods, metrics):
        g = generate(self.system.socket, '--service', service, '--pods', pods, '--metrics', metrics, '--updates', 10, '--hold', '1h')
        report(g)
        return g

    def _cost(self):
        """Elements on the page, and bytes of the largest answer to each path, over three answers of the list."""
        page = self.page
        page.run("performance.clearResourceTimings()")
        answers = "performance.getEntriesByType('resource').filter((e) => e.decodedBodySize)"
        page.wait(f"{answers}.filter((e) => e.name.includes('/metrics?')).length >= 3")
        largest = page.run(f"{answers}.reduce((all, e) => {{ const path = new URL(e.name).pathname;"
                           " all[path] = Math.max(all[path] || 0, e.decodedBodySize); return all; }, {})")
        return page.run("document.querySelectorAll('*').length"), largest

    # ---- steps, in order

    def a_thousand_series_are_listed(self):
        self.system.start_agent()
        self.system.start_collector('--period', '1s')
        self.few = self._publish('few', 1, PER_POD)
        page = self.page = self.browser.page(f'{self.system.url}#tab=metrics&all=1')
        self.pages.append(page)
        page.wait(f'{COUNT} >= {PER_POD}')
        self.before = self._cost()

    def many_more_cost_the_page_no_more(self):
        self.many = self._publish('many', PODS, PER_POD)
        self.last = self._publish('zebra', 1, 1)
        self.page.wait(f'{COUNT} > {PER_POD * (PODS + 1)}')
        nodes, largest = self._cost()
        print(f'{PER_POD * (PODS + 1)} series: {nodes} elements, answers of {largest} bytes; before: {self.before}')
        check(nodes < 1.2 * self.before[0], nodes, self.before)
        # But for digits that are more, and the pods' names.
        check(max(largest.values()) < 1.5 * max(self.before[1].values()), largest, self.before)
        self.shot(self.page, 'many')

    def a_search_finds_the_last_one(self):
        page = self.page
        page.type('#q', 'zebra-0 generated_updates')
        page.wait(f"{COUNT} === 1 && {ROWS}.length === 1 && {ROWS}[0].textContent.includes('zebra-0')")
        page.type('#q', '')
        page.wait(f'{COUNT} > {PER_POD * (PODS + 1)}')

    def the_end_of_the_list_is_reached_by_a_key(self):
        page = self.page
        page.run("document.querySelector('#metrics').focus()")
        page.key('End')
        last = f"{ROWS}.find((r) => Number(r.getAttribute('aria-rowindex')) === {COUNT})"
        page.wait(f"{last} && !{last}.classList.contains('loading') && {last}.textContent.length > 5")
        check(page.run("document.querySelectorAll('*').length") < 1.2 * self.before[0], 'elements were left behind')

    def the_console_is_silent(self):
        check(not self.page.problems, self.page.problems)


sys.exit(walk(Test))
