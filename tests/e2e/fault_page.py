# SPDX-License-Identifier: Apache-2.0
"""Acts like a person who has never seen the page: opens it, and clicks on what is red."""
import atexit
import json
import os

from support.browser import Browser, NoBrowser
from support.process import check

ROW = '#services .row[data-service="shop"]:not([hidden])'


class FaultPage:
    """The browser starts at the first use, so that it takes no CPU time from the learning before."""

    def __init__(self, address):
        self.address, self.browser = address, None

    def look(self, kind, blame):
        """The pod, a metric that the fault moves and, if requests show it, a kept trace: in one click."""
        try:
            if not self.browser:
                self.browser = Browser()
                atexit.register(self.browser.close)
        except NoBrowser as why:
            print(f'SKIP: {kind}: {why}')
            return
        page = self.browser.page(self.address)
        page.wait(f"['bad', 'warn'].includes(document.querySelector('{ROW}')?.dataset.kind)", what=f'{kind}: the service is marked')
        says = page.run(f"document.querySelector('{ROW}').cells.says.textContent")
        page.click(f'{ROW} .says')
        blamed = ("[...document.querySelectorAll('#blamed figure')].some((f) => Number(f.dataset.points) > 1 && "
                  f"{json.dumps(blame)}.some((name) => f.dataset.metric.startsWith(name)))")
        page.wait(f"document.querySelector('#cause-title').textContent.startsWith('shop-0') && {blamed}",
                  what=f'{kind}: its pod and what is to blame')
        # CPU time and memory need not slow a request down.
        if kind in ('slow', 'errors'):
            page.wait("document.querySelectorAll('#cause-traces .trace').length > 0 && "
                      "document.querySelectorAll('#cause-waterfall .span').length > 0", what=f'{kind}: a kept trace')
        traces = page.run("[...document.querySelectorAll('#cause-traces .trace .badge')].map((b) => b.textContent)")
        check(not page.problems, page.problems)
        print(f'{kind}: the page says {says!r}; traces: {traces}', flush=True)
        if 'SL_TEST_PICTURES' in os.environ:
            page.screenshot(os.path.join(os.environ['SL_TEST_PICTURES'], f'fault-{kind}.png'))
        self.browser.end(page)
