# SPDX-License-Identifier: Apache-2.0
"""A machine made of files, which sys.argv[2], host_at, publishes."""
import os
import sys

from support import published
from support.process import wait_until, workdir
from support.sidelight import Agent, Collector, Pod


def read(text):
    """As published.read(), with numbers for values."""
    series, types, helps = published.read(text)
    return {k: float(v) for k, v in series.items()}, types, helps


class Scene:
    """files: {path: content} below the root."""

    def __init__(self, files, max_cgroups=0):
        self.root = f'{workdir()}/root'
        self.put(files)
        self.agent = Agent()
        self.collector = Collector([self.agent], '--period', '20ms')
        self.pod = Pod(sys.argv[2], self.root, self.agent.socket, str(max_cgroups))
        self.said = None

    def put(self, files):
        for path, content in files.items():
            path = self.root + path
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'wb') as f:
                f.write(content if isinstance(content, bytes) else content.encode())

    def round(self):
        """(errors, refused, left out) of a reading that the collector has seen."""
        *self.said, at = map(float, self.pod.tell('round').split())
        wait_until(lambda: self.collector.total('node_time_seconds') >= at, 'a pass', self.collector, self.pod)
        return tuple(map(int, self.said))

    def series(self, *prefixes):
        """{'name{label="value",...}': value} of names that begin so; labels ascend."""
        out = {}
        for (name, labels), v in read(self.collector.get('/metrics'))[0].items():
            if name.startswith(prefixes):
                out[name + ('{' + ','.join(f'{k}="{v}"' for k, v in labels) + '}' if labels else '')] = v
        return out

    def expect(self, want, *prefixes, of=lambda name: True):
        """Of these names there are these series, and no others. The collector learns of new and removed ones later than
        of values."""
        def differs():
            have = {k: v for k, v in self.series(*prefixes).items() if of(k)}
            return {k: (have.get(k), want.get(k)) for k in have.keys() | want.keys() if have.get(k) != want.get(k)}
        wait_until(lambda: not differs(), differs, self.collector, self.pod)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pod.close()
        self.collector.stop()
        self.agent.stop()
