#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_apiserver.py SIDELIGHT POD BUILD CACHE: what Kubernetes itself says of the chart, of the external metrics API behind its
aggregation layer, and of the autoscaler that reads it. BUILD makes kube-apiserver in CACHE. The steps build on one another."""
import base64
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import yaml

from cluster import API, HOST, Cluster
from support.analysis import System
from support.kube import CHART, HELM, here, write
from support.process import SCALE, Part, check, skip, wait_until, workdir
from support.sidelight import EXE, Collector

POD, BUILD, CACHE = sys.argv[2:5]
DOCS = os.path.join(HELM, '../../../docs/kubernetes.md')
GROUP = '/apis/external.metrics.k8s.io/v1beta1'
PRESSURE = f'{GROUP}/namespaces/default/sidelight_scaling_pressure'
AUTOSCALER = 'system:serviceaccount:kube-system:horizontal-pod-autoscaler'
NS, RELEASE = 'telemetry', 'sidelight'
LABEL = 'app.kubernetes.io/component='
NODE = {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node-1', 'labels': {'kubernetes.io/os': 'linux'}},
        'status': {'conditions': [{'type': 'Ready', 'status': 'True'}],
                   'allocatable': {'cpu': '64', 'memory': '64Gi', 'pods': '100', 'rdma/hca': '9'}}}
SHOP = {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'shop', 'namespace': 'default'},
        'spec': {'replicas': 2, 'selector': {'matchLabels': {'app': 'shop'}}, 'template': {
            'metadata': {'labels': {'app': 'shop'}}, 'spec': {'containers': [{'name': 'shop', 'image': 'shop'}]}}}}


def ask(url, authority, headers=None, pair=None):
    """Returns (status, body), or None if there is no connection."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=authority.context(pair)))
    try:
        with opener.open(urllib.request.Request(url, headers=headers or {}), timeout=300) as a:
            return a.status, a.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()
    except (ssl.SSLError, OSError) as e:
        return None, str(e)


def values():
    """The chart's own."""
    with open(f'{CHART}/values.yaml') as f:
        return yaml.safe_load(f)


class Test:
    def __init__(self, cluster, system):
        self.c, self.s = cluster, system
        self.tls = cluster.authority.issue('scaling', [f'DNS:{RELEASE}-scaling.{NS}.svc'], use='serverAuth')

    def condition(self, kind, name, of):
        found = self.c.get(kind, name).get('status', {}).get('conditions') or []
        return next((x for x in found if x['type'] == of), None)

    def the_real_api_takes_every_object(self):
        c = self.c
        c.apply(NODE, *({'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': n}} for n in (NS, 'plain')))
        wait_until(lambda: c.try_kubectl('get', 'serviceaccount', 'default').returncode == 0, 'an account', c.controllers, every=0.5)
        # Everything that the chart has, but the kind of Prometheus' operator.
        text = c.helm('template', 'r', CHART, '--values', f'{HELM}/everything.yaml', '--dry-run=server',
                      '--set', 'podMonitor.enabled=false', namespace=NS)
        said = c.apply(*(d for d in yaml.load_all(text, yaml.CSafeLoader) if d), options=('--dry-run=server', '-n', NS))
        check(len(said.splitlines()) > 15 and all('created' in w for w in said.splitlines()), said)
        # The front proxies' authority is what helm asks the cluster for.
        c.kubectl('create', 'secret', 'tls', 'scaling-tls', '-n', NS, '--cert', self.tls[0], '--key', self.tls[1])
        c.kubectl('create', 'secret', 'generic', 'rdma', '-n', NS, '--from-literal=secret=a-secret-of-the-cluster')
        with open(c.authority.ca) as f:
            self.values = {'rdma': {'enabled': True, 'secret': 'rdma', 'resources': {'rdma/hca': '1'}},
                           'externalMetrics': {'enabled': True, 'tlsSecret': 'scaling-tls', 'caBundle': f.read(),
                                               'readers': [*values()['externalMetrics']['readers'], {'kind': 'User', 'name': 'reader'}]}}
        c.install(RELEASE, NS, self.values)
        c.install('plain', 'plain', {})
        token = c.get('secret', f'{RELEASE}-token', '-n', NS)['data']['token']
        c.install(RELEASE, NS, self.values, 'upgrade')
        check(c.get('secret', f'{RELEASE}-token', '-n', NS)['data']['token'] == token, 'an upgrade draws another token')
        # Its controllers can make a pod of each template.
        for namespace, component, count in (('plain', 'agent', 1), (NS, 'agent', 1), (NS, 'collector', 2), (NS, 'scaling', 1)):
            c.pods(namespace, LABEL + component, count)

    def without_a_collector_it_is_not_available(self):
        name = 'v1beta1.external.metrics.k8s.io'
        self.available = lambda: (self.condition('apiservice', name, 'Available') or {})
        wait_until(lambda: self.available().get('reason') in ('MissingEndpoints', 'EndpointsNotFound'),
                   lambda: f'unavailable: {self.available()}', self.c.api, every=0.5)

    def behind_the_aggregation_layer_it_is(self):
        """Starts the container of the Deployment as Kubernetes would, with memory of this machine instead of RDMA."""
        c = self.c
        container = c.get('deployment', f'{RELEASE}-scaling', '-n', NS)['spec']['template']['spec']['containers'][0]
        for folder, kind, name in (('web', 'configmap', f'{RELEASE}-scaling'), ('tls', 'secret', 'scaling-tls'),
                                   ('token', 'secret', f'{RELEASE}-token')):
            for file, text in c.get(kind, name, '-n', NS)['data'].items():
                text = text if kind == 'configmap' else base64.b64decode(text).decode()
                write(f'{c.folder}/etc/sidelight/{folder}/{file}', text.replace('/etc/', f'{c.folder}/etc/'))
        args = [a for a in here(container['args'], c.folder, {}) if a.split('=')[0] not in ('--dev', '--rdma-secret', '--discover', '--period')]
        self.collector = Part(EXE, *args, '--agent', self.s.socket, '--period', '10ms', '--analyse-step', '200ms', '--warm-up', '10s',
                              '--false-alarms', '60')
        self.collector.ready()
        c.run_pods(NS, LABEL + 'scaling')
        wait_until(lambda: self.available().get('status') == 'True', lambda: f'available: {self.available()}', self.collector, every=0.5)
        endpoints = c.get('endpoints', f'{RELEASE}-scaling', '-n', NS)['subsets'][0]
        check(endpoints['addresses'][0]['ip'] == HOST and endpoints['ports'][0]['port'] == 9443, endpoints)
        # Discovery, as clients see it.
        check('external.metrics.k8s.io/v1beta1' in c.kubectl('api-versions').split(), 'api-versions')
        names = c.kubectl('api-resources', '--api-group=external.metrics.k8s.io', '-o', 'name').split()
        check('sidelight_scaling_pressure.external.metrics.k8s.io' in names, names)

    def it_has_an_openapi_document(self):
        """Without an OpenAPI document, kube-apiserver requests it again and again."""
        said = 'OpenAPI AggregationController: action for item v1beta1.external.metrics.k8s.io: Requeue.'
        wait_until(lambda: said in self.c.api.logged(), 'it is merged', self.c.api, every=0.5)
        check('OpenAPI spec does not exist' not in self.c.api.logged(), 'there is none', self.c.api)

    def who_may_list_has_the_value_of_the_collector(self):
        c = self.c

        def items():
            return c.raw(f'{PRESSURE}?labelSelector=service%3Dshop')['items']
        item = wait_until(items, 'a value', self.collector, every=0.5)[0]
        check(item['metricName'] == 'sidelight_scaling_pressure' and item['metricLabels'] == {'namespace': 'default', 'service': 'shop'} and
              re.fullmatch('[0-9]+m?', item['value']), item)
        check(c.raw(f'{PRESSURE}?labelSelector=service%3Dnone')['items'] == [], 'there is no such service')
        check(c.raw(f'{GROUP}/namespaces/plain/sidelight_scaling_pressure')['items'] == [], 'another namespace')
        # A user that the values name, and the autoscaler, which no role of Kubernetes' own lets list.
        for user, more in (('reader', ()), ('admin', ('--as', AUTOSCALER))):
            says = json.loads(c.kubectl('get', '--raw', PRESSURE, *more, user=user))
            check(says['kind'] == 'ExternalMetricValueList' and says['items'], says)

    def who_may_not_is_refused(self):
        c = self.c
        for user, more in (('stranger', ()), ('admin', ('--as', 'system:serviceaccount:default:default'))):
            p = c.try_kubectl('get', '--raw', PRESSURE, *more, user=user)
            check(p.returncode != 0 and 'orbidden' in p.stderr and 'cannot list resource' in p.stderr, p.stderr)
        p = c.try_kubectl('get', '--raw', f'{GROUP}/namespaces/default/unknown')
        check(p.returncode != 0 and 'NotFound' in p.stderr, p.stderr)
        # Sends headers of a front proxy without being one: to kube-apiserver, and directly.
        forged = {'X-Remote-User': 'admin', 'X-Remote-Group': 'system:masters'}
        check(ask(API + PRESSURE, c.authority, forged)[0] == 403, 'nobody', c.api)
        check(ask(API + PRESSURE, c.authority, {**forged, 'Authorization': 'Bearer token-of-stranger'})[0] == 403, 'a stranger', c.api)
        namesake = c.authority.issue('front-proxy-client', folder=workdir(), use='clientAuth')
        for pair, wanted in ((None, 403), (namesake, None)):
            status, text = self.past(PRESSURE, forged, pair)
            check(status == wanted, f'{status} {text}', self.collector)
        status, text = self.past('/metrics', {'Authorization': 'Bearer ' + self.token()})
        check(re.search(r'^sidelight_collector_http_refused_total\{[^}]*cause="forwarded"[^}]*\} 1$', text, re.M), status)

    def token(self):
        with open(f'{self.c.folder}/etc/sidelight/token/token') as f:
            return f.read().strip()

    def past(self, path, headers, pair=None):
        """To the collector itself, by curl, which needs no resolver. (status, body)"""
        name = f'{RELEASE}-scaling.{NS}.svc'
        p = subprocess.run(['curl', '-s', '--noproxy', '*', '-m', '60', '-w', '\n%{http_code}', '--cacert', self.c.authority.ca,
                            '--resolve', f'{name}:9443:{HOST}', *(w for h in headers.items() for w in ('-H', ': '.join(h))),
                            *(('--cert', pair[0], '--key', pair[1]) if pair else ()), f'https://{name}:9443{path}'], capture_output=True, text=True)
        text, _, status = p.stdout.rpartition('\n')
        return int(status) or None, text

    def an_autoscaler_adds_pods_while_requests_are_slow(self):
        c = self.c
        c.apply(SHOP)
        c.run_pods('default', 'app=shop', 2)
        with open(DOCS) as f:
            hpa = next(d for block in re.findall('```yaml\n(.*?)```', f.read(), re.S) for d in yaml.safe_load_all(block)
                       if d.get('kind') == 'HorizontalPodAutoscaler')
        if 'autoscaling/v2' not in c.kubectl('api-versions').split():
            hpa['apiVersion'] = 'autoscaling/v2beta2'  # for this test the same as version 2
        hpa = json.loads(json.dumps(hpa).replace('cart', 'shop'))
        hpa['metadata']['namespace'] = 'default'
        c.apply(hpa)

        kind = f'horizontalpodautoscalers.{hpa["apiVersion"].split("/")[1]}.autoscaling'

        def autoscaler():
            return c.get(kind, 'shop')

        def active():
            return self.condition(kind, 'shop', 'ScalingActive') or {}
        self.active = active
        wait_until(lambda: active().get('status') == 'True', autoscaler, c.controllers, every=0.5)

        def more():
            now = autoscaler()
            return now['status']['desiredReplicas'] > 2 and now
        self.s.pod.tell('fault')
        now = wait_until(more, autoscaler, c.controllers, every=0.5)
        value = now['status']['currentMetrics'][0]['external']
        check(value['metric']['name'] == 'sidelight_scaling_pressure' and re.fullmatch('[0-9]+m?', value['current']['value']), value)
        wait_until(lambda: c.get('deployment', 'shop')['spec']['replicas'] > 2, 'the Deployment has more', c.controllers, every=0.5)
        self.said = f'HPA: pressure {value["current"]["value"]}, {now["status"]["desiredReplicas"]} replicas'

    def it_leaves_alone_what_has_no_value(self):
        c = self.c
        before = c.get('deployment', 'shop')['spec']['replicas']
        check(self.collector.stop() == 0, 'its end', self.collector)

        wait_until(lambda: self.active().get('reason') == 'FailedGetExternalMetric', 'the autoscaler misses its metric', self.active,
                   c.controllers, every=0.5)
        check(c.get('deployment', 'shop')['spec']['replicas'] >= before, 'pods were taken')
        wait_until(lambda: self.available().get('reason') == 'FailedDiscoveryCheck', lambda: f'unavailable: {self.available()}', every=0.5)

    def collectors_find_agents_with_what_the_chart_lets_them(self):
        c = self.c
        args = c.get('statefulset', f'{RELEASE}-collector', '-n', NS)['spec']['template']['spec']['containers'][0]['args']
        source = next(a for a in args if a.startswith('--discover='))
        account = f'{c.folder}/account'
        write(f'{account}/token', c.kubectl('create', 'token', f'{RELEASE}-collector', '-n', NS).strip())
        with open(c.authority.ca) as f:
            write(f'{account}/ca.crt', f.read())
        with Collector([], source, '--kube-api', API, '--kube-account', account, '--discover-every', '200ms') as k:
            def known():
                return {h['target'] for h in k.api('hosts')['hosts']}
            check(known() == set(), known())
            c.run_pods(NS, LABEL + 'agent')
            wait_until(lambda: known() == {f'{HOST}:7475'}, 'the agent that is ready', k)
        with Collector([], source.replace(NS, 'plain'), '--kube-api', API, '--kube-account', account, '--discover-every', '200ms') as k:
            wait_until(lambda: k.total('sidelight_discover_errors_total') > 0, 'a refusal is counted', k)
            check('HTTP 403' in k.logged(), 'the role is of one namespace', k)
        self.account = account

    def a_list_of_pods_comes_in_pages(self):
        c, many = self.c, 1100
        c.apply({**SHOP, 'metadata': {'name': 'many', 'namespace': NS}, 'spec': json.loads(
            json.dumps(SHOP['spec'] | {'replicas': many}).replace('"shop"', '"many"'))})
        last = sorted(c.pods(NS, 'app=many', many))[-1]
        c.run_pod(NS, last, HOST)
        with Collector([], '--discover', f'kube:{NS}/app=many:7475', '--kube-api', API, '--kube-account', self.account,
                       '--discover-every', '200ms') as k:
            wait_until(lambda: {h['target'] for h in k.api('hosts')['hosts']} == {f'{HOST}:7475'}, 'the pod of the last page', k)
        c.kubectl('delete', 'deployment', 'many', '-n', NS, '--wait=false')

    def collectors_share_hosts_by_their_pods_numbers(self):
        """Starts the StatefulSet's collectors with all arguments of its containers. Hosts are only names, because RDMA is
        missing."""
        c, hosts = self.c, 24
        container = c.get('statefulset', f'{RELEASE}-collector', '-n', NS)['spec']['template']['spec']['containers'][0]
        shards = c.get('configmap', f'{RELEASE}-collector', '-n', NS)['data']['shards']
        write(f'{c.folder}/etc/sidelight/shards/shards', shards)

        def hosts_read(part):
            status, text = ask(f'http://{part.address}/metrics', c.authority, {'Authorization': 'Bearer ' + self.token()})
            check(status == 200, status, text, part)
            return int(float(re.search(r'^sidelight_discover_hosts\{[^}]*state="read"[^}]*\} (.*)$', text, re.M)[1]))
        parts = []
        for i in range(2):
            args = [a.replace('0.0.0.0:9464', f'{HOST}:0') for a in here(container['args'], c.folder, {})
                    if a.split('=')[0] not in ('--dev', '--rdma-secret', '--discover')]
            parts.append(Part(EXE, *args, '--discover-every', '200ms', '--discover', ','.join(f'/nowhere/{k}' for k in range(hosts)),
                              env={'POD_NAME': f'{RELEASE}-collector-{i}'}))
            parts[i].address = parts[i].ready()['listen'].removeprefix('http://')
        found = [hosts_read(p) for p in parts]
        check(sum(found) == hosts and all(found), found, *parts)
        write(f'{c.folder}/etc/sidelight/shards/shards', 'auto/1')
        wait_until(lambda: hosts_read(parts[0]) == hosts, 'one pod is left', parts[0])
        for p in parts:
            check(p.stop() == 0, 'its end', p)


def main():
    if SCALE <= 1:
        skip('builds kube-apiserver: make soak')
    with Cluster(BUILD, CACHE) as cluster, System(POD) as system:
        test = Test(cluster, system)
        for name, step in vars(Test).items():
            if name.startswith('_') or name in ('condition', 'token', 'past'):
                continue
            step(test)
            print('ok  ', name.replace('_', ' '), flush=True)
        print(test.said)


main()
