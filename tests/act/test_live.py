#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_live.py SIDELIGHT POD [SCREENSHOT-FOLDER] - an anomalous pod and its incident reach the page, the API, an
Alertmanager, a webhook, Prometheus' series and the external metrics API. Models outlive the
collector. The steps build on one another; the first that fails ends the test."""
import base64
import json
import os
import subprocess
import sys
import traceback
import urllib.error

from support.analysis import HOLD, LIMIT, System
from support.browser import Browser, NoBrowser
from support.pki import Authority
from support.process import check, wait_until, workdir
from support.receiver import Receiver
from support.sidelight import EXE, Collector


TOKEN = 'of-who-may-act-0123456789'
BASE = 'apis/external.metrics.k8s.io/v1beta1/namespaces/default/'


class Secured(Receiver):
    """Accepts only who has a certificate of its authority and what a path needs. Secrets are credentials of systemd."""

    def __init__(self):
        self.folder, self.authority = workdir(), Authority()
        self.needs = {'/api/v2/alerts': {'Authorization': f'Basic {base64.b64encode(b"alerts:of-alerts").decode()}'},
                      '/hook': {'X-Scope-OrgID': 'tenant 7'}}
        self.rotate('a-token')
        self.keep('password', 'of-alerts')
        self.alerts = self.authority.client(f'{self.folder}/alerts', basic_auth={
            'username': 'alerts', 'password_file': 'credential:password'})
        self.hook = self.authority.client(f'{self.folder}/hook', authorization={'credentials_file': 'credential:token'},
                                          headers={'X-Scope-OrgID': 'tenant 7'})
        super().__init__(self.authority)

    def accepts(self, path, headers):
        return all(headers[k] == v for k, v in self.needs[path].items())

    def keep(self, name, secret):
        with open(f'{self.folder}/{name}', 'w') as f:
            f.write(secret)

    def rotate(self, token):
        """The webhook's token from now on."""
        self.needs['/hook'] = {**self.needs['/hook'], 'Authorization': f'Bearer {token}'}
        self.keep('token', token)


class Test:
    def __init__(self, system, receiver, browser, shots):
        self.s, self.r, self.browser, self.shots = system, receiver, browser, shots
        self.model = os.path.join(system.folder, 'model')
        self.recording = os.path.join(system.folder, 'recording')
        self.token_file = os.path.join(system.folder, 'token')
        with open(os.open(self.token_file, os.O_WRONLY | os.O_CREAT, 0o600), 'w') as f:
            f.write(TOKEN)
        self.page = None

    def collect(self):
        # No trace is ever complete, so facts about a trace must be known before.
        self.s.collect('--trace-linger', '1h', '--model', self.model, '--record', self.recording,
                       '--alert', self.r.url + '/api/v2/alerts', '--alert-config', self.r.alerts, '--webhook', self.r.url + '/hook',
                       '--webhook-config', self.r.hook, '--link', 'http://page.example', '--shadow', 'threshold',
                       '--actor-token-file', self.token_file,
                       env={'CREDENTIALS_DIRECTORY': self.r.folder})

    def shot(self, name):
        if self.shots and self.page:
            self.page.screenshot(os.path.join(self.shots, name + '.png'))

    def without_analysis_there_is_no_tab_and_no_series(self):
        self.s.collector = Collector([self.s.agent])
        check(self.s.api('anomalies')['analysis'] is None)
        try:
            self.s.get(BASE + 'sidelight_scaling_pressure')
            check(False, 'answered')
        except urllib.error.HTTPError as e:
            check(e.code == 404, e.code)
            e.close()
        check('sidelight_analysis' not in self.s.get('metrics'))
        check('sidelight_scaling' not in self.s.get('metrics'))

    def a_pod_is_learned(self):
        self.collect()
        if self.browser:
            self.page = self.browser.page(f"http://{self.s.collector.address}/#tab=pods")
            self.page.wait("!document.querySelector('#tab-anomalies').hidden")

        # A pod has a threshold and is out of its warm-up, or says that it is learning.
        self.s.learned()
        check(not self.r.got, self.r.got)
        check(self.s.metric('sidelight_anomalous') and
              not any(self.s.metric('sidelight_anomalous').values()))

    def an_ill_pod_is_marked_with_what_is_to_blame(self):
        row = "document.querySelector('#pods .row[data-anomalous=\"true\"]')?.textContent || ''"

        def marked():
            self.page.pump(0.1)
            return self.page.run(row)
        if self.page:
            text = self.s.sicken(marked, 'the page marks the pod')
            check('anomalous' in text and 'shop-0' in text and 'shop_' in text, text)
            self.shot('pods-anomalous')
        else:
            self.s.sicken(lambda: self.s.api('anomalies')['anomalies'], 'an anomaly')
        a = wait_until(lambda: self.s.api('anomalies')['anomalies'], 'an anomaly')[0]
        check(a['pod'] == 'shop-0' and a['service'] == 'shop' and a['host'] == 'node-1', a)
        check(a['blame'] and a['blame'][0]['metric'].startswith('shop_'), a)
        check(a['peak'] > 1, a)
        check(a['explanation'].startswith('shop-0 ') and 'shop_' in a['explanation'], a)
        check(a['pid'] > 0, a)
        self.instance = a['instance']
        incident = next(i for i in self.s.api('incidents')['incidents'] if i['id'] == a['incident'])
        check(incident['kind'] == 'fault' and incident['state'] == 'open' and incident['end'] is None, incident)
        check(a['id'] in [m['anomaly'] for m in incident['members']], incident)
        check(incident['cause']['service'] in ('shop', 'shop (tcp)') and ' First, ' in incident['sentence'], incident)

    def its_trace_and_the_time_before_are_there(self):
        a = wait_until(lambda: [x for x in self.s.api('anomalies')['anomalies'] if x.get('trace')],
                       'a trace is kept because of it')[0]
        history = self.s.api(f'history?series={self.instance}/0&last=60s&points=10000')['series'][0]
        n, mean = sum(a['begin'] - 3 < t < a['begin'] for t in history['t']), per_second(history['t'])
        check(n > 3 * mean / 15, f'{n} samples of the 3 s before it, {mean:.1f} per second')  # rounds may be late
        if not self.page:
            return
        self.page.run("document.querySelector('#tab-anomalies').click()")
        self.page.wait("[...document.querySelectorAll('#anomalies tbody tr')].some((r) => "
                       f"r.textContent.includes('shop_') && r.textContent.includes('{a['trace'][:8]}'))",
                       LIMIT)
        self.page.run("document.querySelector('#tab-pods').click()")

    def receivers_hear_of_it(self):
        alerts = wait_until(lambda: self.r.got.get('/api/v2/alerts'), 'an alert')
        check(alerts[0]['labels']['alertname'] == 'Incident' and alerts[0]['labels']['service'] == 'shop' and
              alerts[0]['labels']['namespace'] == 'default' and
              alerts[0]['labels']['incident'].startswith(self.instance), alerts)
        check(alerts[0]['annotations']['pod'] == 'shop-0', alerts)
        check(alerts[0]['startsAt'] < alerts[0]['endsAt'], alerts)
        check(alerts[0]['annotations']['blame'].startswith('shop_'), alerts)
        check(alerts[0]['annotations']['summary'].startswith('shop-0 on node-1 '), alerts)
        check(alerts[0]['generatorURL'].startswith('http://page.example/#'), alerts)
        event = wait_until(lambda: self.r.got.get('/hook'), 'an event')[0]
        check(event['event'] == 'incident.begin' and event['labels'] == alerts[0]['labels'], event)
        self.r.rotate('another-token')  # for its end

    def series_and_signals_tell_of_it(self):
        m = self.s.metric
        check(sum(m('sidelight_anomalies_total').values()) >= 1, m('sidelight_anomalies_total'))
        check(list(m('sidelight_anomaly_score'))[0].startswith('{'), m('sidelight_anomaly_score'))
        check(m('sidelight_anomaly_budget_used_ratio')[''] > 0)
        check(m('sidelight_analysis_busy_seconds_total')[''] > 0)
        wait_until(lambda: m('sidelight_push_sent_total').get('{to="webhook"}', 0) >= 1, 'what was sent is counted')
        name = 'sidelight_scaling_pressure'
        key = '{namespace="default",service="shop"}'
        wait_until(lambda: m(name).get(key, 0) > 0.01, 'pressure')
        answer = json.loads(self.s.get(BASE + name + '?labelSelector=service%3Dshop'))
        check(answer['items'][0]['metricLabels']['service'] == 'shop', answer)
        check(answer['items'][0]['value'].rstrip('m').isdigit(), answer)

    def the_end_is_told_too(self):
        self.s.pod.tell('fine')
        wait_until(lambda: all(a['end'] for a in self.s.api('anomalies')['anomalies']), 'the end', seconds=HOLD)
        wait_until(lambda: all(i['end'] for i in self.s.api('incidents')['incidents']), 'the end of the incident')
        wait_until(lambda: self.r.got['/hook'][-1]['event'] == 'incident.end', 'its event')
        ids = [e['id'] for e in self.r.got['/hook']]
        check(sorted(ids[::2]) == sorted(ids[1::2]) and len(set(ids)) == len(ids) // 2, 'one begin and one end each', ids)
        if not self.page:
            return
        self.page.run("document.querySelector('#tab-anomalies').click()")
        self.page.wait("document.querySelector('#anomalies tbody tr')?.textContent.includes('over')")
        self.page.run("document.querySelector('#anomalies tbody tr').click()")
        self.page.wait("Number(document.querySelector('#scores').dataset.points) > 10 && "
                       "Number(document.querySelector('#scores').dataset.highest) > 1")
        self.page.wait("document.querySelectorAll('#scores canvas').length > 0")
        self.shot('anomalies')
        check(f'incident={self.instance}' in self.page.run('location.hash'))
        self.page.run("document.querySelector('#cause-metrics').click()")
        self.page.wait("!document.querySelector('#view-metrics').hidden && "
                       "!document.querySelector('#pod-filter').hidden")

    def a_person_accepts_an_incident_on_the_page(self):
        if not self.page:
            return

        def still_open():
            return [i for i in self.s.api('incidents')['incidents'] if not i['end'] and i['kind'] == 'fault']
        incident, page = self.s.sicken(still_open, 'an incident')[0], self.page
        page.run(f"location.hash = '#tab=cause&incident={incident['id']}'")
        # With a token that may only read, the page explains why the button does nothing.
        page.wait("document.querySelector('#cause-accept').disabled && "
                  "document.querySelector('#cause-accept-why').textContent.includes('right to act')")
        page.click('#cause-token')
        page.type('#token-value', TOKEN)
        page.click('#token button')
        page.wait("!document.querySelector('#cause-accept').disabled && document.querySelector('#cause-accept-why').hidden")
        page.click('#cause-accept')
        page.wait("document.querySelector('#accept').open")
        self.shot('accept')
        page.click('#accept button')  # Cancel
        page.wait("!document.querySelector('#accept').open")
        page.click('#cause-accept')
        page.click('#accept-yes')
        page.wait("document.querySelector('#notice').textContent.includes('is normal from now on')")

        def ended():
            return [i for i in self.s.api('incidents')['incidents'] if i['id'] == incident['id'] and i['end']]
        wait_until(ended, 'the end of what was accepted', seconds=HOLD)
        page.wait("document.querySelector('#cause-state').textContent === 'over' && document.querySelector('#cause-accept').hidden")
        self.s.pod.tell('fine')
        wait_until(lambda: all(i['end'] for i in self.s.api('incidents')['incidents']), 'quiet', seconds=HOLD)

    def what_was_learned_outlives_the_collector(self):
        self.collect()  # stops the one before, which writes the model

        def there():
            return [x['verdict'] for x in self.s.api('pods?q=shop-0')['pods'] if 'verdict' in x]
        wait_until(there, 'the pod')
        check(self.s.api('anomalies')['analysis']['learning'] == 0)  # no warm-up
        wait_until(lambda: not there()[0]['learning'], 'its threshold')

    def what_was_recorded_is_replayed(self):
        self.s.stop_collector()
        files = sorted(os.listdir(os.path.join(self.recording, 'metrics')))
        # the second collector left the first one's file alone
        check(len(files) == 2 and 'shop-0.csv' in files, files)
        with open(os.path.join(self.recording, 'metrics', 'shop-0.csv')) as f:
            lines = f.read().splitlines()
        names = lines[0].split(',')
        check(names[0] == 'TimeStamp' and 'shop_latency_seconds_p90' in names, names)
        check({len(x.split(',')) for x in lines} == {len(names)}, lines[0])
        result = subprocess.run([EXE, 'replay', self.recording, '--verdicts', '-'],
                                     capture_output=True, text=True, timeout=300)
        check(result.returncode == 0, result.stderr)
        rows = [x.split(',') for x in result.stdout.splitlines()]
        check(rows[0][:4] == ['unix_s', 'pod', 'score', 'anomalous'], rows[0])
        check(sum(r[1] == 'shop-0' for r in rows if len(r) > 1) >= len(lines) - 2, f'{len(rows)} of {len(lines)}')

    def a_kill_costs_what_was_learned_since_it_was_last_saved(self):
        before = models(self.model)[0]['steps']
        self.s.collect('--model', self.model, '--model-every', '1s')
        # The model has learned more since, and each time it is saved to a new file.
        wait_until(lambda: models(self.model)[0]['steps'] > before, 'the model is saved')
        inode = os.stat(self.model).st_ino
        wait_until(lambda: os.stat(self.model).st_ino != inode, 'it is saved again')
        self.s.collector.kill()
        check(models(self.model)[0]['name'] == 'shop' and models(self.model)[0]['steps'] > before)
        self.s.collector = None

    def a_broken_model_is_put_aside_and_counted(self):
        with open(self.model, 'r+b') as f:
            f.truncate(os.path.getsize(self.model) - 5)
        self.s.collect('--model', self.model)
        check(os.path.exists(self.model + '.refused') and not os.path.exists(self.model))
        lost = self.s.metric('sidelight_analysis_lost_total')
        check(lost['{cause="models"}'] == 1, lost)
        self.s.stop_collector()
        # A path that cannot be a model file is an error of the user.
        for path in (self.s.folder, os.path.join(self.s.folder, 'none', 'model')):
            result = subprocess.run(
                [EXE, 'collect', '--agent', self.s.socket, '--listen', '127.0.0.1:0',
                 '--analyse', '--model', path], capture_output=True, text=True, timeout=300)
            check(result.returncode == 1 and path in result.stderr and
                  len(result.stderr.splitlines()) == 1, result)


def per_second(times):
    return len(times) / (times[-1] - times[0])


def models(path):
    return json.loads(subprocess.run([EXE, 'model', '--json', path], text=True,
                                          stdout=subprocess.PIPE, timeout=300, check=True).stdout)


def main():
    receiver, browser = Secured(), None
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    try:
        try:
            browser = Browser().__enter__()
        except NoBrowser as e:
            print('SKIP: the page:', e)
        with System(sys.argv[2]) as system:
            test = Test(system, receiver, browser, shots)
            for name, step in list(vars(Test).items()):
                if name.startswith('_') or name in ('collect', 'shot'):
                    continue
                print(name.replace('_', ' '), flush=True)
                try:
                    step(test)
                except BaseException:
                    test.shot('failed')
                    print('console:', test.page and test.page.problems)
                    raise
            if test.page:
                check(not test.page.problems, test.page.problems)
        return 0
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        if browser:
            browser.__exit__(None, None, None)
        receiver.__exit__()


sys.exit(main())
