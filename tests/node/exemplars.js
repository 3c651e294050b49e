// SPDX-License-Identifier: Apache-2.0
// exemplars.js: counts with exemplars, good ones and one that prom-client refuses after it has counted. Shows on its one line
// what prom-client itself has counted, and lives until its stdin ends.
'use strict';

const { Counter, Histogram, Registry } = require('prom-client');
const registers = [new Registry(Registry.OPENMETRICS_CONTENT_TYPE)];
const asked = new Counter({ name: 'exemplars_asked_total', help: 'Asked.', labelNames: ['of'], enableExemplars: true, registers });
const took = new Histogram({ name: 'exemplars_took', help: 'Took.', labelNames: ['of'], enableExemplars: true, registers });
const labels = { of: 'a' }, good = { trace_id: '4bf92f3577b34da6a3ce929d0e0e4736' }, long = { trace_id: 'x'.repeat(200) };
const refused = [];

for (const exemplarLabels of [good, long, undefined])
  for (const count of [() => asked.inc({ labels, value: 2, exemplarLabels }), () => took.observe({ labels, value: 3, exemplarLabels })])
    try {
      count();
    } catch (e) {
      refused.push(e.constructor.name);
    }
(async () => {
  const [counter, histogram] = await Promise.all([asked.get(), took.get()]);
  const count = histogram.values.find(v => v.metricName === 'exemplars_took_count');
  console.log(JSON.stringify([counter.values[0].value, count.value, refused.length]));
})();
process.stdin.on('data', () => {}).on('end', () => process.exit(0));
