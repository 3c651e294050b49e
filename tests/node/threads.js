// SPDX-License-Identifier: Apache-2.0
// threads.js: threads of one process count the same metric, and end; one that ends takes nothing with it.
'use strict';

const { Worker, isMainThread } = require('worker_threads');
const { Counter } = require('sidelight');

const c = new Counter({ name: 'threads_total', help: 'By all of them.', labelNames: ['x'] });
for (let i = 0; i < 100000; i++) c.inc({ x: 'same' });
if (isMainThread) {
  let left = 3;
  for (let i = 0; i < 3; i++) new Worker(__filename).on('exit', () => --left || console.log('done'));
  process.stdin.on('data', () => {}).on('end', () => process.exit(0));
}
