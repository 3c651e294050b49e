# SPDX-License-Identifier: Apache-2.0
"""A machine made of files, which sys.argv[2], host_at, publishes."""
import os
import re
import sys

from support import published
from support.process import wait_until, workdir
from support.sidelight import Agent, Collector, Pod


def read(text):
    """Like published.read(), with numbers for values."""
    series, types, helps = published.read(text)
    return {k: float(v) for k, v in series.items()}, types, helps


def labelled(collector, name, *labels):
    """Returns {values of the labels: value} of these series. For a single label, the key is no tuple; '' means that the series
    does not have the label."""
    out = {}
    for series, v in collector.find(name).items():
        values = tuple((re.findall(f'[{{,]{label}="(.*?)"', series) or [''])[0] for label in labels)
        out[values if len(labels) > 1 else values[0]] = v
    return out


COUNTERS = '''excessive_buffer_overrun_errors link_downed link_error_recovery local_link_integrity_errors multicast_rcv_packets
multicast_xmit_packets port_rcv_constraint_errors port_rcv_data port_rcv_discards port_rcv_errors port_rcv_packets
port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors port_xmit_data port_xmit_discards
port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets unicast_xmit_packets VL15_dropped'''.split()
OLD_COUNTERS = '''port_multicast_rcv_packets port_multicast_xmit_packets port_rcv_data_64 port_rcv_packets_64 port_unicast_rcv_packets
port_unicast_xmit_packets port_xmit_data_64 port_xmit_packets_64'''.split()


def rdma_files(device, port, rate, state='4: ACTIVE', phys_state='5: LinkUp'):
    """Files of a port and its device. The counters have different values."""
    at = f'/sys/class/infiniband/{device}'
    return {f'{at}/{path}': text + '\n' for path, text in {
        'fw_ver': '16.35.2000', 'board_id': 'MT_0000000080', 'hca_type': 'MT4119',
        **{f'ports/{port}/{path}': text for path, text in {
            'state': state, 'phys_state': phys_state, 'rate': rate, 'link_layer': 'InfiniBand',
            'hw_counters/out_of_sequence': '5', 'hw_counters/lifespan': '12',
            **{f'counters/{n}': str(100 * port + i) for i, n in enumerate(COUNTERS)},
            **{f'counters_ext/{n}': str(200 * port + i) for i, n in enumerate(OLD_COUNTERS)}}.items()}}.items()}


def put_files(root, files):
    """files: {path: content} below the root."""
    for path, content in files.items():
        path = root + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as f:
            f.write(content if isinstance(content, bytes) else content.encode())


class Scene:
    """files: {path: content} below the root."""

    def __init__(self, files, max_cgroups=0):
        self.root = f'{workdir()}/root'
        self.put(files)
        self.agent = Agent()
        self.collector = Collector([self.agent], '--period', '20ms')
        self.pod = Pod(sys.argv[2], self.root, self.agent.socket, str(max_cgroups))
        self.said = None

    def put(self, files):
        put_files(self.root, files)

    def round(self):
        """(errors, refused, left out) of a reading that the collector has seen."""
        *self.said, at = map(float, self.pod.tell('round').split())
        wait_until(lambda: self.collector.total('node_time_seconds') >= at, 'a pass', self.collector, self.pod)
        return tuple(map(int, self.said))

    def series(self, *prefixes):
        """{'name{label="value",...}': value} of names that begin so; labels ascend."""
        out = {}
        for (name, labels), v in read(self.collector.get('/metrics'))[0].items():
            if name.startswith(prefixes):
                out[name + ('{' + ','.join(f'{k}="{v}"' for k, v in labels) + '}' if labels else '')] = v
        return out

    def expect(self, want, *prefixes, of=lambda name: True):
        """Checks that exactly these series with these names exist. The collector notices new and removed ones later than
        values."""
        def differs():
            have = {k: v for k, v in self.series(*prefixes).items() if of(k)}
            return {k: (have.get(k), want.get(k)) for k in have.keys() | want.keys() if have.get(k) != want.get(k)}
        wait_until(lambda: not differs(), differs, self.collector, self.pod)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pod.close()
        self.collector.stop()
        self.agent.stop()
