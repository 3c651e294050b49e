// SPDX-License-Identifier: Apache-2.0
// module.mjs: prom-client by import; lives until its stdin ends.
import { Counter } from 'prom-client';

new Counter({ name: 'module_total', help: 'By import.' }).inc(3);
process.stdin.on('data', () => {}).on('end', () => process.exit(0));
