# SPDX-License-Identifier: Apache-2.0
"""Obstacles to accessibility that axe-core finds, at two widths, in light and dark mode."""
import json
import os
import time

from support.process import check

AXE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'node', 'node_modules', 'axe-core', 'axe.min.js')
COLOURS = ", runOnly: ['color-contrast']"
# Every rule once, and the rules on colours at each width in light and in dark: no other rules depend on these.
LOOKS = (1440, False, ''), (1440, True, COLOURS), (390, False, COLOURS), (390, True, '')


def found_by_axe(page, where='document', only=''):
    return page.run(f"axe.run({where}, {{resultTypes: ['violations']{only}}}).then((r) => r.violations.map((v) =>"
                    " [v.id, v.nodes.length, v.nodes[0].target.join(), v.nodes[0].failureSummary]))")


def is_accessible(page, views, show, shot=lambda page, name: None, where='document'):
    """Shows each view with show(name) and checks it; where: a JavaScript expression for the element to check. Returns False if
    axe-core is not installed."""
    if not os.path.exists(AXE):
        print('SKIP: axe-core is not installed (scripts/setup test)')
        return False
    with open(AXE) as f:
        page.run(f.read() + ';0')
    found, begun = [], time.monotonic()
    for width, dark, only in LOOKS:
        page.size(width, 844, mobile=width < 500)
        page.dark(dark)
        for view in views:
            show(view)
            page.pump(0.3)
            found += [[view, width, 'dark' if dark else 'light', *one] for one in found_by_axe(page, where, only)]
            shot(page, f"{view}-{width}-{'dark' if dark else 'light'}")
    page.size(1280, 800)
    page.dark(False)
    print(f'axe looked {len(LOOKS) * len(views)} times in {time.monotonic() - begun:.1f} s')
    check(not found, json.dumps(found, indent=1))
    return True
