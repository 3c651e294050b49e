# SPDX-License-Identifier: Apache-2.0
"""The responder's end of RoCEv2 queue pairs, on a packet socket: written from IBTA's specification (volume 1, chapter 9,
and annex A17), with its iCRC from zlib. It takes WRITEs of one packet and FETCH_ADDs into memory, checks every byte around
them, and answers as soft-RoCE does. It may lose frames, answers, and more."""
import socket
import struct
import threading
import zlib

WRITE, WRITE_IMMEDIATE, ACK, ATOMIC_ACK, FETCH_ADD = 0x0a, 0x0b, 0x11, 0x12, 0x14
PORT, HALF, ALL = 4791, 1 << 23, (1 << 24) - 1


def checksum(data):
    total = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def icrc(frame):
    """Of a frame by IPv4, without its last four bytes: fields that routers change count as ones (A17.3.4)."""
    f = bytearray(frame[14:])
    f[1] = f[8] = 0xff                             # type of service, time to live
    f[10:12] = f[26:28] = b'\xff\xff'              # checksums
    f[32] = 0xff                                   # the BTH's reserved byte
    return zlib.crc32(b'\xff' * 8 + bytes(f)).to_bytes(4, 'little')


class QueuePair:
    def __init__(self, number, peer):
        self.number, self.peer = number, peer        # peer: its "queue" message
        self.expected = peer['psn']
        self.nak_sent = False
        self.taken = []                              # (opcode, address, data or addend)
        self.replies = {}                            # PSN of a FETCH_ADD: the old value


class Responder:
    def __init__(self, packet_socket, mac, ip, memory, atomics=16):
        """memory: {rkey: (address, buffer)}."""
        self.s, self.mac, self.ip, self.memory, self.atomics = packet_socket, mac, ip, memory, atomics
        self.pairs, self.wrong = {}, []
        self.lose = self.lose_answer = lambda: False
        self.frames = 0
        self.s.settimeout(0.1)
        self.closing = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        self.closing = True
        self.thread.join()
        self.s.close()

    def queue(self, peer):
        """Our end, for the "queue" message of a translator."""
        pair = QueuePair(0x100 + len(self.pairs), peer)
        self.pairs[pair.number] = pair
        return {'type': 'queue', 'qpn': pair.number, 'psn': 1, 'gid': '00' * 10 + 'ffff' + socket.inet_aton(self.ip).hex(),
                'mac': self.mac.hex(), 'mtu': 1024, 'atomics': self.atomics}

    def _run(self):
        while not self.closing:
            try:
                frame = self.s.recv(4096)
            except TimeoutError:
                continue
            if frame[12:14] == b'\x08\0' and frame[23] == 17 and frame[36:38] == PORT.to_bytes(2, 'big'):
                self.frames += 1
                if not self.lose():
                    try:
                        self._take(frame)
                    except (AssertionError, KeyError, IndexError, struct.error) as e:
                        self.wrong.append((repr(e), frame.hex()))

    def _take(self, f):
        total, udp_bytes = struct.unpack('>H', f[16:18])[0], struct.unpack('>H', f[38:40])[0]
        assert f[:6] == self.mac and f[14] == 0x45 and checksum(f[14:34]) == 0, 'Ethernet, IP'
        assert total == len(f) - 14 and udp_bytes == total - 20, f'lengths {total} {udp_bytes} {len(f)}'
        assert f[30:34] == socket.inet_aton(self.ip), 'target'
        assert f[-4:] == icrc(f[:-4]), 'iCRC'
        opcode, flags, pkey, qpn, psn = struct.unpack('>BBHII', f[42:54])
        q, asked, psn = self.pairs[qpn & ALL], psn >> 31, psn & ALL
        assert f[26:30] == bytes.fromhex(q.peer['gid'])[12:] and f[6:12] == bytes.fromhex(q.peer['mac']), 'source'
        assert flags & 0x3f == 0 and pkey == 0xffff, 'BTH'
        behind = (q.expected - psn) & ALL
        if 0 < behind < HALF:
            if opcode == FETCH_ADD:
                self._answer(q, psn, q.replies[psn])
            else:
                self._answer(q, (q.expected - 1) & ALL)
            return
        if behind:
            if not q.nak_sent:
                self._answer(q, q.expected, syndrome=0x60)
            q.nak_sent = True
            return
        q.expected, q.nak_sent = (psn + 1) & ALL, False
        address, rkey = struct.unpack('>QI', f[54:66])
        if opcode == FETCH_ADD:
            addend, compare = struct.unpack('>QQ', f[66:82])
            assert len(f) == 86 and compare == 0 and address % 8 == 0, 'FETCH_ADD'
            at, memory = self._at(rkey, address, 8)
            old = int.from_bytes(memory[at:at + 8], 'little')
            memory[at:at + 8] = (old + addend & 2**64 - 1).to_bytes(8, 'little')
            q.replies[psn] = old
            q.taken.append((opcode, address, addend))
            self._answer(q, psn, old)
            return
        assert opcode == WRITE, f'opcode {opcode:#x}'
        length = struct.unpack('>I', f[66:70])[0]
        data = f[70:-4]
        assert len(data) == length, f'{len(data)} of {length} bytes'
        at, memory = self._at(rkey, address, length)
        memory[at:at + length] = data
        q.taken.append((opcode, address, data))
        if asked:
            self._answer(q, psn)

    def _at(self, rkey, address, length):
        base, memory = self.memory[rkey]
        assert base <= address <= base + len(memory) - length, 'address'
        return address - base, memory

    def _answer(self, q, psn, original=None, syndrome=0x1f):
        if self.lose_answer():
            return
        body = struct.pack('>BBHII', ATOMIC_ACK if original is not None else ACK, 0x40, 0xffff, q.peer['qpn'], psn)
        body += struct.pack('>I', syndrome << 24 | 1)
        if original is not None:
            body += struct.pack('>Q', original)
        udp = struct.pack('>HHHH', 0xc000, PORT, 8 + len(body) + 4, 0) + body
        ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(udp) + 4, 0, 0x4000, 64, 17, 0) + socket.inet_aton(self.ip) + \
            bytes.fromhex(q.peer['gid'])[12:]
        ip = ip[:10] + checksum(ip).to_bytes(2, 'big') + ip[12:]
        frame = bytes.fromhex(q.peer['mac']) + self.mac + b'\x08\0' + ip + udp
        self.s.send(frame + icrc(frame))
