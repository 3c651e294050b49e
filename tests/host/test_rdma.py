#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--host says of an RDMA device what the kernel says. For a guest (tests/guest/rdma-host.sh). test_rdma.py SIDELIGHT CASE"""
import contextlib
import ctypes
import fcntl
import os
import re
import socket
import struct
import sys

from scene import labelled
from support.process import case, check, output, run, run_cases, wait_until
from support.sidelight import Agent, Collector

DEVICE, ADDRESS, INTERFACE = os.environ['RDMA_DEVICE'], os.environ['ADDRESS'], 'eth0'
PORT = f'/sys/class/infiniband/{DEVICE}/ports/1'


@contextlib.contextmanager
def observed():
    """A collector of an agent that publishes this machine."""
    with Agent('--host', '--host-interval', '50ms') as agent, Collector([agent], '--period', '100ms') as collector:
        wait_until(lambda: collector.find('node_infiniband_info', f'device="{DEVICE}"'), 'the device', collector, agent)
        yield collector


@contextlib.contextmanager
def load(collectors):
    """Collectors of an agent, over RDMA: each has a queue pair, and the agent one for each."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(Agent('--rdma', DEVICE))
        for _ in range(collectors):
            stack.enter_context(Collector([ADDRESS], '--dev', DEVICE, '--period', '100ms'))
        yield


def hw_counters(collector):
    return labelled(collector, 'sidelight_rdma_hw_counter_total', 'counter')


def interface_counters(collector):
    return labelled(collector, 'sidelight_nic_counter_total', 'counter')


def shown(*what):
    """{name: number} that rdma(8) shows, of the form '0: rxe0: pd 1 cq 2' or 'link rxe0/1 sent_pkts 1'."""
    words = output('rdma', *what).split()[2:]
    return {k: int(v) for k, v in zip(words[::2], words[1::2])}


def files():
    out = {}
    for name in set(os.listdir(f'{PORT}/hw_counters')) - {'lifespan'}:
        with open(f'{PORT}/hw_counters/{name}') as f:
            out[name] = int(f.read())
    return out


@case
def counters_move_under_load_and_are_the_kernels():
    with observed() as collector:
        before = files()
        with load(1):
            wait_until(lambda: hw_counters(collector)['sent_pkts'] > before['sent_pkts'] + 50, 'packets', collector)

        def at_rest():
            return hw_counters(collector), files(), shown('statistic', 'show', 'link', f'{DEVICE}/1')
        wait_until(lambda: (now := at_rest())[0] == now[1] == now[2], at_rest, collector)
        check(len(before) > 5, before)


@case
def objects_are_those_that_rdma_shows():
    def objects():
        return labelled(collector, 'sidelight_rdma_resources', 'kind'), shown('resource', 'show', DEVICE)
    with observed() as collector:
        before = objects()[1]
        with load(3):
            wait_until(lambda: (now := objects())[0] == now[1] and now[0]['qp'] == before['qp'] + 6, objects, collector)
            check(objects()[0].keys() >= {'qp', 'mr', 'cq', 'pd', 'cm_id'}, objects)
        wait_until(lambda: objects() == (before, before), objects, collector)


def driver():
    """Returns {name: value}, the driver's counters of its interface, by ioctl (linux/ethtool.h)."""
    def ask(request, room):
        b = ctypes.create_string_buffer(request, len(request) + room)
        fcntl.ioctl(s, 0x8946, struct.pack('16sP', INTERFACE.encode(), ctypes.addressof(b)))
        return b.raw[len(request):]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        n, = struct.unpack('I', ask(struct.pack('IIQ', 0x37, 0, 1 << 1), 4))
        names = ask(struct.pack('III', 0x1b, 1, n), 32 * n)
        values = struct.unpack(f'{n}Q', ask(struct.pack('II', 0x1d, n), 8 * n))
    return {names[32 * i:32 * i + 32].split(b'\0')[0].decode(): v for i, v in enumerate(values)}


@case
def the_interface_counts_what_its_driver_does():
    def drops():
        return {k: v for k, v in driver().items() if 'drop' in k}
    with observed() as collector:
        def interface():
            return interface_counters(collector), drops()
        wait_until(lambda: (now := interface())[0] == now[1], interface, collector)
        check(len(drops()) > 2, driver)
        check(len(driver()) > len(drops()), driver)


@case
def a_port_goes_down_and_its_device_goes_and_comes_back():
    with observed() as collector:
        def link():
            return {n: collector.total(n, f'device="{DEVICE}"') for n in (
                'node_infiniband_state_id', 'node_infiniband_rate_bytes_per_second', 'sidelight_rdma_link_width')}

        def wanted():
            with open(f'{PORT}/state') as state, open(f'{PORT}/rate') as rate:
                number, width = re.fullmatch(r'([0-9.]+) Gb/sec \((\d+)X .*\)\s*', rate.read()).groups()
                return dict(zip(link(), (int(state.read()[0]), float(number) * 125e6, int(width))))
        wait_until(lambda: link() == wanted(), lambda: (link(), wanted()), collector)
        up = link()['node_infiniband_state_id']
        check(collector.find('sidelight_rdma_port_info', f'device="{DEVICE}"', 'port="1"', 'link_layer="Ethernet"',
                             f'interface="{INTERFACE}"'), lambda: collector.find('sidelight_rdma_port_info'))
        run('ip', 'link', 'set', INTERFACE, 'down')
        wait_until(lambda: link() == wanted() and link()['node_infiniband_state_id'] != up, link, collector)
        run('rdma', 'link', 'delete', DEVICE)
        wait_until(lambda: not [k for k in collector.series() if f'device="{DEVICE}"' in k], 'it goes', collector)
        check(not interface_counters(collector))
        run('ip', 'link', 'set', INTERFACE, 'up')
        run('rdma', 'link', 'add', DEVICE, 'type', 'rxe', 'netdev', INTERFACE)
        wait_until(lambda: link()['node_infiniband_state_id'] == up, link, collector)
        wait_until(lambda: hw_counters(collector).keys() == files().keys(), 'counters', collector)


run_cases(only=sys.argv[2:])
