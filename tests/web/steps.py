# SPDX-License-Identifier: Apache-2.0
"""A test of the page in steps, in the order in which its class has them; the first that fails ends it."""
import os
import sys
import time
import traceback

from support.browser import BrowserError, NoBrowser, launch
from system import System


class Walk:
    """The steps are its public methods with names of several words. pages: pages whose console is shown after an error."""

    def __init__(self, browser, system, shots):
        self.browser, self.system, self.shots = browser, system, shots
        self.pages = []

    def shot(self, page, name):
        if self.shots:
            page.screenshot(os.path.join(self.shots, name + '.png'))


def walk(test_class):
    """sys.argv: SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]"""
    try:
        browser = launch()
    except NoBrowser as e:
        print(f'SKIP: {e}')
        return 77
    with browser:
        system = System(os.path.abspath(sys.argv[2]))
        test = test_class(browser, system, sys.argv[3] if len(sys.argv) > 3 else None)
        for step in (name for name in vars(test_class) if '_' in name and not name.startswith('_')):
            start = time.monotonic()
            try:
                getattr(test, step)()
            except (AssertionError, BrowserError, RuntimeError, OSError) as e:
                traceback.print_exc()
                print(f'not ok {step}: {e}')
                for page in test.pages:
                    print('console:', page.problems)
                for part in filter(None, (system.agent, system.collector)):
                    print(f'{part}: {part.logged()[-2000:]}')
                return 1
            print(f'ok {step} ({time.monotonic() - start:.1f} s)', flush=True)
    return 0
