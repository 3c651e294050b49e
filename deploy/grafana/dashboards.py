#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dashboards.py [--check] - writes the dashboards for Grafana into its own folder, one file each. --check: only says which
files differ from what it would write (scripts/lint-dashboards)."""
import json
import os
import sys

SOURCE = {'type': 'prometheus', 'uid': '${datasource}'}
RATE = '[$__rate_interval]'
SHOP = 'service=~"$service"'
# Grafana matches parts of names. Metrics of the infrastructure are not those of an application.
APPLICATIONS = '/^(?!sidelight_|node_|scrape_|prometheus_|go_)(.+?)(?:_bucket)?$/'
PORTS = ('host', 'port', 'role')
OF_PORT = '{{role}} :{{port}} on {{host}}'


def rate(metric, match='', by=None):
    """The sum of the rates by these labels; by None: each. match: of labels."""
    each = f'rate({metric}{{{match}}}{RATE})' if match else f'rate({metric}{RATE})'
    return each if by is None else f'sum by ({", ".join(by)}) ({each})'


def quantile(q, metric, by, match=''):
    """Of a native histogram or, in Prometheus without those, of a classic one."""
    return (f'histogram_quantile({q}, {rate(metric, match, by)}) or '
            f'histogram_quantile({q}, {rate(metric + "_bucket", match, (*by, "le"))})')


def named(variable, suffix='', match=SHOP):
    """A selector of the metric that a variable of the dashboard has the name of. If the variable is empty, Prometheus wants another
    matcher that no empty label fits."""
    return f'{{__name__="${{{variable}}}{suffix}", service!="", {match}}}'


def mean(metric, by, match=''):
    """Of a histogram, as quantile()."""
    native = rate(metric, match, by)
    return (f'histogram_sum({native}) / histogram_count({native}) or '
            f'{rate(metric + "_sum", match, by)} / {rate(metric + "_count", match, by)}')


def panel(title, unit, *targets, about='', kind='timeseries', width=8, most=None):
    """targets: (expression, legend)."""
    return {
        'title': title, 'type': kind, 'datasource': SOURCE, 'description': about, 'gridPos': {'w': width, 'h': 7},
        'fieldConfig': {'defaults': {'unit': unit, 'min': 0, **({'max': most} if most else {})}, 'overrides': []},
        'options': {} if kind != 'timeseries' else {
            'tooltip': {'mode': 'multi'}, 'legend': {'displayMode': 'list', 'placement': 'bottom'}},
        'targets': [{'refId': chr(65 + i), 'datasource': SOURCE, 'expr': expr, 'legendFormat': legend}
                    for i, (expr, legend) in enumerate(targets)]}


def row(title):
    return {'title': title, 'type': 'row', 'collapsed': False, 'panels': [], 'gridPos': {'w': 24, 'h': 1}}


def variable(name, label, query, several=False, regex=''):
    """regex: what of each value is used, and of which values."""
    return {'name': name, 'label': label, 'type': 'query', 'datasource': SOURCE, 'query': query, 'regex': regex, 'refresh': 2,
            **({'includeAll': True, 'allValue': '.*', 'multi': True, 'current': {'text': 'All', 'value': '$__all'}}
               if several else {})}


def place(panels):
    """From left to right, in rows of 24."""
    x = y = high = 0
    for i, p in enumerate(panels):
        at = p['gridPos']
        if x + at['w'] > 24:
            x, y = 0, y + high
        at.update(x=x, y=y)
        high = at['h'] if not x else max(high, at['h'])
        x += at['w']
        p['id'] = i + 1
    return panels


def dashboard(name, title, panels, *variables):
    return name, {
        'title': f'Sidelight: {title}', 'uid': f'sidelight-{name}', 'tags': ['sidelight'], 'schemaVersion': 38, 'version': 1,
        'editable': True, 'refresh': '10s', 'time': {'from': 'now-1h', 'to': 'now'}, 'timezone': 'browser',
        'annotations': {'list': []},
        'links': [{'type': 'dashboards', 'tags': ['sidelight'], 'title': 'Sidelight', 'asDropdown': True}],
        'templating': {'list': [{'name': 'datasource', 'label': 'Prometheus', 'type': 'datasource',
                                 'query': 'prometheus', 'hide': 0}, *variables]},
        'panels': place(panels)}


def services():
    """Incidents; then rate, errors, duration."""
    def of_service(name, match=''):
        return f'sum by (service) (rate({named(name, match=SHOP + match)}{RATE}))'
    # Errors have a metric of their own, or are requests of certain codes. No request had such a code: 0.
    errors = f"""{of_service('errors')} or {of_service('requests', ', code=~"5..|error"')} or 0 * {of_service('requests', ', code!=""')}"""
    per_service = {'by': ['service'], 'match': SHOP}
    server = {'by': ['service'], 'match': f'role="server", {SHOP}'}
    latency = [(f'histogram_quantile({q}, sum by (service) (rate({named("latency")}{RATE}))) or '
                f'histogram_quantile({q}, sum by (service, le) (rate({named("latency", "_bucket")}{RATE})))',
                f'{{{{service}}}} {100 * q:g} %') for q in (0.5, 0.99)]
    return dashboard('services', 'services', [
        row('Incidents'),
        panel('Open incidents', 'short', ('sum by (kind) (sidelight_incidents_open)', '{{kind}}'), kind='stat', width=4,
              about='fault: something broke. load: more or fewer requests, without a fault.'),
        panel('Pods', 'short', ('sidelight_analysis_pods{state="anomalous"}', 'anomalous'),
              ('sidelight_analysis_pods{state="drifting"}', 'drifting'), ('sidelight_analysis_pods{state="warming_up"}', 'learning'),
              ('sidelight_analysis_pods{state="all"}', 'all'), kind='stat', width=8),
        panel('Anomalies per hour', 'short', (f'sum by (service) (increase(sidelight_anomalies_total{{{SHOP}}}[1h]))', '{{service}}'),
              width=12),
        panel('Score of pods', 'short', (f'topk(20, max by (pod, host) (sidelight_anomaly_score{{{SHOP}}}))', '{{pod}} on {{host}}'),
              about='1 is the threshold of every pod.'),
        panel('Anomalous or drifting', 'short', (f'sidelight_anomalous{{{SHOP}}}', '{{pod}}'),
              (f'sidelight_anomaly_drift{{{SHOP}}}', '{{pod}} drifts'), most=1),
        panel('Share of anomalous pods', 'percentunit',
              (f'sidelight_scaling_anomalous_ratio{{{SHOP}}}', '{{namespace}}/{{service}}'), most=1),
        row('As the applications count'),
        panel('Requests', 'reqps', (of_service('requests'), '{{service}}')),
        panel('Errors, share of requests', 'percentunit',
              (f'({errors}) / {of_service("requests")}', '{{service}}'), most=1,
              about='Of the metric "Errors", or requests whose label "code" is 5.. or error.'),
        panel('Duration', 's', *latency),
        row('As the kernel sees it'),
        panel('Requests', 'reqps', (rate('sidelight_tcp_requests_total', **server), '{{service}}')),
        panel('Connections refused or reset', 'ops',
              (rate('sidelight_tcp_listen_drops_total', **per_service), '{{service}} refused'),
              (rate('sidelight_tcp_resets_total', **per_service), '{{service}} reset')),
        panel('Time in the application, 99 %', 's',
              (quantile(0.99, 'sidelight_tcp_layer_seconds', ['service'], f'layer="app", role="server", {SHOP}'),
               '{{service}}')),
        row('Saturation'),
        panel('CPU', 'short', (rate('sidelight_cpu_seconds_total', **per_service), '{{service}}'), about='Cores in use.'),
        panel('Wait for a CPU, share of time', 'percentunit',
              (rate('sidelight_cpu_wait_seconds_total', **per_service), '{{service}}')),
        panel('Pressure', 'short', (f'sidelight_scaling_pressure{{{SHOP}}}', '{{namespace}}/{{service}}'),
              about='Smoothed ratio of the time that requests take to the usual time, as an autoscaler gets it.'),
    ], variable('service', 'Service', 'label_values(sidelight_anomaly_score, service)', several=True),
        variable('requests', 'Requests', 'metrics(_requests_total$)', regex=APPLICATIONS),
        variable('errors', 'Errors', 'metrics(_errors_total$)', regex=APPLICATIONS),
        # A histogram that is not native has buckets of that name only.
        variable('latency', 'Duration', 'metrics(_(latency|duration)_seconds(_bucket)?$)', regex=APPLICATIONS))


def host():
    on = 'host=~"$host"'

    def busy(resource, how):
        return (rate(f'node_pressure_{resource}_{how}_seconds_total', on), f'{resource} on {{{{host}}}}')

    def each(what, metric, label):
        """Of each device, such as a disk or the port of an adapter."""
        return (rate(metric, on, ['host', *label]), f'{what} {" ".join(f"{{{{{name}}}}}" for name in label)} on {{{{host}}}}')

    disk, network, port = ['device'], ['device'], ['device', 'port']
    return dashboard('host', 'hosts', [
        row('Machine'),
        panel('CPU, share in use', 'percentunit',
              (f'1 - avg by (host) (rate(node_cpu_seconds_total{{mode="idle", {on}}}{RATE}))', '{{host}}'), most=1),
        panel('Memory, share in use', 'percentunit',
              (f'1 - node_memory_MemAvailable_bytes{{{on}}} / node_memory_MemTotal_bytes{{{on}}}', '{{host}}'), most=1),
        panel('Load', 'short', (f'node_load1{{{on}}}', '{{host}}')),
        row('Pressure (PSI)'),
        panel('Some task waits for', 'percentunit', busy('cpu', 'waiting'), busy('memory', 'waiting'), busy('io', 'waiting'),
              width=12, about='Share of time.'),
        panel('All tasks wait for', 'percentunit', busy('memory', 'stalled'), busy('io', 'stalled'), width=12, about='Share of time.'),
        row('Disks'),
        panel('Bytes', 'Bps', each('read', 'node_disk_read_bytes_total', disk), each('written', 'node_disk_written_bytes_total', disk)),
        panel('Busy, share of time', 'percentunit', each('', 'node_disk_io_time_seconds_total', disk), most=1),
        panel('Free space', 'bytes', (f'node_filesystem_avail_bytes{{{on}}}', '{{mountpoint}} on {{host}}')),
        row('Network'),
        panel('Bytes', 'Bps', each('in', 'node_network_receive_bytes_total', network),
              each('out', 'node_network_transmit_bytes_total', network), width=12),
        panel('Packets dropped', 'pps', each('in', 'node_network_receive_drop_total', network),
              each('out', 'node_network_transmit_drop_total', network), width=12),
        row('RDMA ports'),
        panel('Bytes', 'Bps', each('in', 'node_infiniband_port_data_received_bytes_total', port),
              each('out', 'node_infiniband_port_data_transmitted_bytes_total', port), width=6),
        panel('Errors and discards', 'pps', each('errors', 'node_infiniband_port_errors_received_total', port),
              each('discarded in', 'node_infiniband_port_discards_received_total', port),
              each('discarded out', 'node_infiniband_port_discards_transmitted_total', port), width=6),
        panel('Counters of the adapter', 'ops',
              (f'topk(20, {rate("sidelight_rdma_hw_counter_total", on)})', '{{counter}}, {{device}} {{port}} on {{host}}'), width=6,
              about='The 20 that change most, such as out_of_sequence, np_cnp_sent or rnr_nak_retry_err.'),
        panel('Link', 'Bps', (f'node_infiniband_rate_bytes_per_second{{{on}}}', '{{device}} {{port}} on {{host}}'), width=6,
              about='A bad cable makes a link slower.'),
        row('Containers'),
        panel('CPU', 'short', (f'topk(20, {rate("container_cpu_usage_seconds_total", on, ["host", "id"])})', '{{id}} on {{host}}'),
              about='Cores in use, of the 20 with most.'),
        panel('Memory', 'bytes', (f'topk(20, container_memory_working_set_bytes{{{on}}})', '{{id}} on {{host}}')),
        panel('Some task waits for a CPU', 'percentunit',
              (f'topk(20, {rate("container_pressure_cpu_waiting_seconds_total", on)})', '{{id}} on {{host}}')),
    ], variable('host', 'Host', 'label_values(node_load1, host)', several=True))


def tcp():
    on = 'host=~"$host"'

    def by_port(title, unit, metric, **more):
        return panel(title, unit, (rate(metric, on, PORTS), OF_PORT), **more)

    def by_cause(title, unit, metric, label, **more):
        return panel(title, unit, (rate(metric, on, [label]), f'{{{{{label}}}}}'), **more)
    return dashboard('tcp', 'TCP', [
        row('Connections'),
        panel('Connections', 'short', (f'sum by ({", ".join(PORTS)}) (sidelight_tcp_connections{{{on}}})', OF_PORT)),
        by_port('Bytes sent', 'Bps', 'sidelight_tcp_sent_bytes_total'),
        by_port('Bytes received', 'Bps', 'sidelight_tcp_received_bytes_total'),
        panel('Opened and closed', 'ops', (rate('sidelight_tcp_connections_opened_total', on, ['host']), 'opened on {{host}}'),
              (rate('sidelight_tcp_connections_closed_total', on, ['host']), 'closed on {{host}}')),
        panel('Resets and refusals', 'ops',
              (rate('sidelight_tcp_resets_total', on, ['host', 'direction']), 'reset {{direction}} on {{host}}'),
              (rate('sidelight_tcp_listen_drops_total', on, ['host', 'port']), 'refused :{{port}} on {{host}}')),
        by_cause('Failed', 'ops', 'sidelight_tcp_failures_total', 'cause'),
        row('Why they are slow'),
        by_cause('Limited by', 'short', 'sidelight_tcp_limited_seconds_total', 'limit',
                 about='Mean number of connections with this limit. "sidelight tcp why" says it of one service.'),
        panel('Window closed', 'ops', (rate('sidelight_tcp_zero_windows_total', on, ['end']), 'by the {{end}} end'),
              about='A receiver that does not read.'),
        panel('Mean time of a request, by layer', 's',
              (mean('sidelight_tcp_stack_seconds', ['layer'], f'role="server", {on}'), '{{layer}}'),
              (mean('sidelight_tcp_layer_seconds', ['layer'], f'layer="app", role="server", {on}'), '{{layer}}')),
        panel('Request, 99 %', 's', (quantile(0.99, 'sidelight_tcp_request_seconds', ['host', 'port'], f'role="server", {on}'),
                                     ':{{port}} on {{host}}')),
        panel('Application, 99 %', 's',
              (quantile(0.99, 'sidelight_tcp_layer_seconds', ['host', 'port'], f'layer="app", role="server", {on}'),
               ':{{port}} on {{host}}')),
        panel('Wait for a CPU, 99 %', 's', (quantile(0.99, 'sidelight_cpu_wait_duration_seconds', ['host'], on), '{{host}}')),
        row('The network'),
        panel('Retransmitted segments', 'percentunit',
              (f'{rate("sidelight_tcp_retransmits_total", on, PORTS)} / '
               f'{rate("sidelight_tcp_sent_segments_total", on, PORTS)}', OF_PORT)),
        by_cause('Retransmitted because of', 'ops', 'sidelight_tcp_retransmit_causes_total', 'cause'),
        panel('Segments dropped by the kernel', 'ops', (rate('sidelight_tcp_drops_total', on, ['host', 'reason']), '{{reason}} on {{host}}')),
        panel('RTT, mean', 's', (mean('sidelight_tcp_rtt_seconds', PORTS, on), OF_PORT)),
        panel('RTT, 90 %', 's', (quantile(0.9, 'sidelight_tcp_rtt_seconds', PORTS, on), OF_PORT),
              about='Finer with native histograms, or with classic=1.'),
        panel('Handshake, mean', 's', (mean('sidelight_tcp_handshake_seconds', PORTS, on), OF_PORT)),
        row('Completeness'),
        by_port('Requests not measured', 'ops', 'sidelight_tcp_unattributed_total', width=12),
        panel('Missed of connections', 'ops', (rate('sidelight_collector_tcp_lost_total', by=['cause']), '{{cause}}'), width=12,
              about='By the collector, of all hosts.'),
    ], variable('host', 'Host', 'label_values(sidelight_tcp_connections, host)', several=True))


def devices():
    def most(title, unit, count, **more):
        """Of the 20 exporters with most."""
        counted = rate('sidelight_dta_exporters', f'count="{count}", exporter=~"$exporter"', ['input', 'exporter'])
        return panel(title, unit, (f'topk(20, {counted})', '{{exporter}}, {{input}}'), **more)
    return dashboard('devices', 'network devices', [
        row('Exporters'),
        panel('Exporters', 'short', ('count by (input) (sidelight_dta_exporters{count="datagrams", exporter=~"$exporter"})', '{{input}}')),
        most('Datagrams', 'pps', 'datagrams'),
        most('Restarts', 'ops', 'restarts'),
        row('Top talkers'),
        most('Records, by exporter', 'rps', 'records', width=12, about='The 20 exporters with most. The page and "sidelight query top" have '
             'the flows with most bytes.'),
        panel('Keys of the stores\' file', 'short', (f'topk(20, {rate("sidelight_dta_key_value")})', '{{series}} of {{store}}'), width=12,
              about='Rate of the keys that "series" names: flows, ports or systems to watch (docs/dta-store.md). The 20 with most.'),
        row('Drops'),
        most('Lost on the way', 'ops', 'lost', about='By the devices\' own numbers: records of IPFIX, datagrams of NetFlow 9 and INT, '
             'flows of NetFlow 5, samples of sFlow.'),
        most('Without a template', 'ops', 'no_template'),
        most('Without a rule', 'rps', 'unmapped', about='Records of which no rule of the mapping makes a report.'),
        most('Not read', 'ops', 'refused'),
        panel('Not read, by cause', 'ops', (rate('sidelight_dta_devices', 'count=~"refused_.*"', ['input', 'count']), '{{count}}, {{input}}')),
        panel('Reports not stored', 'ops', (f'sum by (outcome) (rate(sidelight_dta_reports{{outcome!~"stored|waiting"}}{RATE}))',
                                            '{{outcome}}')),
        row('Stores'),
        panel('Reports stored', 'ops', (f'sum(rate(sidelight_dta_reports{{outcome="stored"}}{RATE}))', 'stored'), width=6),
        panel('Load', 'percentunit', ('sidelight_dta_load_ratio', '{{store}}'), width=6, about='Keys of this epoch per slot.'),
        panel('Rotations', 'ops', (rate('sidelight_dta_rotations_total', by=['store']), '{{store}}'),
              (rate('sidelight_dta_late_rotations_total', by=['store']), '{{store}} late'), width=6),
        panel('Translators', 'short', ('sidelight_dta_translators', 'connected'), width=6),
    ], variable('exporter', 'Exporter', 'label_values(sidelight_dta_exporters, exporter)', several=True))


def jobs():
    of_job = 'service=~"$service", job=~"$job"'
    rank = ['service', 'rank']

    def slowest(expr):
        return f'topk(20, {expr})', 'rank {{rank}} of {{service}}'

    def part_of(what, metric, match):
        return rate(metric, f'{of_job}, {match}' if match else of_job, ['service']), f'{what}, {{{{service}}}}'
    return dashboard('jobs', 'jobs', [
        row('Jobs'),
        panel('Ranks', 'short', (f'count by (service, job) (count by (service, job, rank) (mpi_calls_total{{{of_job}}}))',
                                 '{{service}} ({{job}})'), kind='stat', width=6),
        panel('Steps', 'ops', (f'avg by (service) (histogram_count(rate(mpi_step_seconds{{{of_job}}}{RATE}))) or '
                               f'avg by (service) (rate(mpi_step_seconds_count{{{of_job}}}{RATE}))', '{{service}}'),
              width=9, about='From the end of a collective to the beginning of the next one, per rank.'),
        panel('Time in MPI, share', 'percentunit',
              (f'avg by (service) (sum by (service, pod, host) (rate(mpi_seconds_total{{{of_job}}}{RATE})))', '{{service}}'), width=9,
              about='The rest is the ranks\' own work.'),
        row('Which rank delays the others'),
        panel('Own work per step, mean', 's', slowest(f'({mean("mpi_step_seconds", rank, of_job)})'),
              about='The 20 slowest ranks. A rank that delays the others has longer steps than they have.'),
        panel('Time in a collective, mean', 's', slowest(f'({mean("mpi_collective_seconds", rank, of_job)})'),
              about='Most of it is waiting for slower ranks. The 20 that wait longest: the rank that delays them is missing.'),
        panel('Slowest rank to mean', 'short',
              (f'max by (service) ({mean("mpi_step_seconds", rank, of_job)}) / avg by (service) ({mean("mpi_step_seconds", rank, of_job)})',
               '{{service}}'), about='1: the ranks do the same work in the same time.'),
        panel('Own work per step, 99 %', 's', (quantile(0.99, 'mpi_step_seconds', ['service'], of_job), '{{service}}')),
        panel('Time in a collective, 99 %', 's', (quantile(0.99, 'mpi_collective_seconds', ['service'], of_job), '{{service}}')),
        panel('Score of ranks', 'short', ('topk(20, max by (service, pod) (sidelight_anomaly_score{service=~"$service", pod=~"rank-.*"}))',
                                          '{{pod}} of {{service}}'), about='1 is the threshold. Needs "sidelight collect --analyse".'),
        row('Calls and bytes'),
        panel('Calls', 'ops', (rate('mpi_calls_total', of_job, ['call']), '{{call}}')),
        panel('Time, by call', 'short', (rate('mpi_seconds_total', of_job, ['call']), '{{call}}'), about='Mean number of ranks in this call.'),
        panel('Bytes', 'Bps', part_of('sent', 'mpi_bytes_total', 'direction="sent"'),
              part_of('received', 'mpi_bytes_total', 'direction="received"'), part_of('collectives', 'mpi_collective_bytes_total', '')),
        row('Nodes'),
        panel('Ranks', 'short', (f'count by (host) (count by (host, pod, service) (mpi_calls_total{{{of_job}}}))', '{{host}}')),
        panel('CPU, share in use', 'percentunit',
              (f'1 - avg by (host) (rate(node_cpu_seconds_total{{mode="idle"}}{RATE}))', '{{host}}'), most=1,
              about='Needs "sidelight agent --host".'),
        panel('Some task waits for a CPU', 'percentunit', (rate('node_pressure_cpu_waiting_seconds_total'), '{{host}}')),
    ], variable('service', 'Job', 'label_values(mpi_calls_total, service)', several=True),
        variable('job', 'Number', 'label_values(mpi_calls_total{service=~"$service"}, job)', several=True))


def itself():
    per_worker = {'by': ['worker']}
    latency = [(quantile(q, 'sidelight_collector_read_latency_seconds', []).replace('sum by () ', 'sum'), legend)
               for q, legend in ((0.5, 'median'), (0.99, '99 %'))]
    missed = rate('sidelight_collector_missed_deadlines_total', **per_worker)
    return dashboard('itself', 'itself', [
        row('Does the collector keep up?'),
        panel('Rounds', 'hertz', (rate('sidelight_collector_rounds_total', **per_worker), 'worker {{worker}}')),
        panel('Reads that came too late', 'percentunit',
              (f'{missed} / ({missed} + {rate("sidelight_collector_rounds_total", **per_worker)})', 'worker {{worker}}'), most=1),
        panel('Busy, share of a core', 'percentunit',
              (rate('sidelight_collector_busy_seconds_total', **per_worker), 'worker {{worker}}'),
              (rate('sidelight_analysis_busy_seconds_total'), 'analysis')),
        panel('Time of a READ', 's', *latency),
        panel('Analysis time per row', 's',
              (f'{rate("sidelight_analysis_busy_seconds_total")} / {rate("sidelight_analysis_rows_total")}', 'time')),
        panel('Hosts', 'bool_on_off', ('sidelight_host_up', '{{host}}')),
        row('What it holds'),
        panel('Regions', 'short', ('sum by (state) (sidelight_collector_regions)', '{{state}}')),
        panel('Series', 'short', ('sidelight_collector_series', 'held'), ('sidelight_collector_left_out_series', 'not exposed')),
        panel('Memory', 'bytes', ('sidelight_collector_memory_bytes', '{{part}}')),
        row('What is lost'),
        panel('Refused, by limit', 'ops', (rate('sidelight_collector_refused_total', by=['cause']), '{{cause}}'),
              (rate('sidelight_analysis_lost_total', by=['cause']), 'analysis: {{cause}}'), width=6),
        panel('Malformed', 'ops', (rate('sidelight_collector_region_faults_total', by=['cause']), '{{cause}}'), width=6),
        panel('READs failed', 'ops', (rate('sidelight_collector_read_errors_total', by=['cause']), '{{cause}}'), width=6),
        panel('Not delivered', 'ops', (rate('sidelight_push_dropped_total', by=['to', 'cause']), '{{to}}: {{cause}}'), width=6),
        row('Shards'),
        panel('Hosts', 'short', ('sum by (shard, state) (sidelight_discover_hosts)', 'shard {{shard}}: {{state}}')),
        panel('Lists of hosts', 'short', ('count(count_values("hash", sidelight_discover_list_hash))', 'different lists'),
              about='More than 1: collectors discover different hosts.'),
        panel('Sources not answering', 'ops', (rate('sidelight_discover_errors_total'), '{{instance}}')),
        row('Agents'),
        panel('Regions', 'short', ('sum by (host, state) (sidelight_agent_regions)', '{{state}} on {{host}}')),
        panel('Memory', 'bytes', ('sum by (host) (sidelight_agent_memory_bytes)', '{{host}}')),
        panel('Refused', 'ops', (rate('sidelight_agent_refused_total', by=['host', 'cause']), '{{cause}} on {{host}}')),
        row('Bridges'),
        panel('Scrapes', 'ops', (rate('sidelight_bridge_scrapes_total', by=['host', 'target']), '{{target}} on {{host}}')),
        panel('Scrapes failed', 'ops', (rate('sidelight_bridge_failures_total', by=['host', 'target', 'cause']),
                                        '{{target}} on {{host}}: {{cause}}')),
        panel('Series not published', 'ops', (rate('sidelight_bridge_refused_total', by=['host', 'target']), '{{target}} on {{host}}'),
              (rate('sidelight_bridge_full_total', by=['host', 'target']), '{{target}} on {{host}}: no room')),
        row('Analysis and traces'),
        panel('False-alarm budget used', 'percentunit', ('sidelight_anomaly_budget_used_ratio', 'used'), width=6,
              about='Anomalies of the last hour over the number that --false-alarms accepts.'),
        panel('Traces kept', 'cps', (rate('sidelight_trace_kept_total', by=['reason']), '{{reason}}'),
              (rate('sidelight_trace_roots_total'), 'examined'), width=6),
        panel('Bytes of spans', 'Bps', (rate('sidelight_trace_published_bytes_total'), 'published'),
              (rate('sidelight_trace_read_bytes_total', by=['part']), 'read: {{part}}'), width=6),
        panel('Traces left out', 'cps', (rate('sidelight_trace_over_budget_total', by=['reason']), 'over budget: {{reason}}'),
              (rate('sidelight_trace_lost_total', by=['cause']), 'lost: {{cause}}'), width=6),
    ])


def main(check):
    folder, differ = os.path.dirname(os.path.abspath(__file__)), []
    for name, board in (f() for f in (services, host, tcp, devices, jobs, itself)):
        path, text = os.path.join(folder, f'{name}.json'), json.dumps(board, indent=1, ensure_ascii=False) + '\n'
        try:
            with open(path) as f:
                same = f.read() == text
        except FileNotFoundError:
            same = False
        if same:
            continue
        differ.append(path)
        if not check:
            with open(path, 'w') as f:
                f.write(text)
    return [f'{path} is not what dashboards.py writes: run it' for path in differ] if check else []


if __name__ == '__main__':
    wrong = main(sys.argv[1:] == ['--check'])
    if wrong:
        print(*wrong, sep='\n')
    sys.exit(bool(wrong))
