#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dashboards.py FOLDER - writes the dashboards for Grafana, one file each."""
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
    """A selector of the metric that a variable of the dashboard has the name of."""
    return f'{{__name__="${{{variable}}}{suffix}", {match}}}'


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
    """Rate, errors, duration."""
    per_service = {'by': ['service'], 'match': SHOP}
    server = {'by': ['service'], 'match': f'role="server", {SHOP}'}
    latency = [(f'histogram_quantile({q}, sum by (service) (rate({named("latency")}{RATE}))) or '
                f'histogram_quantile({q}, sum by (service, le) (rate({named("latency", "_bucket")}{RATE})))',
                f'{{{{service}}}} {100 * q:g} %') for q in (0.5, 0.99)]
    return dashboard('services', 'services', [
        row('As the applications count'),
        panel('Requests', 'reqps', (f'sum by (service) (rate({named("requests")}{RATE}))', '{{service}}')),
        panel('Errors, share of requests', 'percentunit',
              (f'sum by (service) (rate({named("errors")}{RATE})) / sum by (service) (rate({named("requests")}{RATE}))',
               '{{service}}'), most=1),
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
        panel('Anomaly score', 'short', (f'max by (service) (sidelight_anomaly_score{{{SHOP}}})', '{{service}}'),
              about='1 is the threshold of every pod.'),
    ], variable('service', 'Service', 'label_values(sidelight_anomaly_score, service)', several=True),
        variable('requests', 'Requests', 'metrics(_requests_total$)', regex=APPLICATIONS),
        variable('errors', 'Errors', 'metrics(_errors_total$)', regex=APPLICATIONS),
        # A histogram that is not native has buckets of that name only.
        variable('latency', 'Duration', 'metrics(_(latency|duration)_seconds(_bucket)?$)', regex=APPLICATIONS))


def host():
    on = 'host=~"$host"'
    def busy(resource, how):
        return (rate(f'node_pressure_{resource}_{how}_seconds_total', on), f'{resource} on {{{{host}}}}')
    return dashboard('host', 'hosts', [
        row('Machine'),
        panel('CPU, share in use', 'percentunit',
              (f'1 - avg by (host) (rate(node_cpu_seconds_total{{mode="idle", {on}}}{RATE}))', '{{host}}'), most=1),
        panel('Memory, share in use', 'percentunit',
              (f'1 - node_memory_MemAvailable_bytes{{{on}}} / node_memory_MemTotal_bytes{{{on}}}', '{{host}}'), most=1),
        panel('Load', 'short', (f'node_load1{{{on}}}', '{{host}}')),
        panel('Tasks wait for', 'percentunit', busy('cpu', 'waiting'), busy('memory', 'waiting'), busy('io', 'waiting'),
              about='Share of time in which some task waits (PSI).'),
        panel('Network', 'Bps',
              (rate('node_network_receive_bytes_total', f'device!="lo", {on}', ['host']), 'in, {{host}}'),
              (rate('node_network_transmit_bytes_total', f'device!="lo", {on}', ['host']), 'out, {{host}}')),
        panel('Disks', 'Bps', (rate('node_disk_read_bytes_total', on, ['host', 'device']), 'read {{device}} on {{host}}'),
              (rate('node_disk_written_bytes_total', on, ['host', 'device']), 'written {{device}} on {{host}}')),
        panel('Free space', 'bytes', (f'node_filesystem_avail_bytes{{{on}}}', '{{mountpoint}} on {{host}}')),
        row('Containers'),
        panel('CPU', 'short', (f'topk(20, {rate("container_cpu_usage_seconds_total", on, ["host", "id"])})', '{{id}} on {{host}}'),
              about='Cores in use, of the 20 with most.'),
        panel('Memory', 'bytes', (f'topk(20, container_memory_working_set_bytes{{{on}}})', '{{id}} on {{host}}')),
        panel('Tasks wait for a CPU', 'percentunit',
              (f'topk(20, {rate("container_pressure_cpu_waiting_seconds_total", on)})', '{{id}} on {{host}}')),
    ], variable('host', 'Host', 'label_values(node_load1, host)', several=True))


def tcp():
    def by_port(title, unit, metric, **more):
        return panel(title, unit, (rate(metric, by=PORTS), OF_PORT), **more)
    return dashboard('tcp', 'TCP', [
        row('Connections'),
        panel('Connections', 'short', (f'sum by ({", ".join(PORTS)}) (sidelight_tcp_connections)', OF_PORT)),
        by_port('Bytes sent', 'Bps', 'sidelight_tcp_sent_bytes_total'),
        by_port('Bytes received', 'Bps', 'sidelight_tcp_received_bytes_total'),
        panel('Opened and closed', 'ops', (rate('sidelight_tcp_connections_opened_total', by=['host']), 'opened on {{host}}'),
              (rate('sidelight_tcp_connections_closed_total', by=['host']), 'closed on {{host}}')),
        panel('Resets and refusals', 'ops',
              (rate('sidelight_tcp_resets_total', by=['host', 'direction']), 'reset {{direction}} on {{host}}'),
              (rate('sidelight_tcp_listen_drops_total', by=['host', 'port']), 'refused :{{port}} on {{host}}')),
        panel('Limited by', 'short', (rate('sidelight_tcp_limited_seconds_total', by=['limit']), '{{limit}}'),
              about='Mean number of connections with this limit.'),
        row('The way'),
        panel('Retransmitted segments', 'percentunit',
              (f'{rate("sidelight_tcp_retransmits_total", by=PORTS)} / '
               f'{rate("sidelight_tcp_sent_segments_total", by=PORTS)}', OF_PORT)),
        panel('RTT, mean', 's', (mean('sidelight_tcp_rtt_seconds', PORTS), OF_PORT)),
        panel('RTT, 90 %', 's', (quantile(0.9, 'sidelight_tcp_rtt_seconds', PORTS), OF_PORT),
              about='Finer with native histograms, or with classic=1.'),
        row('Requests, as the kernel measures them'),
        panel('Mean time, by layer', 's', (mean('sidelight_tcp_layer_seconds', ['layer'], 'role="server"'), '{{layer}}')),
        panel('Request, 99 %', 's', (quantile(0.99, 'sidelight_tcp_request_seconds', ['host', 'port'], 'role="server"'),
                                     ':{{port}} on {{host}}')),
        panel('Application, 99 %', 's',
              (quantile(0.99, 'sidelight_tcp_layer_seconds', ['host', 'port'], 'layer="app", role="server"'),
               ':{{port}} on {{host}}')),
        by_port('Not measured', 'ops', 'sidelight_tcp_unattributed_total'),
        row('Scheduler'),
        panel('CPU time', 'short', (rate('sidelight_cpu_seconds_total', by=['host']), '{{host}}')),
        panel('Wait for a CPU, 99 %', 's', (quantile(0.99, 'sidelight_cpu_wait_duration_seconds', ['host']), '{{host}}')),
        panel('Context switches', 'ops', (rate('sidelight_cpu_switches_total', by=['host', 'cause']), '{{cause}} on {{host}}')),
    ])


def reports():
    return dashboard('reports', 'reports of network devices', [
        row('Reports'),
        panel('Reports, by outcome', 'ops', (f'sum by (outcome) (rate(sidelight_dta_reports{RATE}))', '{{outcome}}'),
              width=12),
        panel('Translators and devices', 'short', ('sidelight_dta_translators', 'translators'),
              ('sum(sidelight_dta_devices) or vector(0)', 'devices'), width=12),
        row('Stores'),
        panel('Load', 'percentunit', ('sidelight_dta_load_ratio', '{{store}}'), width=6),
        panel('Memory', 'bytes', ('sidelight_dta_store_bytes', '{{store}}'), width=6),
        panel('Rotations', 'ops', (rate('sidelight_dta_rotations_total', by=['store']), '{{store}}'),
              (rate('sidelight_dta_late_rotations_total', by=['store']), '{{store}} late'), width=6),
        panel('Refused', 'ops', (rate('sidelight_dta_refused_connections_total', by=['cause']), '{{cause}}'), width=6),
    ])


def devices():
    def most(title, unit, count, **more):
        """Of the 20 exporters with most."""
        counted = rate('sidelight_dta_exporters', f'count="{count}", exporter=~"$exporter"', ['input', 'exporter'])
        return panel(title, unit, (f'topk(20, {counted})', '{{exporter}}, {{input}}'), **more)
    return dashboard('devices', 'network devices', [
        row('What devices send'),
        panel('Exporters', 'short', ('count by (input) (sidelight_dta_exporters{count="datagrams", exporter=~"$exporter"})', '{{input}}')),
        most('Datagrams', 'pps', 'datagrams'),
        most('Records', 'rps', 'records'),
        row('What is lost, by exporter'),
        most('Lost on the way', 'ops', 'lost', about='By the devices\' own numbers: records of IPFIX, datagrams of NetFlow 9 and INT, '
             'flows of NetFlow 5, samples of sFlow.'),
        most('Without a template', 'ops', 'no_template'),
        most('Not read', 'ops', 'refused'),
        most('Without a rule', 'rps', 'unmapped', about='Records of which no rule of the mapping makes a report.'),
        most('Restarts', 'ops', 'restarts'),
        panel('Not read, by cause', 'ops', (rate('sidelight_dta_devices', 'count=~"refused_.*"', ['input', 'count']), '{{count}}, {{input}}')),
    ], variable('exporter', 'Exporter', 'label_values(sidelight_dta_exporters, exporter)', several=True))


def detection():
    return dashboard('detection', 'detection', [
        row('Pods'),
        panel('Pods', 'short', ('sidelight_analysis_pods{state="all"}', 'pods'),
              ('sidelight_analysis_pods{state="warming_up"}', 'learning'), kind='stat', width=4),
        panel('Anomalous now', 'short', ('sidelight_analysis_pods{state="anomalous"}', 'anomalous'),
              ('sidelight_analysis_pods{state="drifting"}', 'drifting'), kind='stat', width=4),
        panel('False-alarm budget used', 'percentunit', ('sidelight_anomaly_budget_used_ratio', 'used'), kind='stat', width=4,
              about='Anomalies of the last hour over the number that --false-alarms accepts.'),
        panel('Anomalies per hour', 'short', (f'sum by (service) (increase(sidelight_anomalies_total{{{SHOP}}}[1h]))', '{{service}}'),
              width=12),
        panel('Score of pods', 'short', (f'topk(20, max by (pod, host) (sidelight_anomaly_score{{{SHOP}}}))', '{{pod}} on {{host}}'),
              width=16, about='1 is the threshold of every pod.'),
        panel('Anomalous or drifting', 'short', (f'sidelight_anomalous{{{SHOP}}}', '{{pod}}'),
              (f'sidelight_anomaly_drift{{{SHOP}}}', '{{pod}} drifts'), most=1),
        row('Workloads'),
        panel('Pressure', 'short', (f'sidelight_scaling_pressure{{{SHOP}}}', '{{namespace}}/{{service}}'), width=12,
              about='Smoothed mean score of a workload\'s pods, as an autoscaler gets it.'),
        panel('Share of anomalous pods', 'percentunit',
              (f'sidelight_scaling_anomalous_ratio{{{SHOP}}}', '{{namespace}}/{{service}}'), width=12, most=1),
        row('Traces'),
        panel('Traces kept', 'cps', (rate('sidelight_trace_kept_total', by=['reason']), '{{reason}}'),
              (rate('sidelight_trace_roots_total'), 'examined')),
        panel('Bytes of spans', 'Bps', (rate('sidelight_trace_published_bytes_total'), 'published'),
              (rate('sidelight_trace_read_bytes_total', by=['part']), 'read: {{part}}')),
        panel('Left out', 'cps', (rate('sidelight_trace_over_budget_total', by=['reason']), 'over budget: {{reason}}'),
              (rate('sidelight_trace_lost_total', by=['cause']), 'lost: {{cause}}')),
    ], variable('service', 'Service', 'label_values(sidelight_anomaly_score, service)', several=True))


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
              (rate('sidelight_analysis_lost_total', by=['cause']), 'analysis: {{cause}}')),
        panel('Malformed', 'ops', (rate('sidelight_collector_region_faults_total', by=['cause']), '{{cause}}')),
        panel('Not delivered', 'ops', (rate('sidelight_push_dropped_total', by=['to', 'cause']), '{{to}}: {{cause}}')),
        panel('Missed of connections', 'ops', (rate('sidelight_collector_tcp_lost_total', by=['cause']), '{{cause}}')),
        row('Agents'),
        panel('Regions', 'short', ('sum by (host, state) (sidelight_agent_regions)', '{{state}} on {{host}}')),
        panel('Memory', 'bytes', ('sum by (host) (sidelight_agent_memory_bytes)', '{{host}}')),
        panel('Refused', 'ops', (rate('sidelight_agent_refused_total', by=['host', 'cause']), '{{cause}} on {{host}}')),
    ])


if __name__ == '__main__':
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, board in (f() for f in (services, host, tcp, reports, devices, detection, itself)):
        with open(os.path.join(sys.argv[1], f'{name}.json'), 'w') as f:
            json.dump(board, f, indent=1, ensure_ascii=False)
