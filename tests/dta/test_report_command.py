#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'sidelight report': arguments and lines become exactly the packet they describe; misuse gets a clear error."""
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from support.process import poll

SIDELIGHT = sys.argv.pop(1)


class Report(unittest.TestCase):
    def setUp(self):
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.udp.close)
        self.udp.bind(('127.0.0.1', 0))
        self.udp.settimeout(60)
        self.target = '127.0.0.1:%d' % self.udp.getsockname()[1]

    def run_report(self, *args, lines=None, code=0):
        p = subprocess.run([SIDELIGHT, 'report', '--target', self.target, *args], input=lines,
                           stdin=None if lines is not None else subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=300)
        self.assertEqual(p.returncode, code, p.stderr)
        return p

    def items(self):
        """Returns the next packet: the content of its header, and (opcode, copies, store, key, value) of each report."""
        p = self.udp.recv(65536)
        magic, version, flags, blocks, tenant, length, reporter, sequence, _, _, reports = \
            struct.unpack('>BBBBHHIIQII', p[:32])
        self.assertEqual((magic, version, length), (0xd7, 2, len(p) - (24 if flags & 1 else 0)))
        at, out = 32, []
        for _ in range(blocks):
            opcode, _, count, copies, k, v, store, _ = struct.unpack('>BBHBBHHH', p[at:at + 12])
            at += 12
            for _ in range(count):
                out.append((opcode, copies, store, p[at:at + k], p[at + k:at + k + v]))
                at += k + v
        self.assertEqual((at, len(out)), (length, reports))
        return {'flags': flags, 'tenant': tenant, 'reporter': reporter, 'sequence': sequence}, out

    def test_a_report_of_arguments(self):
        p = self.run_report('--store', '3', '--copies', '2', '--tenant', '9', '--reporter', '5', '--json',
                            'keywrite', 'flow:10.0.0.1:1234,10.0.0.2:80,tcp', 'u64:258')
        head, items = self.items()
        self.assertEqual(head, {'flags': 0, 'tenant': 9, 'reporter': 5, 'sequence': 0})
        self.assertEqual(items, [(1, 2, 3, bytes([10, 0, 0, 1, 10, 0, 0, 2, 4, 210, 0, 80, 6]),
                                  bytes([0, 0, 0, 0, 0, 0, 1, 2]))])
        told = json.loads(p.stdout)
        self.assertEqual((told['reports'], told['sent'], told['packets'], told['reporter']), (1, 1, 1, 5))

    def test_lines_of_input(self):
        p = self.run_report('--json', lines=(
            '# a comment\n\n'
            'keywrite store=1 copies=4 text:key1 0x01020304\n'
            'append store=2 7 text:item\n'
            'increment u32:5\n'
            'postcard deadBEEF 1 3 77\n'
            'sketch store=4 1 2 3 5 -6\n'
            'registers store=5 1 0 0001ff\n'
            'sketch-end store=4 1\n'
            'keywrite flow:[2001:db8::1]:1,[2001:db8::2]:2,17 text:last'))
        _, items = self.items()
        self.assertEqual(items[:7], [
            (1, 4, 1, b'key1', b'\1\2\3\4'),
            (2, 0, 2, b'\0\0\0\7', b'item'),
            (3, 1, 0, b'\0\0\0\5', b'\0\0\0\0\0\0\0\1'),
            (4, 1, 0, b'\xde\xad\xbe\xef', b'\1\3\0\0\0\0\0M'),
            (5, 0, 4, struct.pack('>III', 1, 2, 3), struct.pack('>Qq', 5, -6)),
            (5, 0, 5, struct.pack('>III', 1, 0, 0), b'\0\1\xff'),
            (6, 0, 4, b'\0\0\0\1', b'\0\0\0\1')])
        self.assertEqual(len(items[7][3]), 37)
        self.assertEqual(json.loads(p.stdout)['sent'], 8)

    def test_a_wrong_line_is_named_and_the_others_go(self):
        wrong = ['keywrit a b', 'keywrite text:key1', 'keywrite abc text:value', 'append x text:item',
                 'keywrite text:key 0x01020304', 'keywrite store=70000 text:key1 text:value',
                 'append copies=9 1 text:item', 'postcard text:key1 3 3 1', 'sketch 1 2 3',
                 'keywrite flow:10.0.0.1:1,[::1]:2,tcp text:value', 'append 1 text:' + 257 * 'x',
                 'sketch-end now', 'append 1 text:a\0b', 'keywrite ' + 70000 * 'a' + ' text:long']
        p = self.run_report('--json', lines='append 1 text:first\n' + '\n'.join(wrong) +
                            '\nappend 1 text:after\n', code=1)
        told = p.stderr.splitlines()
        self.assertEqual([int(t.split()[3].rstrip(':')) for t in told], list(range(2, 2 + len(wrong))), told)
        self.assertEqual(json.loads(p.stdout)['wrong_lines'], len(wrong))
        self.assertEqual(json.loads(p.stdout)['sent'], 2)
        self.run_report('append', 'x', 'text:item', code=2)
        self.run_report('--copies', '9', 'append', '1', 'text:item', code=2)
        self.run_report('--legacy', 'c', 'append', '1', 'text:item', code=2)
        self.run_report('--legacy', 'b', '--essential', 'append', '1', 'text:item', code=2)

    def test_an_authenticated_report_without_acknowledgement_fails(self):
        with tempfile.NamedTemporaryFile('w') as key:
            key.write(32 * '0')
            key.flush()
            p = self.run_report('--key-file', key.name, '--essential', '--timeout', '1ms', 'append', '1',
                                'text:item', code=1)
            self.assertIn('not all reports were acknowledged', p.stderr)
            head, _ = self.items()
            self.assertEqual(head['flags'], 5)  # a MAC, and an answer wanted
            key.write('0')
            key.flush()
            p = self.run_report('--key-file', key.name, 'append', '1', 'text:item', code=1)
            self.assertIn('32 hexadecimal digits', p.stderr)

    def test_what_is_not_acknowledged_stays_in_the_file(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ring = ('--essential', '--json', '--backup-file', folder.name + '/ring', '--backup-packets', '4')

        def heard():
            """Flags, reporter and items of each packet that has come."""
            self.udp.settimeout(.1)
            try:
                while True:
                    head, items = self.items()
                    yield head['flags'], head['reporter'], items
            except TimeoutError:
                self.udp.settimeout(60)
        item = (2, 0, 0, b'\0\0\0\1', b'\0\0\0\0\0\0\0\7')
        p = self.run_report(*ring, '--timeout', '50ms', '--reporter', '5', 'append', '1', 'u64:7', code=1)
        self.assertEqual(p.stderr.count('\n'), 1)
        self.assertIn('kept in the file', p.stderr)
        self.assertIn((4, 5, [item]), heard())
        p = self.run_report(*ring, '--timeout', '50ms', lines='', code=1)
        self.assertEqual({(flags, reporter) for flags, reporter, items in heard() if items}, {(6, 5)})
        self.assertEqual([json.loads(p.stdout)[k] for k in ('restored', 'waiting', 'sent')], [1, 1, 0])

        def acknowledge():
            packet, at = self.udp.recvfrom(65536)
            while not packet[3]:
                packet, at = self.udp.recvfrom(65536)
            self.udp.sendto(struct.pack('>BBBBIIIII', 0xd7, 2, 1, 0, *struct.unpack('>I12xI', packet[8:28]), 1, 0xffffffff, 0), at)
        answer = threading.Thread(target=acknowledge)
        answer.start()
        p = self.run_report(*ring, '--timeout', '60s', lines='')
        answer.join()
        self.assertEqual([json.loads(p.stdout)[k] for k in ('restored', 'waiting', 'settled')], [1, 0, 1])
        p = self.run_report(*ring, lines='')
        self.assertEqual(json.loads(p.stdout)['restored'], 0)
        for args, said in ((('--reporter', '6'), 'another reporter'), (('--packet', '500'), 'another size')):
            p = self.run_report(*ring, *args, lines='', code=1)
            self.assertEqual(p.stderr.count('\n'), 1)
            self.assertIn(said, p.stderr)

    def test_essential_reports_without_room_are_a_failure(self):
        over = threading.Event()

        def acknowledge():
            self.udp.settimeout(.1)
            while not over.is_set():
                try:
                    packet, at = self.udp.recvfrom(65536)
                except TimeoutError:
                    continue
                reporter, sequence, incarnation, reports = struct.unpack('>II8xII', packet[8:32])
                self.udp.sendto(struct.pack('>BBBBIIIII', 0xd7, 2, 1, 0, reporter, incarnation, sequence + reports, 0xffffffff,
                                            0), at)
        answer = threading.Thread(target=acknowledge)
        answer.start()
        some = ('--essential', '--json', '--packet', '128', '--timeout', '60s')
        lines = ''.join(f'append 1 u64:{i}\n' for i in range(20000))
        p = self.run_report(*some, '--backup-packets', '1', lines=lines, code=1)
        said = json.loads(p.stdout)
        self.assertEqual((said['sent'] + said['dropped_ring'], said['waiting']), (20000, 0))
        self.assertIn('because the buffer was full', p.stderr)
        p = self.run_report(*some, '--wait', '60s', lines=lines)
        over.set()
        answer.join()
        self.assertEqual(json.loads(p.stdout)['dropped_ring'], 0)

    def test_a_signal_ends_the_wait_for_acknowledgements(self):
        """No acknowledgement arrives. If the input has not ended, a first signal ends it."""
        for ended in False, True:
            self.setUp()
            p = subprocess.Popen([SIDELIGHT, 'report', '--target', self.target, '--essential', '--timeout', '1h', '--json'],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(p.kill)
            p.stdin.write('increment text:last\n')
            if ended:
                p.stdin.close()
            else:
                p.stdin.flush()
            self.items()
            self.assertTrue(poll(lambda: p.send_signal(signal.SIGTERM) or p.poll() is not None, 60), 'it is deaf')
            self.assertEqual((p.returncode, json.loads(p.stdout.read())['waiting']), (1, 1))
            self.assertIn('not all reports were acknowledged', p.stderr.read())

    def test_a_signal_ends_the_wait_for_room(self):
        """The second packet finds no room, because the first one is never acknowledged."""
        p = subprocess.Popen([SIDELIGHT, 'report', '--target', self.target, '--essential', '--backup-packets', '1', '--single',
                              '--wait', '1h', '--timeout', '1h', '--json'],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        p.stdin.write(''.join(f'append 1 u64:{i}\n' for i in range(3)))
        p.stdin.close()
        self.items()
        self.assertTrue(poll(lambda: p.send_signal(signal.SIGTERM) or p.poll() is not None, 60), 'it is deaf')
        said = json.loads(p.stdout.read())
        self.assertEqual((p.returncode, said['reports'], said['sent'], said['waiting']), (1, 3, 1, 1))
        self.assertEqual(said['packed'] + said['dropped_ring'], 2)

    def test_the_originals_forms(self):
        self.run_report('--legacy', 'a', 'keywrite', 'text:key1', 'text:data')
        self.assertEqual(self.udp.recv(100), b'\1\0\1key1data')
        self.run_report('--legacy', 'b', lines='keywrite text:key1 text:data\nappend 5 text:item\n')
        self.assertEqual(self.udp.recv(100), b'\1\0\0\1key1data')
        self.assertEqual(self.udp.recv(100), b'\2\1\0\0\0\0\5item')


if __name__ == '__main__':
    unittest.main(verbosity=2)
