// SPDX-License-Identifier: Apache-2.0
// Makes prom-client 15 publish: node -r sidelight/prom-client app.js. Each instrument works as before, and register.metrics()
// too; what changes is that a collector reads the values without asking this process.
'use strict';

const Module = require('module');
const { inspect } = require('util');
const { internal } = require('./index.js');
const { addon, Children, family, flat } = internal;

/** Seconds between calls of the collect() functions, which prom-client makes when it is scraped. */
const COLLECT_SECONDS = Number(process.env.SIDELIGHT_COLLECT_SECONDS) || 5;

const KEY = Symbol('sidelight');
const COUNTS = Symbol('counts');
const collected = new Set(); // metrics with a collect()
const patched = new WeakSet();

/** What prom-client has under this key in its hashMap. */
function hashOf(metric, labels) {
  let hash = '';
  for (const name of metric.sortedLabelNames) if (labels[name] !== undefined) hash += `${name}:${labels[name]},`;
  return hash;
}

/** The labels that its registry gives to all metrics, and its own. */
function labelsOf(metric, labels) {
  const register = metric.registers && metric.registers[0];
  return flat({ ...(register && register._defaultLabels), ...labels });
}

/**
 * The children of an instrument: {handle, item, result}. item is what prom-client has in its hashMap.
 */
function childrenOf(metric) {
  let children = metric[KEY];
  if (children === undefined) {
    const index = family(metric.type, { name: metric.name, help: metric.help, buckets: metric.upperBounds });
    const make = metric.type === 'histogram' ? bucketsOf : valueOf;
    children = new Children(metric.labelNames, labels => {
      const hash = hashOf(metric, labels);
      const item = (metric.hashMap[hash] = make(metric, labels, metric.hashMap[hash]));
      return { handle: addon.with(index, labelsOf(metric, labels)), item, counts: item[COUNTS], result: { labelHash: hash } };
    }, refusal);
    Object.defineProperty(metric, KEY, { value: children });
    if (typeof metric.collect === 'function') watch(metric);
  }
  return children;
}

/** In prom-client's words. */
function refusal(name, names) {
  return `Added label "${name}" is not included in initial labelset: ${inspect(names)}`;
}

function valueOf(metric, labels, there) {
  return there ?? { value: 0, labels };
}

/** What prom-client looks up by a bound is here by its number; it asks when it is scraped, and rarely. */
function bucketsOf(metric, labels, there) {
  const bounds = metric.upperBounds;
  const counts = Float64Array.from(bounds, b => (there ? there.bucketValues[b] : 0));
  const item = { labels, sum: there ? there.sum : 0, count: there ? there.count : 0 };
  if (metric.bucketExemplars) item.bucketExemplars = { ...metric.bucketExemplars };
  Object.defineProperty(item, COUNTS, { value: counts });
  return Object.defineProperty(item, 'bucketValues', {
    get: () => Object.fromEntries(Array.from(bounds, (b, i) => [b, counts[i]])),
    enumerable: true,
  });
}

/* ---- what only collect() knows ---- */

let timer;

function watch(metric) {
  collected.add(metric);
  timer ??= setInterval(collect, COLLECT_SECONDS * 1000);
  timer.unref();
}

function collect() {
  for (const metric of collected)
    try {
      const done = metric.collect();
      if (done instanceof Promise) done.catch(() => {}); // prom-client says so when it is scraped
    } catch {
      // the same
    }
}

/* ---- instruments ---- */

function isObject(labels) {
  return labels !== null && typeof labels === 'object';
}

function patchCounter({ prototype }) {
  const original = prototype.incWithoutExemplar;

  prototype.incWithoutExemplar = function inc(labels, value) {
    const object = isObject(labels);
    const n = object ? value : labels;
    if (n !== undefined && !(n >= 0 && n < Infinity)) return original.call(this, labels, value); // which refuses it
    const children = this[KEY] ?? childrenOf(this);
    const child = object ? children.find(labels) : children.none();
    const add = n === undefined ? 1 : n;
    child.item.value += add;
    addon.counterAdd(child.handle, add);
    return child.result;
  };
}

function patchGauge({ prototype }) {
  const { set, inc, dec } = prototype;

  prototype.set = function (labels, value) {
    const object = isObject(labels);
    const n = object ? value : labels;
    if (typeof n !== 'number') return set.call(this, labels, value); // which refuses it
    const children = this[KEY] ?? childrenOf(this);
    const child = object ? children.find(labels) : children.none();
    child.item.value = n;
    addon.gaugeSet(child.handle, n);
  };
  const move = sign =>
    function (labels, value) {
      const object = isObject(labels);
      const n = object ? value : labels;
      if (n !== undefined && typeof n !== 'number') return (sign > 0 ? inc : dec).call(this, labels, value);
      const children = this[KEY] ?? childrenOf(this);
      const child = object ? children.find(labels) : children.none();
      const by = n === undefined ? sign : sign * n;
      child.item.value += by;
      addon.gaugeAdd(child.handle, by);
    };
  prototype.inc = move(1);
  prototype.dec = move(-1);
}

function patchHistogram({ prototype }) {
  const { observeWithoutExemplar, labels: bind, zero } = prototype;

  /** Of a number. */
  function observe(metric, labels, value) {
    const children = metric[KEY] ?? childrenOf(metric);
    const { item, counts, handle } = labels === undefined ? children.none() : children.find(labels);
    const bounds = metric.upperBounds;
    let i = 0;
    while (i < bounds.length && value > bounds[i]) i++;
    if (i < bounds.length) counts[i]++;
    item.sum += value;
    item.count++;
    addon.observe(handle, value);
  }
  prototype.observeWithoutExemplar = function (labels, value) {
    const object = isObject(labels);
    const n = object ? value : labels;
    if (!Number.isFinite(n)) observeWithoutExemplar.call(this, labels, value); // which refuses it
    else observe(this, object ? labels : undefined, n);
  };
  prototype.observeWithExemplar = function ({ labels = this.defaultLabels, value, exemplarLabels = this.defaultExemplarLabelSet } = {}) {
    this.observeWithoutExemplar(labels, value);
    this.updateExemplar(labels, value, exemplarLabels);
  };
  prototype.labels = function (...args) {
    const { startTimer } = bind.apply(this, args); // which refuses what is no label
    const labels = isObject(args[0]) ? args[0] : Object.fromEntries(this.labelNames.map((name, i) => [name, args[i]]));
    return { observe: value => this.observeWithoutExemplar(labels, value), startTimer };
  };
  prototype.zero = function (labels) {
    zero.call(this, labels);
    const { counts, item } = childrenOf(this).find(labels);
    counts.fill(0);
    item.sum = item.count = 0;
    this.hashMap[hashOf(this, labels)] = item;
  };
}

/* ---- registries ---- */

/** Publishes a metric as soon as its constructor is through; one without labels with its value, 0. */
function adopt(metric) {
  const children = childrenOf(metric);
  for (const { labels, value } of Object.values(metric.hashMap)) {
    const child = children.find(labels);
    // Made before prom-client was patched.
    if (metric.type === 'counter' && value > 0) addon.counterAdd(child.handle, value);
    if (metric.type === 'gauge') addon.gaugeSet(child.handle, value);
  }
}

function patchRegistry({ prototype }, instruments) {
  const { registerMetric } = prototype;
  const ours = metric => instruments.some(i => metric instanceof i);

  prototype.registerMetric = function (metric) {
    registerMetric.call(this, metric);
    if (ours(metric)) process.nextTick(() => metric[KEY] ?? adopt(metric));
  };
}

function patch(client) {
  if (!client || !client.Counter || !client.Registry || patched.has(client)) return;
  patched.add(client);
  patchCounter(client.Counter);
  patchGauge(client.Gauge);
  patchHistogram(client.Histogram);
  patchRegistry(client.Registry, [client.Counter, client.Gauge, client.Histogram]);
  for (const metric of client.register.getMetricsAsArray()) if (metric instanceof client.Counter || metric instanceof client.Gauge) adopt(metric);
}

const load = Module._load;
Module._load = function (request, ...rest) {
  const loaded = load.call(this, request, ...rest);
  if (request === 'prom-client') patch(loaded);
  return loaded;
};

module.exports = patch;
