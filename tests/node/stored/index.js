// SPDX-License-Identifier: Apache-2.0
// A stand-in for the main branch of prom-client, which no registry has: instruments keep their children in a store. The store
// has only the methods that callers and sidelight/prom-client use. Registries and formats are those of the real one.
'use strict';

const real = require('prom-client');

class LabelMap {
  #names;
  #children = new Map();

  constructor(names) {
    this.#names = [...names].sort();
  }

  #key(labels) {
    return JSON.stringify(this.#names.map(name => (labels[name] === undefined ? null : `${labels[name]}`)));
  }

  validate(labels) {
    const wrong = Object.keys(labels).find(name => !this.#names.includes(name));
    if (wrong !== undefined) throw new Error(`Added label "${wrong}" is not included in initial labelset`);
  }

  entry(labels) {
    return this.#children.get(this.#key(labels));
  }

  merge(labels, values) {
    const entry = { ...this.entry(labels), ...values, labels };
    this.#children.set(this.#key(labels), entry);
    return entry;
  }

  set(labels, value) {
    this.merge(labels, { value });
  }

  setDelta(labels, delta) {
    this.set(labels, (this.entry(labels)?.value ?? 0) + delta);
  }

  remove(labels) {
    this.#children.delete(this.#key(labels));
  }

  values() {
    return this.#children.values();
  }
}

const isObject = labels => labels !== null && typeof labels === 'object';
const split = (labels, value) => (isObject(labels) ? [labels, value] : [{}, labels]);

const given = labels => (labels === 0 ? 0 : labels || {});

function check(value) {
  if (!Number.isFinite(value)) throw new TypeError(`Value is not a valid number: ${value}`);
}

class Metric {
  constructor(type, config) {
    Object.assign(this, { labelNames: [], registers: [register], aggregator: 'sum', type }, config);
    this.reset();
    for (const r of this.registers) r.registerMetric(this);
  }

  _start() {}

  reset() {
    this.store = new LabelMap(this.labelNames);
    if (!this.labelNames.length) this._start();
  }

  async get() {
    await this.collect?.();
    const { help, name, type, aggregator } = this;
    return { help, name, type, aggregator, values: [...this.store.values()].flatMap(entry => this._shown(entry)) };
  }

  _shown(entry) {
    return [{ ...entry, labels: { ...entry.labels } }];
  }

  labelsOf(args) {
    if (isObject(args[0])) return args[0];
    if (args.length !== this.labelNames.length) throw new Error(`Invalid number of arguments (${args.length})`);
    return Object.fromEntries(this.labelNames.map((name, i) => [name, args[i]]));
  }

  removed(args) {
    const labels = this.labelsOf(args);
    this.store.validate(labels);
    this.store.remove(labels);
  }

  part(suffix, labels, value) {
    return { labels, value, metricName: this.name + suffix };
  }
}

class Counter extends Metric {
  constructor(config) {
    super('counter', config);
    this.defaultValue = 1;
    this.inc = config.enableExemplars ? this.incWithExemplar : this.incWithoutExemplar;
  }

  _start() {
    this.store.set({}, 0);
  }

  incWithoutExemplar(labels, value) {
    const [own, n] = split(labels, value);
    this.store.validate(own);
    check(n ?? 1);
    if (n < 0) throw new Error('It is not possible to decrease a counter');
    this.store.setDelta(own, n ?? 1);
  }

  incWithExemplar({ labels = {}, value = 1, exemplarLabels } = {}) {
    this.incWithoutExemplar(labels, value);
    if (exemplarLabels) this.updateExemplar(labels, exemplarLabels, value);
  }

  updateExemplar(labels, labelSet, value) {
    if (JSON.stringify(labelSet).length > 140) throw new RangeError('Label set size must be smaller than 128 UTF-8 chars');
    this.store.entry(labels).exemplar = { labelSet, value, timestamp: Date.now() / 1000 };
  }

  reset() {
    super.reset();
  }

  get() {
    return super.get();
  }

  labels(...args) {
    return { inc: this.inc.bind(this, this.labelsOf(args)) };
  }

  remove(...args) {
    this.removed(args);
  }
}

class Gauge extends Metric {
  constructor(config) {
    super('gauge', config);
  }

  _start() {
    this.store.set({}, 0);
  }

  set(labels, value) {
    const [own, n] = split(labels, value);
    if (typeof n !== 'number') throw new TypeError(`Value is not a valid number: ${n}`);
    this.store.validate(own);
    this.store.set(own, n);
  }

  inc(labels, value) {
    const [own, n] = split(labels, value);
    this.#move(own, n ?? 1);
  }

  /** Calls inc(), which one version may and another may not. */
  dec(labels, value) {
    const [own, n] = split(labels, value);
    this.inc(own, -(n ?? 1));
  }

  #move(labels, delta) {
    if (typeof delta !== 'number') throw new TypeError(`Delta is not a valid number: ${delta}`);
    this.store.validate(labels);
    this.store.setDelta(labels, delta);
  }

  setToCurrentTime(labels) {
    this.set(labels ?? {}, Date.now() / 1000);
  }

  startTimer(labels) {
    return () => this.set(labels ?? {}, 0);
  }

  reset() {
    super.reset();
  }

  get() {
    return super.get();
  }

  _getValue(labels) {
    return this.store.entry(labels ?? {})?.value ?? 0;
  }

  labels(...args) {
    const labels = this.labelsOf(args);
    return { inc: n => this.inc(labels, n), dec: n => this.dec(labels, n), set: n => this.set(labels, n) };
  }

  remove(...args) {
    this.removed(args);
  }
}

class Observed extends Metric {
  _start() {
    this.store.merge({}, this._empty());
  }

  count(labels, value) {
    check(value);
    this.store.validate(labels);
    const entry = this.store.entry(labels) ?? this.store.merge(labels, this._empty());
    entry.sum += value;
    entry.count++;
    this._place(entry, value);
  }

  bound(args) {
    const labels = this.labelsOf(args);
    this.store.validate(labels);
    return { observe: value => this.count(labels, value), startTimer: () => () => this.observe(labels, 0) };
  }
}

class Histogram extends Observed {
  constructor(config) {
    super('histogram', { buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10], ...config });
    this.upperBounds = this.buckets;
    this.observe = config.enableExemplars ? this.observeWithExemplar : this.observeWithoutExemplar;
  }

  _empty() {
    return { sum: 0, count: 0, bucketValues: Object.fromEntries(this.buckets.map(b => [b, 0])), bucketExemplars: {} };
  }

  _place({ bucketValues }, value) {
    const bound = this.buckets.find(b => value <= b);
    if (bound !== undefined) bucketValues[bound]++;
  }

  observeWithoutExemplar(labels, value) {
    this.count(...split(given(labels), value));
  }

  observeWithExemplar({ labels = {}, value, exemplarLabels = {} } = {}) {
    this.count(labels, value);
    if (Object.keys(exemplarLabels).length) this.updateExemplar(labels, value, exemplarLabels);
  }

  updateExemplar(labels, value, labelSet) {
    const bound = this.buckets.find(b => value <= b) ?? -1;
    this.store.entry(labels).bucketExemplars[bound] = { labelSet, value, timestamp: Date.now() / 1000 };
  }

  _shown({ labels, sum, count, bucketValues, bucketExemplars }) {
    let below = 0;
    const buckets = this.buckets.map(le => [le, (below += bucketValues[le]), bucketExemplars[le]]);
    return [...[...buckets, ['+Inf', count, bucketExemplars[-1]]].map(([le, n, exemplar]) =>
      ({ ...this.part('_bucket', { le, ...labels }, n), exemplar })), this.part('_sum', labels, sum), this.part('_count', labels, count)];
  }

  get() {
    return super.get();
  }

  getForPromString() {
    return this.get();
  }

  reset() {
    this.store = new LabelMap(this.labelNames);
    if (this.upperBounds === undefined && !this.labelNames.length) this._start();
  }

  zero(labels) {
    this.store.validate(labels);
    this.store.merge(labels, this._empty());
  }

  startTimer(labels) {
    return () => this.observe(labels, 0);
  }

  labels(...args) {
    return this.bound(args);
  }

  remove(...args) {
    this.removed(args);
  }
}

/** Quantiles by sorting. */
class Digest {
  values = [];
  compress() {}
  percentile(q) {
    return this.values.sort((a, b) => a - b)[Math.floor(q * (this.values.length - 1))];
  }
}

class Summary extends Observed {
  constructor(config) {
    super('summary', { percentiles: [0.01, 0.05, 0.5, 0.9, 0.95, 0.99, 0.999], ...config });
  }

  _empty() {
    return { sum: 0, count: 0, td: new Digest() };
  }

  _place({ td }, value) {
    td.values.push(value);
  }

  observe(labels, value) {
    this.count(...split(given(labels), value));
  }

  _shown({ labels, sum, count, td }) {
    return [...this.percentiles.map(quantile => ({ labels: { quantile, ...labels }, value: td.percentile(quantile) ?? 0 })),
      this.part('_sum', labels, sum), this.part('_count', labels, count)];
  }

  get() {
    return super.get();
  }

  reset() {
    for (const { labels } of [...(this.store?.values() ?? [])]) this.store.merge(labels, this._empty());
    this.store ?? super.reset();
  }

  startTimer(labels) {
    return () => this.observe(labels, 0);
  }

  labels(...args) {
    return this.bound(args);
  }

  remove(...args) {
    this.removed(args);
  }
}

class Registry extends real.Registry {}
const register = new Registry();

module.exports = {
  Registry, register, Counter, Gauge, Histogram, Summary, AggregatorRegistry: real.AggregatorRegistry, collectDefaultMetrics() {},
};
