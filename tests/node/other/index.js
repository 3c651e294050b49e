// SPDX-License-Identifier: Apache-2.0
// A stand-in for a prom-client of a version to come, whose children are private. Its classes and methods are those that
// an application calls.
'use strict';

class Registry {
  #metrics = new Map();

  registerMetric(metric) {
    this.#metrics.set(metric.name, metric);
  }

  getSingleMetric(name) {
    return this.#metrics.get(name);
  }

  removeSingleMetric(name) {
    this.#metrics.delete(name);
  }

  setDefaultLabels() {}

  getMetricsAsArray() {
    return [...this.#metrics.values()];
  }

  clear() {
    this.#metrics.clear();
  }

  async metrics() {
    return this.getMetricsAsArray().map(metric => metric.text()).join('');
  }
}
const register = new Registry();

class Instrument {
  #values = new Map();

  constructor({ name, labelNames = [], registers = [register] }) {
    this.name = name;
    this.labelNames = labelNames;
    if (!labelNames.length) this.change({}, 0);
    for (const r of registers) r.registerMetric(this);
  }

  change(labels, by) {
    const shown = Object.entries(labels).map(([key, value]) => `${key}="${value}"`).join(',');
    const key = shown && `{${shown}}`;
    this.#values.set(key, (this.#values.get(key) ?? 0) + by);
  }

  inc(labels = {}, value = 1) {
    if (typeof labels === 'object') this.change(labels, value);
    else this.change({}, labels);
  }

  observe(labels, value) {
    this.inc(labels, value);
  }

  set(labels, value) {
    this.inc(labels, value);
  }

  remove() {}

  reset() {
    this.#values.clear();
  }

  text() {
    return [...this.#values].map(([key, value]) => `${this.name}${key} ${value}\n`).join('');
  }
}

module.exports = {
  Registry, register, Counter: class extends Instrument {}, Gauge: class extends Instrument {}, Histogram: class extends Instrument {},
  Summary: class extends Instrument {},
};
