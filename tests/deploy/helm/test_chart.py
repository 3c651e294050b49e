#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_chart.py SIDELIGHT SOURCE: what the chart makes is what Kubernetes, the program and docs/security.md want."""
import copy
import functools
import json
import os
import re
import subprocess

import yaml

from support.http import request
from support.kube import CHART, here, tools, write
from support.process import Part, case, check, run_cases, wait_until, workdir
from support.sidelight import EXE

HERE = os.path.dirname(os.path.abspath(__file__))
RDMA = {'rdma': {'enabled': True, 'secret': 'rdma', 'resources': {'rdma/hca': '1'}}}
EVERYTHING = f'{HERE}/everything.yaml'


class Helm:
    def __init__(self):
        self.known = {}
        self.exe, = tools('helm')
        self.folder = workdir()

    def run(self, *args, code=0):
        env = {**os.environ, **{f'HELM_{k}_HOME': self.folder for k in ('CACHE', 'CONFIG', 'DATA')}}
        p = subprocess.run([self.exe, *args], env=env, capture_output=True, text=True, timeout=300)
        check((p.returncode == 0) == (code == 0), f'helm {args}: exit {p.returncode}\n{p.stdout}{p.stderr}')
        return p.stdout if code == 0 else p.stderr

    def template(self, values=None, code=0, kubernetes='1.34.0'):
        """Documents of these values, a dictionary or a path; code 1: the error."""
        key = json.dumps([values, kubernetes])
        if key in self.known:
            return copy.deepcopy(self.known[key])
        if not isinstance(values, str):
            path, values = f'{self.folder}/values.json', values or {}
            with open(path, 'w') as f:
                json.dump(values, f)
            values = path
        said = self.run('template', 'r', CHART, '--namespace', 'telemetry', '--values', values, '--kube-version', kubernetes, code=code)
        if not code:
            said = self.known[key] = [d for d in yaml.load_all(said, yaml.CSafeLoader) if d]
        return said


@functools.lru_cache
def installed():
    return Helm()


def of(documents, kind, end=''):
    found = [d for d in documents if d['kind'] == kind and d['metadata']['name'].endswith(end)]
    check(len(found) == 1, f'{kind} {end}: {len(found)}')
    return found[0]


def pods(documents):
    """{component: spec of its pods}"""
    return {d['spec']['template']['metadata']['labels']['app.kubernetes.io/component']: d['spec']['template']['spec']
            for d in documents if d['kind'] in ('DaemonSet', 'StatefulSet', 'Deployment')}


def values_of(args, name):
    return [a.split('=', 1)[1] for a in args if a.startswith(f'--{name}=')]


@case
def documents_are_as_kubernetes_schemas_say():
    helm = installed()
    helm.run('lint', '--strict', CHART)
    helm.run('lint', '--strict', CHART, '--values', EVERYTHING)
    for values in None, RDMA, EVERYTHING:
        documents = helm.template(values)
        known = [d for d in documents if d['kind'] != 'PodMonitor']  # the operator's, not Kubernetes'
        p = subprocess.run(['node', f'{HERE}/schemas.js'], input=json.dumps(known), capture_output=True, text=True, cwd=HERE, timeout=300)
        check(p.returncode == 0 and json.loads(p.stdout) == [], p.stdout, p.stderr)
        names = [(d['apiVersion'], d['kind'], d['metadata']['name']) for d in documents]
        check(len(set(names)) == len(names), names)
    kinds = {d['kind'] for d in documents}
    check(kinds >= {'DaemonSet', 'StatefulSet', 'Deployment', 'Role', 'RoleBinding', 'ServiceAccount', 'NetworkPolicy', 'PodMonitor',
                    'PodDisruptionBudget', 'APIService', 'Service', 'ConfigMap'}, kinds)
    for values, line in (({'agents': {}}, 'agents'), ({'collector': {'period': '100'}}, 'period'), ({'agent': {'tcp': ['all']}}, 'tcp'),
                         ({'rdma': {'enabled': True}}, 'rdma.resources'), ({'externalMetrics': {'enabled': True}}, 'rdma.enabled'),
                         ({**RDMA, 'externalMetrics': {'enabled': True}}, 'externalMetrics.tlsSecret'),
                         ({**RDMA, 'externalMetrics': {'enabled': True, 'tlsSecret': 'x'}}, 'requestheader.clientCA')):
        check(line in helm.template(values, code=1), f'{values} is taken, or another error')
    check('1.20' in helm.template(kubernetes='1.19.16', code=1), 'a version that lacks kinds of the chart')
    # Version 1 of its API is of 1.21.
    for version, wanted in (('1.20.2', 'policy/v1beta1'), ('1.21.0', 'policy/v1')):
        budget = of(helm.template(RDMA, kubernetes=version), 'PodDisruptionBudget')
        check(budget['apiVersion'] == wanted, f'{version}: {budget}')


@case
def no_container_has_more_than_it_needs():
    helm = installed()
    for values, wanted, nice in ((None, set(), set()), (RDMA, {'IPC_LOCK'}, set()), ({'collector': {'realtime': True}}, set(), {'SYS_NICE'}),
                                 ({'agent': {'tcp': ['flows']}}, {'BPF', 'PERFMON', 'NET_ADMIN', 'SYS_ADMIN'}, set()),
                                 (EVERYTHING, {'IPC_LOCK', 'BPF', 'PERFMON', 'NET_ADMIN'}, {'SYS_NICE'})):
        documents = helm.template(values)
        bound = {a['name'] for d in documents if d['kind'].endswith('RoleBinding') for a in d['subjects']}
        for component, spec in pods(documents).items():
            # A pod without rights at the API has no token for it.
            check(spec.get('automountServiceAccountToken', True) == (spec['serviceAccountName'] in bound), component)
            for c in spec['containers'] + spec.get('initContainers', []):
                is_agent, s = c['name'] == 'agent', {**spec['securityContext'], **c['securityContext']}
                check(s['readOnlyRootFilesystem'] and not s['allowPrivilegeEscalation'] and 'privileged' not in s, c)
                check(s['capabilities']['drop'] == ['ALL'], c)
                added = set(s['capabilities'].get('add', []))
                is_reader = c['name'] == 'collector' and component != 'scaling'
                check(added == (wanted if is_agent else {'CHOWN'} if c['name'] == 'folder' else nice if is_reader else set()), f'{component}: {added}')
                if not added:
                    check(s['runAsNonRoot'] is True and s['runAsUser'] > 0, c)
                # Capabilities of another user would be of no effect.
                check(not added or s['runAsUser'] == 0, c)
            hosts = {v['hostPath']['path'] for v in spec['volumes'] if 'hostPath' in v}
            check(component == 'agent' or not hosts, f'{component} mounts {hosts}')
            host_volumes = {v['name'] for v in spec['volumes'] if 'hostPath' in v} - {'publish'}
            check(all(m.get('readOnly') for c in spec['containers'] for m in c['volumeMounts'] if m['name'] in host_volumes), spec)
            check(spec.get('hostPID', False) == (component == 'agent'), component)
    rules = [r for d in helm.template(EVERYTHING) if d['kind'] in ('Role', 'ClusterRole') for r in d['rules']]
    check(all(r['verbs'] == ['list'] for r in rules) and '*' not in json.dumps(rules), rules)


@case
def parts_of_the_chart_fit_each_other():
    helm = installed()
    for values in None, RDMA, {'collector': {'realtime': True}}, EVERYTHING:
        documents = helm.template(values)
        found = pods(documents)
        accounts = {d['metadata']['name'] for d in documents if d['kind'] == 'ServiceAccount'}
        settings = {d['metadata']['name'] for d in documents if d['kind'] in ('ConfigMap', 'Secret')}
        for component, spec in found.items():
            check(spec['serviceAccountName'] in accounts, spec['serviceAccountName'])
            for c in spec['containers'] + spec.get('initContainers', []):
                mounts = {m['mountPath']: m['name'] for m in c['volumeMounts']}
                check(set(mounts.values()) <= {v['name'] for v in spec['volumes']}, mounts)
                # Each file or socket of an option is in a folder that is mounted.
                for a in c.get('args', []):
                    path = a.partition('=')[2].removeprefix('file:')
                    check(not path.startswith('/') or os.path.dirname(path) in mounts, f'{component}: {a}')
            for v in spec['volumes']:
                name = v.get('configMap', {}).get('name') or v.get('secret', {}).get('secretName')
                check('secret' not in v or v['secret']['defaultMode'] == 0o440, v)
                check(not name or name in settings | {'readers', 'scaling-tls', 'rdma'}, name)
            # Every listening port is a port of the container and of the policy.
            policy = [d for d in documents if d['kind'] == 'NetworkPolicy' and
                      d['spec']['podSelector']['matchLabels']['app.kubernetes.io/component'] == component]
            listens = {int(w.rpartition(':')[2]) for c in spec['containers'] for w in values_of(c['args'], 'listen')}
            ports = {p['containerPort'] for c in spec['containers'] for p in c.get('ports', [])}
            allowed = {p['port'] for d in policy for i in d['spec']['ingress'] for p in i['ports']}
            check(all(i.get('from') for d in policy for i in d['spec']['ingress']), f'{component}: from anywhere')
            check(listens == ports == allowed and len(policy) == 1, f'{component}: {listens}, {ports}, {allowed}')
        # The folder of publishers, which pods mount, has no socket of consumers.
        agent = next(c for c in found['agent']['containers'] if c['name'] == 'agent')
        socket, consume = values_of(agent['args'], 'socket')[0], values_of(agent['args'], 'consume-socket')[0]
        check(os.path.dirname(socket) != os.path.dirname(consume), agent['args'])
        volumes = {v['name']: v for v in found['agent']['volumes']}
        mounted = {m['mountPath']: volumes[m['name']] for m in agent['volumeMounts']}
        check('hostPath' in mounted[os.path.dirname(socket)] and 'emptyDir' in mounted[os.path.dirname(consume)], mounted)
        readers = [a for c in found['agent']['containers'] for a in values_of(c['args'], 'agent')]
        check(readers == ([] if 'collector' in found else [consume]), readers)
        asked = values_of(agent['livenessProbe']['exec']['command'], 'consume-socket')
        check(asked == [consume], f'it lives if {asked} answers')
        beside = [str(c['securityContext']['runAsUser']) for c in found['agent']['containers'] if c['name'] == 'collector']
        check(values_of(agent['args'], 'consumer-uid') == beside, agent['args'])
        if 'collector' in found:
            n = 3 if values == EVERYTHING else 2
            check(of(documents, 'StatefulSet')['spec']['replicas'] == n, 'replicas')
            check(of(documents, 'ConfigMap', 'collector')['data'] == {'shards': f'auto/{n}'}, 'shards')
            collector = found['collector']['containers'][0]
            check(values_of(collector['args'], 'replicas') == ['2' if values == EVERYTHING else '1'], collector['args'])
            check([e['name'] for e in collector['env']] == ['POD_NAME'], collector['env'])
        # kube: sources name the labels of their pods.
        for d in documents:
            args = [a for c in d.get('spec', {}).get('template', {}).get('spec', {}).get('containers', []) for a in c['args']]
            for source in values_of(args, 'discover'):
                if not source.startswith('kube:'):
                    continue
                namespace, selector, port = re.fullmatch('kube:([^/]+)/([^:]+):([0-9]+)', source).groups()
                wanted = dict(w.split('=') for w in selector.split(','))
                target = of(documents, 'DaemonSet', 'agent')['spec']['template']
                check(namespace == 'telemetry' and wanted.items() <= target['metadata']['labels'].items(), source)
                ports = [p for c in target['spec']['containers'] for p in values_of(c['args'], 'rdma-port')]
                check(port in ports, f'{source}: {ports}')
    service = of(documents, 'Service', 'scaling')
    api = of(documents, 'APIService')
    check(api['metadata']['name'] == 'v1beta1.external.metrics.k8s.io' and not api['spec']['insecureSkipTLSVerify'] and
          api['spec']['caBundle'], api)
    check(api['spec']['service'] == {'name': service['metadata']['name'], 'namespace': 'telemetry', 'port': 443}, api)
    monitor = of(documents, 'PodMonitor')['spec']
    check(monitor['selector']['matchLabels'] == of(documents, 'StatefulSet')['spec']['selector']['matchLabels'], monitor)
    endpoint = monitor['podMetricsEndpoints'][0]
    check(endpoint['port'] == 'metrics' and endpoint['authorization']['credentials']['name'] == 'readers', monitor)


@case
def containers_arguments_are_the_programs_own():
    """The pod of the default runs as it is; where RDMA or kernel tables are wanted, they are all that is missing."""
    helm = installed()
    folder = workdir()
    write(f'{folder}/etc/sidelight/token/token', 'a-token-of-readers\n')
    write(f'{folder}/etc/sidelight/rdma/secret', 'a-secret-of-the-cluster\n')
    containers = pods(helm.template())['agent']['containers']
    agent, collector = (c['args'] for c in containers)
    probes = {p['httpGet']['path'] for name, p in containers[1].items() if name.endswith('Probe')}
    names = {'NODE_NAME': 'node-7'}
    with Part(EXE, *here(agent, folder, names)) as a:
        a.ready()
        listen = [re.sub('0.0.0.0:.*', '0.0.0.0:0', w) for w in here(collector, folder, names)]
        with Part(EXE, *listen) as c:
            port = c.ready()['listen'].rpartition(':')[2]

            def answer(headers=None, path='/metrics'):
                return request(f'http://127.0.0.1:{port}{path}', headers=headers)

            check(answer()[0] == 401, 'who has no token reads', c)
            token = {'Authorization': 'Bearer a-token-of-readers'}
            wait_until(lambda: b'host="node-7"' in answer(token)[2], 'the node is read', a, c)
            for path in probes:
                wait_until(lambda: answer(path=path)[0] == 200, f'a probe asks {path}', a, c)
            check(len(probes) == 2, probes)
    documents = helm.template(EVERYTHING)
    for component, spec in pods(documents).items():
        maps = {v['name']: of(documents, 'ConfigMap', v['configMap']['name'])['data'] for v in spec['volumes'] if 'configMap' in v}
        for c in spec['containers']:
            for m in c['volumeMounts']:
                for name, text in maps.get(m['name'], {}).items():
                    write(f'{folder}{m["mountPath"]}/{name}', text.replace('/etc/', f'{folder}/etc/'))
            args = [re.sub('0.0.0.0:.*', '0.0.0.0:0', w) for w in here(c['args'], folder, names)]
            p = subprocess.run([EXE, *args, *(['--duration=1s'] if args[0] == 'collect' else [])], capture_output=True, text=True, timeout=300,
                               env={**os.environ, 'POD_NAME': f'r-sidelight-{component}-2'})
            # Exit status 2 would mean that the parser refused the arguments. A collector waits for hosts; an agent fails for
            # lack of the device, and the API's collector for lack of the certificate, which the chart does not contain.
            missing = {'agent': 'mlx5_0', 'scaling': 'tls.crt'}.get(component)
            check(p.returncode == 1 and missing in p.stderr if missing else p.returncode == 0, f'{component}: {c["args"]}: {p.returncode} {p.stderr}')


run_cases()
