#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_seen.py SIDELIGHT [TEST]... - questions about the network: the flows that crossed a switch, an interface or a link, where
packets were lost, and who talks; by the default mapping, the example's stores and the command, from packets made here."""
import http.server
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

from support.devices import Collector, Translator
from support.http import get
from support.packets import (flow_of, flow_text, int_drop, int_path, int_report, ipfix, ipfix_names, sflow_counters,
                             sflow_drop)
from support.process import Part, case, check, run_cases, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
random.seed(33)


class Net:
    """A collector with the example's stores, a translator, and a socket per kind of input and exporter."""

    def __init__(self, name, *kinds, epoch=None):
        folder = f'{D}/{name}'
        os.mkdir(folder)
        with open(f'{ROOT}/examples/dta/devices.yaml') as f, open(f'{folder}/file.yaml', 'w') as to:
            to.write(f.read().replace('epoch: 1m', f'epoch: {epoch}') if epoch else f.read())
        self.c = Collector(SIDELIGHT, f'{folder}/file.yaml', folder)
        self.t = Translator(SIDELIGHT, self.c, kinds, '--workers', '2')
        self.sockets, self.sent = {}, dict.fromkeys(kinds, 0)

    def send(self, kind, exporter, data):
        s = self.sockets.get((kind, exporter))
        if not s:
            s = self.sockets[kind, exporter] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((exporter, 0))
        s.sendto(data, ('127.0.0.1', self.t.port[kind]))
        self.sent[kind] += 1

    def query(self, *words, code=0):
        p = subprocess.run([SIDELIGHT, 'query', *words, '-c', self.c.base.removeprefix('http://')], capture_output=True, text=True,
                           timeout=300)
        check(code is None or p.returncode == code, f'query {words}: exit {p.returncode}: {p.stdout} {p.stderr}', self.c, self.t)
        return p.stdout

    def rows(self, *words, code=0):
        return [json.loads(line) for line in self.query(*words, '--json', code=code).splitlines()]

    def end(self):
        self.t.account()
        self.c.stop()


@case
def flows_through_a_link_are_those_reported():
    net, paths, number = Net('int', 'int'), {}, 0
    for i in range(120):
        flow, hops = flow_of(i), random.sample(range(1, 12), random.randrange(2, 6))
        paths[flow_text(flow)] = hops
        net.send('int', '127.0.0.1', int_report(hops[-1], number, int_path(hops, flow), 0b0010))
        number += 1

    def asked(through):
        return {r['flow']: r['path'] for r in net.rows('paths', '--through', through, '--max', '1000', code=None)}
    for x in range(1, 12):
        truth = {f: h for f, h in paths.items() if x in h}
        wait_until(lambda: asked(str(x)) == truth, f'through {x}:', lambda: (asked(str(x)), truth), net.t)
        for y in range(x + 1, 12):
            linked = {f: h for f, h in paths.items() if any({a, b} == {x, y} for a, b in zip(h, h[1:]))}
            check(asked(f'{x},{y}') == linked, f'link {x}-{y}: {asked(f"{x},{y}")}, not {linked}', net.t)
    check(asked('7/2') == asked('7') and not asked('7/9') and not asked('99'), f'{asked("7/2")}')
    net.end()


@case
def drops_say_device_interface_reason_and_flow():
    net = Net('drops', 'int', 'sflow')
    truth = {}
    for i in range(60):
        flow, node, ingress, egress, reason = flow_of(i % 20), 30 + i % 3, 1 + i % 2, 7, 80 + i % 4
        net.send('int', '127.0.0.1', int_drop(node, i // 3, flow, ingress, egress, reason))
        key = flow_text(flow), node, ingress, egress, reason
        truth[key] = truth.get(key, 0) + 1
    net.send('sflow', '127.0.0.1', sflow_drop(flow_of(3), 4, 5, 258))
    truth[flow_text(flow_of(3)), '203.0.113.9', 4, 5, 258] = 1

    def asked(*words):
        return {(r['flow'], r['device'], r['ingress'], r['egress'], r['reason']): r['packets']
                for r in net.rows('drops', '--max', '1000', *words, code=None)}
    wait_until(lambda: asked() == truth, lambda: (asked(), truth), net.t)
    for words, at, value in ((('--device', '31'), 1, 31), (('--device', '203.0.113.9'), 1, '203.0.113.9'),
                             (('--interface', '2'), 2, 2), (('--reason', '81'), 4, 81)):
        found = {k: n for k, n in truth.items() if k[at] == value}
        check(found and asked(*words) == found, f'{words}: {asked(*words)} is not {found}', net.t)
    # The list of stores says which of them can answer.
    check({s['name']: s['counts'] for s in net.c.status()['stores'] if 'counts' in s} ==
          {'device_flows': 'flows', 'switch_flows': 'flows', 'switch_drops': 'drops', 'device_drops': 'drops', 'as_bytes': 'as'},
          net.c.status()['stores'], net.c)
    text = net.query('drops', '--reason', '258')
    check('192.0.2.4:1027 > 198.51.100.7:https tcp at 203.0.113.9[4>5] reason 258: 1 packets' in text, text)
    net.end()


@case
def talkers_are_added_up_by_what_was_asked():
    """A flow that passes two exporters counts once, except by interface."""
    net = Net('top', 'ipfix')
    flows = [(flow_of(i), 1 + i % 3, 9, 64500 + i % 4, 64510, random.randrange(1, 1_000_000)) for i in range(100)]
    for exporter in ('127.0.0.1', '127.0.0.2'):
        for part in range(0, 100, 20):
            net.send('ipfix', exporter, ipfix(flows[part:part + 20], part))
    total = sum(f[5] for f in flows)

    def asked(*words):
        return {tuple(str(v) for k, v in r.items() if k not in ('bytes', 'from', 'to')): r['bytes']
                for r in net.rows('top', '--max', '1000', *words, code=None)}

    def added(*of):
        sums = {}
        for f in flows:
            for key in of:
                sums[key(f)] = sums.get(key(f), 0) + f[5]
        return sums
    wait_until(lambda: sum(asked().values()) == 2 * total, lambda: (asked(), total), net.t)
    truth = added(lambda f: (f[0][0],), lambda f: (f[0][1],))
    check(asked() == truth, f'{asked()} is not {truth}', net.t)
    check(asked('--by', 'prefix', '--prefix', '28') ==
          added(lambda f: (f'192.0.2.{int(f[0][0].split(".")[3]) & 240}/28',), lambda f: ('198.51.100.0/28',)), 'prefix', net.t)
    check(asked('--by', 'application') == {('6', '443'): total}, f'{asked("--by", "application")}', net.t)
    both = {k: 2 * n for k, n in added(lambda f: (str(f[3]),), lambda f: (str(f[4]),)).items()}
    check(asked('--by', 'as') == both, f'{asked("--by", "as")} is not {both}', net.t)
    at = added(*(lambda f, e=e, n=n: (e, str(f[n])) for e in ('127.0.0.1', '127.0.0.2') for n in (1, 2)))
    check(asked('--by', 'interface') == at, f'{asked("--by", "interface")} is not {at}', net.t)
    one = {k: n for k, n in at.items() if k[0] == '127.0.0.2'}
    check(asked('--by', 'interface', '--device', '127.0.0.2') == one, 'one device', net.t)
    # Exporters say which flows crossed them, too.
    crossed = {r['flow'] for r in net.rows('paths', '--through', '127.0.0.2/3', '--max', '1000')}
    check(crossed == {flow_text(f[0]) for f in flows if f[1] == 3}, f'{crossed}', net.t)
    check(len(net.rows('paths', '--through', '127.0.0.1,127.0.0.2', '--max', '1000')) == 100, 'both', net.t)
    # The API has the same rows, up to its limit.
    j = json.loads(get(f'{net.c.base}/api/v1/dta/top?by=address&max=3'))
    check([r['bytes'] for r in j['rows']] == sorted(truth.values(), reverse=True)[:3] and j['more'] == len(truth) - 3, f'{j}')
    net.end()


@case
def a_range_of_time_is_that_of_its_epochs():
    net = Net('epochs', 'ipfix')
    ends = [time.time()]
    for i in range(3):
        net.send('ipfix', '127.0.0.1', ipfix([(flow_of(i), 1, 2, 1, 2, 100 + i), (flow_of(9), 1, 2, 1, 2, 1000)], 2 * i))
        wait_until(lambda: any(r['flow'] == flow_text(flow_of(i)) for r in net.rows('paths', code=None)), f'flow {i}', net.t)
        status = {s['name']: s for s in net.c.status()['stores']}
        net.query('rotate', 'device_flows')
        now = lambda: {s['name']: s for s in net.c.status()['stores']}['device_flows']
        wait_until(lambda: now()['epoch'] > status['device_flows']['epoch'] and not now()['not_rotated'], 'no epoch', net.c)
        ends.append({s['name']: s for s in net.c.status()['stores']}['device_flows']['epoch_since'])

    def asked(*words):
        return {r['flow']: r['crossed'][0]['bytes'] for r in net.rows('paths', *words, code=None)}
    whole = {flow_text(flow_of(i)): 100 + i for i in range(3)} | {flow_text(flow_of(9)): 3000}
    check(asked() == whole, f'{asked()}', net.t)
    for i in range(3):
        one = asked('--from', str(int(ends[i] * 1000 + 2) / 1000), '--to', str(int(ends[i + 1] * 1000 - 1) / 1000))
        check(one == {flow_text(flow_of(i)): 100 + i, flow_text(flow_of(9)): 1000}, f'epoch {i} at {ends}: {one}', net.t)
    check(asked('--from', '15m') == whole and not asked('--to', '2001-01-01T00:00:00Z'), 'relative times')
    net.end()


@case
def names_stand_for_numbers():
    net = Net('names', 'ipfix')
    net.send('ipfix', '127.0.0.1', ipfix([(flow_of(1), 1, 2, 64500, 64501, 700)]))
    with open(f'{D}/hosts', 'w') as f:
        f.write('# documentation\n192.0.2.2 alice.example alice\n198.51.100.7\tbob.example\n')
        f.write(f'#{" " * 2000}192.0.2.2 commented.example\n')
    with open(f'{D}/namesfile', 'w') as f:
        f.write('device 127.0.0.1 leaf1\ninterface 127.0.0.1 1 eth1/1\nas 64500 EXAMPLE\n')
    names = ('--hosts', f'{D}/hosts', '--names', f'{D}/namesfile')
    text = wait_until(lambda: net.query('paths', '--through', 'leaf1/eth1/1', *names, code=None), 'nothing', net.t)
    check(text == 'alice.example:1025 > bob.example:https tcp path unknown; at leaf1[eth1/1>2] 700 bytes\n', text)
    check(':443 tcp' in net.query('paths', '--numeric'), 'numeric')
    check('EXAMPLE' in net.query('top', '--by', 'as', *names), 'as')
    with open(f'{D}/wrong', 'w') as f:
        f.write('device leaf\n')
    net.query('paths', '--names', f'{D}/wrong', code=1)
    net.query('paths', '--reason', '1', code=2)
    net.query('paths', '--from', 'yesterday', code=2)
    net.end()


class StandIn(http.server.ThreadingHTTPServer):
    """Stands in for a collector with these stores. answer(QUESTION, PARAMETERS) makes all other answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            at = urllib.parse.urlsplit(self.path)
            what, words = at.path.removeprefix('/api/v1/dta'), dict(urllib.parse.parse_qsl(at.query))
            body = json.dumps(self.server.answer(what, words) if what else {'stores': self.server.stores, 'replicas': 1})
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    def __init__(self, answer, *stores):
        super().__init__(('127.0.0.1', 0), self.Handler)
        self.answer, self.at = answer, f'127.0.0.1:{self.server_port}'
        self.stores = [{'name': name, 'kind': kind, 'tenant': 0, 'number': 1} for name, kind in stores]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


def first_of(rows):
    def answer(_, words):
        most = int(words.get('max', 100))
        return {'rows': rows[:most], 'more': max(len(rows) - most, 0)}
    return answer


@case
def rows_are_added_up_over_all_collectors():
    """Also a row that is not among the first 100 of any collector, and if a collector is absent. The number of omitted rows is
    reported."""
    def row(address, n):
        return {'address': address, 'bytes': n, 'from': 1, 'to': 2}
    both = [StandIn(first_of([*(row(f'10.{k}.0.{i}', 100) for i in range(100)), row('192.0.2.1', 60)])) for k in range(2)]
    for absent, code in ((), 0), (('-c', '127.0.0.1:1'), 1):
        p = subprocess.run([SIDELIGHT, 'query', 'top', '--json', *absent, '-c', both[0].at, '-c', both[1].at], capture_output=True,
                           text=True, timeout=300)
        rows = [json.loads(line) for line in p.stdout.splitlines()]
        check(p.returncode == code and len(rows) == 100 and rows[0] == row('192.0.2.1', 120), p)
        check('101 more: use --max' in p.stderr and all(a in p.stderr for a in absent[1:]), p)
    for server in both:
        server.end()


@case
def an_absent_collector_is_reported_once():
    """The absent collector is asked once, not again for the names of interfaces, which the other one has."""
    def answer(what, _):
        row = {'device': '192.0.2.1', 'interface': 3, 'bytes': 7, 'from': 1, 'to': 2}
        return {'rows': [row]} if what == '/top' else {'result': 'found', 'fields': {'name': 'uplink'}}
    server = StandIn(answer, ('interface_names', 'key-write'))
    for words, said in ((('top', '--by', 'interface'), '192.0.2.1[uplink]'), (('status',), 'store interface_names'),
                        (('reporters',), 'reporter')):
        p = subprocess.run([SIDELIGHT, 'query', *words, '-c', '127.0.0.1:1', '-c', server.at], capture_output=True, text=True,
                           timeout=300)
        check(p.returncode == 1 and said in p.stdout and p.stderr.count('127.0.0.1:1: ') == 1, words, p)
    server.end()


@case
def all_lanes_of_all_collectors_are_followed():
    def answer(_, words):
        """Each lane is empty at first, then has one item."""
        start, lanes = int(words.get('from', 0)), [int(words['lane'])] if 'lane' in words else range(64)
        return {'kind': 'append', 'result': 'found',
                'rings': [{'lane': n, 'next': min(start + 1, 2), 'items': [f'lane{n}'] if start == 1 else []} for n in lanes]}
    servers = [StandIn(answer, ('list', 'append')) for _ in range(5)]
    reader = Part(SIDELIGHT, 'query', 'append', 'list', '--follow', *(w for s in servers for w in ('-c', s.at)))
    wait_until(lambda: len(reader.out) == 5 * 64, lambda: f'{len(reader.out)} items', reader)
    check(sorted(reader.out) == sorted(5 * [f'lane{n}' for n in range(64)]), reader.out, reader)
    check(reader.stop() == 0, 'the reader failed', reader)
    for server in servers:
        server.end()


@case
def each_exporter_has_an_account():
    net = Net('exporters', 'ipfix', 'int')
    for exporter, lost in (('127.0.0.1', 0), ('127.0.0.3', 5)):
        net.send('ipfix', exporter, ipfix([(flow_of(1), 1, 2, 1, 2, 700)]))
        net.send('ipfix', exporter, ipfix([(flow_of(2), 1, 2, 1, 2, 700)], 1 + lost))
    net.send('ipfix', '127.0.0.4', struct.pack('>HHIII', 10, 24, int(time.time()) - 100, 0, 1) + struct.pack('>HHI', 300, 8, 0))

    def listed():
        return {(e['input'], e['address']): e for e in net.rows('exporters')}
    wait_until(lambda: sum(e['datagrams'] for e in listed().values()) == 5, listed, net.t)
    one, three, four = (listed()['ipfix', f'127.0.0.{n}'] for n in (1, 3, 4))
    check(one['records'] == three['records'] == 2 and one['templates'] == 1 and (one['lost'], three['lost']) == (0, 5), (one, three))
    check(four['no_template'] == 1 and four['records'] == 0, four)
    check(abs(one['clock_offset_seconds']) < 30 < abs(four['clock_offset_seconds']), (one, four))
    check(one['unmapped'] == 0 and one['silent_seconds'] >= 0, one)

    def metrics(*words):
        return [x for x in get(f'{net.c.base}/metrics').splitlines() if all(w in x for w in ('sidelight_dta_exporters{', *words))]
    lost = metrics('count="lost"', 'exporter="127.0.0.3"')
    check([int(x.split()[-1]) for x in lost] == [5], lost)
    for i in range(300):  # more exporters than have a place of their own, which any of them may take
        net.send('ipfix', f'127.1.{i // 100}.{i % 100 + 1}', ipfix([(flow_of(i), 1, 2, 1, 2, 7)]))
    wait_until(lambda: sum(e['datagrams'] for e in listed().values()) == 305, 'not all arrived', net.t)
    found = metrics('count="datagrams"')
    check(len(found) <= 257 and any('exporter="other"' in x for x in found), f'{len(found)} exporters')
    check(sum(int(x.split()[-1]) for x in found) == 305, f'{found[:5]}')
    check('127.0.0.3' in net.query('exporters'), 'no text')
    net.end()


@case
def an_export_has_the_fields_of_its_layout():
    net = Net('export', 'sflow')
    net.send('sflow', '127.0.0.1', sflow_counters(4, 1000))
    wait_until(lambda: '203.0.113.9' in net.query('--all', 'interfaces', code=None), lambda: net.query('--all', 'interfaces'), net.t)
    head, line = net.query('--all', 'interfaces').splitlines()
    row = dict(zip(head.split(','), line.split(',')))
    truth = {'exporter': '203.0.113.9', 'interface': '4', 'in-bytes': '1000', 'in-packets': '2', 'in-drops': '3', 'in-errors': '4',
             'out-bytes': '1001', 'out-packets': '5', 'out-drops': '6', 'out-errors': '7'}
    key = (socket.inet_aton('203.0.113.9') + struct.pack('>I', 4)).hex()
    one = net.query('keywrite', 'interfaces', key)
    check(f'{key} = in-bytes 1000 in-packets 2 in-drops 3 ' in one, one)
    check({k: row.get(k) for k in truth} == truth and 'key' not in row and 'value' not in row, row)
    net.end()


@case
def interfaces_have_the_names_of_their_devices():
    net = Net('interfaces', 'ipfix')
    # One of the names is no text.
    net.send('ipfix', '127.0.0.2', ipfix_names({1: b'Gi0/0/1', 2: b'\xff\x1b[31m'}))
    net.send('ipfix', '127.0.0.2', ipfix([(flow_of(1), 1, 2, 1, 2, 700), (flow_of(2), 3, 1, 1, 2, 700)]))
    key = (socket.inet_aton('127.0.0.2') + struct.pack('>I', 1)).hex()
    wait_until(lambda: 'name Gi0/0/1' in net.query('keywrite', 'interface_names', key, code=None) and
               len(net.rows('paths', '--through', '127.0.0.2', code=None)) == 2, 'not all arrived', net.t)
    text = net.query('paths', '--through', '127.0.0.2')
    check('127.0.0.2[Gi0/0/1>?]' in text and '127.0.0.2[3>Gi0/0/1]' in text, text)
    check('Gi0/0/1' in net.query('top', '--by', 'interface'), net.query('top', '--by', 'interface'))
    with open(f'{D}/names', 'w') as f:
        f.write('interface 127.0.0.2 1 uplink\n')
    text = net.query('paths', '--through', '127.0.0.2', '--names', f'{D}/names')
    check('127.0.0.2[uplink>?]' in text and 'Gi0' not in text, text)
    net.end()


@case
def the_questions_of_the_document_are_answered():
    """A newcomer's commands, as docs/dta.md has them."""
    with open(f'{ROOT}/docs/dta.md') as f:
        part = f.read().split('## Which flows crossed this switch')[1].split('\n## ')[0]
    commands = [line.split()[2:] for line in part.splitlines() if line.startswith('    sidelight query')]
    check(len(commands) >= 5, commands)
    net = Net('document', 'int', 'ipfix')
    net.send('int', '127.0.0.1', int_report(9, 0, int_path([3, 7, 9], flow_of(1)), 0b0010))
    net.send('int', '127.0.0.1', int_drop(7, 0, flow_of(2), 1, 2, 80))
    net.send('ipfix', '127.0.0.2', ipfix([(flow_of(1), 1, 2, 1, 2, 700)]))
    wait_until(lambda: net.rows('drops', code=None) and net.rows('paths', '--through', '7', code=None) and
               len(net.rows('exporters')) == 2 and net.rows('top', code=None), 'not all arrived', net.t)
    for words in commands:
        text = net.query(*words)
        check('192.0.2.' in text or 'https/tcp' in text or '127.0.0.2' in text, f'{words}: {text}')
    net.end()


run_cases()
