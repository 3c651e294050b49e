#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""REST of 'sidelight agent': test_rest.py SIDELIGHT COUNTER CASE"""
import json
import os
import struct
import subprocess
import sys
import threading

from support.http import as_user
from support.process import case, check, run_cases, skip, wait_until, workdir
from support.protocol import CLOSED, LIVE, Client, Consumer, Region, the_entry
from support.sidelight import EXE, Agent


def ask(agent, *what, **more):
    return agent.ask(*what, **more)


@case
def rest_publishes_without_the_library():
    with Agent(rest=True) as agent:
        code, got = ask(agent, 'POST', '/metrics', {
            'microservice_id': 'cart', 'name': 'jobs_total', 'type': 'counter', 'value': 3,
            'labels': {'queue': 'a"b'}, 'help': 'Jobs', 'unit': ''})
        assert code == 201 and got['created'], (code, got)
        code, got = ask(agent, 'POST', '/metrics', {
            'microservice_id': 'cart', 'name': 'jobs_total', 'type': 'counter', 'add': 4,
            'labels': {'queue': 'a"b'}})
        assert code == 200 and got['value'] == 7 and not got['created'], (code, got)
        code, got = ask(agent, 'POST', '/metrics', {
            'microservice_id': 'cart', 'name': 'depth', 'type': 'gauge', 'value': -2.5})
        assert code == 201, got
        c = Consumer(agent.socket)
        view = c.open(next(e['id'] for e in c.entries()))
        assert view.line(8192, mixed=True)[:2] == tuple(
            (b ^ b >> 32) for b in struct.unpack('<2Q', struct.pack('<2d', 7, -2.5)))
        view.close()
        code, layout = ask(agent, 'GET', '/metrics')
        mine = next(r for r in layout['regions'] if r.get('microservice_id') == 'cart')
        assert mine['labels']['service'] == 'cart' and mine['state'] == 'live'
        assert [m['name'] for m in mine['metrics']] == ['jobs_total', 'depth']
        assert mine['metrics'][0]['labels'] == {'queue': 'a"b'}
        assert mine['metrics'][1]['offset'] == 8200
        code, got = ask(agent, 'GET', '/health')
        assert code == 200 and got['status'] == 'ok' and got['live'] == 1, got
        assert ask(agent, 'GET', '/rdma/qps') == (200, {'rdma': False, 'qps': []})
        assert ask(agent, 'GET', '/rdma/qp/17')[0] == 404
        for path in ('/rdma/qps/connect', '/rdma/qp/17/connect'):
            code, got = ask(agent, 'POST', path, {'qp_num': 5, 'gid': '::1'})
            assert code == 409 and '--rdma' in got['error'], (code, got)
        code, got = ask(agent, 'GET', '/rdma/mrs')
        assert code == 200 and len(got['mrs']) == 2 and got['directory']['length'], got
        code, got = ask(agent, 'POST', '/rdma/mrs/create',
                        {'microservice_id': 'big', 'metrics': 2000, 'labels': {'pod': 'p1'}})
        assert code == 201 and got['labels'] == {'service': 'big', 'pod': 'p1'}, got
        assert ask(agent, 'POST', '/rdma/mrs/create', {'microservice_id': 'big'})[0] == 200


@case
def rest_reports_errors():
    good = {'microservice_id': 'm', 'name': 'x', 'type': 'gauge', 'value': 1}
    with Agent(rest=True) as agent:
        def wrong(code, say, body=None, method='POST', path='/metrics', headers=None, **change):
            if body is None:
                body = {k: v for k, v in {**good, **change}.items() if v is not None}
            got = ask(agent, method, path, body if method == 'POST' else None, headers)
            assert got[0] == code and say in got[1]['error'], (got, code, say)

        wrong(400, 'JSON', body=b'{"microservice_id": ')
        wrong(400, 'JSON', body=b'')
        wrong(400, 'JSON', body=b'{"a":1,"a":2}')
        wrong(400, 'JSON', body=b'\xff\xfe')
        wrong(400, 'JSON', body=b'[' * 30000)
        wrong(400, 'object', body=b'[]')
        wrong(400, '"name"', name=None)
        wrong(400, '"name"', name='')
        wrong(400, '"name"', name=7)
        wrong(400, '"name"', name='has space')
        wrong(400, '"name"', name='1x')
        wrong(400, '256 bytes', name='n' * 256)
        wrong(400, '"microservice_id"', microservice_id='s' * 256)
        wrong(400, '"microservice_id"', microservice_id=None)
        wrong(400, '"type"', type='summary')
        wrong(400, 'histogram', type='histogram')
        wrong(400, 'either', value=None)
        wrong(400, 'either', add=1)
        wrong(400, 'number', value='1')
        wrong(400, 'negative', type='counter', value=-1)
        wrong(400, 'help', help='h' * 1024)
        wrong(400, 'unit', unit='m/s')
        wrong(400, 'labels', labels=[])
        wrong(400, 'label', labels={'a-b': 'c'})
        wrong(400, 'label', labels={'__name__': 'c'})
        wrong(400, 'label', labels={'a': 1})
        wrong(400, 'label', labels={'a': 'v' * 1024})
        wrong(400, 'labels', labels={f'l{i}': '' for i in range(33)})
        wrong(400, 'valeu', valeu=1)
        wrong(400, 'unknown field "metrics"', metrics=5)  # it belongs to another route
        wrong(400, 'unknown field "value"', path='/rdma/mrs/create',
              body={'microservice_id': 'q', 'value': 1})
        wrong(400, 'unknown field', **{'x' + 40 * 'é': 1})  # cited, and cut within a character
        wrong(400, 'label key', labels={'é': 'v'})
        wrong(400, 'number', value=True)
        wrong(400, 'number', value=[1])
        wrong(400, 'JSON', body=b'{"microservice_id":"m","name":"x","type":"gauge","value":1e999}')
        wrong(400, 'JSON', body=b'{"microservice_id":"a\\u0000b","name":"x","type":"gauge","value":1}')
        wrong(400, 'metrics', path='/rdma/mrs/create', body={'microservice_id': 'q', 'metrics': 0})
        wrong(400, 'queue pair', path='/rdma/qp/first/connect', body={})
        wrong(403, 'web pages', headers={'Origin': 'http://evil.example'})
        wrong(415, 'application/json', headers={'Content-Type': 'text/plain'})
        wrong(415, 'application/json', headers={'Content-Type': 'application/x-www-form-urlencoded'})
        wrong(404, '', path='/nothing')
        wrong(405, '', method='DELETE')
        wrong(405, '', method='GET', path='/rdma/mrs/create')
        wrong(413, '', body=b'{"help":"' + b'x' * 100000 + b'"}')
        assert ask(agent, 'POST', '/metrics', {**good, 'labels': {'k': 'v'}})[0] == 201
        wrong(409, 'another type', type='counter', labels={'k': 'v'})
        assert ask(agent, 'POST', '/metrics', {**good, 'name': 'big', 'value': 1.7e308})[0] == 201
        wrong(409, 'finite', name='big', value=None, add=1.7e308)
        assert ask(agent, 'POST', '/metrics', {**good, 'name': 'big', 'value': 1})[0] == 200
        for i in range(446):
            code, got = ask(agent, 'POST', '/metrics', {**good, 'name': f'n{i}'})
            assert code == 201, got
        wrong(507, 'no room', name='one_more')
        s = agent.status()['counters']
        assert s['rest_errors'] > 30 and s['rest_updates'] == 449, s


@case
def rest_lets_no_counter_go_down():
    post = {'microservice_id': 'm', 'name': 'x_total', 'type': 'counter'}
    with Agent(rest=True) as agent:
        for change, code, value in (({'value': 7}, 201, 7), ({'value': 6.5}, 409, 7), ({'value': 0}, 409, 7),
                                    ({'value': 7}, 200, 7), ({'add': 1}, 200, 8), ({'add': -1}, 400, None),
                                    ({'value': 7}, 409, 8), ({'value': 9}, 200, 9)):
            got = ask(agent, 'POST', '/metrics', {**post, **change})
            assert got[0] == code and got[1].get('value') == value, (change, got)
            assert code != 409 or 'below' in got[1]['error'], got
        depth = {**post, 'name': 'depth', 'type': 'gauge'}
        assert [ask(agent, 'POST', '/metrics', {**depth, 'value': v})[0] for v in (2, 1)] == [201, 200]


@case
def rest_by_tcp_needs_a_token():
    d = workdir()
    token = d + '/token'
    p = subprocess.run([EXE, 'agent', '--socket', d + '/s', '--rest', '127.0.0.1:0'], capture_output=True, text=True,
                       timeout=300)
    assert p.returncode == 2 and '--rest-token-file' in p.stderr, p
    with open(token, 'w') as f:
        f.write('short\n')
    p = subprocess.run([EXE, 'agent', '--socket', d + '/s', '--rest', '127.0.0.1:0',
                        '--rest-token-file', token], capture_output=True, text=True, timeout=300)
    assert p.returncode == 1 and 'token' in p.stderr, p
    with open(token, 'w') as f:
        f.write('0123456789abcdef0123456789abcdef\n')
    os.chmod(token, 0o600)
    p = subprocess.run([EXE, 'agent', '--socket', d + '/s', '--rest', '0.0.0.0:0', '--rest-token-file', token],
                       capture_output=True, text=True, timeout=300)
    assert p.returncode == 1 and '--insecure-listen' in p.stderr, p
    for at in ('0.0.0.0:0', ':0'):
        with Agent('--rest', at, '--rest-token-file', token, '--insecure-listen') as agent:
            agent.rest = '127.0.0.1:' + agent.rest.rsplit(':', 1)[1]
            assert ask(agent, 'GET', '/health')[0] == 200
            assert ask(agent, 'GET', '/metrics')[0] == 401
            assert ask(agent, 'GET', '/metrics', headers={'Authorization': 'Bearer x'})[0] == 401
            right = {'Authorization': 'Bearer 0123456789abcdef0123456789abcdef'}
            assert ask(agent, 'GET', '/metrics', headers=right)[0] == 200
            assert ask(agent, 'POST', '/rdma/mrs/create', {'microservice_id': 'm'}, headers=right)[0] == 201
            assert agent.status()['counters']['rest_refused']['token'] == 2


STRANGER, OTHER = 65534, 65533  # users


def both(agent):
    """An agent's REST as another user sees it."""
    if os.getuid():
        skip('only root may be another user')
    os.chmod(agent.folder, 0o755)
    return lambda uid, *what: as_user(uid, agent.ask, *what)


def post(microservice, value=1, name='x'):
    return 'POST', '/metrics', {'microservice_id': microservice, 'name': name, 'type': 'gauge', 'value': value}


@case
def rest_memory_is_counted_by_user():
    """61 creates took the whole of --max-memory, and root's publisher got ENOSPC."""
    with Agent('--max-memory', '64M', '--max-region-size', '32M', rest=True) as agent:
        as_ = both(agent)
        for i in range(8):
            code, got = as_(STRANGER, 'POST', '/rdma/mrs/create', {'microservice_id': f'm{i}', 'metrics': 65536})
            check(code == 403, f'a stranger creates: {code} {got}')

        def many():
            codes = [agent.ask(*post(f'm{i}'))[0] for i in range(400)]
            return codes, agent.ask(*post('m999'))[1]
        codes, said = as_user(STRANGER, many)
        check(codes[0] == 201 and codes[-1] == 507 and 'its limit of microservices' in said['error'], f'{codes[-9:]} {said}')
        check(agent.status()['use']['memory']['used'] < 32 << 20, f'{agent.status()["use"]}')
        check(as_(OTHER, *post('innocent'))[0] == 201, 'another user is refused')
        Client(agent.socket).publish(Region())
        check(agent.ask('POST', '/rdma/mrs/create', {'microservice_id': 'own', 'metrics': 65536})[0] == 201, 'root')


@case
def limits_of_regions_bind_rest():
    with Agent('--max-regions-per-uid', '1', '--max-region-size', '1M', rest=True) as agent:
        code, got = agent.ask('POST', '/rdma/mrs/create', {'microservice_id': 'big', 'metrics': 65536})
        check(code == 400 and '--max-region-size' in got['error'], f'a large region: {code} {got}')
        check(agent.ask(*post('cart'))[0] == 201, 'the first')
        check(agent.ask(*post('cart', 2))[0] == 200, 'the first again')
        code, got = agent.ask(*post('orders'))
        check(code == 507 and 'already has 1 regions: raise --max-regions-per-uid' in got['error'], f'the second: {code} {got}')


@case
def microservice_belongs_to_its_user():
    with Agent(rest=True) as agent:
        as_ = both(agent)
        check(agent.ask(*post('cart', 7))[0] == 201, 'root')
        code, forged = as_(STRANGER, *post('cart', 666))
        check(code == 201 and forged['created'], f'the stranger\'s own: {code} {forged}')
        code, mine = agent.ask('POST', '/metrics', {'microservice_id': 'cart', 'name': 'x', 'type': 'gauge', 'add': 0})
        check(code == 200 and mine['value'] == 7 and mine['instance'] != forged['instance'], f'{mine}')
        regions = {r['instance']: r for r in agent.status()['regions']}
        check(regions[forged['instance']]['uid'] == STRANGER and regions[mine['instance']]['uid'] == 0, f'{regions}')
        # A user who takes a name first does not keep others from using it.
        check(as_(STRANGER, *post('squatted', 666))[0] == 201, 'the stranger\'s own')
        check(as_(OTHER, *post('squatted', 1))[1]['value'] == 1, 'squatted')


@case
def only_trusted_users_set_filters():
    with Agent('--consumer-uid', str(OTHER), rest=True) as agent:
        as_ = both(agent)
        for what in (('PUT', '/tcp/filter', {'ports': ['1']}), ('POST', '/tcp/filter', {'ports': ['1']}),
                     ('POST', '/rdma/mrs/create', {'microservice_id': 'm'})):
            for uid in (STRANGER, OTHER):
                code, got = as_(uid, *what)
                check(code == 403, f'{uid}: {what}: {code} {got}')
        code, got = agent.ask('PUT', '/tcp/filter', {'ports': ['1']})
        check(code == 409, f'root, without --tcp: {code} {got}')
        # Routes that show regions of all users require the permission to read them.
        for path in ('/metrics', '/rdma/mrs', '/rdma/qps', '/tcp'):
            code, got = as_(STRANGER, 'GET', path)
            check(code == 403 and '--consumer-uid' in got['error'], f'{path}: {code} {got}')
            check(as_(OTHER, 'GET', path)[0] == 200, f'{path}: a consumer')
        check(as_(STRANGER, 'GET', '/health')[0] == 200, 'health')
        check(agent.status()['counters']['rest_refused']['role'] == 6, f'{agent.status()["counters"]}')


INSIDE = 'import json, sys; from support.http import request_at; print(json.dumps(request_at(*json.loads(sys.argv[1]))))'


@case
def root_of_a_container_is_a_stranger():
    """It has the socket mounted, and uid 0."""
    if os.getuid():
        skip('only root may make a container')
    with Agent(rest=True) as agent:
        def inside(method, path, body):
            what = [agent.rest, method, path, json.dumps(body), {'Content-Type': 'application/json'}]
            p = subprocess.run(['unshare', '--pid', '--fork', sys.executable, '-c', INSIDE, json.dumps(what)],
                               capture_output=True, text=True, timeout=300)
            if 'unshare:' in p.stderr:
                skip(p.stderr.strip())
            return json.loads(p.stdout)
        code, got = inside('POST', '/rdma/mrs/create', {'microservice_id': 'm'})
        check(code == 403, f'{code} {got}')
        check(inside('PUT', '/tcp/filter', {})[0] == 403, 'a filter')
        check(agent.ask(*post('cart', 7))[0] == 201, 'root')
        code, forged = inside(*post('cart', 666))
        code, mine = agent.ask('POST', '/metrics', {'microservice_id': 'cart', 'name': 'x', 'type': 'gauge', 'add': 0})
        check(mine['value'] == 7 and mine['instance'] != forged['instance'], f'{mine} {forged}')


@case
def rest_pod_expires_when_idle_and_may_return():
    post = {'microservice_id': 'm', 'name': 'x', 'type': 'counter', 'add': 1}
    with Agent('--rest-idle', '1500ms', '--grace', '2s', '--lease', '50ms', rest=True) as agent:
        c = Consumer(agent.socket)
        ask(agent, 'POST', '/metrics', post)
        first = the_entry(c, LIVE)
        wait_until(lambda: c.entry(first['instance'])['state'] == CLOSED)
        assert ask(agent, 'POST', '/metrics', post)[1]['value'] == 2  # in time: the same region
        assert c.entry(first['instance'])['state'] == LIVE
        wait_until(lambda: not c.entries())
        assert ask(agent, 'POST', '/metrics', post)[1]['value'] == 1
        assert agent.status()['counters']['rest_expired'] == 2


@case
def rest_concurrent_posts_lose_no_increment():
    with Agent(rest=True) as agent:
        def work(i):
            for n in range(100):
                code, got = ask(agent, 'POST', '/metrics', {
                    'microservice_id': f'm{n % 3}', 'name': 'x_total', 'type': 'counter', 'add': 1})
                assert code in (200, 201), got
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        values = [ask(agent, 'POST', '/metrics', {
            'microservice_id': f'm{n}', 'name': 'x_total', 'type': 'counter', 'add': 0})[1]['value']
            for n in range(3)]
        assert sum(values) == 400, values


@case
def pages_and_pods_share_no_memory():
    with Agent(rest=True) as agent:
        seen = {}
        for pod in ('a', 'b'):
            for i in range(130):  # over two of MicroView's pages
                code, got = ask(agent, 'POST', '/metrics', {
                    'microservice_id': pod, 'name': f'm{i}', 'type': 'gauge',
                    'value': i + (1000 if pod == 'b' else 0)})
                assert code == 201
                place = (got['instance'], got['offset'])
                assert place not in seen, 'two metrics in one place'
                seen[place] = got['value']
        c = Consumer(agent.socket)
        for e in c.entries():
            view = c.open(e['id'])
            for (instance, offset), value in seen.items():
                if int(instance, 16) == e['instance']:
                    bits, = struct.unpack_from('<Q', view.map, offset)
                    got, = struct.unpack('<d', struct.pack('<Q', bits ^ bits >> 32))
                    assert got == value
            view.close()


@case
def refuses_long_names_and_keeps_metadata():
    with Agent(rest=True) as agent:
        name = 'n' * 255
        post = {'microservice_id': 'm', 'name': name, 'type': 'gauge', 'value': 1, 'unit': 'bytes',
                'help': 'What it is', 'labels': {'a': 'ü'}}
        assert ask(agent, 'POST', '/metrics', post)[0] == 201
        code, got = ask(agent, 'POST', '/metrics', {**post, 'name': name + 'n'})
        assert code == 400 and '256' in got['error']
        m = next(r for r in ask(agent, 'GET', '/metrics')[1]['regions']
                 if r.get('microservice_id'))['metrics'][0]
        assert (m['name'], m['unit'], m['help'], m['labels']) == (name, 'bytes', 'What it is',
                                                                  {'a': 'ü'})


run_cases(only=sys.argv[3:])
