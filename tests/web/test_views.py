#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The views of services, their map, an incident's cause and Sidelight's health in headless Chromium; with
SL_TEST_BROWSER=firefox, in Firefox.

usage: test_views.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]

An agent, a collector and publishers are real. What they have not at once - an incident with all there is about it, the
most hostile names, 10,000 services, a clock that jumps - is made up in the page, by made_up.js.
The steps build on one another; the first that fails ends the test.
"""
import json
import os
import sys
import time

from support.process import check, wait_until
from axe import found_by_axe, is_accessible
from steps import Walk, walk

HERE = os.path.dirname(os.path.abspath(__file__))
SERVICES = "[...document.querySelectorAll('#services .row:not([hidden])')]"
VIEWS = ('services', 'map', 'metrics', 'pods', 'anomalies', 'cause', 'traces', 'health')
NAMED = 'café-žluť-服务', '\u202egnp.exe', '<img src=x onerror=alert(1)>'
# Elements that Tab must reach: all that a mouse can use, except for most rows and tabs, of which only one is in the tab order.
REACHABLE = """[...document.querySelectorAll('button, input, select, a[href], summary, [tabindex="0"]')].filter((e) =>
    e.tabIndex >= 0 && e.checkVisibility({visibilityProperty: true}) && !e.closest('dialog') && !e.disabled)"""


class Test(Walk):
    def _made_up(self, page):
        with open(os.path.join(HERE, 'made_up.js')) as f:
            page.before(f.read())
        page.go(self.system.url + '?made-up')
        page.wait(f"{SERVICES}.length > 5")

    def _tab(self, page, name):
        page.run(f"document.querySelector('#tab-{name}').click()")
        page.wait(f"!document.querySelector('#view-{name}').hidden")

    # ---- steps, in order

    def services_come_first_with_what_they_do(self):
        self.system.start_agent()
        self.system.start_collector()
        self.pod = self.system.pod('cart', 'cart-0')
        self.odd = [self.system.pod(name, f'odd-{i}') for i, name in enumerate(NAMED)]
        page = self.page = self.browser.page(self.system.url)
        self.pages.append(page)
        row = f"{SERVICES}.find((r) => r.dataset.service === 'cart')"

        def counting():
            self.pod.tell('add', 500)
            page.pump(0.1)
            return page.run(f"parseFloat({row}?.cells.rateText.textContent) > 0")
        end = time.monotonic() + 60
        while not counting():
            check(time.monotonic() < end, 'no rate', page.run(f"{row}?.textContent"))
        check(page.run("document.querySelector('#tab-services').getAttribute('aria-selected')") == 'true', 'another view')
        check(page.run(f"{row}.cells.says.textContent") == 'Not judged: analysis is off', page.run(f"{row}.textContent"))
        page.wait("document.querySelector('#v-services').textContent.startsWith('4')")
        self.shot(page, 'services')

    def names_are_text_and_stay_in_their_place(self):
        names = self.page.run(f"{SERVICES}.map((r) => r.cells.service.textContent)")
        check(set(NAMED) <= set(names), names)
        check(self.page.run("document.querySelectorAll('#services img, #services script').length") == 0, 'markup')
        check(self.page.run(f"{SERVICES}.every((r) => getComputedStyle(r.cells.service).unicodeBidi === 'isolate')"), 'bidi')

    def series_without_a_change_are_folded_away(self):
        page = self.page
        self.pod.tell('add', 500)  # the steps before may have taken a minute
        self._tab(page, 'metrics')
        count = "Number(document.querySelector('#metrics').getAttribute('aria-rowcount'))"
        page.wait(f"!document.querySelector('#fold').hidden && {count} > 0 && document.querySelector('#fold').textContent.startsWith('Show ')")
        few = page.run(count)
        # So are those of Sidelight, hosts and runtimes.
        names = "[...document.querySelectorAll('#metrics .row:not([hidden])')].map((r) => r.cells.metric.textContent)"
        check(not page.run(f"{names}.some((n) => n.startsWith('sidelight_'))"), page.run(names))
        check('Sidelight' in page.run("document.querySelector('#fold').textContent"), 'they are not counted')
        answer = self.system.get('metrics?applications=1&limit=10000')[1]
        own = [m['name'] for m in answer['metrics'] if m['name'].startswith(('sidelight_', 'node_', 'go_', 'process_'))]
        check(answer['own'] > 0 and answer['metrics'] and not own, answer['own'], own)
        page.click('#fold')
        page.wait(f"{count} > {few} && document.querySelector('#fold').textContent.startsWith('Hide ')")
        check('all=1' in page.run('location.hash'), page.run('location.hash'))
        # Applications come first.
        check(page.run(f"{names}[0].startsWith('test_')"), page.run(names))
        page.run("document.querySelector('#metrics').scrollTop = 1e6")
        page.wait(f"{names}.some((n) => n.startsWith('sidelight_'))")
        page.click('#fold')
        # The next step clicks on a row, which must not be one of those that go.
        page.wait(f"document.querySelector('#fold').textContent.startsWith('Show ') && {count} > 0 && "
                  f"!{names}.some((n) => n.startsWith('sidelight_'))")

    def a_live_plot_moves(self):
        page = self.page

        def is_plotted():
            """A row that has not changed for a minute goes, perhaps just before the click."""
            self.pod.tell('add', 500)
            page.wait("document.querySelector('#metrics .row:not([hidden])')")
            page.click('#metrics .row')
            return not page.run("document.querySelector('#plots').hidden")
        wait_until(is_plotted, 'a row is clicked')
        page.wait("Number(document.querySelector('#plot').dataset.points) > 10")
        picture = "document.querySelector('#plot canvas').toDataURL()"
        for _ in range(3):
            before = page.run(picture)
            self.pod.tell('add', 500)
            page.wait(f'{picture} !== {json.dumps(before)}', what='another picture')
        page.click('#clear')
        page.wait("document.querySelector('#plots').hidden")

    def a_collector_that_starts_again_is_said(self):
        page = self.page
        self._tab(page, 'services')
        page.run("document.title = 'not loaded again'")
        self.system.collector.stop()
        page.wait("!document.querySelector('#away').hidden && document.querySelector('#health').textContent === 'no answer'")
        self.system.start_collector('--analyse', '--warm-up', '1h')
        page.wait("document.querySelector('#away').hidden && document.querySelector('#notice').textContent.includes('started again')")
        # While a service is still learning, it is not shown as "nothing unusual".
        page.wait(f"{SERVICES}.find((r) => r.dataset.service === 'cart')?.cells.says.textContent.startsWith('Learning')")
        page.wait("document.querySelector('#services-note').textContent.includes('in warm-up')")
        page.click('#health')
        page.wait("document.querySelector('#health-says').textContent.includes('started again at')")
        check(page.run('performance.getEntriesByType("navigation")[0].type') == 'navigate', 'loaded again')
        self.problems = [p for p in page.problems if 'ERR_CONNECTION' not in p and 'Failed to load' not in p]
        check(not self.problems, self.problems)

    def an_incident_leads_to_its_cause_by_one_click(self):
        page = self.page
        self._made_up(page)
        page.problems.clear()
        check(page.run(f"{SERVICES}[0].dataset.service") == 'payments', 'the anomalous one first')
        check('rose to 250 ms (usually 2.00 ms)' in page.run(f"{SERVICES}[0].cells.says.textContent").replace('\u202f', ' '),
              page.run(f"{SERVICES}[0].cells.says.textContent"))
        page.run("document.querySelector('#services .says').click()")
        page.wait("!document.querySelector('#view-cause').hidden && document.querySelectorAll('#blamed canvas').length > 0")
        page.wait("document.querySelectorAll('#cause-waterfall .span').length === 3")
        check('payments-0' in page.run("document.querySelector('#cause-title').textContent"), 'its pod')
        # The root has its children's time taken off: 250 ms less 200.
        check(page.run("document.querySelector('#cause-waterfall .span-time').textContent").replace('\u202f', ' ') == '250 ms self 50.0 ms',
              page.run("document.querySelector('#cause-waterfall .span-time').textContent"))
        self.address = page.run('location.hash')
        check('incident=00000000000000aa@' in self.address, self.address)
        check(page.run("document.querySelectorAll('#suspects .suspect').length") == 2, 'its members')
        page.wait("document.title.startsWith('1 incident')")
        # The incident cannot be accepted without a token, and the page explains why.
        page.wait("document.querySelector('#cause-accept').checkVisibility() && document.querySelector('#cause-accept').disabled")
        check('right to act' in page.run("document.querySelector('#cause-accept-why').textContent"), 'no reason')
        # If the answer is lost, the request may have arrived.
        page.run("window.madeUp.late = 'incidents/x/accept'; (() => { const d = document.querySelector('#accept'); d.dataset.incident = 'x';"
                 " d.returnValue = 'accept'; d.dispatchEvent(new Event('close')); })()")
        page.wait("document.querySelector('#notice').textContent.includes('answer was lost')")
        page.run("window.madeUp.late = ''")
        # Some of its pods may have been accepted before it was refused.
        page.run("window.madeUp.refuse = 'incidents/x/accept'; document.querySelector('#accept').dispatchEvent(new Event('close'))")
        page.wait("document.querySelector('#notice').textContent === 'The incident is not accepted: out of memory.'")
        page.run("window.madeUp.refuse = ''")
        self.shot(page, 'cause')
        page.key('Escape')
        page.wait("!document.querySelector('#view-services').hidden")

    def an_address_shows_the_same_cause(self):
        page = self.page
        page.run(f"location.hash = {json.dumps(self.address)}")
        page.wait("!document.querySelector('#view-cause').hidden && document.querySelector('#cause-title').textContent.includes('payments-0')")
        page.run("location.hash = '#tab=cause&incident=00000000000000bb-5'")
        page.wait("document.querySelector('#cause-empty').textContent.includes('not known any more')")
        # An alert may have the address of an incident that became part of this one.
        page.run("location.hash = '#tab=cause&incident=00000000000000cc-29394907'")
        page.wait("!document.querySelector('#cause').hidden && document.querySelector('#cause-title').textContent.includes('payments-0')")
        # The button for an unknown incident leads to that incident's pod.
        for other in ('bb', 'dd'):
            page.run(f"location.hash = '#tab=cause&incident=00000000000000{other}-5'")
            page.wait(f"!document.querySelector('#cause-empty').hidden && import('./state.js').then(({{state}}) => state.incident.includes('{other}'))")
        page.click('#cause-empty button')
        page.wait("location.hash.includes('pod=00000000000000dd')")
        page.run(f"location.hash = {json.dumps(self.address)}")  # the tab shows this incident in the next steps

    def an_incident_shows_its_worst_trace_and_the_pressure_of_its_host(self):
        page = self.page
        page.wait("document.querySelectorAll('#cause-traces .trace').length === 1")
        check(page.run("document.querySelector('#cause-pressure-title').hidden && document.querySelector('#cause-pressure').hidden"),
              'a pressure that no agent publishes')
        page.run("window.madeUp.more = true")
        page.wait("[...document.querySelectorAll('#cause-traces .trace')].map((b) => b.dataset.trace.slice(0, 2)).join() === 'cd,ef,ab'")
        page.wait("document.querySelector('#cause-waterfall').dataset.trace?.startsWith('cd')")
        pressure = "document.querySelector('#cause-pressure').textContent"
        page.wait(f"{pressure}.includes('CPU25.0') && {pressure}.includes('memory10.0') && {pressure}.includes('I/O0.0')")
        check('cores' not in page.run(pressure), page.run(pressure))
        # Connections with the same limit share a row; the detailed sentence is about one of them.
        flows = "document.querySelector('#cause-flows').textContent.replaceAll('\u202f', ' ')"
        page.wait(f"{flows} === 'losses 2 connections, 1000 B/s, RTT up to 2.00 ms, 12 retransmittedThe fastest: 9 segments retransmitted.'")
        page.run("window.madeUp.more = 'others'")
        page.wait(f"{flows} === 'None of its connections is among the first 1 of 5 000 on its host.'")
        page.run("window.madeUp.more = true")
        page.wait(f"{flows}.includes('The fastest')")
        # After a refusal, the last answer is kept, but not if another incident is shown.
        page.run("window.madeUp.refused = []; window.madeUp.refuse = 'flows'")
        page.wait('window.madeUp.refused.length > 1')
        check('The fastest' in page.run(flows), page.run(flows))
        page.run("window.madeUp.minute++")
        page.wait(f"{flows} === ''")
        page.run("window.madeUp.refuse = ''")
        page.wait(f"{flows}.includes('The fastest')")
        # The meaning of the dashed and dotted lines.
        page.wait("['while it is anomalous', 'an incident begins'].every((text) => document.querySelector('#blamed-keys').textContent.includes(text))")
        page.wait("document.querySelector('#score-keys').checkVisibility()")
        # A trace that is picked is in the address.
        page.click("#cause-traces [data-trace^='ab']")
        page.wait("document.querySelector('#cause-waterfall').dataset.trace.startsWith('ab') && location.hash.includes('trace=abab')")
        page.run('history.back()')
        page.wait("document.querySelector('#cause-waterfall').dataset.trace.startsWith('cd')")
        self.shot(page, 'cause-more')
        page.run("window.madeUp.more = false")

    def a_trace_of_many_spans_takes_no_square_of_their_number(self):
        drawn = self.page.run("""import('./waterfall.js').then(({waterfall}) => {
            let read = 0;
            const root = document.createElement('div'), spans = Array.from({length: 2000}, (_, i) => ({span_id: String(i), name: 'work', service: 'cart',
                pod: 'cart-0', kind: 'server', status: 'unset', message: '', start: i, duration_seconds: i ? 1 : 2000, attributes: {},
                get parent_id() { return read++, i ? '0' : ''; }}));
            waterfall(root, {spans, spans_read: 9000, truncated: true});
            document.querySelector('#cause-waterfall').append(window.manySpans = root);
            return [read < 20000, root.querySelectorAll('.span').length, root.lastChild.textContent.replaceAll('\u202f', ' ')]; })""")
        check(drawn == [True, 2000, "Only 2 000 of 9 000 spans fit into the collector's answer."], drawn)
        # Only visible spans are laid out.
        self.page.wait("window.manySpans.children[0].firstChild.checkVisibility() && "
                       "!window.manySpans.children[1999].firstChild.checkVisibility({contentVisibilityAuto: true})")
        self.page.run("window.manySpans.remove()")

    def plots_are_of_what_is_blamed_or_say_why_not(self):
        """One request of twenty takes 10 s: the median stays at 10 ms, and the mean is about 500 ms."""
        page = self.page
        pods = self.system.get('pods?q=cart-0')[1]['pods']
        cause = {'instance': pods[0]['instance'], 'pod': 'cart-0', 'service': 'cart', 'namespace': '', 'host': pods[0]['host'], 'pid': pods[0]['pid']}
        figure = "document.querySelector('#blamed figure[data-metric^=\"{}\"]')"

        def blame(*metrics, **more):
            blamed = [{'metric': m, 'share': 0.25, 'value': 0.5, 'before': 0.01} for m in metrics]
            page.run(f'window.madeUp.cause = {json.dumps({**cause, "blame": blamed, **more})}')
            page.wait(f"!!{figure.format(metrics[0])}")

        def highest(metric, condition):
            end = time.monotonic() + 60
            while not page.run(f"Number({figure.format(metric)}?.dataset.highest) {condition}"):
                check(time.monotonic() < end, metric, page.run(f"{figure.format(metric)}?.dataset.highest"))
                for seconds in (0.01,) * 19 + (10,):
                    self.pod.tell('observe', seconds)
                page.pump(0.2)
        # A removed plot leaves no listener behind, which would keep the plot in memory.
        page.run('''window.listened = 0; EventTarget.prototype.addEventListener = new Proxy(EventTarget.prototype.addEventListener, {
            apply(add, of, what) { window.listened += of instanceof MediaQueryList; return add.apply(of, what); }})''')
        blame('test_latency_seconds_mean', 'test_latency_seconds_p50', 'test_latency_seconds_p99', 'test_breaker{state="open"}')
        check(page.run(f"{figure.format('test_latency_seconds_p99')}.textContent").startswith('99th percentile of test_latency_seconds rose'),
              page.run("document.querySelector('#blamed').textContent"))
        highest('test_latency_seconds_mean', '> 0.3')
        highest('test_latency_seconds_p99', '> 9')
        highest('test_latency_seconds_p50', '< 0.02')
        page.wait(f"{figure.format('test_breaker')}.textContent.endsWith('keeps no history of states.')")
        # Where no quantiles are kept, nothing else is drawn in their place.
        check(page.run('window.listened') == 0, page.run('window.listened'))
        blame('test_size_seconds_p90', 'test_size_seconds_mean', 'test_size_seconds_count', service='cart (tcp)')
        for part in ('p90', 'mean'):
            page.wait(f"{figure.format('test_size_seconds_' + part)}.textContent.endsWith('keeps no quantiles and means of connections over time.')")
        page.wait(f"Number({figure.format('test_size_seconds_count')}.dataset.points) > 0")
        # A refusal does not end the history.
        page.run("window.madeUp.refused = []; window.madeUp.refuse = 'metrics'")
        blame('test_latency_seconds_count')
        page.wait("window.madeUp.refused.filter((address) => address.includes('q=test_latency_seconds')).length > 1")
        page.wait(f"{figure.format('test_latency_seconds_count')}.textContent.endsWith('No plot: out of memory.')")
        page.run("window.madeUp.refuse = ''")
        page.wait(f"Number({figure.format('test_latency_seconds_count')}.dataset.points) > 0")
        # A name in UTF-8 is quoted.
        blame('shop.latency_mean')
        page.wait(f"{figure.format('shop.latency_mean')}.textContent.endsWith('history of this time is no longer kept.')")
        asked = [r for r in page.requests if '/query_range' in r and 'shop.latency' in r]
        check(asked and all('%7B%22shop.latency_sum%22%2Cservice%3D' in r for r in asked), asked)
        # An incident may last longer than the history of an answer.
        blame('test_latency_seconds_p99', begin=time.time() - 90000)
        page.wait(f"Number({figure.format('test_latency_seconds_p99')}.dataset.points) > 0")
        # It did not begin today, so the list shows its date.
        self._tab(page, 'anomalies')
        page.wait("document.querySelector('#anomalies tbody tr')?.cells[3].textContent.length === 19")
        self._tab(page, 'cause')
        page.run("window.madeUp.cause = null")
        page.wait(f"!!{figure.format('checkout_seconds_p90')}")

    def a_count_of_observations_has_no_unit(self):
        page = self.page
        for kind in ('summary', 'gaugehistogram'):
            more = {'summary': {'count': 1234, 'sum': 7, 'quantiles': []}} if kind == 'summary' else {
                'histogram': {'count': 1234, 'sum': 7, 'p50': 0.5, 'p90': 0.7, 'p99': 1}}
            page.run('window.madeUp.metric = ' + json.dumps({'id': f'00000000000000dd/{len(kind)}', 'name': 'rpc_seconds', 'kind': kind, 'unit': 'seconds',
                                                             'help': '', 'labels': {}, 'value': 1234, **more}))
            self._tab(page, 'metrics')
            row = f"[...document.querySelectorAll('#metrics .row:not([hidden])')].find((r) => r.cells.kind.textContent === '{kind}')"
            page.wait(f"!!{row}")
            said = page.run(f"{row}.cells.value.textContent").replace('\u202f', ' ')
            check(said == {'summary': '1 234 observations', 'gaugehistogram': 'p50 500 ms · p99 1.00 s'}[kind], said)
            page.run(f"{row}.click()")
            # The value is a rate, or the current value.
            value = "document.querySelector('#legend .num').textContent"
            page.wait(f"{value} === '{ {'summary': '100/s', 'gaugehistogram': '1' + chr(0x202f) + '950'}[kind]}'", what=f'the value of a {kind}')
            page.click('#clear')
        page.run("window.madeUp.metric = null")
        self._tab(page, 'cause')

    def an_open_incident_is_not_hidden_by_newer_ones(self):
        page = self.page
        self._tab(page, 'anomalies')
        page.run("window.madeUp.older = true")
        page.wait("[...document.querySelectorAll('#anomalies tbody .badge')].map((b) => b.textContent).join() === 'over,open'")
        check(page.run('document.title').startswith('1 incident'), page.run('document.title'))
        page.run("window.madeUp.older = false")
        page.wait("document.querySelectorAll('#anomalies tbody tr').length === 1")

    def the_focus_stays_with_what_moves(self):
        page = self.page
        self._tab(page, 'anomalies')
        page.run("document.querySelector('#anomalies tbody tr').focus()")
        page.run("window.madeUp.older = true")
        page.wait("document.querySelectorAll('#anomalies tbody tr').length === 2")
        check(page.run("document.activeElement.dataset.incident?.startsWith('00000000000000aa-')"), page.run("document.activeElement.outerHTML"))
        page.run("window.madeUp.older = false")
        self._tab(page, 'services')
        page.run("document.querySelector('#services').focus()")
        page.key('Home')
        page.run("window.madeUp.twin = true")  # it comes first in the list
        page.wait(f"{SERVICES}.length === 8")
        check(page.run("document.getElementById(document.querySelector('#services').getAttribute('aria-activedescendant'))?.dataset.index") == '1',
              'the active row is of another service')
        page.key('Enter')
        page.wait("!document.querySelector('#view-cause').hidden")
        page.run("window.madeUp.twin = false")

    def a_pod_is_marked_by_its_own_verdict(self):
        page = self.page
        page.run("window.madeUp.verdict = true")
        self._tab(page, 'pods')
        badge = "document.querySelector('#pods .row[data-instance=\"00000000000000aa\"] .badge')"
        page.wait(f"{badge}?.textContent === 'anomalous' && {badge}.title.includes('checkout_failures_total = 12 ')")
        page.run("window.madeUp.verdict = false")
        self._tab(page, 'cause')

    def times_are_local_or_utc_everywhere(self):
        page = self.page
        page.zone('Asia/Kolkata')
        when = "document.querySelector('#cause-when').textContent.slice(6, 25)"
        says = "document.querySelector('#cause-sentence').textContent"
        score = "document.querySelector('#cause-traces .trace .dim').textContent"
        iso = "new Date((window.madeUp.began + {}) * 1000).toISOString().slice(0, 19).replace('T', ' ')"
        for name, shift in (('UTC', 0), ('Local time', 19800)):
            page.click('#zone')
            at = page.run(iso.format(shift))
            page.wait(f"{when} === '{at}' && {says}.includes('slow since {at[11:]}')")
            page.wait(f"{score}.startsWith({iso.format(shift + 1)}.slice(11))")
            check(page.run("document.querySelector('#zone').textContent") == name, name)
            other = self.browser.page(self.system.url)  # it is kept
            other.wait(f"document.querySelector('#zone').textContent === '{name}'")
            self.browser.end(other)
        page.zone('')

    def back_and_forward_lead_where_a_person_was(self):
        page = self.page
        self._tab(page, 'services')
        page.run("document.querySelector('#services .says').click()")
        page.wait("!document.querySelector('#view-cause').hidden")
        cause = page.run('location.hash')
        self._tab(page, 'map')
        for way, view in (('back', 'cause'), ('back', 'services'), ('forward', 'cause'), ('forward', 'map'), ('back', 'cause')):
            page.run(f'history.{way}()')
            page.wait(f"!document.querySelector('#view-{view}').hidden && document.querySelector('#tab-{view}').getAttribute('aria-selected') === 'true'")
            check(view != 'cause' or page.run('location.hash') == cause, page.run('location.hash'), cause)
        page.wait("document.querySelector('#cause-title').textContent.includes('payments-0')")
        # The address contains the typed text, but Back does not stop at it.
        self._tab(page, 'services')
        length = page.run('history.length')
        page.type('#sq', 'payments')
        page.wait("location.hash.includes('sq=payments')")
        page.type('#sq', '')
        page.wait("!location.hash.includes('sq=')")
        check(page.run('history.length') == length, page.run('history.length'), length)
        page.run(f"location.hash = {json.dumps(self.address)}")  # the tab shows this incident in the next step

    def a_late_answer_delays_what_it_is_about(self):
        page = self.page
        self._tab(page, 'cause')
        page.run("window.madeUp.late = 'traces'")
        page.wait('window.madeUp.asked > 0')
        end = time.monotonic() + 60
        while True:  # the score is drawn again while the traces are waited for
            asked = page.run('window.madeUp.asked')
            page.run("delete document.querySelector('#scores').dataset.points")
            page.wait("Number(document.querySelector('#scores').dataset.points) > 0")
            if page.run('window.madeUp.asked') == asked:
                break
            check(time.monotonic() < end, 'all wait for the traces')
        self._tab(page, 'health')
        says = "document.querySelector('#health-says').textContent"
        page.wait(f"{says}.includes('/api/v1/traces take longer')")
        check(page.run("document.querySelector('#away').hidden"), 'the collector is not away')
        page.run("window.madeUp.late = ''")
        page.wait(f"!{says}.includes('take longer')")

    def a_refusal_leaves_no_old_rows(self):
        page = self.page
        self._tab(page, 'services')
        page.run("window.madeUp.refuse = 'services'")
        page.wait("document.querySelector('#services').hidden && document.querySelector('#services-empty').textContent.includes('out of memory')")
        page.run("window.madeUp.refuse = ''")
        page.wait(f"!document.querySelector('#services').hidden && {SERVICES}.length === 7")
        # A refusal is not reported as an error in the search.
        page.run("window.madeUp.refuse = 'metrics'")
        self._tab(page, 'metrics')
        page.wait("document.querySelector('#metrics-empty').checkVisibility() && document.querySelector('#metrics-empty').textContent === 'Refusedout of memory'")
        # The page says that other views show old data.
        page.run("window.madeUp.refuse = 'services'")
        self._tab(page, 'health')
        page.wait("document.querySelector('#health-says').textContent.includes('/api/v1/services take longer than 4 s, or are refused')")
        page.wait("['late', 'late answers'].includes(document.querySelector('#health').textContent)")
        page.run("window.madeUp.refuse = ''")
        page.wait("!document.querySelector('#health-says').textContent.includes('are refused')")

    def an_answer_from_a_proxy_is_not_the_collectors(self):
        page = self.page
        page.run("window.madeUp.proxy = true")
        page.wait("!document.querySelector('#away').hidden && document.querySelector('#health').textContent === 'no answer'")
        # If the clock is set back meanwhile, no retry is delayed.
        page.run("window.realNow = Date.now; Date.now = () => realNow() - 3600000; window.madeUp.proxy = false")
        page.wait("document.querySelector('#away').hidden")
        page.run("Date.now = window.realNow")

    def the_way_of_an_answer_is_no_skew(self):
        page = self.page
        page.run("window.madeUp.hold = 3500")
        page.wait('window.madeUp.held > 1')
        page.run("window.madeUp.hold = 0")
        check('differ by' not in page.run("document.querySelector('#health-says').textContent"), 'the way back counts as skew')
        check('clock jumped' not in page.run("document.querySelector('#notice').textContent"), 'the way back counts as a jump')

    def sleep_of_the_computer_is_no_clock_jump(self):
        page = self.page
        page.run("window.madeUp.held = 0; window.madeUp.slept = 3600; window.madeUp.hold = 1")
        page.wait('window.madeUp.held > 2')
        page.run("window.madeUp.slept = window.madeUp.hold = 0")
        check('clock jumped' not in page.run("document.querySelector('#notice').textContent"), 'it counts as a jump')

    def a_map_has_its_culprit_and_is_the_same_again(self):
        page = self.page
        self._tab(page, 'map')
        page.wait("document.querySelector('#map .node.culprit')?.dataset.node === 'payments' && document.querySelectorAll('#map .edge').length === 6")
        check(page.run("document.querySelectorAll('#edges tbody tr').length") == 7, 'the table has all edges')
        same = page.run("""import('./map.js').then(({layout}) => {
            const n = (service) => ({service, outside: service === 'o'}), e = (from, to) => ({from, to});
            const nodes = ['o', 'a', 'b', 'c', 'd'].map(n), edges = [e('o', 'a'), e('a', 'b'), e('a', 'c'), e('b', 'd'), e('c', 'd'), e('d', 'a'), e('o', 'd')];
            const text = (l) => JSON.stringify([...l.at].sort());
            const one = layout(nodes, edges), two = layout([...nodes].reverse(), [...edges].reverse());
            return [text(one) === text(two), one.at.get('o')[0], one.at.get('a')[0], one.at.get('b')[0], one.at.get('d')[0], one.ways.size];
        })""")
        check(same == [True, 0, 1, 2, 3, 6], same)  # d to a closes a cycle
        # A service of this name in another namespace is not meant.
        page.run("window.madeUp.twin = true")
        page.wait("import('./services.js').then((s) => !!s.named('payments', 'test'))")
        page.run("document.querySelector('#map .node.culprit').focus()")
        page.key('Enter')
        page.wait("!document.querySelector('#view-cause').hidden")
        page.run("window.madeUp.twin = false")

    def tab_reaches_all_that_a_mouse_does(self):
        page = self.page
        for view in VIEWS:
            self._tab(page, view)
            page.pump(0.3)
            # From the beginning of the page: at its end, Tab goes on through the browser's own buttons.
            page.run("document.activeElement.blur(); getSelection().collapse(document.body, 0); window.reached = new Set()")
            expected = page.run(f"{REACHABLE}.length")
            # A field of date and time has a stop for each of its parts.
            expected += 8 * page.run("document.querySelectorAll('input[type=datetime-local]').length")
            for _ in range(expected + 12):
                page.key('Tab')
                page.run("window.reached.add(document.activeElement)")
            missed = page.run(f"{REACHABLE}.filter((e) => !window.reached.has(e)).map((e) => e.id || e.outerHTML.slice(0, 80))")
            check(not missed, view, 'cannot be reached:', missed)
        # The arrow keys move between rows, a digit switches the view, and ? lists the keys.
        self._tab(page, 'anomalies')
        page.wait("!!document.querySelector('#anomalies tbody tr')")
        page.run("document.querySelector('#anomalies tbody tr').focus()")
        page.key('Enter')
        page.wait("!document.querySelector('#view-cause').hidden")
        page.run("document.activeElement.blur()")
        page.key('1')
        page.wait("!document.querySelector('#view-services').hidden")
        page.run("document.querySelector('#services').focus()")
        page.key('Home')
        page.key('ArrowDown')
        page.key('ArrowUp')
        page.key('Enter')
        page.wait("!document.querySelector('#view-cause').hidden")
        page.key('?')
        check(page.run("document.querySelector('#help').open"), 'no help')
        page.key('Escape')
        page.wait("!document.querySelector('#help').open")

    def every_width_does_without_scrolling_sideways(self):
        page = self.page
        for width in (1440, 1280, 768, 390):
            page.size(width, 844, mobile=width < 500)
            for view in VIEWS:
                self._tab(page, view)
                page.pump(0.25)
                wide = page.run("""[document.documentElement, ...document.querySelectorAll('main, .scroll, .list, nav, .toolbar')]
                    .filter((e) => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility()).map((e) => (e.id || e.className || e.tagName) + ' ' + e.scrollWidth)""")
                check(not wide, view, f'at {width}:', wide)
                self.shot(page, f'{view}-{width}')
        page.size(1280, 800)

    def axe_finds_nothing(self):
        page = self.page
        if not is_accessible(page, VIEWS, lambda view: self._tab(page, view), self.shot):
            return
        page.key('?')
        found = found_by_axe(page, "document.querySelector('#help')")
        check(not found, 'help', found)
        page.key('Escape')

    def ten_thousand_services_are_searched_at_once(self):
        page = self.page
        self._tab(page, 'services')
        page.run("window.madeUp.many = 10000")
        page.wait("document.querySelector('#services').getAttribute('aria-rowcount') === '10000'")
        check(page.run("document.querySelectorAll('#services .row').length") < 60, 'too many rows')
        page.type('#sq', 'service-09876')
        page.wait(f"{SERVICES}.length === 1 && {SERVICES}[0].dataset.service === 'service-09876'")
        # A service that is left out is not found.
        note = page.run("document.querySelector('#services-note').textContent")
        check(note == '1 match; too many for this view: 100 pods or series are left out', note)
        took = page.run("""(() => { const q = document.querySelector('#sq'), times = [];
            for (const text of ['service-0', 'shop 00', 'node-1 service-0987', 'nothing', '']) {
                const start = performance.now();
                q.value = text;
                q.dispatchEvent(new Event('input', {bubbles: true}));
                document.querySelector('#services').getBoundingClientRect();
                times.push(performance.now() - start);
            } return times; })()""")
        print(f"searches in 10,000 services: {', '.join(f'{t:.1f}' for t in took)} ms")
        page.run("window.madeUp.many = 0")
        page.wait(f"{SERVICES}.length === 7")

    def a_clock_that_jumps_is_said(self):
        page = self.page
        for shift, way in ((3600, 'ahead'), (-3600, 'back')):
            page.run(f"window.madeUp.shift = {shift}")
            page.wait(f"document.querySelector('#notice').textContent.includes('clock jumped {way}')")
        self._tab(page, 'health')
        page.wait("document.querySelector('#health-says').textContent.includes('differ by')")
        page.run("window.madeUp.shift = 0")
        page.wait("!document.querySelector('#health-says').textContent.includes('differ by')")

    def nothing_moves_while_it_loads(self):
        page = self.page
        page.go(self.system.url + '?again')
        page.wait(f"{SERVICES}.length > 5")
        page.pump(1)
        paint = page.run("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        print(f'first paint after {paint:.0f} ms')
        if not page.run("PerformanceObserver.supportedEntryTypes.includes('layout-shift')"):
            return  # Firefox
        shift = page.run("""new Promise((done) => { let sum = 0;
            new PerformanceObserver((list) => { for (const e of list.getEntries()) sum += e.value; }).observe({type: 'layout-shift', buffered: true});
            setTimeout(() => done(sum), 200); })""")
        print(f'layout shift {shift:.4f}')
        check(shift < 0.02, 'it moved:', shift)

    def the_console_is_silent(self):
        check(not self.page.problems, self.page.problems)
        outside = [r for r in self.page.requests if not r.startswith((self.system.url, 'about:blank', 'data:'))]
        check(not outside, outside)


sys.exit(walk(Test))
