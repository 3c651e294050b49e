# SPDX-License-Identifier: Apache-2.0
"""An agent, a pod that can be made anomalous, and a collector that analyses."""
import time

from support.process import check, poll, wait_until
from support.sidelight import Agent, Collector, Pod

LIMIT = 60
HOLD = 300  # on a machine that has changed for good, an anomaly ends after two minutes (--analyse-hold)


class System:
    """An agent, with further options, and a pod, the program POD; collectors by collect()."""

    def __init__(self, pod, *options):
        self.program, self.options = pod, options
        self.collector = None

    def __enter__(self):
        self.agent = Agent('--hostname', 'node-1', *self.options)
        self.folder, self.socket = self.agent.folder, self.agent.socket
        self.pod = Pod(self.program, self.socket, 'shop-0')
        return self

    def collect(self, *options, env=None):
        """Starts a collector in place of the one before, which ends well."""
        self.stop_collector()
        self.collector = Collector(
            [self.agent], '--period', '10ms', '--analyse', '--analyse-step', '200ms', '--warm-up', '10s',
            # The warm-up is short: at one false alarm per hour the threshold would stay wide for long.
            '--false-alarms', '60', '--analyse-hold', '2m', *options, env=env)

    def stop_collector(self):
        if self.collector:
            check(self.collector.stop() == 0, 'the collector failed', self.collector)
        self.collector = None

    def get(self, path):
        return self.collector.get('/' + path)

    def api(self, path):
        return self.collector.api(path)

    def metric(self, name):
        """{labels: value} of one name in the exposition."""
        return {k[len(name):]: v for k, v in self.collector.find(name).items()}

    def learned(self):
        def known():
            pods = [x for x in self.api('pods?q=shop-0')['pods'] if 'verdict' in x]
            a = self.api('anomalies')['analysis']
            return pods and not pods[0]['verdict']['learning'] and not a['learning']
        wait_until(known, 'the pod is known')

    def sicken(self, condition, what):
        """Makes the pod anomalous until condition() holds. A machine that is too busy may miss one fault."""
        for _ in range(LIMIT // 8):
            self.pod.tell('fault')
            value = poll(condition, 5)
            if value:
                return value
            self.pod.tell('fine')
            time.sleep(3)
        raise AssertionError(f'no fault was found: {what}')

    def fault(self, seconds):
        """Makes the pod anomalous. Returns the anomaly, after its end."""
        def anomalies():
            return self.api('anomalies')['anomalies']
        wait_until(lambda: all(a['end'] for a in anomalies()), 'no other anomaly', seconds=HOLD)
        before = [a['id'] for a in anomalies()]

        def found():
            return [a for a in anomalies() if a['id'] not in before]
        start = time.time()
        self.sicken(found, 'the fault is found')
        time.sleep(max(0, start + seconds - time.time()))
        self.pod.tell('fine')
        return wait_until(lambda: [a for a in found() if a['end']], 'the end of the fault', seconds=HOLD)[-1]

    def __exit__(self, error, *_):
        self.pod.close()
        codes = [part.stop() for part in (self.collector, self.agent) if part]
        check(error or codes == [0] * len(codes), codes, self.agent)
