# SPDX-License-Identifier: Apache-2.0
"""Publishes the metrics of OpenTelemetry's SDK in memory, without HTTP:

    reader = PeriodicExportingMetricReader(sidelight.otel.Exporter(), export_interval_millis=1000)
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))

Names and labels follow OpenTelemetry's specification for Prometheus: counters end in _total, characters that Prometheus does not
allow in names become '_', values of keys that become equal are joined by ';', and the scope is in otel_scope_name and
otel_scope_version."""
import json
import re
from types import SimpleNamespace

from opentelemetry.sdk.metrics import export

from . import _format as f
from ._mirror import Mirror
from ._threads import log


def _name(text, more=''):
    return re.sub('^(?=[0-9])', '_', re.sub(f'[^a-zA-Z0-9_{more}]', '_', text))


def _text(value):
    return value if isinstance(value, str) else json.dumps(value, default=list)


def _labels(attributes, scope):
    found = {}
    for key, value in sorted((attributes or {}).items()):
        found.setdefault(_name(key), []).append(_text(value))
    labels = {key: ';'.join(values) for key, values in found.items()}
    for key, value in (('otel_scope_name', scope.name), ('otel_scope_version', scope.version)):
        if value:
            labels[key] = value
    return tuple(sorted(labels.items()))


def _series(name, data, labels):
    """Returns [(kind, name, labels, further arguments of Publisher.metric(), value)] for Mirror.publish(). labels: a function that returns
    the labels of a point."""
    points = data.data_points
    if isinstance(data, (export.Sum, export.Gauge)):
        counter = isinstance(data, export.Sum) and data.is_monotonic
        kind, name = (f.COUNTER_F64, name.removesuffix('_total') + '_total') if counter else (f.GAUGE_F64, name)
        return [(kind, name, labels(p), {}, p.value) for p in points]
    if isinstance(data, export.Histogram):
        return [(f.HISTOGRAM, name, labels(p), {'bounds': tuple(p.explicit_bounds)}, (p.sum, list(p.bucket_counts))) for p in points]
    raise ValueError('exponential histograms are not supported: choose explicit buckets by a view')


class Exporter(export.MetricExporter):
    """An exporter for a PeriodicExportingMetricReader, whose interval determines how often readers see changes. Refuses metrics
    that are not cumulative."""

    def __init__(self, preferred_temporality=None, preferred_aggregation=None):
        super().__init__(preferred_temporality=preferred_temporality or {}, preferred_aggregation=preferred_aggregation or {})
        self._mirror, self._refused = Mirror(), set()

    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
        self._mirror.publish(found for r in metrics_data.resource_metrics for s in r.scope_metrics for m in s.metrics
                             for found in self._found(m, s.scope))
        return export.MetricExportResult.SUCCESS

    def _found(self, metric, scope):
        try:
            if getattr(metric.data, 'aggregation_temporality', None) == export.AggregationTemporality.DELTA:
                raise ValueError('delta temporality is not supported: do not set preferred_temporality')
            series = _series(_name(metric.name, ':'), metric.data, lambda point: _labels(point.attributes, scope))
        except ValueError as e:
            if metric.name not in self._refused:
                self._refused.add(metric.name)
                log.warning('a metric is not published metric=%r reason="%s"', metric.name, e)
            return
        of = SimpleNamespace(documentation=metric.description or '', unit='')
        for one in series:
            yield of, one

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self, timeout_millis=30_000, **kwargs):
        pass
