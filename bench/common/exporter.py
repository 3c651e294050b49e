# SPDX-License-Identifier: Apache-2.0
"""node_exporter, a peer, and what a scrape of it costs this host."""
import socket
import time

from common.bench import Part, get, poll

SCRAPES = 30


def cpu_ns(pid):
    """CPU time of a process: its clock, of which clock_getcpuclockid(3) makes the number."""
    return time.clock_gettime_ns(~pid << 3 | 2)


class Peer:
    def __init__(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.address = f'127.0.0.1:{s.getsockname()[1]}'
        # What it says of itself is not what is compared.
        self.p = Part('prometheus-node-exporter', f'--web.listen-address={self.address}', '--web.disable-exporter-metrics')
        poll(self.answers, 20)

    def answers(self):
        try:
            return get(self.address, '/metrics')
        except OSError:
            return None

    def scrapes(self):
        """Nanoseconds per scrape."""
        start = cpu_ns(self.p.pid)
        for _ in range(SCRAPES):
            get(self.address, '/metrics')
            time.sleep(0.02)
        return (cpu_ns(self.p.pid) - start) / SCRAPES
