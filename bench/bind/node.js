// SPDX-License-Identifier: Apache-2.0
// node.js: the time of prom-client's updates, as one line of JSON. With -r sidelight/prom-client they are ours.
'use strict';

const path = require('path');
const client = require(path.join(__dirname, '../../tests/node/node_modules/prom-client'));

function nanoseconds(n, call) {
  for (let i = 0; i < n / 10; i++) call();
  const start = process.hrtime.bigint();
  for (let i = 0; i < n; i++) call();
  return Number(process.hrtime.bigint() - start) / n;
}

if (process.execArgv.includes('-r')) require('sidelight/prom-client')(client);
const counter = new client.Counter({ name: 'bench_total', help: 'Counted.', labelNames: ['method', 'code'] });
const histogram = new client.Histogram({ name: 'bench_seconds', help: 'Observed.', labelNames: ['method'] });
let i = 0;
const out = {
  inc: nanoseconds(2e6, () => counter.inc({ method: 'GET', code: 200 })),
  observe: nanoseconds(1e6, () => histogram.observe({ method: 'GET' }, (i++ % 100) / 100)),
};

// The event loop's longest and mean delay while the metrics are taken: prom-client answers 100 times itself.
const { monitorEventLoopDelay } = require('perf_hooks');
for (let k = 0; k < 2000; k++) histogram.observe({ method: `m${k}` }, 1);
const delay = monitorEventLoopDelay({ resolution: 1 });
let left = 100;
delay.enable();
const timer = setInterval(async () => {
  if (!process.execArgv.includes('-r')) await client.register.metrics();
  if (--left) return;
  clearInterval(timer);
  delay.disable();
  console.log(JSON.stringify({ ...out, delay_max: delay.max / 1e6, delay_p99: delay.percentile(99) / 1e6 }));
  process.exit(0);
}, 20);
