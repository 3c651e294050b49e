# SPDX-License-Identifier: Apache-2.0
"""Network devices, as a collector and a translator see them."""
import json
import re

from support.http import get
from support.process import Part, check


class Collector(Part):
    """A collector with the stores of a file; its control socket and its memory are in folder."""

    def __init__(self, program, stores, folder):
        with open(stores) as f:
            text = f.read().replace('/tmp/sidelight-dta', folder)
        # A fixed seed: the same keys share a counter in each run.
        text = re.sub(r'(kind: (increment|key-write|postcard)),(?! seed)', r'\1, seed: 1,', text)
        with open(f'{folder}/stores.yaml', 'w') as f:
            f.write(text)
        super().__init__(program, 'collect', '--dta', f'{folder}/stores.yaml', '--listen', '127.0.0.1:0')
        ready = self.ready()
        self.base = 'http://' + (ready.get('listen') or ready['http']).removeprefix('http://')
        self.socket = f'unix:{folder}/dta.sock'

    def status(self):
        return json.loads(get(f'{self.base}/api/v1/dta'))

    def devices(self):
        """The translators' latest report about devices."""
        return self.status()['account']['translators'].get('devices', {})

    def ask(self, store, key):
        return json.loads(get(f'{self.base}/api/v1/dta/query?store={store}&key={key}'))

    def count(self, store, key):
        return self.ask(store, key).get('value', 0)


class Translator(Part):
    def __init__(self, program, collector, kinds, *options):
        super().__init__(program, 'translate', '--collector', collector.socket, '--json',
                         *(w for kind in kinds for w in ('--input', f'{kind}=127.0.0.1:0')), *options)
        self.port = {kind: int(at.rsplit(':', 1)[1])
                     for kind, at in (w.split(':', 1) for w in self.ready()['input'].split(','))}

    def account(self):
        """Stops it. Whatever it received, its account must close."""
        check(self.stop() == 0, 'it failed', self)
        a = json.loads(self.out[-1])
        engine = a['engine']
        made = sum(d['reports'] - d['unproven'] for d in a['devices'].values())
        check(a['reports'] == a['fresh'] == engine['in'] == made, f'reports: {a}', self)
        check(engine['in'] == engine['stored'] + engine['waiting'] + sum(engine['dropped'].values()), f'engine: {a}', self)
        return a
