#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_kafka.py SIDELIGHT POD KAFKA - incidents, traces and items of lists as messages at librdkafka's mock cluster, which
speaks the protocol over loopback but keeps no data; no broker is packaged by Debian 12."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import unittest

from support.analysis import System
from support.front import helper
from support.process import Part, run, skip, wait_until, workdir
from support.sidelight import Agent, Collector, Pod

EXE, POD, KAFKA = sys.argv[1:4]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STORES = '''
listen: {folder}/dta.sock
directory: {folder}
tenants:
  - {{number: 0, name: default}}
stores:
  - {{name: events, number: 2, kind: append, lists: 2, items: 4096, value: 8, batch: 1, lanes: 1}}
'''


class Broker(Pod):
    def __init__(self, *topics):
        super().__init__(KAFKA, *topics)
        self.bootstrap = self.ready()['bootstrap']

    def tell(self, word):
        self.p.stdin.write(word + '\n')
        self.p.stdin.flush()

    def __exit__(self, *_):
        self.close()
        self.wait()

    def messages(self, topic):
        return [m for m in (json.loads(line) for line in list(self.out) if line.startswith('{')) if m['topic'] == topic]


def config(bootstrap, *lines):
    path = os.path.join(workdir(), 'kafka.properties')
    with open(path, 'w') as f:
        f.write('\n'.join(['# of a test', f'bootstrap.servers = {bootstrap}', *lines, '']))
    return path


class Kafka(unittest.TestCase):
    def stats(self, get, kind):
        found = {}
        for name in ('delivered_total', 'dropped_total', 'waiting'):
            found[name] = sum(v for k, v in get(f'sidelight_kafka_{name}').items() if f'kind="{kind}"' in k)
        return found

    def test_incidents_and_traces_arrive_by_their_keys(self):
        with Broker('sidelight-incidents', 'kept') as broker, System(POD) as s:
            s.collect('--kafka-config', config(broker.bootstrap, 'sidelight.topic.traces=kept'))
            s.learned()
            a = s.fault(1)
            got = wait_until(lambda: [m for m in broker.messages('sidelight-incidents')
                                      if a['instance'] in [x['instance_id'] for x in m['value']['members']]][:1],
                             'its incident', s.collector)
            self.assertEqual(got[0]['key'], got[0]['value']['id'])
            self.assertEqual(got[0]['value']['alerts'][0]['labels']['incident'], got[0]['key'])
            trace = wait_until(lambda: broker.messages('kept'), 'a trace', s.collector)[0]
            self.assertEqual(trace['key'], trace['value']['trace_id'])
            self.assertTrue(trace['value']['spans'])
            wait_until(lambda: self.stats(s.collector.find, 'traces')['delivered_total'] >= 1, 'reports of delivery')

    def test_items_of_lists_go_on_where_they_were(self):
        folder = workdir()
        stores, offsets = f'{folder}/stores.yaml', f'{folder}/offsets'
        with open(stores, 'w') as f:
            f.write(STORES.format(folder=folder))
        victim = f'{folder}/victim'
        open(victim, 'w').close()
        os.symlink(victim, f'{offsets}.new')
        with Broker('sidelight-reports') as broker:
            def collector():
                return Collector([], '--dta', stores, '--kafka-offsets', offsets,
                                 '--kafka-config', config(broker.bootstrap, 'message.timeout.ms=2000'))

            def values(n):
                def heard():
                    got = [m['value'] for m in broker.messages('sidelight-reports')]
                    return {v['value'] for v in got} >= {i.to_bytes(8, 'big').hex() for i in range(n)} and got
                return wait_until(heard, lambda: broker.messages('sidelight-reports')[-3:], c, broker)

            c = collector()
            with Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--listen', '127.0.0.1:0') as t:
                at = t.ready()['listen']

                def report(begin, end):
                    for i in range(begin, end):
                        run(EXE, 'report', '--target', at, '--store', '2', '--essential', 'append', '1', f'u64:{i}')
                report(0, 5)
                self.assertEqual(len(values(5)), 5)
                wait_until(lambda: os.path.exists(offsets) and json.load(open(offsets)).get('events/1/0') == 5, 'its place')
                self.assertEqual((os.stat(offsets).st_mode & 0o777, os.path.getsize(victim)), (0o600, 0))
                c.kill()
                c = collector()
                report(5, 8)
                got = values(8)
                self.assertEqual([v['value'] for v in got], [i.to_bytes(8, 'big').hex() for i in range(8)])
                self.assertEqual([v['block'] for v in got], list(range(8)))
                broker.tell('down')
                report(8, 10)
                wait_until(lambda: 'not delivered' in c.logged(), 'a failure', c)
                broker.tell('up')
                self.assertEqual(len({v['block'] for v in values(10)}), 10)

                # Messages that Kafka has not acknowledged are lost with a killed helper: they count, and are produced again.
                def counts():
                    return self.stats(c.find, 'reports')
                wait_until(lambda: not counts()['waiting'], 'all have an outcome', c)
                before = counts()
                broker.tell('down')
                report(10, 12)
                wait_until(lambda: counts()['waiting'], 'messages on their way', c)
                os.kill(helper(c, 'sidelight-kafka'), signal.SIGKILL)
                wait_until(lambda: counts()['dropped_total'] > before['dropped_total'], 'they are counted', c)
                broker.tell('up')
                self.assertEqual(len({v['block'] for v in values(12)}), 12)

                # A new size takes effect in a new object, whose blocks start at 0.
                def store():
                    return c.api('dta')['stores'][0]

                def resize(slots, objects):
                    with open(stores, 'w') as f:
                        f.write(STORES.format(folder=folder).replace('4096', slots))
                    os.kill(c.pid, signal.SIGHUP)
                    wait_until(lambda: len((s := store())['objects']) == objects and not s['not_rotated'], store, c)
                resize('8192', 2)
                report(12, 14)
                values(14)

                # Items that were not sent before a resize and a restart are sent after it.
                broker.tell('down')
                report(14, 16)
                resize('16384', 3)
                report(16, 18)
                c.kill()
                broker.tell('up')
                c = collector()
                got = {(v['epoch'], v['block'], v['index'], v['value']) for v in values(18)}
                self.assertEqual(len(got), 18)
                self.assertEqual(len({place[:3] for place in got}), 18)
            self.assertEqual(c.stop(), 0)

    def test_a_producer_that_was_refused_is_replaced(self):
        """An idempotent producer that lacked a permission has failed for good, even if it gets the permission later."""
        folder = workdir()
        stores = f'{folder}/stores.yaml'
        with open(stores, 'w') as f:
            f.write(STORES.format(folder=folder))
        with Broker('sidelight-reports') as broker:
            broker.tell('refuse')
            wait_until(lambda: 'refuses' in broker.out, 'a broker that refuses', broker)
            c = Collector([], '--dta', stores, '--kafka-config', config(broker.bootstrap))
            with Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--listen', '127.0.0.1:0') as t:
                run(EXE, 'report', '--target', t.ready()['listen'], '--store', '2', '--essential', 'append', '1', 'u64:7')
                wait_until(lambda: broker.messages('sidelight-reports'), 'the item', c, broker)
            self.assertGreater(c.total('sidelight_helper_restarts_total', 'helper="kafka"'), 0)
            self.assertEqual(c.stop(), 0)

    def test_flows_have_the_schema_of_goflow2_and_of_ipfix(self):
        """One flow of IPv4 and one of IPv6, as protoc, json and nfdump read them."""
        folder, examples = workdir(), os.path.join(ROOT, 'examples/dta')
        stores, schema = f'{folder}/flows.yaml', os.path.join(ROOT, 'tests/support')
        with open(f'{examples}/flows.yaml') as f, open(stores, 'w') as to:
            to.write(f.read().replace('/tmp/sidelight-dta', folder))
        fields = ((4, 1), (6, 1), (7, 2), (11, 2), (10, 4), (14, 4), (16, 4), (17, 4), (2, 8), (1, 8), (152, 8), (153, 8))
        values = 6, 0x1b, 50000, 443, 3, 4, 64500, 64501, 7, 4200, 1700000000123, 1700000001456

        def template(number, source, destination, size):
            all_fields = (source, size), (destination, size), *fields
            body = struct.pack('>HH', number, len(all_fields)) + b''.join(struct.pack('>HH', *f) for f in all_fields)
            return struct.pack('>HH', 2, 4 + len(body)) + body

        def data(number, source, destination, family):
            body = socket.inet_pton(family, source) + socket.inet_pton(family, destination) + b''.join(
                v.to_bytes(n, 'big') for v, (_, n) in zip(values, fields))
            return struct.pack('>HH', number, 4 + len(body)) + body
        pairs = ('192.0.2.1', '198.51.100.2', socket.AF_INET), ('2001:db8::1', '2001:db8::2', socket.AF_INET6)
        sets = template(300, 8, 12, 4) + template(301, 27, 28, 16) + data(300, *pairs[0]) + data(301, *pairs[1])
        message = struct.pack('>HHIII', 10, 16 + len(sets), 1700000002, 0, 5) + sets
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
        probe.close()
        os.mkdir(f'{folder}/nf')
        nfcapd = Part('nfcapd', '-w', f'{folder}/nf', '-b', '127.0.0.1', '-p', port, '-t', '3600')
        for form in 'goflow2', 'json', None:  # None: without Kafka
            with Broker('sidelight-flows') as broker:
                kafka = ('--kafka-config', config(broker.bootstrap), '--kafka-flows', form) if form else ()
                c = Collector([], '--dta', stores, '--ipfix', f'127.0.0.1:{port}', *kafka)
                with Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--input', 'ipfix=127.0.0.1:0',
                          '--map', f'{examples}/flows-map.yaml') as t:
                    to = t.ready()['input'].rsplit(':', 1)[1]
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(message, ('127.0.0.1', int(to)))
                    got = form and wait_until(lambda: (m := broker.messages('sidelight-flows'))[1:] and m, 'flows', c, t)
                    wait_until(lambda: sum(c.find('sidelight_ipfix_sent_records_total').values()) == 2, 'IPFIX', c)
                    self.assertEqual(sum(c.find('sidelight_ipfix_lost_records_total').values()), 0)
                self.assertEqual(c.stop(), 0)
            for m, (source, destination, family) in zip(got or (), pairs):
                if form == 'json':
                    v = '4' if family == socket.AF_INET else '6'
                    self.assertEqual(m['value'], {
                        'exporterIPv4Address': '127.0.0.1', f'sourceIPv{v}Address': source, f'destinationIPv{v}Address': destination,
                        'protocolIdentifier': 6, 'tcpControlBits': 27, 'sourceTransportPort': 50000, 'destinationTransportPort': 443,
                        'ipClassOfService': 0, 'ingressInterface': 3, 'egressInterface': 4, 'bgpSourceAsNumber': 64500,
                        'bgpDestinationAsNumber': 64501, 'packetDeltaCount': 7, 'octetDeltaCount': 4200, 'observationDomainId': 5,
                        'flowStartMilliseconds': 1700000000123, 'flowEndMilliseconds': 1700000001456, 'vlanId': 0,
                        f'icmpTypeCodeIPv{v}': 0})
                    continue
                raw = bytes.fromhex(m['value'])
                length = raw[0] & 0x7f | raw[1] << 7 if raw[0] & 0x80 else raw[0]
                body = raw[1 + (raw[0] >> 7):]
                self.assertEqual(len(body), length)
                text = subprocess.run(['protoc', f'-I{schema}', '--decode=flowpb.FlowMessage', f'{schema}/goflow2.proto'],
                                      input=body, capture_output=True, timeout=60).stdout.decode('latin-1')
                said = dict(line.split(': ', 1) for line in text.splitlines())
                self.assertGreater(int(said.pop('time_received_ns')), 1700000002 * 10**9)
                for name, address in (('src_addr', source), ('dst_addr', destination)):
                    octets = said.pop(name)[1:-1].encode('latin-1').decode('unicode_escape').encode('latin-1')
                    self.assertEqual(socket.inet_ntop(family, octets), address)
                self.assertEqual(said.pop('sampler_address'), '"\\177\\000\\000\\001"')
                self.assertEqual({k: int(v) for k, v in said.items()}, {
                    'sampling_rate': 1, 'bytes': 4200, 'packets': 7, 'proto': 6, 'src_port': 50000, 'dst_port': 443, 'in_if': 3,
                    'out_if': 4, 'tcp_flags': 27, 'src_as': 64500, 'dst_as': 64501, 'observation_domain_id': 5,
                    'etype': 0x800 if family == socket.AF_INET else 0x86dd,
                    'time_flow_start_ns': 1700000000123 * 10**6, 'time_flow_end_ns': 1700000001456 * 10**6})
        nfcapd.stop()
        dump = subprocess.run(['nfdump', '-R', f'{folder}/nf', '-q', '-o', 'fmt:%sa %da %sp %dp %pr %byt %pkt %sas %das %in %out'],
                              capture_output=True, text=True, timeout=60).stdout
        rows = sorted(tuple(line.split()) for line in dump.splitlines())
        self.assertEqual(rows, sorted((a, b, '50000', '443', 'TCP', '4200', '7', '64500', '64501', '3', '4')
                                      for a, b, _ in pairs for _ in range(3)), dump)

    def test_a_flow_of_ipv6_has_the_elements_of_ipv6(self):
        """Lengths of prefixes, and type and code of ICMP, have elements of their own."""
        folder = workdir()
        for name in 'flows.yaml', 'flows-map.yaml':
            with open(os.path.join(ROOT, 'examples/dta', name)) as f, open(f'{folder}/{name}', 'w') as to:
                text = f.read().replace('/tmp/sidelight-dta', folder).replace('value: 112', 'value: 114')
                to.write(text.replace('vlan', 'source-prefix, destination-prefix, vlan'))
        fields = ((27, 16), (28, 16), (4, 1), (29, 1), (30, 1), (139, 2), (2, 8), (1, 8))
        template = struct.pack('>HH', 300, len(fields)) + b''.join(struct.pack('>HH', *f) for f in fields)
        values = b''.join(socket.inet_pton(socket.AF_INET6, f'2001:db8::{i}') for i in (1, 2))
        values += struct.pack('>BBBHQQ', 58, 64, 48, 0x8000, 1, 104)
        sets = struct.pack('>HH', 2, 4 + len(template)) + template + struct.pack('>HH', 300, 4 + len(values)) + values
        message = struct.pack('>HHIII', 10, 16 + len(sets), 1700000002, 0, 5) + sets
        peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        peer.bind(('127.0.0.1', 0))
        peer.settimeout(60)
        with Broker('sidelight-flows') as broker, peer:
            c = Collector([], '--dta', f'{folder}/flows.yaml', '--ipfix', f'127.0.0.1:{peer.getsockname()[1]}',
                          '--kafka-config', config(broker.bootstrap), '--kafka-flows', 'json')
            with Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--input', 'ipfix=127.0.0.1:0',
                      '--map', f'{folder}/flows-map.yaml') as t:
                peer.sendto(message, ('127.0.0.1', int(t.ready()['input'].rsplit(':', 1)[1])))
                value = wait_until(lambda: broker.messages('sidelight-flows'), 'the flow', c, t)[0]['value']
                got = peer.recv(2048)
            self.assertEqual(c.stop(), 0)
        self.assertEqual([k for k in value if 'IPv4' in k], ['exporterIPv4Address'])
        self.assertEqual([value[k] for k in ('sourceIPv6PrefixLength', 'destinationIPv6PrefixLength', 'icmpTypeCodeIPv6')],
                         [64, 48, 0x8000])
        elements = {struct.unpack_from('>H', got, 24 + 4 * i)[0] for i in range(struct.unpack_from('>H', got, 22)[0])}
        self.assertEqual(elements & {8, 9, 12, 13, 32, 27, 28, 29, 30, 139}, {27, 28, 29, 30, 139})

    def test_an_unreachable_broker_and_a_full_queue_are_counted(self):
        with System(POD) as s:
            s.collect('--kafka-config', config('127.0.0.1:1', 'queue.buffering.max.messages=1', 'message.timeout.ms=1000'))
            s.learned()
            s.fault(1)

            def lost():
                return sum(self.stats(s.collector.find, k)['dropped_total'] for k in ('incidents', 'traces'))
            wait_until(lambda: lost() >= 2, 'losses are counted', s.collector)
            self.assertGreater(s.collector.total('sidelight_kafka_errors_total'), 0)
            self.assertIn('WARN kafka', s.collector.logged())

    def test_a_bad_file_is_one_clear_line_without_its_values(self):
        secret = os.path.join(workdir(), 'secret')
        with open(secret, 'w') as f:
            f.write('tell-no-one\n')
        os.chmod(secret, 0o600)
        with Agent() as a:
            for line, says in (('acks=1', "acks can only be 'all'"), ('enable.idempotence=false', 'must be true'),
                               ('no.such.property=x', 'no.such.property is unknown'), ('nonsense', 'expected name=value'),
                               (f'no.such.file={secret}', 'no.such is unknown'),
                               ('sasl.password.file=/nonexistent', 'No such file'),
                               ('\n'.join(9 * ['ssl.ca.location=/etc/ssl']), 'more than 8 properties name files')):
                p = run(EXE, 'collect', '--agent', a.socket, '--kafka-config', config('127.0.0.1:1', line), code=1)
                self.assertIn(says, p.stderr)
                self.assertNotIn('tell-no-one', p.stderr)
                self.assertEqual(len(p.stderr.strip().splitlines()), 1, p.stderr)


if __name__ == '__main__':
    if os.environ.get('SL_TEST_TSAN'):
        skip("librdkafka starts threads by C11's thrd_create(), which ThreadSanitizer of clang 14 does not know")
    unittest.main(argv=sys.argv[:1], verbosity=2)
