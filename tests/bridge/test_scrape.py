#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics of a target or a text file are published unchanged, and a hostile target harms only itself.
test_scrape.py SIDELIGHT CASE"""
import gzip
import os
import re
import resource
import shutil
import socket
import sys
import time

from bridge import Bridged, count, field, of, say, Server, varint, worker
from support import exposition
from support import http as client
from support.process import Part, case, check, poll, run_cases, skip, wait_until, workdir
from support.published import read
from support.sidelight import Collector

KINDS = b'''# HELP go_gc_duration_seconds A summary of the pauses.
# TYPE go_gc_duration_seconds summary
go_gc_duration_seconds{quantile="0"} 1.3e-05
go_gc_duration_seconds{quantile="1"} 0.0021
go_gc_duration_seconds_sum 17.5
go_gc_duration_seconds_count 1234
# HELP req_total Requests, "all" of them\\\\.
# TYPE req_total counter
req_total{code="200",path="/a\\\\b\\"\\n"} 9007199254740991
# HELP wait_seconds Waiting.
# TYPE wait_seconds histogram
wait_seconds_bucket{x="1",le="0.5"} 2
wait_seconds_bucket{x="1",le="2.5"} 2
wait_seconds_bucket{x="1",le="+Inf"} 3
wait_seconds_sum{x="1"} 4.5
wait_seconds_count{x="1"} 3
# TYPE thing untyped
thing{empty=""} NaN
# TYPE temperature gauge
temperature{a="\xc3\xa4"} -1.5
'''


@case
def scraped_metrics_come_out_as_they_went_in():
    server = Server(say(KINDS))
    with Bridged('--scrape', f'{server.url},job=kinds,interval=100ms,timeout=60s') as agent, Collector([agent], '--period', '20ms') as collector:
        def same():
            got = read(collector.get('/metrics'), of('kinds'))
            return got if ('up', ()) in got[0] else None
        series, types, helps = wait_until(same, 'the target', collector, agent)
        want = read(KINDS.decode())
        for own in 'up', 'scrape_duration_seconds', 'scrape_samples_scraped':
            del series[own, ()]
        check({k: float(v) for k, v in series.items() if v != 'NaN'} ==
              {k: float(v) for k, v in want[0].items() if v != 'NaN'}, series, want[0])
        check(series.keys() == want[0].keys(), series.keys() ^ want[0].keys())
        check({k: types.get(k) for k in want[1]} == want[1], types)
        check({k: helps.get(k) for k in want[2]} == want[2], helps)


def stripped(text, service):
    """The samples of a service without our labels."""
    lines = (re.sub(r'(service|pod|host|process|uid)="[^"]*",?', '', line).replace(',}', '}').replace('{}', '')
             for line in text.splitlines() if f'service="{service}"' in line)
    return {line for line in lines if not line.startswith(('up ', 'scrape_'))}


OPEN = b'''# HELP req Requests.
# TYPE req counter
req_total{code="200"} 17 # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 1 1700000000.1234567
req_created{code="200"} 1600000000.7654321
req_total{code="500"} 3 # {user="a"} 0.5
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_bucket{le="0.5"} 2 # {trace_id="aa"} 0.25 1700000000.0
wait_seconds_bucket{le="+Inf"} 3 # {trace_id="bb"} 9
wait_seconds_count 3
wait_seconds_sum 4.5
wait_seconds_created 1600000001.0
# TYPE build info
build_info{version="1"} 1
# TYPE color stateset
color{color="red"} 0
color{color="blue"} 1
# TYPE queue gaugehistogram
queue_bucket{le="1.0"} 1
queue_bucket{le="+Inf"} 2
queue_gcount 2
queue_gsum 3
# TYPE size summary
size{quantile="0.5"} 2
size_count 3
size_sum 6
size_created 1600000002.0
# TYPE "my.temperature" gauge
{"my.temperature","at.home"="1"} 21.5
# EOF
'''


@case
def exemplars_and_creation_times_are_kept():
    body = [OPEN]
    server = Server(lambda h: say(body[0], 'application/openmetrics-text; version=1.0.0')(h))
    bare = b'# TYPE requests counter\nrequests 5\n# TYPE done_total counter\ndone_total 6\n'
    plain = Server(say(bare))
    accept = 'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8'
    with Bridged('--scrape', f'{server.url},job=open,interval=100ms,timeout=30s', '--scrape',
                 f'{plain.url},job=bare,interval=100ms,timeout=30s') as agent, \
            Collector([agent], '--period', '20ms', '--created') as collector:
        def now(service, accept=accept):
            return stripped(client.request(collector.url + '/metrics', headers={'Accept': accept})[2].decode(), service)

        def samples():
            return {line for line in body[0].decode().splitlines() if line[0] != '#'}
        wait_until(lambda: now('open') == samples(), lambda: now('open') ^ samples(), collector, agent)
        # Another exemplar, and a target that began anew.
        body[0] = OPEN.replace(b'aa"} 0.25', b'cc"} 0.125').replace(b'1600000000.7', b'1650000000.7').replace(b'} 17', b'} 1')
        wait_until(lambda: now('open') == samples(), lambda: now('open') ^ samples(), collector, agent)
        check(count(collector, 'refused') == 0)
        # A counter keeps its name, whether it ends in _total or not.
        check(now('bare', 'text/plain') == {'requests 5', 'done_total 6'}, now('bare', 'text/plain'))
        check(now('bare') == {'requests 5', 'done_total 6'}, now('bare'))
        text = collector.get('/metrics')
        check('# TYPE requests counter\n' in text and '# TYPE done_total counter\n' in text)


@case
def series_end_and_return_with_their_target():
    body = [b'a{x="1"} 1\na{x="2"} 2\nb 3\n']
    server = Server(lambda h: say(body[0])(h) if body[0] else h.send_error(503))
    with Bridged('--scrape', f'{server.url},job=ends,interval=50ms,timeout=60s') as agent, Collector([agent], '--period', '20ms') as collector:
        def now():
            series = read(collector.get('/metrics'), of('ends'))[0]
            return {f'{n}{"".join(v for _, v in l)}': float(v) for (n, l), v in series.items()
                    if not n.startswith('scrape_')}
        wait_until(lambda: now() == {'a1': 1, 'a2': 2, 'b': 3, 'up': 1}, now, collector, agent)
        body[0] = b'a{x="2"} 5\nb 3\n'
        wait_until(lambda: now() == {'a2': 5, 'b': 3, 'up': 1}, now, collector, agent)
        body[0] = None
        wait_until(lambda: now() == {'up': 0}, now, collector, agent)
        check(count(collector, 'failures', cause='status') > 0)
        body[0] = b'a{x="1"} 7\n'
        wait_until(lambda: now() == {'a1': 7, 'up': 1}, now, collector, agent)
        body[0] = b'a{x="1"} 8\nbroken\n'
        wait_until(lambda: count(collector, 'failures', cause='malformed') > 0, collector)
        check('WARN scrape: scrape failed' in '\n'.join(agent.err), agent)


@case
def refused_series_are_tried_again():
    body = [b'a 1\n']
    server = Server(lambda h: say(body[0])(h))
    # The bridge keeps its connection, so that it can scrape without another descriptor.
    server.server.RequestHandlerClass.protocol_version = 'HTTP/1.1'
    with Bridged('--scrape', f'{server.url},job=again,interval=50ms,timeout=60s') as agent, Collector([agent], '--period', '20ms') as collector:
        def more():
            return len(collector.find('more', 'service="again"'))

        def refused():
            return count(collector, 'refused') + count(collector, 'full')
        wait_until(lambda: count(collector, 'scrapes') > 3, collector, agent)
        pid = worker(agent)
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = set(range(1000))
        for _ in range(20):  # leaves out descriptors that are closed again
            used &= {int(fd) for fd in os.listdir(f'/proc/{pid}/fd')}
            time.sleep(0.01)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), limit[1]))
        # They need a larger region, and thus a descriptor.
        body[0] += b''.join(b'more{x="%d"} 1\n' % i for i in range(20000))
        wait_until(refused, 'refused', lambda: {k: v for k, v in collector.find('sidelight_bridge_failures_total').items() if v}, more, collector, agent)
        scrapes = count(collector, 'scrapes')
        wait_until(lambda: count(collector, 'scrapes') > scrapes + 3, collector, agent)
        check(more() < 20000 and collector.total('up', 'service="again"') == 1, more(), agent)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
        wait_until(lambda: more() == 20000, more, collector, agent)


@case
def samples_of_long_ago_end_as_in_prometheus():
    at = {'a': 0, 'b': 0}  # seconds from now

    def ms(name):
        return int((time.time() + at[name]) * 1000)

    def family(name):  # a gauge that is 2
        m = field(1, name) + field(3, 1) + field(4, field(2, field(1, 2.0)) + field(6, ms(name)))
        return varint(len(m)) + m
    text = Server(say(lambda: b'# TYPE a gauge\na 2 %d\n# TYPE b gauge\nb 2 %d\nc 2\n' % (ms('a'), ms('b'))))
    protobuf = Server(say(lambda: family('a') + family('b'), 'application/vnd.google.protobuf; '
                          'proto=io.prometheus.client.MetricFamily; encoding=delimited'))
    with Bridged('--scrape', f'{text.url},job=text,interval=50ms,timeout=60s',
                 '--scrape', f'{protobuf.url},job=protobuf,interval=50ms,timeout=60s,native') as agent, \
            Collector([agent], '--period', '20ms') as collector:
        def now(service):
            return {n for n, _ in read(collector.get('/metrics'), of(service))[0] if len(n) == 1}

        def become(names):
            wait_until(lambda: now('text') == names | {'c'} and now('protobuf') == names,
                       lambda: (names, now('text'), now('protobuf')), collector, agent)
        become({'a', 'b'})
        check(count(collector, 'untimely') == 0, collector)
        at['a'] = -301
        become({'b'})
        at['a'], at['b'] = -200, 700
        become({'a'})
        at['b'] = 500
        become({'a', 'b'})
        for target in text.url, protobuf.url:
            check(count(collector, 'untimely', target=target) >= 2, collector)


@case
def a_large_target_is_published_whole():
    n = 60000
    body = b''.join(b'# TYPE many_%d_total counter\nmany_%d_total{n="%d",path="/a/path"} %d\n' % (i % 100, i % 100, i, i)
                    for i in sorted(range(n), key=lambda i: i % 100))
    body = b'\n'.join(dict.fromkeys(body.split(b'\n')))
    server = Server(say(body))
    with Bridged('--scrape', f'{server.url},job=large,interval=1s') as agent, Collector(
            [agent], '--period', '200ms', '--history', '0') as collector:
        def total():
            series = read(collector.get('/metrics'), of('large'))[0]
            values = [int(v) for (name, _), v in series.items() if name.startswith('many_')]
            return len(values), sum(values)
        wait_until(lambda: total() == (n, n * (n - 1) // 2), total, collector, agent)
        check(count(collector, 'full') == 0 and count(collector, 'refused') == 0)


def endless(h):
    h.send_response(200)
    h.end_headers()
    while True:
        h.wfile.write(b'a{x="' + b'y' * 60000 + b'"} 1\n')


def slow(h):
    h.send_response(200)
    h.end_headers()
    while True:
        h.wfile.write(b'a')
        time.sleep(0.05)


def headers(h):
    h.wfile.write(b'HTTP/1.1 200 OK\r\n')
    for i in range(10**6):
        h.wfile.write(b'X-%d: %s\r\n' % (i, b'y' * 1000))


@case
def a_hostile_target_harms_itself_alone():
    elsewhere = Server(say(b'stolen 1\n'))

    def redirect(h):
        h.send_response(302)
        h.send_header('Location', elsewhere.url)
        h.end_headers()

    bomb = gzip.compress(b'a 1\n' * (40 << 20))
    many = b''.join(b'a{x="%d"} 1\n' % i for i in range(10**6))
    attacks = {'endless': (endless, 'too_large'), 'slow': (slow, 'timeout'), 'headers': (headers, 'too_large'),
               'redirect': (redirect, 'status'), 'many': (say(many), 'series'),
               'bomb': (say(bomb, Content_Encoding='gzip'), 'too_large')}
    servers = {name: Server(a[0]) for name, a in attacks.items()}
    n = [0]

    def healthy():
        n[0] += 1
        return b'fine_total %d\n' % n[0]

    good = Server(say(healthy))
    options = [w for name, s in servers.items()
               for w in ('--scrape', f'{s.url},job={name},interval=300ms,timeout={"1s" if name == "slow" else "60s"}')]
    with Bridged('--scrape', f'{good.url},job=good,interval=100ms,timeout=60s', *options) as agent, Collector([agent], '--period', '50ms') as collector:
        for name, (_, cause) in attacks.items():
            wait_until(lambda: count(collector, 'failures', target=servers[name].url, cause=cause),
                       name, cause, lambda: collector.find('sidelight_bridge_failures_total'), collector, agent)
        before = count(collector, 'scrapes', target=good.url)
        wait_until(lambda: count(collector, 'scrapes', target=good.url) > before + 3, 'the good one', agent)
        series = collector.series()
        check(not [k for k in series if k.startswith(('stolen', 'a{'))], 'published')
        check([v for k, v in series.items() if k.startswith('up') and 'service="good"' in k] == [1])
        check(sum(v for k, v in series.items() if k.startswith('up{')) == 1, 'up')
        check(count(collector, 'failures', target=good.url) == 0)
    check(elsewhere.requests == 0, 'the redirect was followed')


@case
def textfiles_are_published_as_they_are():
    folder = workdir()
    os.mkdir(f'{folder}/in')

    def write(name, text):
        with open(f'{folder}/new', 'w') as f:
            f.write(text)
        os.rename(f'{folder}/new', f'{folder}/in/{name}')
    write('good.prom', '# HELP backup_age_seconds Age.\n# TYPE backup_age_seconds gauge\nbackup_age_seconds{db="x"} 17\n')
    write('bad.prom', 'oops{\n')
    write('bad-too.prom', 'oops 1 2 3 4\n')
    write('stamped.prom', f'stamped 1 {int(time.time() * 1000)}\n')
    os.utime(f'{folder}/in/good.prom', ns=(0, 1700000000_900000000))
    write('other.txt', 'ignored 1\n')
    os.mkfifo(f'{folder}/in/pipe.prom')
    os.symlink('/etc/passwd', f'{folder}/in/link.prom')
    with Bridged('--textfile', f'{folder}/in', '--scrape-interval', '100ms') as agent, Collector([agent], '--period', '20ms') as collector:
        def now():
            return {f'{n}{"".join(v for _, v in l)}': float(v)
                    for (n, l), v in read(collector.get('/metrics'), of('textfile'))[0].items()}
        mtime = 1700000000
        stamp = f'node_textfile_mtime_seconds{folder}/in/good.prom'
        wait_until(lambda: now() == {'backup_age_secondsx': 17, 'node_textfile_scrape_error': 1, stamp: mtime},
                   now, collector, agent)
        wait_until(lambda: count(collector, 'textfile_errors') >= 5, collector)
        # Each broken file is named.
        for name in 'bad', 'bad-too', 'stamped', 'pipe', 'link':
            wait_until(lambda: f'cannot read file={folder}/in/{name}.prom' in '\n'.join(agent.err), name, agent)
        check('a sample has a timestamp' in '\n'.join(agent.err), agent)
        for name in 'bad', 'bad-too', 'stamped', 'pipe', 'link':
            os.unlink(f'{folder}/in/{name}.prom')
        wait_until(lambda: now().get('node_textfile_scrape_error') == 0, now, collector, agent)
        # A text about it may change, and the values go on.
        for value in 18, 19:
            write('good.prom', f'# HELP backup_age_seconds New.\n# TYPE backup_age_seconds gauge\nbackup_age_seconds{{db="x"}} {value}\n')
            wait_until(lambda: now().get('backup_age_secondsx') == value, now, collector, agent)
        os.unlink(f'{folder}/in/good.prom')
        wait_until(lambda: now() == {'node_textfile_scrape_error': 0}, now, collector, agent)


@case
def textfiles_that_are_not_read_are_counted():
    folder = f'{workdir()}/in'
    os.mkdir(folder)
    for i in range(1001):
        with open(f'{folder}/{i:04}.prom', 'w') as f:
            f.write(f'n{i:04} 1\n' if i in (0, 999, 1000) else '')
    with Bridged('--textfile', folder, '--scrape-interval', '100ms') as agent, Collector([agent], '--period', '20ms') as collector:
        def errors():
            return count(collector, 'textfile_errors')
        wait_until(errors, 'the file beyond the limit', collector, agent)
        wait_until(lambda: collector.find('n0999'), collector, agent)
        check(not collector.find('n1000'), collector)
        check(any('only the first 1000 files' in line for line in agent.err), agent)
        os.unlink(f'{folder}/0000.prom')
        wait_until(lambda: collector.find('n1000') and not collector.find('n0000'), collector, agent)
        wait_until(lambda: not collector.total('node_textfile_scrape_error'), collector, agent)
        before = errors()
        os.rename(folder, f'{folder}.away')
        wait_until(lambda: errors() > before, 'the missing folder', collector, agent)
        check(collector.total('node_textfile_scrape_error') == 1, collector)
        os.rename(f'{folder}.away', folder)
        # It is the same folder, so a confined worker may read it.
        wait_until(lambda: collector.find('n1000'), collector, agent)


@case
def node_exporter_is_the_same_through_sidelight():
    exe = shutil.which('prometheus-node-exporter')
    if not exe:
        skip('no prometheus-node-exporter')
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    url = f'http://127.0.0.1:{port}/metrics'
    exporter = Part(exe, f'--web.listen-address=127.0.0.1:{port}', '--collector.disable-defaults', *(f'--collector.{c}' for c in (
                        # Metrics of sockets include the scrape itself.
                        'cpu', 'diskstats', 'filesystem', 'loadavg', 'meminfo', 'netdev', 'os', 'stat', 'time',
                        'uname', 'vmstat', 'schedstat', 'netclass')))
    with_go = Server(say(KINDS))
    wait_until(lambda: poll(lambda: up(url), 1), 'node_exporter', exporter)
    with Bridged('--scrape', f'{url},job=node,interval=200ms,timeout=60s', '--scrape', f'{with_go.url},interval=1s') as agent, \
            Collector([agent], '--period', '20ms') as collector:
        def through():
            got = read(collector.get('/metrics'), of('node'))
            return got if ('node_uname_info' in {n for n, _ in got[0]}) else None
        wait_until(through, 'node_exporter', collector, agent)
        wrong, tries = None, 0
        while wrong is None or wrong:
            before = read(client.get(url))
            time.sleep(0.7)
            series, types, helps = through()
            after = read(client.get(url))
            # Metrics of the exporter's own process change with each scrape.
            constant = {k for k, v in before[0].items() if k[0].startswith('node_') and after[0].get(k) == v}
            now = {k for k in constant if k not in series or float(series[k]) != float(after[0][k])}
            # A value that changed and changed back differs only in some attempts.
            wrong = now if wrong is None else wrong & now
            tries += 1
            check(tries < 10, {k: (series.get(k), after[0][k]) for k in wrong})
        lasting = before[0].keys() & after[0].keys()
        ours = {k for k in series if not k[0].startswith(('up', 'scrape_'))} | {
            k for k in series if k[0].startswith('node_scrape')}
        check(len(lasting) > 200, len(lasting))
        check(lasting <= ours, 'missing:', sorted(lasting - ours)[:5])
        check(ours <= before[0].keys() | after[0].keys(), 'more:', sorted(ours - after[0].keys())[:5])
        kinds = {k: types.get(k) for k in after[1]}
        check(kinds == after[1], {k: (kinds[k], v) for k, v in after[1].items() if kinds[k] != v})
        # If both targets have a family, one of the two help texts is shown.
        differs = {k: (helps.get(k), v) for k, v in after[2].items()
                   if v == before[2].get(k) != helps.get(k) and f' {k} '.encode() not in KINDS}
        check(not differs, differs)
        check(len(constant) > 100, len(constant))
        check(count(collector, 'refused') == 0 and count(collector, 'full') == 0)
    exporter.stop()


def up(url):
    try:
        return client.get(url)
    except OSError:
        return None


@case
def protobuf_brings_native_histograms():
    def family(name, kind, metric, text=''):
        m = field(1, name) + field(2, text) + field(3, kind) + field(4, field(1, field(1, 'x') + field(2, '1')) + metric)
        return varint(len(m)) + m

    def seconds(n):
        return field(1, n) + field(2, 500000000)

    def exemplar(trace, value):
        """Returns an exemplar after its length."""
        x = field(1, field(1, 'trace_id') + field(2, trace)) + field(2, value) + field(3, seconds(1700000000))
        return varint(len(x)) + x

    # Schema 3: the buckets up to 2, 2^(9/8) and 2^(14/8) have 5, 0 and 3 observations; and one is 0.
    native = field(7, field(1, 9) + field(2, 15.0) + field(5, 6) + field(6, 1e-9) + field(7, 1) +
                   field(12, field(1, 16) + field(2, 2)) + field(12, field(1, 8) + field(2, 1)) +
                   field(13, bytes([10, 9, 6])) + field(15, seconds(1500000000)) + varint(16 << 3 | 2) + exemplar('n', 1.9))
    classic = field(7, field(1, 3) + field(2, 4.5) + field(3, field(1, 2) + field(2, 0.5) + varint(3 << 3 | 2) + exemplar('h', 0.25)) +
                    field(3, field(1, 3) + field(2, float('inf'))))
    counter = field(3, field(1, 17.5) + varint(2 << 3 | 2) + exemplar('c', 1.0) + field(3, seconds(1600000000)))
    body = b''.join([family('c_total', 0, counter, 'Help.'), family('g', 1, field(2, field(1, -1.0))),
                     family('s', 2, field(4, field(1, 2) + field(2, 5.0) + field(3, field(1, 0.5) + field(2, 1.5)))),
                     family('u', 3, field(5, field(1, 7.0))), family('n', 4, native), family('h', 4, classic)])
    kind = 'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited'
    asked, cut = [], []

    def answer(h):
        asked.append(h.headers['Accept'])
        say(body[:-1] if cut else body, kind)(h)
    server = Server(answer)
    with Bridged('--scrape', f'{server.url},job=pb,interval=50ms,timeout=60s,native') as agent, \
            Collector([agent], '--period', '20ms', '--created') as collector:
        def now():
            return {n + ''.join(v for k, v in l if k != 'x'): float(v)
                    for (n, l), v in read(collector.get('/metrics'), of('pb'))[0].items()}
        series = wait_until(lambda: now() if 'n_count' in now() else None, now, collector, agent)
        check('application/vnd.google.protobuf' in asked[0].split(',')[0], asked[0])
        want = {'c_total': 17.5, 'g': -1, 's0.5': 1.5, 's_sum': 5, 's_count': 2, 'u': 7, 'n_sum': 15, 'n_count': 9,
                'h_bucket0.5': 2, 'h_bucket+Inf': 3, 'h_sum': 4.5, 'h_count': 3, 'up': 1}
        check({k: series.get(k) for k in want} == want, series)
        types = read(collector.get('/metrics'), of('pb'))[1]
        check((types['s'], types['n'], types['u'], types['g']) == ('summary', 'histogram', 'untyped', 'gauge'), types)
        buckets = {float(k.removeprefix('n_bucket')): v for k, v in series.items() if k.startswith('n_bucket')}
        check((buckets[1], buckets[2], buckets[4]) == (1, 6, 9), buckets)
        of_openmetrics = 'application/openmetrics-text'
        shown = wait_until(lambda: '# {trace_id="n"}' in (got := client.request(
            collector.url + '/metrics', headers={'Accept': of_openmetrics})[2].decode()) and got, 'exemplars', collector)
        lines = stripped(shown, 'pb')
        check(lines >= {'c_total{x="1"} 17.5 # {trace_id="c"} 1 1700000000.5', 'c_created{x="1"} 1600000000.5',
                        'h_bucket{x="1",le="0.5"} 2 # {trace_id="h"} 0.25 1700000000.5', 'n_created{x="1"} 1500000000.5',
                        'n_bucket{x="1",le="2.0"} 6 # {trace_id="n"} 1.9 1700000000.5'}, lines)
        # What is cut off is refused as a whole.
        cut.append(True)
        wait_until(lambda: now().get('up') == 0 and 'g' not in now(), now, collector, agent)
        wait_until(lambda: count(collector, 'failures', cause='malformed') > 0, now, collector, agent)


@case
def native_histograms_keep_a_finer_scale():
    """Up to that of the agent: the same buckets come out."""
    def histogram(schema):  # buckets 40 and 41 have 3 and 4 observations
        h = field(7, field(1, 7) + field(2, 10.5) + field(5, 2 * schema) + field(6, 1e-9) + field(12, field(1, 80) + field(2, 2)) +
                  field(13, bytes([6, 2])))
        m = field(1, f'n{schema}') + field(3, 4) + field(4, h)
        return varint(len(m)) + m
    kind = 'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited'
    server = Server(say(b''.join(histogram(s) for s in (3, 6, 8)), kind))
    for scale in (6, 8):
        with Bridged('--scrape', f'{server.url},job=pb,interval=50ms,timeout=60s,native', '--exponential-scale', str(scale)) as agent, \
                Collector([agent], '--period', '20ms') as collector:
            def shown():
                body = client.request(collector.url + '/metrics', headers={'Accept': kind})[2]
                return {f['name'][0]: f['metric'][0]['histogram'][0] for f in exposition.decode(body) if f['name'][0] in ('n3', 'n6', 'n8')}
            got = wait_until(lambda: len(s := shown()) == 3 and s, shown, collector, agent)
            own = got[f'n{scale}']
            check((own['schema'], own['positive_span'], own['positive_delta']) ==
                  ([str(scale)], [{'offset': ['40'], 'length': ['2']}], ['3', '1']), own)
            check(all(h['sample_count'] == ['7'] and h['sample_sum'] == ['10.5'] for h in got.values()), got)
            check(count(collector, 'refused') == 0 and count(collector, 'full') == 0, collector)


run_cases(only=sys.argv[2:])
