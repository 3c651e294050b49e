// SPDX-License-Identifier: Apache-2.0
// worker.js: one worker thread alone loads us, counts, and ends.
'use strict';

const { Worker, isMainThread } = require('worker_threads');

if (isMainThread) {
  new Worker(__filename).on('exit', code => console.log(code === 0 ? 'done' : `exit code ${code}`));
  process.stdin.on('data', () => {}).on('end', () => process.exit(0));
} else {
  const { Counter } = require('sidelight');
  new Counter({ name: 'worker_total', help: 'By a worker alone.' }).inc(3);
}
