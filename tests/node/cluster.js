// SPDX-License-Identifier: Apache-2.0
// cluster.js WORKERS UPDATES FOLDER: each worker writes to FOLDER/PID how many updates it has begun and done.
'use strict';

const cluster = require('cluster');
const fs = require('fs');
const { Counter, Histogram } = require('prom-client');
const [workers, updates, folder] = process.argv.slice(2);

if (cluster.isPrimary) {
  let ready = 0;
  cluster.on('message', () => ++ready === Number(workers) && console.log('done'));
  for (let i = 0; i < workers; i++) console.log(cluster.fork().process.pid);
} else {
  const requests = new Counter({ name: 'shop_requests_total', help: 'Requests.', labelNames: ['route', 'code'] });
  const seconds = new Histogram({ name: 'shop_seconds', help: 'Time.', labelNames: ['route'], buckets: [0.1, 1, 10] });
  const file = fs.openSync(`${folder}/${process.pid}`, 'w');
  const written = Buffer.alloc(16);
  let n = 0;
  const note = at => {
    written.writeBigUInt64LE(BigInt(n), at);
    fs.writeSync(file, written, 0, 16, 0);
  };
  const some = () => {
    for (let i = 0; i < 200 && n < updates; i++) {
      n++;
      note(0);
      requests.inc({ route: `/${n % 3}`, code: 200 });
      seconds.observe({ route: `/${n % 3}` }, n % 4);
      note(8);
    }
    if (n < updates) setImmediate(some);
    else process.send('done');
  };
  some();
  setInterval(() => {}, 1000); // lives on
}
