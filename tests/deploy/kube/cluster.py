# SPDX-License-Identifier: Apache-2.0
"""A cluster without nodes in a network of the test's own: etcd, kube-apiserver and kube-controller-manager. The test stands in
for the scheduler and the kubelets: it says which pods run, and where."""
import json
import os
import shutil
import subprocess

from support.flows import own_network
from support.kube import CHART, tools, write
from support.pki import Authority
from support.process import Part, check, output, run, skip, wait_until, workdir

HOST = '10.77.0.1'  # an address of the loopback interface; for pods, the API refuses 127.0.0.0/8
API = f'https://{HOST}:6443'
CONTROLLERS = ('serviceaccount', 'serviceaccount-token', 'root-ca-cert-publisher', 'deployment', 'replicaset', 'statefulset',
               'daemonset', 'endpoint', 'horizontalpodautoscaling')
TOKENS = {'admin': 'system:masters', 'system:kube-controller-manager': '', 'reader': '', 'stranger': ''}


class Cluster:
    def __init__(self, build, binaries):
        """build: the program that makes binaries, a folder."""
        self.binaries = binaries
        self.helm_exe, self.kubectl_exe = tools('helm', 'kubectl')
        if not shutil.which('etcd'):
            skip('etcd is not installed (etcd-server)')
        if os.getuid():
            skip('needs root for a network of its own')
        built = run(build, binaries, code=None, seconds=4 * 3600)
        if built.returncode == 77:
            skip(built.stdout.strip().removeprefix('SKIP: '))
        check(built.returncode == 0, built.stdout[-2000:], built.stderr[-4000:])
        own_network()
        run('ip', 'addr', 'add', f'{HOST}/24', 'dev', 'lo')
        self.folder = workdir()
        self.authority, self.proxies = Authority('cluster'), Authority('front proxy')
        self.account_key = f'{self.folder}/account.key'
        run('openssl', 'genrsa', '-out', self.account_key, '2048')
        write(f'{self.folder}/tokens', ''.join(f'token-of-{u},{u},{u},"{g}"\n' for u, g in TOKENS.items()))
        for user in TOKENS:
            self.config(user, f'token-of-{user}')

    def config(self, name, token):
        """A kubeconfig; its path."""
        path = f'{self.folder}/{name}.conf'
        write(path, json.dumps({
            'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'c',
            'clusters': [{'name': 'c', 'cluster': {'server': API, 'certificate-authority': self.authority.ca}}],
            'users': [{'name': 'u', 'user': {'token': token}}],
            'contexts': [{'name': 'c', 'context': {'cluster': 'c', 'user': 'u'}}]}))
        return path

    def __enter__(self):
        f, server, proxy = self.folder, *(a.issue(n, s, use=u) for a, n, s, u in (
            (self.authority, 'kube-apiserver', [f'IP:{HOST}', 'IP:10.97.0.1'], 'serverAuth'),
            (self.proxies, 'front-proxy-client', (), 'clientAuth')))
        client, peer = 'http://127.0.0.1:2379', 'http://127.0.0.1:2380'
        self.etcd = Part('etcd', '--data-dir', f'{f}/etcd', '--listen-client-urls', client, '--advertise-client-urls', client,
                         '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', f'default={peer}')
        self.api = Part(
            f'{self.binaries}/kube-apiserver', '--etcd-servers', client, '--bind-address', HOST, '--advertise-address', HOST,
            '--secure-port', '6443', '--cert-dir', f'{f}/generated', '--tls-cert-file', server[0], '--tls-private-key-file', server[1],
            '--client-ca-file', self.authority.ca, '--token-auth-file', f'{f}/tokens', '--authorization-mode', 'RBAC',
            '--service-account-issuer', 'https://kubernetes.default.svc', '--service-account-key-file', self.account_key,
            '--service-account-signing-key-file', self.account_key, '--service-cluster-ip-range', '10.97.0.0/24',
            # The aggregation layer, as kubeadm sets it up; pods of a service are asked directly, for want of a kube-proxy.
            '--requestheader-client-ca-file', self.proxies.ca, '--requestheader-allowed-names', 'front-proxy-client',
            '--requestheader-username-headers', 'X-Remote-User', '--requestheader-group-headers', 'X-Remote-Group',
            '--requestheader-extra-headers-prefix', 'X-Remote-Extra-', '--proxy-client-cert-file', proxy[0],
            '--proxy-client-key-file', proxy[1], '--enable-aggregator-routing=true',
            '--vmodule', 'controller=7')  # logs what happens to OpenAPI documents
        wait_until(lambda: self.try_kubectl('get', '--raw', '/readyz').returncode == 0 or self.api.p.poll() is not None,
                   'kube-apiserver is ready', self.api, self.etcd, seconds=600, every=0.5)
        self.controllers = Part(
            f'{self.binaries}/kube-controller-manager', '--kubeconfig', f'{f}/system:kube-controller-manager.conf', '--leader-elect=false',
            '--controllers', ','.join(CONTROLLERS), '--use-service-account-credentials=true', '--root-ca-file', self.authority.ca,
            '--service-account-private-key-file', self.account_key, '--horizontal-pod-autoscaler-sync-period', '2s', '--port', '0',
            '--secure-port', '0', '--kube-api-qps', '1000', '--kube-api-burst', '1000')
        return self

    def __exit__(self, error, *_):
        parts = self.controllers, self.api, self.etcd
        ended = [p for p in parts if p.p.poll() is not None]
        for p in parts:
            if error:
                print(f'--- {p}\n{p.logged()[-6000:]}')
            p.kill()
        check(error or not ended, 'ended by itself:', *map(str, ended))

    def try_kubectl(self, *args, user='admin', stdin=None):
        return subprocess.run([self.kubectl_exe, '--kubeconfig', f'{self.folder}/{user}.conf', *map(str, args)], text=True, timeout=300,
                              input=stdin, capture_output=True, env={**os.environ, 'HOME': self.folder})

    def kubectl(self, *args, **kw):
        p = self.try_kubectl(*args, **kw)
        check(p.returncode == 0, lambda: f'kubectl {args}: {p.stdout[-1000:]}{p.stderr[-2000:]}', self.api, self.controllers)
        return p.stdout

    def get(self, *args, **kw):
        return json.loads(self.kubectl('get', *args, '-o', 'json', **kw))

    def raw(self, path, **kw):
        return json.loads(self.kubectl('get', '--raw', path, **kw))

    def apply(self, *documents, options=()):
        return self.kubectl('apply', *options, '-f', '-', stdin='\n---\n'.join(json.dumps(d) for d in documents))

    def helm(self, *args, namespace):
        homes = {f'HELM_{k}_HOME': self.folder for k in ('CACHE', 'CONFIG', 'DATA')}
        return output(self.helm_exe, '--kubeconfig', f'{self.folder}/admin.conf', '--namespace', namespace, *args,
                      env={**os.environ, **homes, 'HOME': self.folder})

    def install(self, release, namespace, values, verb='install'):
        path = f'{self.folder}/{release}.json'
        write(path, json.dumps(values))
        # The aggregator of 1.20 takes no APIService by server-side apply, which helm 4 would use.
        self.helm(verb, release, CHART, '--values', path, '--server-side=false', namespace=namespace)

    def pods(self, namespace, selector, count):
        """Waits until controllers have created at least count pods, and returns their names."""
        def there():
            names = [p['metadata']['name'] for p in self.get('pods', '-n', namespace, '-l', selector)['items']]
            return len(names) >= count and names
        return wait_until(there, f'{count} pods {selector} of {namespace}', self.controllers, seconds=300, every=0.5)

    def run_pods(self, namespace, selector, count=1, address=HOST):
        for name in self.pods(namespace, selector, count):
            self.run_pod(namespace, name, address)

    def run_pod(self, namespace, name, address, ready=True):
        """Binds a pod to the node once, as a scheduler does, and reports it as running, as its kubelet does."""
        if not self.get('pod', name, '-n', namespace)['spec'].get('nodeName'):
            binding = {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': name}, 'target': {'kind': 'Node', 'name': 'node-1'}}
            self.kubectl('create', '--raw', f'/api/v1/namespaces/{namespace}/pods/{name}/binding', '-f', '-', stdin=json.dumps(binding))
        self.kubectl('patch', 'pod', name, '-n', namespace, '--subresource=status', '--type=merge', '-p', json.dumps({'status': {
            'phase': 'Running', 'podIP': address, 'podIPs': [{'ip': address}], 'startTime': '2024-01-01T00:00:00Z',
            'conditions': [{'type': 'Ready', 'status': str(ready), 'lastTransitionTime': '2024-01-01T00:00:00Z'}]}}))
