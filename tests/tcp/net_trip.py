# SPDX-License-Identifier: Apache-2.0
"""The whole way of a request, as a collector that READs two hosts shows it under /api/v1/net: waits until each of its
parts was measured, and compares them with the known delays of that network.

    net_trip.py ADDRESS PORT LEAST

ADDRESS of the collector, PORT of the service on guest1, LEAST round trip of the network in s."""
import json
import sys

from support.http import get
from support.process import fail, poll

ADDRESS, PORT, LEAST = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
net = None


def whole():
    """Returns the pair, its port and the trip, once there is a trip with all parts measured."""
    global net
    net = json.loads(get(f'http://{ADDRESS}/api/v1/net?port={PORT}'))
    for pair in net['pairs']:
        for port in pair['ports']:
            for trip in port['trips']:
                if pair['clock']['known'] and port['both']['count'] and all(p['count'] for p in trip['parts']):
                    return pair, port, trip
    return None


found = poll(whole, 180, 0.2)
if not found:
    fail(f'no trip with all its parts: {net}')
pair, port, trip = found
mean = {p['part']: p['mean'] for p in trip['parts']}
hosts = [pair[end]['host'] for end in 'ab']
print(f"= {trip['requests']} requests from {hosts[0]} to {hosts[1]}, READ by one collector, mean ms: "
      + ', '.join(f'{name} {took * 1e3:.3f}' for name, took in mean.items())
      + f"; both ways {port['both']['mean'] * 1e3:.3f}, bound of each {port['there']['bound'] * 1e3:.3f}")
if hosts != ['guest0', 'guest1'] or trip['client'] != 'a' or len(net['pairs']) != 1 or len(trip['parts']) != 15:
    fail(f'not these hosts: {net}')
if min(took for name, took in mean.items() if not name.startswith('wire_')) < 0:
    fail(f'negative: {mean}')
# By two clocks of their own, and no offset.
if port['both']['mean'] < LEAST or mean['wire_there'] + mean['wire_back'] < LEAST:
    fail(f'the network takes {LEAST} s at least: {net}')
if trip['mean'] < sum(mean.values()) - 1e-9:
    fail(f'less than its parts: {net}')
