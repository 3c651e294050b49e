#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_owners.py SIDELIGHT - users who publish under the name of another's service, of the host or of connections have services of
their own in the analysis."""
import json
import os

from support.process import Part, case, check, reachable, run_cases, skip, wait_until
from support.sidelight import EXE, Agent, Collector, generate

USERS = ('12001', '12002')
RATIO = 'sidelight_scaling_anomalous_ratio'
PATH = '/apis/external.metrics.k8s.io/v1beta1/namespaces/default/' + RATIO


def publish(agent, user, service):
    exe = reachable(EXE, 'generate')
    return Part('setpriv', '--reuid', user, '--regid', user, '--clear-groups', exe, 'generate', 'metrics', '--socket', agent.socket,
                '--json', '--service', service, '--updates', '0', '--metrics', '4', '--hold', '10m')


@case
def a_service_of_two_users_is_two():
    if os.geteuid():
        skip('only root may be another user')
    with Agent() as agent, Collector([agent], '--period', '20ms', '--analyse', '--analyse-step', '200ms') as c:
        os.chmod(agent.folder, 0o755)
        parts = [generate(agent.socket, '--service', 'shop', '--updates', '0', '--metrics', '4', '--hold', '10m')]
        parts += [publish(agent, user, service) for user, service in zip(USERS * 2, ('shop', 'shop', 'host', 'shop (tcp)'))]

        def services():
            return sorted(labels[len(RATIO):] for labels in c.find(RATIO))
        wanted = sorted(['{namespace="",service="shop"}', *('{namespace="",service="%s",uid="%s"}' % (name, uid) for name, uid in (
            ('shop', USERS[0]), ('shop', USERS[1]), ('exported_host', USERS[0]), ('exported_shop', USERS[1])))])
        wait_until(lambda: services() == wanted, f'{wanted}, of {services()}', c)
        # An autoscaler of the service does not hear what other users claim.
        items = json.loads(c.get(PATH + '?labelSelector=service%3Dshop'))['items']
        check(len(items) == 1, items, c)
        for p in parts:
            p.stop()


run_cases()
