# SPDX-License-Identifier: Apache-2.0
"""The real Prometheus on a free port of loopback, with its data in a temporary folder."""
import json
import os
import shutil
import time
import urllib.error
import urllib.parse

from support import http
from support.process import Part, check, wait_until, workdir
from support.sockets import listens


def available():
    return shutil.which('prometheus')


class Prometheus:
    """jobs: {name: (address, path)}, or with further settings (address, path, {...}), each scraped once
    per second. read: URLs of remote read. how: further settings of each job. web: its own web.yml, whose clients are how:
    an authority, a user, a password."""

    def __init__(self, jobs, native=False, features=(), read=(), how=(), web=None):
        self.folder = workdir()
        self.port = 0
        self.web = web and (web, *how)
        self.at = None  # address for queries; None: now
        self.base = None
        config = os.path.join(self.folder, 'prometheus.yml')
        with open(config, 'w') as f:
            json.dump({  # JSON is YAML
                'global': {'scrape_interval': '1s', 'scrape_timeout': '1s'},
                'scrape_configs': [
                    {'job_name': name, 'metrics_path': path,
                     'static_configs': [{'targets': [address]}], **({} if web else dict(how)), **dict(*more)}
                    for name, (address, path, *more) in jobs.items()],
                'remote_read': [{'url': url, 'read_recent': True} for url in read]}, f)
        cmd = self.command()
        if web:
            cmd.append('--web.config.file=' + web)
        features = [*features, *(['native-histograms'] if native else [])]
        if features:
            cmd.append('--enable-feature=' + ','.join(features))
        self.features = cmd[len(self.command()):]
        self.part = Part(*cmd)

    def again(self):
        """Starts it again after kill(), with the same data and at the same port."""
        self.port = int(self.base.rpartition(':')[2])
        self.part = Part(*self.command(), *self.features)
        return self.__enter__()

    def command(self):
        return ['prometheus', '--config.file=' + os.path.join(self.folder, 'prometheus.yml'),
                '--storage.tsdb.path=' + os.path.join(self.folder, 'data'),
                f'--web.listen-address=127.0.0.1:{self.port}', '--log.level=warn']

    def listens(self):
        return listens(self.part.pid)

    def __enter__(self):
        try:
            self.base = f'{"https" if self.web else "http"}://127.0.0.1:{self.eventually(self.listens, "Prometheus listens")}'
            self.eventually(lambda: self.get('/-/ready') is not None, 'Prometheus is ready')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.part.kill()

    def eventually(self, condition, what):
        def answered():
            try:
                return self.part.p.poll() is not None or condition()
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                return False
        value = wait_until(answered, lambda: f'{what() if callable(what) else what}; targets: {self.base and self.targets()}', self.part, every=0.1)
        check(self.part.p.poll() is None, f'{what}: Prometheus ended', self.part)
        return value

    def get(self, path, **params):
        query = '?' + urllib.parse.urlencode(params) if params else ''
        if self.web:
            return http.get_tls(self.base + path + query, *self.web[1:])
        return http.get(self.base + path + query)

    def api(self, path, **params):
        return json.loads(self.get('/api/v1' + path, **params))['data']

    def targets(self):
        return [(t['scrapePool'], t['health'], t['lastError'])
                for t in self.api('/targets')['activeTargets']]

    def query(self, promql):
        """[(labels, value)]; the value of a native histogram is a dictionary."""
        result = self.api('/query', query=promql, **({'time': self.at} if self.at else {}))['result']
        return [(r['metric'], float(r['value'][1]) if 'value' in r else r['histogram'][1])
                for r in result]

    def scalar(self, promql):
        result = self.query(promql)
        assert len(result) == 1, (promql, result)
        return result[0][1]

    def scraped(self, jobs):
        """Waits for a moment at which the last scrape of every job had succeeded (on a busy machine, one fails if it takes over
        a second), and for the scrape after it, before which the results for that moment may change. From then on, queries ask
        for that moment."""
        def stored():
            at, self.at = time.time(), None
            self.eventually(lambda: all(self.query(f'timestamp(up{{job="{j}"}}) > {at}') for j in jobs),
                            f'{jobs} are scraped')
            self.at = at
            return all(self.query(f'up{{job="{j}"}} == 1') for j in jobs)
        self.eventually(stored, f'{jobs} are up')


class Receiver(Prometheus):
    """Scrapes nothing, but receives remote write at self.url."""

    def __init__(self, **options):
        super().__init__({}, **options)

    def command(self):
        return super().command() + ['--web.enable-remote-write-receiver']

    @property
    def url(self):
        return self.base + '/api/v1/write'
