# SPDX-License-Identifier: Apache-2.0
"""Pairs of interfaces between the test's network namespace and another."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import threading

from support.process import Part, check, wait_until

NEAR, FAR = '10.77.0.1', '10.77.0.2'
NEAR6, FAR6 = 'fd77::1', 'fd77::2'


def ip(*args):
    subprocess.run(['ip', *map(str, args)], check=True)


class Wire:
    """A veth pair; the far end is in a namespace of its own, which goes with a child of ours."""

    def __init__(self):
        self.child = Part('unshare', '-n', 'sleep', '600')
        self.ns = f'/proc/{self.child.pid}/ns/net'
        wait_until(lambda: os.readlink(self.ns) != os.readlink('/proc/self/ns/net'), 'no namespace', self.child)
        self.inside = ('nsenter', f'--net={self.ns}')
        self.macs = self.pair('sl-near', 'sl-far', [(NEAR, 24), (NEAR6, 64)], [(FAR, 24), (FAR6, 64)])

    def pair(self, near, far, near_addresses, far_addresses, queues=2):
        """Adds another pair. Returns the MAC addresses of both ends."""
        queues = ('numrxqueues', queues, 'numtxqueues', queues)
        macs = []
        ip('link', 'add', near, *queues, 'type', 'veth', 'peer', 'name', far, *queues, 'netns', self.child.pid)
        for at, name, addresses in (((), near, near_addresses), (self.inside, far, far_addresses)):
            for address, bits in addresses:
                nodad = ('nodad',) if ':' in address else ()
                subprocess.run([*at, 'ip', 'addr', 'add', f'{address}/{bits}', 'dev', name, *nodad], check=True)
            subprocess.run([*at, 'ip', 'link', 'set', name, 'up'], check=True)
            shown = subprocess.run([*at, 'ip', '-j', 'link', 'show', name], check=True, stdout=subprocess.PIPE).stdout
            macs.append(bytes.fromhex(json.loads(shown)[0]['address'].replace(':', '')))
        return macs

    def socket(self, *args):
        """Returns a socket of the far end. A socket belongs to the namespace in which it was created."""
        made = []

        def make():
            with open(self.ns) as f:
                if not ctypes.CDLL(None).setns(f.fileno(), 0x40000000):
                    made.append(socket.socket(*args))
        t = threading.Thread(target=make)
        t.start()
        t.join()
        check(made, 'no socket in the other namespace')
        return made[0]

    def close(self):
        self.child.stop(signal.SIGKILL)
        wait_until(lambda: 'sl-near' not in os.listdir('/proc/sys/net/ipv4/conf'), 'the pair is gone', seconds=20)
