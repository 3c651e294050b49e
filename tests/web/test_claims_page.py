#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page claims only what it knows, in headless Chromium: about services that nothing judges, refused answers, traces that are
not kept, pods of equal names, jobs and histories that are older than the newest ones, and old data.

usage: test_claims_page.py SIDELIGHT PUBLISHER [SCREENSHOT-FOLDER]

An agent, a collector and publishers are real; made_up.js and the steps make up what they do not have.
"""
import json
import os
import sys
import time
import urllib.parse

from support.process import check, poll
from steps import Walk, walk
from system import CheckedPod

HERE = os.path.dirname(os.path.abspath(__file__))
SERVICES = "[...document.querySelectorAll('#services .row:not([hidden])')]"
HASH = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
# Replaces the answers of a part of the API; false: there is no such thing.
ANSWER = """(() => { const real = window.fetch; window.fetch = async (address, options) => { if (!/api.v1.%s/.test(address))
    return real(address, options); const a = (%s)(String(address)); return new Response(JSON.stringify(a), {status: a ? 200 : 404}); }; })()"""


def text(selector):
    return f"document.querySelector({selector!r}).textContent.replaceAll('\\u202f', ' ')"


class Test(Walk):
    def _open(self, *before, tab='services', made_up=True):
        """Opens the page anew, after it has run the scripts."""
        page = self.browser.page('about:blank')
        self.pages = [page]
        if made_up:
            with open(os.path.join(HERE, 'made_up.js')) as f:
                page.before(f.read())
        for script in before:
            page.before(script)
        page.go(f'{self.system.url}#tab={tab}')
        page.wait("document.querySelector('#health').textContent !== '…'")
        return page

    def _pod(self, name, namespace):
        return CheckedPod(self.system.publisher, self.system.socket, 'cart', name, env={'POD_NAMESPACE': namespace})

    def _of(self, namespace, name='cart-0'):
        """Returns the pod, as the API has it, or None."""
        pods = self.system.get(f'pods?q=service=cart%20pod={name}')[1]['pods']
        return next((p for p in pods if p['labels'].get('namespace') == namespace), None)

    def _series(self, metric, pod):
        return poll(lambda: self.system.get(f"metrics?q={metric}&pod={pod['instance']}")[1]['metrics'])[0]['id']

    # ---- steps, in order

    def services_are_not_judged_without_an_analysis(self):
        self.system.start_agent()
        self.system.start_collector()
        self.pods = [self._pod('cart-0', 'a'), self._pod('cart-1', 'a'), self._pod('cart-0', 'b')]
        page = self._open(made_up=False)
        row = f"{SERVICES}.find((r) => r.dataset.service === 'cart')"
        page.wait(f"{row}?.cells.says.textContent === 'Not judged: analysis is off'")
        # Nor is it known whether they are judged before the first answer about incidents.
        page = self._open("window.madeUp.late = 'incidents'")
        page.wait(f"{SERVICES}.find((r) => r.dataset.service === 'empty')?.cells.says.textContent === 'Not judged yet'")

    def a_refusal_does_not_mean_that_there_is_nothing(self):
        layer = '{mean: 0.001, p50: 0.001, p90: 0.001, p99: 0.001, count: 5}'
        names = ('mac_in', 'ip_in', 'tcp_in', 'app', 'tcp_out', 'ip_out', 'mac_out', 'total')
        all_of = '{requests: 5, measured: 5, unattributed: 0, incomplete: 0, layers: {%s}}' % ', '.join(f'{n}: {layer}' for n in names)
        page = self._open(f"""(() => {{ const of = {all_of}, fetch = window.fetch; window.fetch = async (address, options) => {{
            if (/api.v1.layers/.test(address) && window.madeUp.refuse !== 'layers')
                return new Response(JSON.stringify({{hosts: [], workloads: [{{pod: 'cart-0', host: 'node-1', role: 'server', port: '80', instance: 'aa',
                    late_seconds: 10, late: of, all: of}}]}}));
            const answer = await fetch(address, options);
            return /api.v1.status/.test(address) ? new Response(JSON.stringify({{...await answer.json(), layers: [{{}}]}})) : answer; }}; }})()""")

        def refuse(part):
            page.run(f"window.madeUp.refused = []; window.madeUp.refuse = '{part}'")
            page.wait('window.madeUp.refused.length > 1')
        page.wait(f'{SERVICES}.length > 5')
        page.run("location.hash = 'tab=flows'")
        page.wait("!document.querySelector('#layers-panel').hidden")
        refuse('layers')
        check(page.run("!document.querySelector('#layers-panel').hidden"), 'the layers have gone')
        series = self._series('test_queue_depth', self._of('a'))
        page.run(f"location.hash = 'tab=metrics&series={series}&window=60'")
        page.wait("document.querySelector('#before-fault').checkVisibility()")
        refuse('marks')
        check(page.run("document.querySelector('#before-fault').checkVisibility()"), 'the marks have gone')
        # A list says that it was refused, and not that there is nothing.
        refuse('services')
        page.run("location.hash = 'tab=services'")
        page.wait(f"{text('#services-empty')} === 'Refusedout of memory'")

    def a_trace_that_is_not_kept_may_have_been_slow(self):
        page = self._open(ANSWER % ('traces', "(address) => address.includes('traces?') && ({traces: [], matching: 0, roots: 5, held: 0})"))
        page.wait(f'{SERVICES}.length > 5')
        page.run("document.querySelector('#services .says').click()")
        page.wait(f"{text('#cause-traces-note')} === 'No trace of this time that passes through payments is kept.'")

    def plots_are_of_one_namespace(self):
        pods, metrics = dict(a=0.01, b=10), ('test_latency_seconds_p50', 'test_latency_seconds_mean')
        page = self._open()
        page.wait(f'{SERVICES}.length > 5')
        page.run("document.querySelector('#services .says').click()")
        of = poll(lambda: self._of('a'))
        # Processes in containers have the same number, so it does not distinguish them.
        cause = {k: of[k] for k in ('instance', 'pod', 'service', 'host')} | {'namespace': 'a', 'pid': 0, 'begin': time.time() - 5, 'blame': [
            {'metric': m, 'share': 0.5, 'value': 1, 'before': 0.1} for m in metrics]}
        page.run(f'window.madeUp.cause = {json.dumps(cause)}')

        def observe():
            for pod, seconds in (self.pods[0], pods['a']), (self.pods[2], pods['b']):
                for _ in range(1 + 3 * (seconds == pods['b'])):
                    pod.tell('observe', seconds)
            page.pump(0.2)
        for metric in metrics:
            figure = f"document.querySelector('#blamed figure[data-metric=\"{metric}\"]')"
            end = time.monotonic() + 60
            while not page.run(f'Number({figure}?.dataset.points) > 3 && Number({figure}.dataset.highest) > 0'):
                check(time.monotonic() < end, metric, page.run(text('#blamed')))
                observe()
            for _ in range(10):
                observe()
                highest = page.run(f'Number({figure}.dataset.highest)')
                check(highest < 0.02, metric, highest)

    def what_is_exported_is_of_one_namespace(self):
        self.pods[0].tell('set', 1)
        self.pods[2].tell('set', 100)
        series = self._series('test_queue_depth', self._of('a'))
        page = self._open(tab=f'metrics&series={series}&window=60', made_up=False)
        page.wait("import('/save.js').then((s) => s.panel().targets.length === 1)")
        expr = page.run("import('/save.js').then((s) => s.panel().targets[0].expr)")
        result = self.system.get(f'query?query={urllib.parse.quote(expr)}')[1]['data']['result']
        check(len(result) == 1 and result[0]['metric']['namespace'] == 'a', expr, result)
        # Nor is a pod of another namespace a sibling.
        page.run("document.querySelector('[data-view=siblings]').click()")
        page.wait("import('/series.js').then((s) => s.timePlot.lines.length === 2 && s.timePlot.lines.map((l) => l.name).join() === 'cart-1,cart-0')")
        last = page.run("import('/series.js').then((s) => s.timePlot.lines[1].v.findLast((v) => v !== null))")
        check(last == 1, last)

    def a_service_leads_to_its_own_metrics(self):
        page = self._open("window.fakes = []; (() => { const fetch = window.fetch; window.fetch = async (address, options) => {"
                          " const answer = await fetch(address, options); if (!/api.v1.services/.test(address)) return answer;"
                          " const a = await answer.json(); a.services.push(...window.fakes.map((f) => ({...a.services[0], ...f})));"
                          " return new Response(JSON.stringify(a)); }; })()", made_up=False)

        def lists(service, namespace, *names):
            page.run("location.hash = 'tab=services'")
            row = f"{SERVICES}.find((r) => r.dataset.service === '{service}' && r.cells.pods.textContent.startsWith('{namespace} '))"
            page.wait(f'!!{row}')
            page.run(f'{row}.click()')
            want = sorted(self._of(namespace, name)['instance'] for name in names)
            pods = "[...document.querySelectorAll('#metrics .row:not([hidden])')].map((r) => r.dataset.id?.slice(0, 16))"
            page.wait(f"{HASH}.tab === 'metrics' && [...new Set({pods})].sort().join() === '{','.join(want)}'", what=f'the metrics of {names}')
        lists('cart', 'a', 'cart-0', 'cart-1')
        # A service that only its connections tell of has the name of its pod here.
        page.run("window.fakes = [{service: 'cart-1', namespace: 'a', instances: [], anomaly: null}]")
        lists('cart-1', 'a', 'cart-1')

    def an_old_job_that_runs_is_listed(self):
        job = """const job = (i, more) => ({job: String(i), name: 'weather', user: 'alice', state: 'ended', begin: 1e9 - i, end: 1e9, nodes: ['n7'],
            node_count: 1, ranks: 4, ranks_running: 0, slow: null, ...more});
            const slow = {rank: '2', step: '0', node: 'n7', instance: 'aa', incident: 'aa-1', begin: 1e9, end: null, sentence: 'It is slow.'};
            const all = [...Array.from({length: 201}, (_, i) => job(i)), job(4711, {state: 'running', end: null, slow})];
            const some = all.filter((j) => !address.includes('state=running') || j.state === 'running');"""
        page = self._open(ANSWER % ('jobs', f"(address) => {{ {job} return {{time: 1e9, matching: some.length, jobs: some.slice(0, 200)}}; }}"), tab='jobs')
        page.wait("document.querySelectorAll('#jobs tbody tr').length >= 200")
        check(page.run("[document.querySelector('#n-jobs').textContent, document.querySelector('#n-jobs').classList.contains('bad')]") == ['1', True],
              page.run(text('#tab-jobs')))
        check(page.run("document.querySelectorAll('#jobs tr[data-id=\"4711\"]').length") == 1, 'the job is not listed once')

    def all_history_is_that_of_each_selection(self):
        old = self._series('test_requests_total', self._of('a'))
        for _ in range(3):
            self.pods[0].tell('add', 5)
            time.sleep(1)
        self.young = self._pod('cart-9', 'a')
        young = self._series('test_requests_total', poll(lambda: self._of('a', 'cart-9')))
        page = self._open(tab=f'metrics&series={young}&window=86400', made_up=False)
        asked = "import('/time.js').then((t) => t.params().start || t.params().last)"
        page.wait(f"{asked}.then((a) => a !== '24h')")
        begin = float(page.run(asked))
        page.run(f"import('/series.js').then((s) => s.togglePlot('{old}'))")
        page.wait(f"{asked}.then((a) => a !== '24h' && a < {begin - 2})", what='the history of the older one')
        # The views of groups have more series.
        page.run(f"location.hash = 'tab=metrics&series={young}&window=86400'")
        page.wait(f"{asked}.then((a) => Math.abs(a - {begin}) < 0.1)")
        page.run("document.querySelector('[data-view=siblings]').click()")
        page.wait(f"{asked}.then((a) => a === '24h')", what='the history of its siblings')

    def old_data_is_called_old(self):
        page = self._open()
        page.run("(() => { const ask = window.fetch; window.flying = window.done = 0;"
                 " window.fetch = (...a) => { flying++; return ask(...a).finally(() => { flying--; done++; }); }; })()")
        page.wait(f'{SERVICES}.length > 5 && done > 10')
        # Requests are not answered any more, and an hour later they fail.
        page.run("(() => { const failed = new Promise((_, no) => { window.fail = () => no(new TypeError('no connection')); });"
                 " window.fetch = () => failed; })()")
        page.wait('flying === 0')
        heard = page.run("import('/server.js').then((s) => { const was = Date.now(); Date.now = () => was + 3600e3; fail(); return s.link.heard; })")
        said = page.wait(f"!document.querySelector('#away').hidden && {text('#away-text')}")
        then = page.run(f"import('/format.js').then((f) => f.moment({heard} / 1000))")
        check(time.time() - heard / 1000 < 1800 and f'This data is from {then};' in said, said, then)

    def a_pod_is_stale_since_it_was_last_read(self):
        more = "unit: '', pid: 7, host: 'node-1', target: 'x', labels: {}, source: 'application', metrics: 3, series: 3, unsettled: 0, refused: 0, rounds: 9," \
            " bytes: 4096, held: '', start: now - 500000, changed: now - 400000, changed_seconds: 400000"
        pods = ', '.join(f"{{position: {i}, instance: '00000000000000a{i}', service: 'cart', pod: 'cart-{i}', state: '{state}', fault: '{fault}',"
                         f" last_read: {read}, age_seconds: {age}, {more}}}" for i, (state, fault, read, age) in enumerate((
                             ('stale', '', 'now - 30', '30'), ('dropped', 'version', 'now - 30', '30'), ('dropped', 'version', 'null', 'null'),
                             ('closed', '', 'now - 400000', '400000'))))
        page = self._open(ANSWER % ('pods', f"() => {{ const now = window.now ||= Date.now() / 1000; return {{time: now, matching: 4, pods: [{pods}]}}; }}"),
                          tab='pods')
        page.wait("document.querySelectorAll('#pods .row:not([hidden])').length === 4")
        rows = "[...document.querySelectorAll('#pods .row:not([hidden])')].sort((x, y) => x.dataset.instance < y.dataset.instance ? -1 : 1)"
        read, long = page.run("import('/format.js').then((f) => [30, 400000].map((s) => f.dateTime(window.now - s)))")
        tips = page.run(f"{rows}.map((r) => r.cells.up.title)")
        for tip, since in zip(tips, (f'stale since {read}', f'dropped since {read}', 'dropped since –', f'closed since {long}')):
            check(since in tip, tip, since)
        badges = page.run(f"{rows}.map((r) => r.cells.badge.title)")
        check(badges == [f'stale since {read}', 'dropped: version', 'dropped: version', f'closed since {long}'], badges)
        ages = page.run(f"{rows}.map((r) => r.cells.up.textContent.replaceAll('\\u202f', ' '))")
        check(ages == ['5 d 18 h', '30 s ago', '–', '4 d 15 h ago'], ages)


if __name__ == '__main__':
    sys.exit(walk(Test))
