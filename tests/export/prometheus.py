# SPDX-License-Identifier: Apache-2.0
"""The real Prometheus on a free port of loopback, with its data in a folder that goes away."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request


def available():
    return shutil.which('prometheus')


def skip(reason):
    print('SKIP:', reason)
    sys.exit(77)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Daemon:
    """A program that prints "ready key=value ..." and stops by SIGTERM."""

    def __init__(self, *cmd, env=None):
        self.process = subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(env or {})))
        line = self.process.stdout.readline()
        if not line.startswith('ready'):
            self.stop()
            raise RuntimeError(f'{cmd[0]} printed {line!r} in place of "ready"')
        self.ready = dict(p.split('=', 1) for p in line.split()[1:] if '=' in p)

    def __enter__(self):
        return self

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return self.process.returncode

    def __exit__(self, *_):
        self.stop()


class Prometheus:
    """jobs: {name: (address, path)}, each scraped once a second."""

    def __init__(self, jobs, native=False):
        self.folder = tempfile.mkdtemp(prefix='sl-prometheus-')
        self.port = free_port()
        self.base = f'http://127.0.0.1:{self.port}'
        config = os.path.join(self.folder, 'prometheus.yml')
        with open(config, 'w') as f:
            json.dump({  # JSON is YAML
                'global': {'scrape_interval': '1s', 'scrape_timeout': '1s'},
                'scrape_configs': [
                    {'job_name': name, 'metrics_path': path,
                     'static_configs': [{'targets': [address]}]}
                    for name, (address, path) in jobs.items()]}, f)
        cmd = self.command()
        if native:
            cmd.append('--enable-feature=native-histograms')
        self.log = open(os.path.join(self.folder, 'log'), 'w+')
        self.process = subprocess.Popen(cmd, stdout=self.log, stderr=self.log, cwd=self.folder)

    def command(self):
        return ['prometheus', '--config.file=' + os.path.join(self.folder, 'prometheus.yml'),
                '--storage.tsdb.path=' + os.path.join(self.folder, 'data'),
                f'--web.listen-address=127.0.0.1:{self.port}', '--log.level=warn']

    def __enter__(self):
        try:
            self.eventually(lambda: self.get('/-/ready') is not None, 'Prometheus is ready')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder)

    def eventually(self, condition, what, seconds=40):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise RuntimeError('Prometheus ended: ' + self.log.read()[-2000:])
            try:
                result = condition()
                if result:
                    return result
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.1)
        self.log.seek(0)
        raise TimeoutError(f'{what}: not within {seconds} s; log: {self.log.read()[-2000:]}; '
                           f'targets: {self.targets()}')

    def get(self, path, **params):
        query = '?' + urllib.parse.urlencode(params) if params else ''
        with urllib.request.urlopen(self.base + path + query, timeout=10) as r:
            return r.read()

    def api(self, path, **params):
        return json.loads(self.get('/api/v1' + path, **params))['data']

    def targets(self):
        return [(t['scrapePool'], t['health'], t['lastError'])
                for t in self.api('/targets')['activeTargets']]

    def query(self, promql):
        """[(labels, value)]; the value of a native histogram is a dictionary."""
        result = self.api('/query', query=promql)['result']
        return [(r['metric'], float(r['value'][1]) if 'value' in r else r['histogram'][1])
                for r in result]

    def scalar(self, promql):
        result = self.query(promql)
        assert len(result) == 1, (promql, result)
        return result[0][1]

    def scraped(self, jobs):
        self.eventually(lambda: sorted(self.targets()) == sorted((j, 'up', '') for j in jobs),
                        f'{jobs} are up')
        self.eventually(lambda: all(self.query(f'up{{job="{j}"}} == 1') for j in jobs),
                        f'{jobs} are stored')
