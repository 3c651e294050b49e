#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_readers.py SIDELIGHT PUBLISH_ALL: both readers decode a live region to the same values."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from support import region_reader
from support.hostile import HostileRegion, schema

SIDELIGHT, PUBLISH = sys.argv[1:3]
UNKNOWN = 10  # kind of a metric
READER = region_reader.__file__


def output(*args, status=0):
    r = subprocess.run(args, capture_output=True, timeout=300)
    assert r.returncode == status, (args, r.returncode, r.stdout[-300:], r.stderr)
    return r.stdout


def both(path):
    return json.loads(output(SIDELIGHT, 'dump', '--json', path)), \
        json.loads(output(sys.executable, READER, path))


def same(dump, reader):
    """The reader in C agrees with everything that the one in Python says."""
    for key in ('size', 'pid', 'instance', 'start_ns', 'start_ticks', 'boot_id', 'labels'):
        assert dump[key] == reader[key], (key, dump[key], reader[key])
    for key, value in reader['hot'].items():
        assert dump['hot'][key] == value, (key, dump['hot'], reader['hot'])
    assert len(dump['metrics']) == len(reader['metrics']) == 32, len(reader['metrics'])
    for d, r in zip(dump['metrics'], reader['metrics']):
        assert {k: d.get(k) for k in r} == r, (d, r)
        assert set(d) - set(r) == {'cell', 'cells', 'settled'} and d['settled']
    assert dump['unsettled'] == reader['unsettled'] == 0


def expected(m):
    """Computes again what publish_all prints."""
    n = range(40000)
    assert m['requests_total']['value'] == 40000
    assert m['requests_total']['help'] == 'Requests – all\nof "them"'
    assert m['answers_total', '207']['value'] == sum(i for i in n if i % 20 == 7)
    assert m['answers_total', '207']['labels']['path'] == '/ä\\"\n{},='
    assert abs(m['busy_seconds_total']['value'] - sum(n) * 0.001) < 1e-3
    assert m['queue_length']['value'] == 40000
    assert m['balance']['value'] == -2**63 + 5
    assert m['temperature_celsius']['value'] == -17.3
    assert m['infinite']['value'] == '-Inf' and m['not_a_number']['value'] == 'NaN'
    h = m['latency_seconds']
    assert h['refused'] == 4 and h['above'] == 4 and h['zero'] == 4
    assert h['count'] == 40000 + 8 == h['zero'] + sum(h['buckets']) + h['above']
    assert m['coarse']['scale'] == -1 and m['coarse']['count'] == 40000
    h = m['size_ratio']
    assert h['bounds'] == [0.005, 0.01, 0.1, 1, 10] and h['refused'] == 4
    assert h['buckets'] == [sum(i % 23 == 0 for i in n), sum(i % 23 == 1 for i in n),
                            sum(2 <= i % 23 <= 10 for i in n), sum(i % 23 > 10 for i in n), 0, 4]
    assert m['phase']['value'] == {'starting': False, 'running ✓': True, 'stopping': False}
    assert m['build']['labels'] == {'revision': 'abc', 'version': '1.2.3'}


def by_name(out):
    return {(m['name'], m['labels']['code']) if 'code' in m['labels'] else m['name']: m
            for m in out['metrics']}


def counting(before, after):
    """Counters grew, and nothing else is strange."""
    for b, a in zip(before['metrics'], after['metrics']):
        assert (b['name'], b['labels']) == (a['name'], a['labels'])
        if b['kind'] in ('counter', 'counter_f64') and None not in (b['value'], a['value']):
            assert a['value'] >= b['value'], (b, a)


def through_an_agent():
    """Directory, one region by its id, all regions; a missing region, and a socket without an agent."""
    with tempfile.TemporaryDirectory() as tmp:
        socket = os.path.join(tmp, 'agent.sock')
        agent = subprocess.Popen([SIDELIGHT, 'agent', '--socket', socket],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        publisher = subprocess.Popen([PUBLISH, socket], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        try:
            assert agent.stdout.readline().startswith('ready')
            fd = publisher.stdout.readline().split()[1]
            mine = json.loads(output(SIDELIGHT, 'dump', '--json',
                                     f'/proc/{publisher.pid}/fd/{fd}'))
            end = time.monotonic() + 20
            while True:
                directory = json.loads(output(SIDELIGHT, 'dump', '--json', '--socket', socket))
                entry = [e for e in directory['entries'] if e['instance'] == mine['instance']]
                if entry:
                    break
                assert time.monotonic() < end, directory
                time.sleep(0.05)
            assert directory['kind'] == 'directory' and entry[0]['state'] == 'live'
            assert 'host' in directory['labels']
            ident = str(entry[0]['id'])
            for args in (['--id', ident], ['--all']):
                lines = output(SIDELIGHT, 'dump', '--json', '--socket', socket, *args)
                found = [r for r in map(json.loads, lines.splitlines())
                         if r['source'] == f'id {ident}']
                assert len(found) == 1 and found[0]['metrics'] == mine['metrics'], found
            checks = output(SIDELIGHT, 'dump', '--check', '--socket', socket, '--all').decode()
            assert checks.startswith('directory: ok') and f'id {ident}: ok' in checks, checks
            output(SIDELIGHT, 'dump', '--socket', socket, '--id', '4711', status=1)
            output(SIDELIGHT, 'dump', '--socket', os.path.join(tmp, 'none'), status=1)
            # The second reader reads directories as well, given the agent's memfd.
            memfds = [f'/proc/{agent.pid}/fd/{f}' for f in os.listdir(f'/proc/{agent.pid}/fd')]
            for path in memfds:
                if 'memfd' not in os.readlink(path):
                    continue
                r = json.loads(output(sys.executable, READER, path))
                if r['instance'] == directory['instance']:
                    assert [e['id'] for e in r['entries']] == \
                        [e['id'] for e in directory['entries']]
                    assert r['hot']['lease_ns'] == directory['hot']['lease_ns']
                    break
            else:
                raise AssertionError('the agent has no directory')
        finally:
            for p in (publisher, agent):
                p.kill()
                p.wait()


def usage():
    for args in ([], ['a', 'b'], ['--id', '1', '--all'], ['--check', '--json', 'x'],
                 ['--socket', 's', 'file'], ['--id', '0'], ['--nonsense']):
        r = subprocess.run([SIDELIGHT, 'dump', *args], capture_output=True)
        assert r.returncode == 2 and r.stderr.count(b'\n') == 1 and not r.stdout, (args, r)
    for args in (['/nonexistent'], ['/'], ['/dev/null'], ['99999999']):
        r = subprocess.run([SIDELIGHT, 'dump', *args], capture_output=True)
        assert r.returncode == 1 and r.stderr.count(b'\n') == 1 and not r.stdout, (args, r)


def names_never_control_the_terminal():
    """The publisher may give a metric of this kind any name in UTF-8."""
    region = HostileRegion(schema(['\033]0;owned\007\x9b2J'], UNKNOWN), 1, labels=(('service', '\033[\x9b2J'),))
    r = subprocess.run([SIDELIGHT, 'dump', f'/proc/{os.getpid()}/fd/{region.fd}'], capture_output=True, timeout=300)
    assert b'?]0;owned???2J' in r.stdout and re.fullmatch(rb'[\n -~]*', r.stdout + r.stderr), r


def main():
    usage()
    through_an_agent()
    names_never_control_the_terminal()
    p = subprocess.Popen([PUBLISH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        word, fd = p.stdout.readline().split()
        assert word == 'ready'
        path = f'/proc/{p.pid}/fd/{fd}'
        dump, reader = both(path)
        same(dump, reader)
        expected(by_name(reader))
        assert reader['hot']['stripes_used'] == 4 and reader['hot']['threads_sharing'] == 1
        assert reader['labels'] == {'service': 'shop', 'pod': 'shop-0', 'zone': 'a€'}

        # By PID, and the text form.
        by_pid = json.loads(output(SIDELIGHT, 'dump', '--json', str(p.pid)))
        assert by_pid['metrics'] == dump['metrics'] and by_pid['source'] == f'pid {p.pid} fd {fd}'
        text = output(SIDELIGHT, 'dump', '--raw-lines', str(p.pid)).decode()
        assert 'requests_total 40000' in text and 'UNSETTLED' not in text, text
        assert output(SIDELIGHT, 'dump', '--check', path).startswith(path.encode() + b': ok')

        # A copy is a region too; a spoilt one is refused with its cause.
        with tempfile.TemporaryDirectory() as tmp:
            data = bytearray(open(path, 'rb').read())
            copy = os.path.join(tmp, 'copy')
            open(copy, 'wb').write(data)
            same(*both(copy))
            stripes = dump['sections'][1]['offset']
            for at, cause in ((0, b'magic'), (9, b'version'), (40, b'check'), (4096, b'unsettled'),
                              (stripes, b'unsettled'), (dump['sections'][2]['offset'], b'check')):
                spoilt = bytearray(data)
                spoilt[at] ^= 0x10
                open(copy, 'wb').write(spoilt)
                assert cause in output(SIDELIGHT, 'dump', '--check', copy, status=1), (at, cause)
                output(SIDELIGHT, 'dump', '--json', copy, status=1)
            for wrong, words in ((b'#!/bin/sh\n', 'not a Sidelight region: no magic at offset 0\n'),
                                 (bytes(8192), 'not a Sidelight region: no magic at offset 0\n'),
                                 (data[:1000], 'header: size: the file ends after 1000 bytes\n')):
                open(copy, 'wb').write(wrong)
                said = subprocess.run([SIDELIGHT, 'dump', copy], capture_output=True, text=True)
                assert said.returncode == 1 and said.stderr == f'sidelight dump: {copy}: {words}', said
            open(copy, 'wb').write(data[:-4096])
            assert b'size' in output(SIDELIGHT, 'dump', '--check', copy, status=1)
            open(copy, 'wb').write(b'')
            assert b'size' in output(SIDELIGHT, 'dump', '--check', copy, status=1)

        # While four threads write it.
        print('', file=p.stdin, flush=True)
        assert p.stdout.readline() == 'counting\n'
        last, end = reader, time.monotonic() + 2
        while time.monotonic() < end:
            now = json.loads(output(sys.executable, READER, path))
            counting(last, now)
            r = subprocess.run([SIDELIGHT, 'dump', '--json', path], capture_output=True)
            d = json.loads(r.stdout)
            assert d.get('fault', 'unsettled') == 'unsettled', d['fault']
            last = now
        print('', file=p.stdin, flush=True)
        assert p.stdout.readline() == 'done\n'
        dump, reader = both(path)
        same(dump, reader)
        assert by_name(reader)['requests_total']['value'] > 40000
    finally:
        p.kill()
        p.wait()
    print('ok')


main()
