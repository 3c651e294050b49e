#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_parts.py SIDELIGHT PART=0|1... - using a part that this build lacks is refused with the name of the part, and nothing
shows it; the rest works without it."""
import os
import re
import sys

from support.http import request
from support.process import check, output, run, wait_until
from support.sidelight import Agent, Collector, generate, report

SIDELIGHT = os.path.abspath(sys.argv[1])
HAVE = dict((name, on == '1') for name, on in (word.split('=') for word in sys.argv[2:]))
# Per part: its name in words, its options by command, its commands.
PARTS = {
    'dta': ('DTA', {'collect': ['--dta=x', '--max-store-bytes=1M']},
            ['query', 'report', 'translate', 'manage']),
    'tcp': ('TCP telemetry', {'agent': ['--tcp', '--tcp-flows=100', '--cidr=::/0']}, ['tcp']),
    'bridge': ('bridges', {'agent': ['--scrape=x', '--textfile=x', '--host', '--statsd=x', '--otlp=x']}, []),
    'kafka': ('Kafka', {'collect': ['--kafka-config=x', '--kafka-offsets=x']}, []),
    'levels': ('levels', {'collect': ['--publish=x', '--publish-socket=x']}, []),
    'remote-write': ('remote write', {'collect': ['--remote-write=x', '--remote-write-config=x', '--remote-label=a=b',
                                                  '--remote-queue=x', '--sample-every=1s']}, []),
    'analysis': ('analysis', {'collect': ['--analyse', '--alert=x', '--webhook=x', '--trace-budget=0', '--otlp=x',
                                          '--verdict-ttl=0']}, ['top', 'model', 'replay']),
    'tls': ('TLS', {'collect': ['--web-config=x', '--roles=x'], 'agent': ['--web-config=x', '--roles=x']}, []),
    'verbs': ('RDMA', {'collect': ['--dev=x', '--gid=0'], 'agent': ['--rdma=x']}, []),
    'fabric-tcp': ('READs over TCP', {'agent': ['--fabric=tcp::0']}, []),
}
# The only libraries that the core needs besides glibc.
CORE = {'libjansson.so.4', 'libyaml-0.so.2', 'libmicrohttpd.so.12'}


def words_of(command):
    return set(re.findall(r'^ +(?:-\w, )?(--[\w-]+)', output(SIDELIGHT, command, '--help'), re.M))


def refusals():
    help_text = output(SIDELIGHT, '--help')
    for part, (words, options, commands) in PARTS.items():
        said = f'this build has no {words}: rebuild with -D{part}=enabled\n'
        for command, given in options.items():
            for option in given:
                name = option.split('=')[0]
                check((name in words_of(command)) == HAVE[part], f'{command} --help and {name}')
                if not HAVE[part]:
                    p = run(SIDELIGHT, command, option, code=2)
                    check(not p.stdout and p.stderr == f'sidelight {command}: {name}: {said}', p.stderr)
        for command in commands:
            check(bool(re.search(rf'^  {command} ', help_text, re.M)) == HAVE[part], f'--help and {command}')
            if not HAVE[part]:
                p = run(SIDELIGHT, command, '--help', code=2)
                check(not p.stdout and p.stderr == f'sidelight: {command}: {said}', p.stderr)


def libraries():
    if any(HAVE.values()):
        return
    for program in ('agent', 'collect'):
        found = output('readelf', '-d', os.path.join(os.path.dirname(SIDELIGHT), f'sidelight-{program}'))
        needed = set(re.findall(r'\(NEEDED\).*\[(.*?)\]', found))
        check({n for n in needed if not n.startswith(('libc.', 'libm.', 'libresolv.', 'ld-linux', 'libasan', 'libubsan'))}
              <= CORE, program, needed)


def core_works():
    with Agent() as agent, Collector([agent], '--period', '5ms') as c:
        g = generate(agent.socket, '--pods', '2', '--metrics', '10', '--updates', '100', '--service', 'core', '--hold', '1h')
        want = report(g)['expect']['generated_updates_total']
        wait_until(lambda: c.total('generated_updates_total', 'service="core"') == want, 'the sum is not exposed', c)
        status = c.api('status')
        check(set(status['parts']) == {part for part, on in HAVE.items() if on}, status['parts'])
        check('<title>Sidelight</title>' in c.get('/'), 'no page')
        pods = [p for p in c.api('pods')['pods'] if p['service'] == 'core']
        check(len(pods) == 2 and not any('verdict' in p for p in pods), pods)
        wait_until(lambda: c.api('query?query=sum(generated_updates_total)')['data']['result'], 'PromQL answers nothing', c)
        for path, part in (('services', 'analysis'), ('anomalies', 'analysis'), ('dta', 'dta')):
            if not HAVE[part]:
                check(request(f'{c.url}/api/v1/{path}')[0] == 404, path)
        g.stop()


refusals()
libraries()
core_works()
