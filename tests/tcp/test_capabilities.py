#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_capabilities.py SIDELIGHT DROP-IN - 'sidelight agent --tcp' runs as an ordinary user with exactly the
capabilities that the drop-in of its unit grants, and each of them is needed."""
import json
import os
import re
import shutil
import subprocess
import sys

from support.flows import needs_bpf
from support.process import Part, case, check, reachable, run_cases, skip
from support.sidelight import EXE

NOBODY = 65534


def granted(key):
    with open(sys.argv[2]) as f:
        return re.search(rf'^{key}=(.*)$', f.read(), re.M)[1].split()


class Scene:
    """The program where an ordinary user reaches it, and a folder of that user's."""

    def __init__(self):
        self.program = reachable(EXE, 'agent')
        self.folder = os.path.dirname(self.program)
        os.mkdir(f'{self.folder}/run')
        os.chown(f'{self.folder}/run', NOBODY, NOBODY)
        self.socket = f'{self.folder}/run/a.sock'

    def agent(self, capabilities):
        sets = '-all' + ''.join(f',+{c.removeprefix("CAP_").lower()}' for c in capabilities)
        return Part('setpriv', '--reuid', NOBODY, '--regid', NOBODY, '--clear-groups', '--inh-caps', sets,
                    '--ambient-caps', sets, '--bounding-set', sets, '--no-new-privs', self.program, 'agent', '--no-rest',
                    '--socket', self.socket, '--tcp', 'flows,layers,cpu,net', '--tcp-dev', 'lo')


@case
def the_tables_are_published_with_these_capabilities():
    wanted = granted('AmbientCapabilities')
    check(wanted == granted('CapabilityBoundingSet'), 'the two lines of the drop-in differ')
    check('CAP_SYS_ADMIN' not in wanted, wanted)
    scene = Scene()
    agent = scene.agent(wanted)
    agent.ready()
    status = json.loads(subprocess.run([EXE, 'agent', '--status', '--json', '--socket', scene.socket],
                                        stdout=subprocess.PIPE, check=True).stdout)
    kinds = [r['kind'] for r in status['regions'] if r['by'] == 'kernel']
    check(kinds == [3, 4, 5, 6], f'kinds of regions: {kinds}', agent)
    check(not any('is not available' in line for line in agent.err), agent.err, agent)
    check(agent.stop() == 0, 'the end', agent)


@case
def each_of_them_is_needed():
    wanted = granted('AmbientCapabilities')
    for missing in wanted:
        agent = Scene().agent([c for c in wanted if c != missing])
        check(agent.wait() == 1, missing, agent)
        check(any(missing in line for line in agent.err), f'{missing} is not named', agent)


if os.geteuid():
    skip('changing the user needs root')
if not shutil.which('setpriv'):
    skip('no setpriv')
needs_bpf()
run_cases(only=sys.argv[3:])
