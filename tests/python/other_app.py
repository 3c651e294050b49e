# SPDX-License-Identifier: Apache-2.0
"""other_app.py: a service whose prometheus_client keeps children in another attribute. On a line of stdin it counts, and
answers by what the client itself shows."""
import json
import os
import sys

import prometheus_client.metrics as metrics

Base = metrics.MetricWrapperBase
labels = Base.labels


def elsewhere(self, *values, **named):
    child = labels(self, *values, **named)
    self._elsewhere = self.__dict__.pop('_metrics', None) or self._elsewhere
    return child


Base.labels = elsewhere
if os.environ['PUBLISH']:
    import sidelight.prometheus  # noqa: F401, E402

counter = metrics.Counter('other', 'h')
for line in sys.stdin:
    counter.inc(3)
    print(json.dumps([f'{s.name} {s.value}' for m in counter.collect() for s in m.samples if s.name == 'other_total']), flush=True)
