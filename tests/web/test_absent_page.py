#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a collector without analysis, in headless Chromium: it starts with the metrics, has no view of services, and
requests nothing that this build lacks.

usage: test_absent_page.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]
"""
import sys

from support.process import check
from support.sidelight import generate, report
from steps import Walk, walk

ABSENT = ('services', 'map', 'anomalies', 'cause', 'traces')
VISIBLE = "[...document.querySelectorAll('[role=tab]')].filter((t) => !t.hidden).map((t) => t.dataset.tab)"


class Test(Walk):
    def the_first_view_is_of_metrics(self):
        self.system.start_agent()
        self.system.start_collector()
        self.load = generate(self.system.socket, '--service', 'core', '--pods', 2, '--metrics', 5, '--updates', 10, '--hold', '1h')
        report(self.load)
        page = self.page = self.browser.page(self.system.url)
        self.pages.append(page)
        page.wait("document.body.dataset.tab === 'metrics'")
        page.wait("document.querySelectorAll('#metrics .row:not([hidden])').length >= 2")
        shown = page.run(VISIBLE)
        check('pods' in shown and not set(shown) & set(ABSENT), shown)

    def nothing_absent_is_asked_for(self):
        page = self.page
        page.run("performance.clearResourceTimings()")
        page.wait("performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/v1/status')).length >= 3")
        asked = page.run("performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname)")
        check(not [p for p in asked if p.split('/')[-1] in ABSENT], asked)

    def an_address_of_an_absent_view_leads_to_the_metrics(self):
        self.page.go(f'{self.system.url}#tab=services')
        self.page.wait("document.body.dataset.tab === 'metrics'")


sys.exit(walk(Test))
