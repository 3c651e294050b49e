# SPDX-License-Identifier: Apache-2.0
"""The real VictoriaMetrics of Debian (1.79), its agent and its gate, on free ports of loopback."""
import json
import os
import shutil
import urllib.parse

from support import http
from support.process import Part, wait_until, workdir
from support.sockets import listens


def available():
    return shutil.which('victoria-metrics')


class Program:
    """A VictoriaMetrics that listens at a port chosen by the kernel, or at the port of an earlier run."""

    def __init__(self, name, *options, port=0):
        self.part = Part(name, f'-httpListenAddr=127.0.0.1:{port}', '-loggerLevel=WARN', *options)
        port = port or wait_until(lambda: listens(self.part.pid), f'{name} listens', self.part)
        self.port, self.base = port, f'http://127.0.0.1:{port}'
        wait_until(self.healthy, f'{name} answers', self.part)

    def healthy(self):
        try:
            return http.get(self.base + '/health')
        except OSError:
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.part.kill()

    @property
    def url(self):
        return self.base + '/api/v1/write'


class Victoria(Program):
    def __init__(self, folder=None, port=0, options=()):
        self.folder = folder or workdir()
        super().__init__('victoria-metrics', f'-storageDataPath={self.folder}/data', '-retentionPeriod=12',
                         '-search.latencyOffset=0s', '-search.disableCache', '-memory.allowedBytes=64MB', *options, port=port)

    def samples(self, name, **labels):
        """{(labels): [(ms, value)]} of all stored samples."""
        match = name + '{' + ','.join(f'{k}="{v}"' for k, v in labels.items()) + '}'
        text = http.get(self.base + '/api/v1/export?' + urllib.parse.urlencode({'match[]': match}))
        return {tuple(sorted(line['metric'].items())): list(zip(line['timestamps'], line['values']))
                for line in map(json.loads, text.splitlines())}


    def query(self, expression, time):
        """The values of an instant query, by labels."""
        text = http.get(self.base + '/api/v1/query?' + urllib.parse.urlencode({'query': expression, 'time': time, 'nocache': 1}))
        return {tuple(sorted(r['metric'].items())): float(r['value'][1]) for r in json.loads(text)['data']['result']}


class VmAgent(Program):
    def __init__(self, to, relabel=None):
        super().__init__('vmagent', f'-remoteWrite.url={to}', f'-remoteWrite.tmpDataPath={workdir()}',
                         '-remoteWrite.flushInterval=100ms', '-memory.allowedBytes=64MB',
                         *([f'-remoteWrite.relabelConfig={relabel}'] if relabel else []))


class VmAuth(Program):
    def __init__(self, to, user, password):
        config = os.path.join(workdir(), 'auth.yml')
        with open(config, 'w') as f:  # JSON is YAML
            json.dump({'users': [{'username': user, 'password': password, 'url_prefix': to}]}, f)
        super().__init__('vmauth', f'-auth.config={config}')
        self.client = os.path.join(workdir(), 'client.yml')  # its clients connect with this
        secret = os.path.join(workdir(), 'password')
        for path, text in ((secret, password),
                           (self.client, json.dumps({'basic_auth': {'username': user, 'password_file': secret}}))):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 'w') as f:
                f.write(text)

    @property
    def url(self):
        return self.base + '/api/v1/write'

    def healthy(self):
        try:
            http.get(self.base + '/metrics')
        except OSError as e:
            return getattr(e, 'code', None)
        return True
