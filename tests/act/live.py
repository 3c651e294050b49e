# SPDX-License-Identifier: Apache-2.0
"""An agent, a pod that can be made ill, and a collector that analyses; in a folder that goes away."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'export'))
import prometheus as p  # noqa: E402

SIDELIGHT, POD = sys.argv.pop(1), sys.argv.pop(1)
LIMIT = 60
HOLD = 300  # on a machine that is no longer as it was, an anomaly ends after two minutes


class Pod:
    def __init__(self, socket_path, name):
        self.process = subprocess.Popen([POD, socket_path, name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        self.process.stdout.readline()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class System:
    """An agent, with further options, and a pod; collectors by collect()."""

    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='sl-act-')
        self.socket = os.path.join(self.folder, 'agent.sock')
        self.agent = p.Daemon(SIDELIGHT, 'agent', '--socket', self.socket, '--no-rest',
                              '--host', 'node-1', *self.options)
        self.pod = Pod(self.socket, 'shop-0')
        self.collector = None
        return self

    def collect(self, *options):
        if self.collector:
            assert self.collector.stop() == 0
        self.collector = p.Daemon(
            SIDELIGHT, 'collect', '--agent', self.socket, '--listen', '127.0.0.1:0', '--period',
            '10ms', '--analyse', '--analyse-step', '200ms', '--warm-up', '10s',
            # Little is learned in that time: at one an hour the threshold would be wide for long.
            '--false-alarms', '60', *options)

    def get(self, path):
        address = self.collector.ready['listen']
        with urllib.request.urlopen(f'http://{address}/{path}', timeout=60) as r:
            return r.read()

    def api(self, path):
        return json.loads(self.get('api/v1/' + path))

    def metric(self, name):
        """{labels: value} of one name in the exposition."""
        found = {}
        for line in self.get('metrics').decode().splitlines():
            if line.startswith((name + ' ', name + '{')):
                left, value = line.rsplit(' ', 1)
                found[left[len(name):]] = float(value)
        return found

    def eventually(self, condition, what, seconds=LIMIT):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            result = condition()
            if result:
                return result
            time.sleep(0.1)
        raise TimeoutError(f'not within {seconds} s: {what}')

    def learned(self):
        def known():
            pods = [x for x in self.api('pods?q=shop-0')['pods'] if 'verdict' in x]
            a = self.api('anomalies')['analysis']
            return pods and not pods[0]['verdict']['learning'] and not a['learning']
        self.eventually(known, 'the pod is known')

    def sicken(self, condition, what):
        """Makes the pod ill until something is so. A machine too busy may sleep through it once."""
        for _ in range(LIMIT // 8):
            self.pod.tell('fault')
            try:
                return self.eventually(condition, what, 5)
            except TimeoutError:
                self.pod.tell('fine')
                time.sleep(3)
        raise TimeoutError(what)

    def fault(self, seconds):
        """Makes the pod ill. Returns the anomaly, after its end."""
        self.eventually(lambda: all(a['end'] for a in self.api('anomalies')['anomalies']),
                        'nothing else is wrong', HOLD)
        before = [a['id'] for a in self.api('anomalies')['anomalies']]

        def found():
            return [a for a in self.api('anomalies')['anomalies'] if a['id'] not in before]
        start = time.time()
        self.sicken(lambda: found(), 'the fault is found')
        time.sleep(max(0, start + seconds - time.time()))
        self.pod.tell('fine')
        return self.eventually(lambda: [a for a in found() if a['end']], 'the fault is over', HOLD)[-1]

    def __exit__(self, *_):
        self.pod.stop()
        codes = [d.stop() for d in (self.collector, self.agent) if d]
        shutil.rmtree(self.folder)
        assert codes == [0] * len(codes), codes
