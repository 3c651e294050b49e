// SPDX-License-Identifier: Apache-2.0
// app.js: a service with prom-client. On each line of stdin it does that ("show", "more", "remove"), and answers by one line.
'use strict';

const readline = require('readline');
if (process.env.APP_CELLS) require('sidelight').defaults = { maxCells: Number(process.env.APP_CELLS), schemaBytes: 65536, fixed: true };
const { AggregatorRegistry, Counter, Gauge, Histogram, Registry, Summary, collectDefaultMetrics, register } = require('prom-client');

register.setDefaultLabels({ zone: 'a' });
collectDefaultMetrics();
const plain = new Counter({ name: 'app_plain_total', help: 'Without labels.' });
const routes = new Counter({ name: 'app_routes_total', help: 'Two lines,\nand a \\ and a "quote".', labelNames: ['route', 'code'] });
const queue = new Gauge({ name: 'app_queue', help: 'Jobs.', labelNames: ['kind'] });
const asked = new Gauge({ name: 'app_asked', help: 'Set when it is asked for.', collect() { this.set(42); } }); // eslint-disable-line
const seconds = new Histogram({ name: 'app_seconds', help: 'Time.', labelNames: ['route'], buckets: [0.1, 0.5, 1, 5] });
const sizes = new Histogram({ name: 'app_sizes', help: 'Bytes.', buckets: [10, 100] });
const ages = new Summary({ name: 'app_ages', help: 'Years.', labelNames: ['of'], percentiles: [0.9, 0.5] });
const alone = new Summary({ name: 'app_alone', help: 'One.' });
const gone = new Gauge({ name: 'app_gone', help: 'Comes and goes.', labelNames: ['x', 'y'] });
const other = new Counter({ name: 'app_other_total', help: 'In a registry of its own.', registers: [new Registry()] });

function more() {
  plain.inc();
  plain.inc(1.5);
  routes.inc({ route: '/a', code: 200 });
  routes.inc({ route: '/a', code: '200' }, 2);
  routes.inc({ code: 500, route: 'ü"\\\n' }, 3);
  routes.inc({ route: '/only' });
  routes.labels('/b', 404).inc(4);
  routes.labels({ route: '/b', code: 404 }).inc();
  queue.set({ kind: 'x' }, 7);
  queue.inc({ kind: 'x' }, 3);
  queue.dec({ kind: 'x' });
  queue.dec({ kind: 'z' }, '2.5');
  queue.dec({ kind: 'z' }, null);
  queue.labels('y').set(-2.5);
  seconds.observe({ route: '/a' }, 0.3);
  seconds.observe({ route: '/a' }, 0.5);
  seconds.labels('/a').observe(7);
  seconds.zero({ route: '/zero' });
  seconds.zero(Object.assign(Object.create({ inherited: 1 }), { route: '/nothing' }));
  sizes.observe(11);
  sizes.observe(undefined, 12);
  sizes.observe(null, 13);
  sizes.observe(0);
  seconds.observe(null, 2);
  seconds.observe(3);
  seconds.observe({}, 4);
  for (let i = 0; i < 100; i++) ages.observe({ of: 'a' }, i);
  ages.labels('b').observe(3);
  alone.observe(2);
  alone.observe(undefined, 3);
  alone.observe(null, 4);
  gone.set({ x: 1, y: 'a' }, 4);
  gone.set({ x: 1, y: 'b' }, 5);
  gone.remove(1, 'a');
  gone.set({ x: 2 }, 6);
  gone.remove({ x: 2 });
  other.inc(9);
}

/* Calls that must throw, with the same messages as without Sidelight. */
function refused() {
  const calls = [
    () => plain.inc(-1), () => plain.inc(Infinity), () => routes.inc({ wrong: 1 }), () => queue.set({ kind: 'x' }, '3'),
    () => queue.inc({ kind: 'x' }, 'a'), () => seconds.observe({ route: '/a' }, NaN), () => seconds.observe({ wrong: 1 }, 2),
    () => routes.labels('one'),
  ];
  return calls.map(call => {
    try {
      call();
      return 'no error';
    } catch (e) {
      return `${e.constructor.name}: ${e.message.split('\n')[0]}`;
    }
  });
}

const commands = {
  more,
  reset() {
    routes.reset();
    seconds.reset();
    ages.reset();
    plain.reset();
  },
  unregister: () => register.removeSingleMetric('app_queue'),
  refused,
  show: () => register.metrics(),
  json: () => register.getMetricsAsJSON(),
  aggregated: async () => AggregatorRegistry.aggregate([await register.getMetricsAsJSON()]).metrics(),
  full() {
    for (let i = 0; i < 100000; i++) routes.inc({ route: `/${i}`, code: 1 });
    return require('sidelight').refused();
  },
  /** Text and bounds that a region cannot have as they are. */
  odd() {
    const long = new Histogram({ name: 'app_long', help: `${'x'.repeat(1022)}üü`, buckets: [1, Infinity] });
    const nul = new Counter({ name: 'app_nul_total', help: 'By a string.', labelNames: ['of'] });
    long.observe(2);
    nul.inc({ of: 'a' });
    nul.inc({ of: 'a\0b' });
    return require('sidelight').refused();
  },
  /** Two registries have one series, and one of them ends it. */
  twin() {
    const [a, b] = [0, 1].map(() => new Counter({ name: 'app_twin_total', help: 'Twice.', labelNames: ['x'], registers: [new Registry()] }));
    a.inc({ x: 1 }, 2);
    b.inc({ x: 1 }, 3);
    a.remove(1);
    b.inc({ x: 1 }, 4);
  },
  attached: () => require('sidelight').attached(),
};

readline.createInterface({ input: process.stdin }).on('line', async line => console.log(JSON.stringify((await commands[line]()) ?? null)))
  .on('close', () => process.exit(0));
