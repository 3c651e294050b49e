// SPDX-License-Identifier: Apache-2.0
// counts.js: an application that any prom-client runs, from the first to those to come. Shows on its one line what prom-client
// itself answers, and lives until its stdin ends.
'use strict';

const client = require('prom-client');
const Counter = client.Counter || client.counter;
const Gauge = client.Gauge || client.gauge;
const requests = new Counter({ name: 'counts_requests_total', help: 'Requests.' });
const depth = new Gauge({ name: 'counts_depth', help: 'Jobs.' });

for (let i = 0; i < 7; i++) requests.inc();
depth.set(4);
(async () => console.log(JSON.stringify(await client.register.metrics())))();
process.stdin.on('data', () => {}).on('end', () => process.exit(0));
