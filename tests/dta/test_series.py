# SPDX-License-Identifier: Apache-2.0
"""Keys that the file of stores lists are series, which come and go with a reload; and the alerts of docs/dta-store.md,
its second argument, fire on them: promtool judges the rules on the samples that were scraped."""
import json
import re
import shutil
import subprocess
import sys

from support import exposition
from support.http import get
from support.process import Part, check, wait_until, workdir

SIDELIGHT, MANUAL = sys.argv[1:3]
D = workdir()
LOAD = '{{name: load, number: 7, kind: key-write, seed: 1, slots: 10000, value: 16, series: [{}]}}'
BYTES = '{{name: bytes, number: 3, kind: increment, seed: 1, columns: 65536, series: [{}]}}'
QUEUE = '{key: "text:core1", name: core1-queue, at: 8, bytes: 4}'
BACKUP = '{key: "flow:192.0.2.1:443,192.0.2.2:5000,tcp", name: backup}'
SEEN = {}


def write(load, total):
    with open(f'{D}/stores.yaml', 'w') as f:
        f.write(f'listen: {D}/dta.sock\nstores:\n  - {LOAD.format(load)}\n  - {BYTES.format(total)}\n')


def query(*words, code=0):
    p = subprocess.run([SIDELIGHT, 'query', *words, '-c', c.at], capture_output=True, text=True, timeout=300)
    check(p.returncode == code, f'{words}: {p}')
    return p.stdout + p.stderr


def report(line, store, reporter):
    p = subprocess.run([SIDELIGHT, 'report', '--target', t.at, '--essential', '--store', str(store), '--reporter', str(reporter)],
                       input=line, capture_output=True, text=True, timeout=300)
    check(p.returncode == 0, f'{p}', t)


def scrape():
    SEEN.clear()
    samples = exposition.text(get(f'http://{c.at}/metrics').encode())
    for name in ('value', 'found'):
        for labels, v in samples.get(f'sidelight_dta_key_{name}', {}).items():
            SEEN[name, dict(labels)['store'], dict(labels)['series']] = v
    return SEEN


write(QUEUE, BACKUP)
c = Part(SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
c.at = c.ready()['listen'].removeprefix('http://')
t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--listen', '127.0.0.1:0', '--json')
t.at = t.ready()['listen']
absent = {('found', 'load', 'core1-queue'): 0, ('found', 'bytes', 'backup'): 0}
check({k: v for k, v in scrape().items() if k[1] == 'load'} == {('found', 'load', 'core1-queue'): 0}, f'{SEEN}')
report(f'keywrite copies=2 text:core1 {1:016x}{950:08x}{7:08x}', 7, 1)
report('increment copies=2 flow:192.0.2.1:443,192.0.2.2:5000,tcp 1500', 3, 2)
wait_until(lambda: scrape() == {('found', 'load', 'core1-queue'): 1, ('value', 'load', 'core1-queue'): 950,
                                ('found', 'bytes', 'backup'): 1, ('value', 'bytes', 'backup'): 1500}, lambda: f'{SEEN}', c, t)
exposition.openmetrics(get(f'http://{c.at}/metrics', accept='application/openmetrics-text').encode())

# Checks the scrape by the rules of the manual page.
if shutil.which('promtool'):
    with open(MANUAL) as f:
        rules = re.search(r'```yaml\n(groups:.*?)```', f.read(), re.S)[1]
    with open(f'{D}/rules.yml', 'w') as f:
        f.write(rules)

    def alerts(samples):
        """Which alerts fire after ten minutes of these samples."""
        fired = []
        for alert in re.findall(r'alert: (\w+)', rules):
            inputs = [{'series': f'sidelight_dta_key_{n}{{store="{s}",series="{k}"}}', 'values': f'{v:.0f}x20'}
                      for (n, s, k), v in samples.items()]
            with open(f'{D}/test.yml', 'w') as f:  # JSON is YAML
                json.dump({'rule_files': [f'{D}/rules.yml'], 'evaluation_interval': '1m',
                           'tests': [{'interval': '1m', 'input_series': inputs,
                                      'alert_rule_test': [{'eval_time': '10m', 'alertname': alert, 'exp_alerts': []}]}]}, f)
            p = subprocess.run(['promtool', 'test', 'rules', f'{D}/test.yml'], capture_output=True, text=True, timeout=300)
            check(p.returncode == 0 or 'exp:[]' in ''.join(p.stdout.split()) + ''.join(p.stderr.split()), f'{p}')
            fired += [alert] * (p.returncode != 0)
        return fired

    check(alerts(SEEN) == ['QueueLong'], f'{alerts(SEEN)} of {SEEN}')
    check(alerts(absent) == ['NothingReported'], f'{alerts(absent)}')
    check(alerts({**SEEN, ('value', 'load', 'core1-queue'): 899}) == [], 'a short queue')

# A reload adds and removes series, or refuses an invalid file as a whole.
write(QUEUE + ', {key: "text:core2", name: core2, bytes: 2}', '')
query('reload')
report(f'keywrite copies=2 text:core2 1234{0:028x}', 7, 3)
wait_until(lambda: scrape().get(('value', 'load', 'core2')) == 0x1234 and ('found', 'bytes', 'backup') not in SEEN,
           lambda: f'{SEEN}', c, t)
before = dict(SEEN)
for wrong, why in ((QUEUE + ', ' + QUEUE, 'duplicate series'), ('{key: "text:core1", name: x, at: 9}', 'at and bytes'),
                   ('{key: "ab", name: x}', 'is not a key'), ('{key: "text:core1"}', 'name'),
                   (', '.join(f'{{key: "u64:{i}", name: s{i}}}' for i in range(1025)), 'more than 1024')):
    write(wrong, '')
    said = query('reload', code=1)
    check(why in said and scrape() == before, f'{said} {SEEN}')
write(', '.join(f'{{key: "u64:{i}", name: s{i}}}' for i in range(1024)), '')
query('reload')
check(len(scrape()) == 1024, f'{len(SEEN)}')
