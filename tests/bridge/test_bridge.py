#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other programs say comes out as it went in, and a hostile one harms itself alone.
test_bridge.py SIDELIGHT CASE"""
import gzip
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import struct
import sys
import threading
import time

from support import exposition
from support import http as client
from support.process import SCALE, Part, case, check, poll, run_cases, skip, wait_until, workdir
from support.published import read
from support.sidelight import Agent, Collector


class Server:
    """An HTTP server whose answer is a function of the handler."""

    def __init__(self, answer):
        outer = self
        self.requests = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests += 1
                try:
                    answer(self)
                except OSError:
                    pass  # the client went

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_port}/metrics'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Bridged(Agent):
    """An agent whose bridges do not end by themselves, unless the test ends them."""
    ends = False

    def __exit__(self, error, *more):
        super().__exit__(error, *more)
        said = '\n'.join(self.err)
        check(error or self.ends == ('the process that runs the bridges exited' in said), said)
        check('Sanitizer' not in said and 'runtime error' not in said, said)


def worker(agent):
    """The process that reads what other programs say."""
    with os.popen(f'pgrep -P {agent.pid} -x sidelight-bridg') as f:
        return int(f.read().split()[0])


def say(body, kind='text/plain; version=0.0.4', **headers):
    def answer(h):
        b = body() if callable(body) else body
        h.send_response(200)
        h.send_header('Content-Type', kind)
        h.send_header('Content-Length', str(len(b)))
        for k, v in headers.items():
            h.send_header(k.replace('_', '-'), v)
        h.end_headers()
        h.wfile.write(b)
    return answer


def count(collector, name, **labels):
    return collector.total(f'sidelight_bridge_{name}_total',
                           *(f'{k}="{v}"' for k, v in labels.items()))


def of(service):
    return lambda labels: labels.get('service') == service


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
def a_killed_worker_is_started_again():
    server = Server(say(b'a_total 5\n'))
    with Bridged('--scrape', f'{server.url},job=again,interval=50ms,timeout=60s') as agent, Collector([agent], '--period', '20ms') as collector:
        def pids():
            return {re.search('process="(.*?)"', k)[1] for k in collector.find('a_total')}
        wait_until(lambda: len(pids()) == 1, 'the series', collector, agent)
        first = pids()
        agent.ends = True
        os.kill(worker(agent), signal.SIGKILL)
        wait_until(lambda: pids() - first, 'another worker', collector, agent)
        check('the process that runs the bridges exited' in '\n'.join(agent.err), agent)
        last = worker(agent)
    wait_until(lambda: not os.path.exists(f'/proc/{last}'), 'it ends with the agent')


@case
def sockets_of_a_killed_worker_are_waited_for():
    """Its child processes may keep them open for a moment after the next one starts."""
    folder = workdir()
    paths = f'{folder}/otlp.sock', f'{folder}/statsd.sock'
    held = []
    for path in paths:
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind(path)
        held[-1].listen()

    def give_up():
        held[1].accept()  # the first attempt
        time.sleep(0.3)
        for s in held:
            s.close()
    threading.Thread(target=give_up, daemon=True).start()
    with Bridged('--otlp', f'unix:{paths[0]}', '--statsd', f'unix-stream:{paths[1]}') as agent, Collector([agent], '--period', '20ms') as collector:
        def posted():
            try:
                return client.request_at(f'unix:{paths[0]}', 'POST', '/v1/metrics', b'{"resourceMetrics":[]}', {'Content-Type': 'application/json'})[0] == 200
            except OSError:
                return False
        wait_until(posted, 'OTLP', agent)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(paths[1])
            s.sendall(b'late:1|c\n')
            wait_until(lambda: collector.find('late_total'), 'StatsD', collector, agent)


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
        os.unlink(f'{folder}/in/good.prom')
        wait_until(lambda: now() == {'node_textfile_scrape_error': 0}, now, collector, agent)


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
                        # Those of sockets count the one that asks.
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
            # Those of the exporter's own process change with each that asks.
            constant = {k for k, v in before[0].items() if k[0].startswith('node_') and after[0].get(k) == v}
            now = {k for k in constant if k not in series or float(series[k]) != float(after[0][k])}
            # What changed and changed back is not wrong each time.
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
        # Of a family that the other target has, too, one of both helps is shown.
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
def statsd_updates_are_exact_or_counted_as_lost():
    sys.path.append('/usr/lib/python3/dist-packages')  # whichever Python runs this
    try:
        import statsd
    except ImportError:
        skip('no python3-statsd')
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    with Bridged('--statsd', f'127.0.0.1:{port}') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: collector.find('sidelight_bridge_statsd_packets_total'), 'StatsD', collector, agent)
        c = statsd.StatsClient('127.0.0.1', port)
        n = int(100_000 * SCALE)  # 10^6 in a soak test
        for _ in range(n):
            c.incr('a.total')
        with c.pipeline() as pipe:
            for i in range(1000):
                pipe.timing('wait', 250)
                pipe.gauge('level', i)

        def all_counted():
            c.incr('last')  # with a packet, the kernel says what it dropped before it
            return collector.total('a_total') + count(collector, 'statsd_dropped') >= n
        wait_until(all_counted, lambda: (collector.total('a_total'), count(collector, 'statsd_dropped')), collector, agent)
        check(collector.total('a_total') + count(collector, 'statsd_dropped') <= n + 100, 'counted twice')
        check(count(collector, 'statsd_malformed') == 0)


@case
def statsd_by_a_unix_socket_loses_nothing():
    folder = workdir()
    with Bridged('--statsd', f'unix:{folder}/statsd.sock') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: os.path.exists(f'{folder}/statsd.sock'), 'the socket', agent)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(f'{folder}/statsd.sock')  # senders wait for room
            for i in range(100000):
                s.send(b'exact:%d|c|#env:test,x\nset:%d|s' % (i, i % 100))
        wait_until(lambda: collector.total('exact_total', 'env="test"', 'x=""') == sum(range(100000)),
                   lambda: collector.find('exact_total'), collector, agent)
        wait_until(lambda: count(collector, 'statsd_lines') == 200000, collector)
        check(count(collector, 'statsd_packets') == 100000)


@case
def statsd_over_connections_loses_nothing():
    folder = workdir()
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        at = s.getsockname()
    with open(f'{folder}/map.yaml', 'w') as f:
        f.write('mappings:\n- {match: "part.*", name: parts, labels: {n: $1}}\n')
    with Bridged('--statsd', f'tcp:127.0.0.1:{at[1]}', '--statsd', f'unix-stream:{folder}/stream.sock', '--statsd-dialect', 'dogstatsd',
                 '--statsd-mapping', f'{folder}/map.yaml') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: os.path.exists(f'{folder}/stream.sock'), 'the socket', agent)
        n = 20000
        lines = b''.join(b'part.%d:%d|c\n' % (i % 3, i) for i in range(n))
        with socket.create_connection(at) as s:
            # Lines that are cut anywhere, and the last without a newline.
            for i in range(0, len(lines), 997):
                s.sendall(lines[i:i + 997])
            s.sendall(b'last:-5|g')
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f'{folder}/stream.sock')
            for i in range(n):
                packet = b'packed:%d|c\npacked:1|c' % i
                s.sendall(struct.pack('<I', len(packet)) + packet)
        whole = n * (n - 1) // 2
        wait_until(lambda: (collector.total('parts_total'), collector.total('packed_total'), collector.total('last')) ==
                   (whole, whole + n, -5), lambda: collector.find('parts_total'), collector, agent)
        check(len(collector.find('parts_total')) == 3)
        wait_until(lambda: count(collector, 'statsd_lines') == 3 * n + 1 and count(collector, 'statsd_connections') == 2 and
                   count(collector, 'statsd_packets') == n, lambda: collector.find('sidelight_bridge_statsd'), collector)
        # What has no end is cut off and counted.
        for beginning in b'x' * 70000, struct.pack('<I', 70000 & 0xffff) + b'x' * 10, b'half a packet\nand a line without a type':
            with socket.create_connection(at) as s:
                try:
                    s.sendall(beginning)
                except OSError:
                    pass
        wait_until(lambda: count(collector, 'statsd_truncated') == 2 and count(collector, 'statsd_malformed') == 2,
                   lambda: collector.find('sidelight_bridge_statsd'), collector)


def varint(n):
    return bytes([n & 0x7f | 0x80]) + varint(n >> 7) if n > 0x7f else bytes([n])


def field(number, value):
    """A field of protobuf: a length for bytes and str, fixed64 for floats, varint for ints."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack('<d', value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def otlp(service, *metrics):
    """ExportMetricsServiceRequest in protobuf."""
    name = field(1, field(1, 'service.name') + field(2, field(1, service)))
    return field(1, field(1, name) + field(2, b''.join(field(2, m) for m in metrics)))


@case
def protobuf_brings_native_histograms():
    def family(name, kind, metric, text=''):
        m = field(1, name) + field(2, text) + field(3, kind) + field(4, field(1, field(1, 'x') + field(2, '1')) + metric)
        return varint(len(m)) + m

    def seconds(n):
        return field(1, n) + field(2, 500000000)

    def exemplar(trace, value):
        """Its length, and it."""
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


@case
def otlp_metrics_are_published():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    url = f'http://127.0.0.1:{port}/v1/metrics'

    def post(body, kind='application/x-protobuf', **headers):
        return client.request(url, 'POST', body, {'Content-Type': kind, **headers})[0]

    route = field(7, field(1, 'http.route') + field(2, field(1, '/cart')))
    total = field(1, 'http.requests') + field(7, field(1, route + field(4, 17.0)) + field(2, 2) + field(3, 1))
    delta = field(1, 'jobs') + field(7, field(1, field(4, 5.0)) + field(2, 1) + field(3, 1))
    # 10 values of 1.5 and 1 of 0, at scale 5.
    exponential = field(1, 'wait') + field(3, 's') + field(10, field(1, (
        b'\x21' + struct.pack('<Q', 11) + field(5, 15.0) + field(6, 10) + b'\x39' + struct.pack('<Q', 1) +
        field(8, field(1, 36) + field(2, varint(10))))) + field(2, 2))
    with Bridged('--otlp', f'127.0.0.1:{port}') as agent, Collector([agent], '--period', '20ms') as collector:
        def ready():
            try:
                return post(b'') == 200
            except OSError:
                return False
        wait_until(ready, 'the receiver', agent)
        # By one connection: a second one that comes before the end of the first is another sender.
        shop = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        for body, more in (otlp('shop', total, delta, exponential), {}), (gzip.compress(otlp('shop', delta)), {'Content-Encoding': 'gzip'}):
            shop.request('POST', '/v1/metrics', body, {'Content-Type': 'application/x-protobuf', **more})
            answer = shop.getresponse()
            check(answer.status == 200, answer.read())
            answer.read()
        check(post(b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"json.gauge","gauge":{"dataPoints":'
                   b'[{"asInt":"-7"}]}}]}]}]}', 'application/json') == 200)
        check(post(b'\x0a\x05', 'application/x-protobuf') == 400)
        check(post(b'{', 'application/json') == 400)
        check(post(b'a', 'text/plain') == 415)
        check(post(gzip.compress(bytes(64 << 20)), **{'Content-Encoding': 'gzip'}) == 400)

        # A label that is too long, and negative observations, are counted.
        long = field(7, field(1, 'k') + field(2, field(1, 'x' * 2000)))
        check(post(otlp('lost', field(1, 'a') + field(5, field(1, long + field(4, 1.0))))) == 200)
        negative = field(1, b'\x21' + struct.pack('<Q', 3) + field(9, field(2, varint(3))))
        check(post(otlp('lost', field(1, 'b') + field(10, negative + field(2, 2)))) == 200)
        wait_until(lambda: count(collector, 'otlp_refused') == 2, lambda: count(collector, 'otlp_refused'), collector, agent)

        def now():
            return {n + ''.join(v for _, v in l): float(v)
                    for (n, l), v in read(collector.get('/metrics'), of('shop'))[0].items()}
        wait_until(lambda: now().get('jobs_total') == 10 and 'wait_seconds_count' in now(), now, collector, agent)
        series = now()
        check(series['http_requests_total/cart'] == 17, series)
        check((series['wait_seconds_count'], series['wait_seconds_sum']) == (11, 15), series)
        buckets = {float(k.removeprefix('wait_seconds_bucket')): v for k, v in series.items() if k.startswith('wait_seconds_bucket')}
        check(buckets[1] == 1 and buckets[2] == 11 and buckets[float('inf')] == 11, buckets)
        wait_until(lambda: collector.total('json_gauge', 'service="unknown_service"') == -7, collector)
        wait_until(lambda: count(collector, 'otlp_malformed') == 3, collector)
        wait_until(lambda: count(collector, 'otlp_points') == 6 and count(collector, 'otlp_refused', cause='negative') == 1 and
                   count(collector, 'otlp_refused', cause='unpublishable') == 1, lambda: collector.find('sidelight_bridge_otlp'), collector)


class Otlp:
    """Senders of OTLP in JSON, and the address that they send to."""

    def __init__(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.at = f'127.0.0.1:{s.getsockname()[1]}'

    def connect(self, agent):
        def try_it():
            try:
                c = http.client.HTTPConnection(self.at, timeout=60)
                return c if post_otlp(c, {})[0] == 200 else None
            except OSError:
                return None
        return wait_until(try_it, 'the receiver', agent)


def post_otlp(connection, body, path='/v1/metrics'):
    """(status, answer)"""
    connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def counters(service, values, start=1000, time=2000, temporality=2, **attributes):
    """A request with counters: {name: value}."""
    text = [{'key': k, 'value': {'stringValue': v}} for k, v in {'service.name': service, **attributes}.items()]
    return {'resourceMetrics': [{'resource': {'attributes': text}, 'scopeMetrics': [{'metrics': [
        {'name': name, 'sum': {'aggregationTemporality': temporality, 'isMonotonic': True, 'dataPoints': [
            {'asInt': str(value), 'startTimeUnixNano': str(start * 10**9), 'timeUnixNano': str(time * 10**9)}]}}
        for name, value in values.items()]}]}]}


@case
def otlp_senders_are_told_apart():
    otlp = Otlp()
    with Bridged('--otlp', otlp.at, '--otlp-resource-labels', 'env') as agent, Collector([agent], '--period', '20ms') as collector:
        first, second = otlp.connect(agent), otlp.connect(agent)

        def served(**labels):
            return {re.search('pod="(.*?)"', k)[1]: v for k, v in collector.find('served_total').items()
                    if all(f'{name}="{value}"' in k for name, value in labels.items())}
        for i in range(1, 4):
            check(post_otlp(first, counters('twins', {'served': 100 * i})) == (200, {}))
            check(post_otlp(second, counters('twins', {'served': i}, start=1001)) == (200, {}))
        wait_until(lambda: served(service='twins') == {'twins': 300, 'twins-2': 3}, served, collector, agent)
        # A sender that connects again is the same one.
        first.close()
        wait_until(lambda: post_otlp(third := otlp.connect(agent), counters('twins', {'served': 400})) == (200, {}) and
                   served(service='twins') == {'twins': 400, 'twins-2': 3}, served, collector, agent)
        # It keeps its series when another one has left.
        second.close()
        first, second = otlp.connect(agent), otlp.connect(agent)
        for value in 5, 6:
            check(post_otlp(first, counters('left', {'served': value})) == (200, {}))
            check(post_otlp(second, counters('left', {'served': 10 * value})) == (200, {}))
            if value == 5:
                first.close()
                first = otlp.connect(agent)
                wait_until(lambda: post_otlp(second, counters('left', {'served': 50})) == (200, {}) and
                           served(service='left') == {'left': 5, 'left-2': 50}, served, collector, agent)
        wait_until(lambda: served(service='left') == {'left': 6, 'left-2': 60}, served, collector, agent)
        # Spans and metrics of a process have connections of their own.
        span = {'traceId': '01' * 16, 'spanId': '02' * 8, 'name': 'x', 'startTimeUnixNano': '8', 'endTimeUnixNano': '9'}
        spans = {'resourceSpans': [{'resource': counters('both', {})['resourceMetrics'][0]['resource'],
                                    'scopeSpans': [{'spans': [span]}]}]}
        check(post_otlp(first, spans, '/v1/traces') == (200, {}))
        check(post_otlp(second, counters('both', {'served': 1})) == (200, {}))
        check(post_otlp(first, spans, '/v1/traces') == (200, {}))
        wait_until(lambda: served(service='both') == {'both': 1}, served, collector, agent)
        check(not collector.find('both-2'), collector)
        # Over one connection, the resources tell them apart.
        for pid in '7', '8':
            check(post_otlp(second, counters('forks', {'served': int(pid)}, **{'process.pid': pid, 'env': 'test'})) == (200, {}))
        wait_until(lambda: served(service='forks', env='test') == {'forks': 7, 'forks-2': 8}, served, collector, agent)
        wait_until(lambda: collector.total('target_info', 'process_pid="8"', 'pod="forks-2"') == 1,
                   lambda: collector.find('target_info'), collector)


@case
def otlp_answers_say_what_was_refused():
    otlp = Otlp()
    with Bridged('--otlp', otlp.at) as agent, Collector([agent], '--period', '20ms') as collector:
        c = otlp.connect(agent)
        twice = counters('s', {'a': 1, 'b': 2})
        metrics = twice['resourceMetrics'][0]['scopeMetrics'][0]['metrics']
        metrics += [metrics[0], {'name': 'c', 'sum': {'dataPoints': [{'asInt': 1}]}}]
        partial = post_otlp(c, twice)[1]['partialSuccess']
        check(partial['rejectedDataPoints'] == '2' and 'was received before' in partial['errorMessage'] and
              'aggregation temporality' in partial['errorMessage'], partial)
        # The same in protobuf; and a delta that is sent again counts once.
        metric = field(1, 'd') + field(7, field(1, field(4, 1.0) + b'\x19' + struct.pack('<Q', 5 * 10**9)) + field(2, 1) + field(3, 1))
        resource = field(1, field(1, field(1, 'service.name') + field(2, field(1, 's'))))

        def send():
            return client.request(f'http://{otlp.at}/v1/metrics', 'POST', field(1, resource + field(2, field(2, metric))),
                                  {'Content-Type': 'application/x-protobuf'})
        check(send()[2] == b'', 'nothing was refused')
        answer = send()[2]
        check(answer[0] == 0x0a and answer[2:6] == b'\x08\x01\x12' + answer[5:6] and b'was received before' in answer, answer)
        span = {'traceId': '01' * 16, 'spanId': '02' * 8, 'name': 'x', 'startTimeUnixNano': '9', 'endTimeUnixNano': '8'}
        partial = post_otlp(c, {'resourceSpans': [{'scopeSpans': [{'spans': [span, {**span, 'spanId': ''}]}]}]},
                            '/v1/traces')[1]['partialSuccess']
        check(partial['rejectedSpans'] == '2' and '1 span: ' in partial['errorMessage'], partial)
        for name, labels in (('otlp_refused', {'duplicate': 2, 'temporality': 1}), ('otlp_refused_spans', {'ids': 1, 'times': 1})):
            wait_until(lambda: {k: count(collector, name, cause=k) for k in labels} == labels and
                       count(collector, name) == sum(labels.values()), lambda: collector.find('sidelight_bridge_otlp'), collector)
        check(collector.total('a_total', 'service="s"') == 1 and collector.total('d_total', 'service="s"') == 1)
        # From one temporality to the other, the series begins anew.
        for temporality, value, time in ((2, 40, 2001), (1, 5, 2002), (1, 6, 2003), (2, 50, 2004)):
            check(post_otlp(c, counters('s', {'b': value}, time=time, temporality=temporality)) == (200, {}))
            want = 11 if value == 6 else value
            wait_until(lambda: collector.total('b_total', 'service="s"') == want, lambda: collector.find('b_total'), collector)


@case
def costly_otlp_bodies_are_refused():
    """Each is short, as it arrives, and means very much work: the next sender waits for none of it."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{s.getsockname()[1]}'

    def post(body, kind='application/x-protobuf', path='/v1/metrics'):
        """(status, what the answer says)"""
        status, _, said = client.request(url + path, 'POST', gzip.compress(body, 1), {
            'Content-Type': kind, 'Content-Encoding': 'gzip'}, seconds=300)
        return status, said.decode(errors='replace')

    group = b'\x0b'  # field 1, which begins a group
    point = field(7, field(1, 'k') + field(2, field(1, 'v')))
    attributes = b''.join(field(7, b'') for _ in range(1000))
    costly = [
        (b'\x0a\x00' * 4000000, 'resources'),
        (field(1, field(2, b'') * 4000000), 'messages'),
        (field(1, field(2, field(2, b'') * 4000000)), 'messages'),
        (field(1, field(2, field(2, field(1, 'm') + field(5, field(1, b'') * 4000000)))), 'messages'),
        (field(1, field(2, field(2, field(1, 'm') + field(5, field(1, attributes) * 1000)))), 'messages'),
        (field(1, field(1, field(1, b'') * 4000000)), 'messages'),
    ]
    with Bridged('--otlp', url.removeprefix('http://')) as agent, Collector([agent], '--period', '20ms') as collector:
        def ready():
            try:
                return post(b'')[0] == 200
            except OSError:
                return False
        wait_until(ready, 'the receiver', agent)
        pid = worker(agent)

        def rss():
            with open(f'/proc/{pid}/statm') as f:
                return int(f.read().split()[1]) * 4096
        before = rss()
        for body, cause in costly:
            status, said = post(body)
            check(status == 413 and f'too many {cause}' in said, cause, len(body), status, said)
            status, said = post(body, path='/v1/traces')
            check(status in (200, 413), status, said)
            check(post(otlp('good', field(1, 'a') + field(5, field(1, point + field(4, 1.0)))))[0] == 200, 'the next')
        for body in (b'{"resourceMetrics":[' + b'{},' * 2700000 + b'{}]}', b'[' + b'0,' * 4000000 + b'0]'):
            status, said = post(body, 'application/json')
            check(status == 413 and 'too many values' in said, status, said)
        for body in (b'[' * 100000, b'{"a":' * 100000 + b'0' + b'}' * 100000):
            status, said = post(body, 'application/json')
            check(status == 400, status, said)
        check(post(group * 4000000)[0] == 400, 'groups')
        check(rss() < before + (96 << 20), f'{before} became {rss()}')
        for cause, n in (('resources', 1), ('messages', 5), ('values', 2)):
            wait_until(lambda: count(collector, 'otlp_costly', cause=cause) >= n, cause, collector, agent)


@case
def otlp_traces_are_kept_as_those_of_a_pod():
    """Spans of two services, one in protobuf and one in JSON: the collector keeps their trace."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        at = f'127.0.0.1:{free.getsockname()[1]}'
    trace, root, child = bytes(range(1, 17)), bytes(range(1, 9)), bytes(range(2, 10))
    start = time.time_ns() - 10**9

    def fixed64(number, value):
        return varint(number << 3 | 1) + struct.pack('<Q', value)

    def attribute(key, value):
        return field(9, field(1, key) + field(2, value))
    span = field(2, field(1, trace) + field(2, root) + field(5, 'GET /cart') + field(6, 2) + fixed64(7, start) +
                 fixed64(8, start + 8 * 10**8) + attribute('http.response.status_code', field(3, 500)) +
                 attribute('ratio', field(4, 0.5)) + field(15, field(2, 'no stock') + field(3, 2)))
    name = field(1, field(1, field(1, 'service.name') + field(2, field(1, 'shop'))))
    body = field(1, name + field(2, span))
    more = json.dumps({'resourceSpans': [{'resource': {'attributes': [
        {'key': 'service.name', 'value': {'stringValue': 'db'}}]}, 'scopeSpans': [{'spans': [
            {'traceId': trace.hex(), 'spanId': child.hex(), 'parentSpanId': root.hex(), 'name': 'SELECT', 'kind': 3,
             'startTimeUnixNano': str(start + 10**8), 'endTimeUnixNano': str(start + 3 * 10**8), 'flags': 0x301,
             'attributes': [{'key': 'db.system', 'value': {'stringValue': 'postgresql'}}], 'events': [{'name': 'x'}]},
            {'traceId': '00' * 16, 'spanId': child.hex(), 'name': 'no trace'}]}]}]})
    with Bridged('--otlp', at) as agent, Collector(
            [agent], '--period', '20ms', '--trace-budget', '1', '--trace-head', '1', '--trace-linger', '2s') as collector:
        def post(body, kind='application/x-protobuf'):
            return client.request(f'http://{at}/v1/traces', 'POST', body, {'Content-Type': kind})[0]

        def ready():
            try:
                return post(b'') == 200
            except OSError:
                return False
        wait_until(ready, 'the receiver', agent)
        check(post(more.encode(), 'application/json') == 200)
        check(post(body) == 200)
        check(post(b'\x0a\x05') == 400)
        check(post(b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xy"}]}]}]}', 'application/json') == 400)

        def kept():
            found = [t for t in collector.api('traces')['traces'] if t['trace_id'] == trace.hex()]
            return found and found[0]['spans_read'] == 2 and collector.api('traces/' + trace.hex())
        one = wait_until(kept, lambda: collector.api('traces'), collector, agent)
        spans = {s['service']: s for s in one['spans']}
        check(spans.keys() == {'shop', 'db'}, one)
        shop, db = spans['shop'], spans['db']
        check((shop['span_id'], shop['name'], shop['kind'], shop['status'], shop['message']) ==
              (root.hex(), 'GET /cart', 'server', 'error', 'no stock'), shop)
        check(shop['attributes'] == {'http.response.status_code': 500, 'ratio': 0.5}, shop)
        check((db['parent_id'], db['kind'], db['attributes']) == (root.hex(), 'client', {'db.system': 'postgresql'}), db)
        check(abs(shop['duration_seconds'] - 0.8) < 1e-6 and abs(db['duration_seconds'] - 0.2) < 1e-6, one)
        wait_until(lambda: count(collector, 'otlp_spans') == 2 and count(collector, 'otlp_refused_spans') == 1 and
                   count(collector, 'otlp_malformed') == 2, collector)
        # At most eight services have memory for spans.
        for i in range(9):
            named = field(1, field(1, field(1, 'service.name') + field(2, field(1, f'more{i}'))))
            check(post(field(1, named + field(2, span))) == 200)
        wait_until(lambda: count(collector, 'otlp_spans') == 8 and count(collector, 'otlp_refused_spans') == 4,
                   lambda: (count(collector, 'otlp_spans'), count(collector, 'otlp_refused_spans')), collector)


@case
def wrong_options_are_usage_errors():
    for words, why in ((('--scrape', 'ftp://x/'), 'not an http or https URL'),
                       (('--scrape', 'http://x/,interval=0'), "not 'interval=0'"),
                       (('--scrape', 'http://x/,what=1'), "not 'what=1'"),
                       (('--statsd', '0.0.0.0:8125'), 'only this host may send'),
                       (('--statsd', 'nonsense'), 'expected an address'),
                       (('--statsd', 'tcp:0.0.0.0:8125'), 'only this host may send'),
                       (('--statsd', 'unix-stream:'), 'expected an address'),
                       (('--statsd-dialect', 'x', '--host'), "not 'x'"),
                       (('--statsd-mapping', '/nowhere', '--host'), '/nowhere'),
                       (('--otlp', '0.0.0.0:4318'), 'only this host may send'),
                       (('--scrape', 'http://x/') * 100, 'more than')):
        p = Part(sys.argv[1], 'agent', '--socket', f'{workdir()}/s', '--no-rest', *words)
        code = p.wait()
        check(code == 2 and why in '\n'.join(p.err), words[:2], code, p)


run_cases(only=sys.argv[2:])
