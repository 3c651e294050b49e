#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page with very many series, in headless Chromium: what it holds and requests does not grow with their number.

usage: test_many.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]

SL_TEST_SCALE=10 has 100,000 series. The steps build on one another; the first that fails ends the test.
"""
import sys

from support.process import SCALE, check
from support.sidelight import generate, report
from steps import Walk, walk

PER_POD, PODS, MANY_PODS = 1000, int(10 * SCALE), 300
COUNT = "Number(document.querySelector('#metrics').getAttribute('aria-rowcount'))"
ROWS = "[...document.querySelectorAll('#metrics .row:not([hidden])')]"


class Test(Walk):
    def _publish(self, service, pods, metrics):
        g = generate(self.system.socket, '--service', service, '--pods', pods, '--pods-per-process', 15, '--metrics', metrics,
                     '--updates', 10, '--wait', '60s', '--hold', '1h')
        report(g)
        return g

    def _cost(self, path='/metrics?'):
        """Elements on the page, and bytes of the largest answer to each path, over three answers of the list."""
        page = self.page
        page.run("performance.clearResourceTimings()")
        answers = "performance.getEntriesByType('resource').filter((e) => e.decodedBodySize)"
        page.wait(f"{answers}.filter((e) => e.name.includes('{path}')).length >= 3")
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
        # Answers are larger only because numbers have more digits, and because of the pods' names.
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

    def many_pods_are_asked_for_in_part(self):
        page = self.page
        page.run("document.querySelector('#tab-pods').click()")
        self.crowd = self._publish('crowd', MANY_PODS, 1)
        count = "Number(document.querySelector('#pods').getAttribute('aria-rowcount'))"
        rows = "[...document.querySelectorAll('#pods .row:not([hidden])')]"
        page.wait(f'{count} > {MANY_PODS}')
        nodes, largest = self._cost('/pods?')
        print(f'{page.run(count)} pods: {nodes} elements, {page.run(f"{rows}.length")} rows, answers of {largest} bytes')
        check(page.run(f'{rows}.length') < 60, 'too many rows')
        # A pod takes less than 1,000 bytes, and there are at least 40 in an answer.
        check(largest['/api/v1/pods'] < 60000, largest)
        page.run("document.querySelector('#pods').focus()")
        page.key('End')
        last = f"{rows}.find((r) => Number(r.getAttribute('aria-rowindex')) === {count})"
        page.wait(f"{last} && !{last}.classList.contains('loading') && {last}.textContent.includes('sidelight-agent')")
        for _ in range(40):  # past the pods with many series, of which a longer test has more
            page.key('PageUp')
            page.wait(f"!{rows}.some((r) => r.classList.contains('loading'))")
            if page.run(f"{rows}.some((r) => r.textContent.includes('crowd-{MANY_PODS - 1}'))"):
                break
        # Their order is that of the numbers in their names.
        names = page.run(f"{rows}.map((r) => r.cells.name.textContent).filter((name) => name.startsWith('crowd-'))")
        check((len(names) > 10 or names and SCALE > 1) and names == [f'crowd-{i}' for i in range(MANY_PODS - len(names), MANY_PODS)], names)
        self.shot(page, 'many-pods')

    def a_hidden_plot_asks_nothing(self):
        page = self.page
        page.run("document.querySelector('#tab-metrics').click()")
        page.wait(f"{ROWS}.length > 10 && !{ROWS}[5].classList.contains('loading')")
        page.run("document.querySelector('#metrics .row').click()")
        check('/api/v1/history' in self._cost()[1], 'the plot is not live')
        page.run("document.querySelector('#tab-services').click()")
        self._cost('/services?')  # until earlier requests have been answered
        asked = self._cost('/services?')[1]
        check(not asked.keys() & {'/api/v1/history', '/api/v1/marks'}, 'it asks for a plot that is hidden', asked)

    def the_console_is_silent(self):
        check(not self.page.problems, self.page.problems)


sys.exit(walk(Test))
