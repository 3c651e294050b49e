# SPDX-License-Identifier: Apache-2.0
"""otel_app.py: what a reader of OpenTelemetry's SDK hands to an exporter. On each line of stdin, its number of counts."""
import json
import logging
import os
import sys
from types import SimpleNamespace as Of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'stand_in'))
from opentelemetry.sdk.metrics import export  # noqa: E402
from sidelight import otel  # noqa: E402

logging.basicConfig()
exporter = otel.Exporter()


def number(value, **attributes):
    return export.NumberDataPoint({k.replace('__', '.'): v for k, v in attributes.items()}, 0, 0, value)


def metric(name, data):
    return Of(name=name, description='From OpenTelemetry.', unit='1', data=data)


def measured(n):
    both = export.AggregationTemporality
    shop = [
        metric('shop.requests', export.Sum([number(n, http__route='/a'), number(2 * n, http__route='/b', http_route='/c')],
                                           both.CUMULATIVE, True)),
        metric('shop.queue', export.Sum([number(-n, kinds=('x', 'y'))], both.CUMULATIVE, False)),
        metric('shop.load', export.Gauge([number(n / 4)] if n < 3 else [])),
        metric('shop.seconds', export.Histogram([export.HistogramDataPoint({}, 0, 0, 3 * n, 6.5 * n, [n, n, n], [1, 5], 0, 9)],
                                                both.CUMULATIVE)),
        metric('shop.delta', export.Sum([number(n)], both.DELTA, True)),
        metric('shop.sizes', export.ExponentialHistogram([], both.CUMULATIVE)),
    ]
    other = [metric('shop.requests', export.Sum([number(5 * n, http__route='/a')], both.CUMULATIVE, True))]
    scopes = [Of(scope=Of(name='shop', version='1.0'), metrics=shop), Of(scope=Of(name='other', version=''), metrics=other)]
    return Of(resource_metrics=[Of(resource=Of(attributes={}), scope_metrics=scopes)])


for line in sys.stdin:
    print(json.dumps(exporter.export(measured(int(line))) is export.MetricExportResult.SUCCESS), flush=True)
