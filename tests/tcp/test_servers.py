# SPDX-License-Identifier: Apache-2.0
"""Real servers under load: sums of flows and layers equal the counts of the servers and their load generators.

nginx with wrk (its access log: bytes of each request and response), redis with redis-benchmark (INFO:
commands, bytes in and out), PostgreSQL with pgbench (its log: statements and sessions)."""
import os
import re
import resource
import signal
import socket
import sys
import time

from support import flows
from support.flows import Flows, Layers, needs_bpf
from support.process import SCALE, Part, fail, output, wait_until, workdir

CASES = {}
# 6.18 leaves out some calls of tracepoints under load (docs/tcp.md); 6.1 does not.
EXACT = 'GUEST' in os.environ


def case(*needs):
    def add(f):
        CASES[f.__name__] = (f, needs)
        return f
    return add


def soak(*needs):
    """A long case, which runs only in 'make soak', or if it is named on the command line."""
    return case(*needs) if SCALE > 1 or len(sys.argv) > 2 else lambda f: f


def find(tool):
    found = [os.path.join(d, tool) for d in [*os.environ['PATH'].split(':'), '/usr/sbin', '/usr/lib/postgresql/15/bin']]
    return next((f for f in found if os.access(f, os.X_OK)), None)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


class Watched:
    """Flows and layers of one port, while load() runs, up to the moment when end() closed all."""

    def __init__(self, port):
        self.port = port
        self.flows = Flows('--new', '--closed', '-p', port, '-i', '200ms', '--flows', '65536')
        self.layers = Layers('-p', port, '--flows', '16384')

    def end(self):
        def quiet():
            self.flows.update()
            t = self.flows.table
            return t and t['open'] == 0
        wait_until(quiet, lambda: f'all flows are closed: {self.flows.table}', self.flows.part)
        seen, self.table = self.flows.end()
        self.ends = [f for f in seen.values() if 'listener' not in f['flags']]
        self.server = [f for f in self.ends if f['local_port'] == self.port]
        self.rows, self.causes = self.layers.end()
        self.requests = next((r for r in self.rows if r['role'] == 'server' and r['name'] == str(self.port)),
                             None)
        if not self.requests:
            fail(f'no requests were seen: {self.rows} {self.causes}', self.layers.part)

    def sum(self, name):
        return sum(f[name] for f in self.server)

    def check(self, what, got, expected, left_out=0.0):
        """left_out: the share that a kernel which leaves out calls may have left out."""
        if got == expected:
            return
        if EXACT or not expected * (1 - left_out) - 3 <= got <= expected:
            fail(f'{what}: {got}, not {expected}; {self.table}; {self.causes}')
        print(f'note: {what}: {got}, not {expected}: calls left out by the kernel')

    def both_ends(self):
        """Each end has received everything that the other one wrote, except for bytes after its close, which it answers by a
        reset."""
        by_ends = {(f['local_port'], f['remote_port']): f for f in self.ends}
        for (here, there), f in by_ends.items():
            other = by_ends.get((there, here))
            if not other and not self.table['missed']:
                fail(f'{here} to {there} has one end only')
            if other and f['write_bytes'] - f['queue'] > other['bytes_received'] and 'reset_in' not in f['flags'] + other['flags']:
                fail(f'{f} wrote more than {other} received')

    def complete(self, count):
        """Every request is complete, or counted by cause; at least 99 of 100 are complete."""
        r, c = self.requests, self.causes
        self.check('requests', r['requests'], count, 0.05)
        if r['complete'] + r['incomplete'] != r['requests']:
            fail(f'{r["complete"]} complete, {r["incomplete"]} not, of {r["requests"]}')
        by_cause = sum(n for name, n in c.items() if name.startswith('request_'))
        if by_cause != r['incomplete']:
            fail(f'{r["incomplete"]} incomplete, and causes for {by_cause}: {c}')
        if r['complete'] < 0.99 * r['requests']:
            fail(f'only {r["complete"]} of {r["requests"]} are complete: {c}')
        for name, h in r['layers'].items():
            n = h['count']
            if n != h['zero'] + h['over'] + sum(h['buckets'].values()):
                fail(f'{name}: {h}')
        return f"{r['requests']} requests, {r['complete']} complete, missed {self.table['missed']}"


# ---- nginx ---------------------------------------------------------------------------------------

NGINX = '''
user root; daemon off; worker_processes 1; pid {d}/pid; error_log {d}/error;
events {{ worker_connections 10000; }}
http {{
  log_format sizes "$status $request_length $bytes_sent";
  access_log {d}/access sizes buffer=1m; sendfile on; keepalive_requests 1000000; keepalive_timeout 600s;
  client_body_temp_path {d}/t1; proxy_temp_path {d}/t2; fastcgi_temp_path {d}/t3; uwsgi_temp_path {d}/t4;
  scgi_temp_path {d}/t5;
  server {{ listen 127.0.0.1:{port} backlog=8192; location / {{ root {d}; }} }}
}}'''
# wrk prints rounded numbers; these are the exact ones.
WRK = '''done = function(s)
  io.write(string.format("%d %d %d\\n", s.requests, s.bytes,
    s.errors.connect + s.errors.read + s.errors.write + s.errors.status + s.errors.timeout))
end'''


def nginx(connections, seconds):
    d = workdir()
    os.chmod(d, 0o755)
    port = free_port()
    with open(f'{d}/conf', 'w') as f:
        f.write(NGINX.format(d=d, port=port))
    with open(f'{d}/page', 'wb') as f:
        f.write(b'p' * 4000)
    with open(f'{d}/exact.lua', 'w') as f:
        f.write(WRK)
    watched = Watched(port)
    server = Part(find('nginx'), '-c', f'{d}/conf', '-p', d, '-e', f'{d}/error')
    wait_until(lambda: listens(port), 'nginx listens', server)
    for runs in range(1, 4):
        told = output('wrk', '-t1', f'-c{connections}', f'-d{seconds}s', '--timeout', '60s', '-s', f'{d}/exact.lua',
                   f'http://127.0.0.1:{port}/page').splitlines()[-1]
        answered, got, errors = map(int, told.split())
        if answered:
            break
        seconds *= 4  # not even all connections were open when its time was over
    server.stop(signal.SIGQUIT)
    watched.end()
    with open(f'{d}/access') as f:
        log = [tuple(map(int, line.split())) for line in f]
    if errors or any(status != 200 for status, _, _ in log):
        fail(f'{errors} errors; {set(s for s, _, _ in log)}')
    # wrk does not count requests that were in flight when it stopped.
    if not answered <= len(log) <= answered + 2 * connections * runs:
        fail(f'wrk counts {answered} requests, nginx {len(log)}')
    if len(watched.server) < connections:
        fail(f'{len(watched.server)} connections of {connections}')
    watched.check('bytes read by nginx', watched.sum('read_bytes'), sum(n for _, n, _ in log))
    watched.check('bytes written by nginx', watched.sum('write_bytes'), sum(n for _, _, n in log))
    received = sum(f['bytes_received'] for f in watched.ends if f['remote_port'] == port)
    if received < got:
        fail(f'wrk read {got} bytes, and its connections received {received}')
    return watched.complete(len(log))


@case('nginx', 'wrk')
def nginx_and_wrk_with_100_connections():
    return nginx(100, 1)


@case('nginx', 'wrk')
def nginx_and_wrk_with_6400_connections():
    return nginx(6400, 3)


# ---- redis ---------------------------------------------------------------------------------------

def info(port):
    """Counters of redis from its INFO, and the length of the answer, which they do not include yet."""
    with socket.create_connection(('127.0.0.1', port)) as s:
        s.sendall(b'INFO stats\r\n')
        answer = b''
        while not (m := re.match(rb'\$(\d+)\r\n', answer)) or len(answer) < m.end() + int(m[1]) + 2:
            answer += s.recv(65536)
    return {k: int(v) for k, v in re.findall(r'^(\w+):(\d+)\r$', answer.decode(), re.M)}, len(answer)


def start_redis(d, port):
    """Debian has the server's program in redis-tools, which starts no service. The program acts as the server if its name is
    redis-server."""
    os.symlink(find('redis-check-rdb'), f'{d}/redis-server')
    server = Part(f'{d}/redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', d,
                  '--maxclients', '12000', '--tcp-backlog', '8192')
    wait_until(lambda: any('Ready to accept' in line for line in list(server.out)), 'redis is ready', server)
    return server


def redis(connections, commands, pipeline):
    d = workdir()
    port = free_port()
    watched = Watched(port)
    server = start_redis(d, port)
    told = output('redis-benchmark', '-h', '127.0.0.1', '-p', port, '-c', connections, '-n', commands, '-P', pipeline,
               '-t', 'set,get', '-d', '100', '--csv')
    if len(re.findall(r'^"(?:SET|GET)","\d', told, re.M)) != 2:
        fail(f'redis-benchmark says {told}')
    counted, length = info(port)
    server.stop()
    watched.end()
    if counted['total_commands_processed'] < 2 * commands:
        fail(f'{commands} commands twice, and redis counts {counted}')
    if len(watched.server) != counted['total_connections_received']:
        fail(f'{len(watched.server)} connections, and redis counts {counted}')
    watched.check('bytes read by redis', watched.sum('read_bytes'), counted['total_net_input_bytes'])
    watched.check('bytes written by redis', watched.sum('write_bytes'),
                  counted['total_net_output_bytes'] + length)
    if pipeline > 1:  # TCP does not tell several requests that come at once apart
        return f"{watched.requests['requests']} reads of {counted['total_commands_processed'] + 1} commands"
    # INFO is not yet counted; two of redis-benchmark's questions for the configuration come in one segment.
    return watched.complete(counted['total_commands_processed'] + 1 - 1)


@case('redis-check-rdb', 'redis-benchmark')
def redis_and_redis_benchmark_with_100_connections():
    return redis(100, 5000, 1)


@soak('redis-check-rdb', 'redis-benchmark')
def redis_and_redis_benchmark_with_6400_connections():
    return redis(6400, 64000, 1)


@case('redis-check-rdb', 'redis-benchmark')
def redis_with_pipelines_of_16():
    return redis(100, 16000, 16)


# Fields of ss, and our value in the format of ss. ss leaves out fields that are 0.
SS = {
    'rto': lambda f: f['rto_us'] / 1000, 'mss': lambda f: f['mss'], 'cwnd': lambda f: f['cwnd'],
    'rtt': lambda f: f"{f['srtt_us'] / 1000:g}/{f['mdev_us'] / 1000:g}",
    'bytes_sent': lambda f: f['bytes_sent'], 'bytes_acked': lambda f: f['bytes_acked'],
    'bytes_received': lambda f: f['bytes_received'], 'bytes_retrans': lambda f: f['bytes_retrans'],
    'segs_out': lambda f: f['segs_out'], 'segs_in': lambda f: f['segs_in'],
    'data_segs_out': lambda f: f['data_segs_out'], 'data_segs_in': lambda f: f['data_segs_in'],
    'delivered': lambda f: f['delivered'], 'delivered_ce': lambda f: f['delivered_ce'],
    'minrtt': lambda f: f['rtt_min_us'] / 1000, 'snd_wnd': lambda f: f['snd_wnd'],
    'ssthresh': lambda f: f['ssthresh'] if f['ssthresh'] < 0xffff else 0,
    'unacked': lambda f: f['flight'], 'notsent': lambda f: f['queue'], 'dsack_dups': lambda f: f['dsack'],
    'reord_seen': lambda f: f['reorder'], 'rcv_ooopack': lambda f: f['ooo'],
    'retrans': lambda f: f"0/{f['retrans']}" if f['retrans'] else 0,
    'busy': lambda f: f"{f['busy_us'] // 1000}ms" if f['busy_us'] else 0,
}


def ss():
    """{(local, remote): {field: value}} of the established connections; addresses as text."""
    found = {}
    for line in output('ss', '-tinHO', 'state', 'established').splitlines():
        words = line.split()
        found[tuple(words[2:4])] = dict(w.split(':', 1) for w in words[4:] if ':' in w)
    return found


def against_ss(watch, expected):
    """Returns the present differences as text, and the number of compared fields."""
    watch.update()
    there, bad, compared = ss(), [], 0
    for f in [f for f in watch.seen.values() if f['state'] == 'ESTABLISHED' and not f['closed']]:
        ends = tuple(f"{f[e]}:{f[e + '_port']}" for e in ('local', 'remote'))
        says = there.pop(ends, None)
        if says is None:
            bad.append(f'{ends}: ss does not know it')
            continue
        for name, ours in SS.items():
            got = str(says.get(name, 0))
            want = ours(f)
            want = want if isinstance(want, str) else f'{want:g}' if isinstance(want, float) else str(want)
            compared += name in says
            if got != want:
                bad.append(f'{ends}: {name} is {want}, ss says {got}')
    bad += [f'{ends}: only ss knows it' for ends in there]
    if compared < 12 * expected:
        bad.append(f'only {compared} fields of {expected} connections were compared')
    return bad, compared


@case('redis-check-rdb', 'ss')
def ss_says_the_same_of_every_connection_of_a_server_at_rest():
    d = workdir()
    port = free_port()
    watch = Flows('--new', '-p', port)
    server = start_redis(d, port)
    many = [socket.create_connection(('127.0.0.1', port)) for _ in range(100)]
    for i, s in enumerate(many):
        for size in (1, 100 * i, 3000):
            s.sendall(b'*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$%d\r\n%s\r\n' % (size, b'v' * size))
            flows.receive(s, len(b'+OK\r\n'))
            s.sendall(b'GET key\r\n')
            flows.receive(s, len(b'$%d\r\n\r\n' % size) + size)
    bad, compared = [''], 0
    end = time.monotonic() + 30
    while bad and time.monotonic() < end:
        bad, compared = against_ss(watch, 200)
        time.sleep(0.1)
    if bad:
        fail('; '.join(bad[:10]), watch.part)
    for s in many:
        s.close()
    server.stop()
    watch.end()
    return f'{compared} fields of 200 ends'


# ---- PostgreSQL ----------------------------------------------------------------------------------

def postgres(connections, each):
    d = workdir()
    os.chown(d, 65534, 65534)
    port = free_port()
    user = {'preexec_fn': flows.without_capabilities, 'cwd': d, 'env': {**os.environ, 'HOME': d, 'LC_ALL': 'C',
                                                            'PGSSLMODE': 'disable', 'PGGSSENCMODE': 'disable'}}
    output(find('initdb'), '-D', f'{d}/data', '-U', 'nobody', '-A', 'trust', '--no-sync', '--no-instructions', **user)
    with open(f'{d}/data/postgresql.conf', 'a') as f:
        f.write(f"""listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = {connections + 20}
fsync = off
log_connections = on
log_statement = all
logging_collector = off
jit = off
""")
    log = f'{d}/log'
    watched = Watched(port)
    output(find('pg_ctl'), '-D', f'{d}/data', '-l', log, '-w', '-t', '120', 'start', **user)
    try:
        to = ['-h', '127.0.0.1', '-p', port, '-U', 'nobody', 'postgres']
        output(find('pgbench'), '-i', '-q', '-s', '1', *to, **user)
        told = output(find('pgbench'), '-S', '-n', '-c', connections, '-j', '2', '-t', each, *to, **user)
    finally:
        output(find('pg_ctl'), '-D', f'{d}/data', '-m', 'fast', '-w', 'stop', **user)
    watched.end()
    m = re.search(r'actually processed: (\d+)/(\d+)', told)
    if not m or int(m[1]) != connections * each:
        fail(f'pgbench says {told}')
    with open(log, errors='replace') as f:
        text = f.read()
    statements = len(re.findall(r'LOG:  statement: ', text))
    # The data of a COPY is answered once more.
    statements += len(re.findall(r'LOG:  statement: copy .* from stdin', text))
    sessions = len(re.findall(r'LOG:  connection authorized: ', text))
    if statements < connections * each or len(watched.server) < sessions:
        fail(f'{statements} statements, {sessions} sessions, {len(watched.server)} connections')
    watched.both_ends()
    return watched.complete(statements + sessions)


@case('initdb', 'postgres', 'pgbench')
def postgresql_and_pgbench_with_100_connections():
    return postgres(100, 50)


@soak('initdb', 'postgres', 'pgbench')
def postgresql_and_pgbench_with_800_connections():  # a process each
    return postgres(800, 20)


if __name__ == '__main__':
    PROBE = needs_bpf()
    flows.needs_layers()
    flows.own_network()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    only = sys.argv[2:]
    for name, (f, needs) in CASES.items():
        if only and name not in only:
            continue
        missing = [n for n in needs if not find(n)]
        if missing:
            print(f'SKIP: {name}: {", ".join(missing)} is not installed', flush=True)
            continue
        start = time.monotonic()
        said = f()
        print(f'ok   {name.replace("_", "-")}: {said} ({time.monotonic() - start:.1f} s)', flush=True)
