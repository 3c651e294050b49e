// SPDX-License-Identifier: Apache-2.0
// Makes prom-client 15 publish: node -r sidelight/prom-client app.js. Each instrument works as before, and register.metrics()
// too; what changes is that a collector reads the values without asking this process.
'use strict';

const Module = require('module');
const { inspect } = require('util');
const { internal } = require('./index.js');
const { addon, Children, family, flat } = internal;

/** Of a gauge's aggregator; any other: each process has its own. */
const COMBINE = { sum: 'sum', min: 'min', max: 'max' };

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
 * The children of an instrument: {handle, labels, item, result}. item is what prom-client has in its hashMap.
 */
function childrenOf(metric) {
  let children = metric[KEY];
  if (children === undefined) {
    const { name, help, type } = metric;
    const index = family(type, {
      name,
      help,
      buckets: type === 'histogram' ? metric.upperBounds : undefined,
      quantiles: type === 'summary' ? [...metric.percentiles].sort((a, b) => a - b) : undefined,
      combine: type === 'gauge' ? COMBINE[metric.aggregator] || 'all' : undefined,
    });
    const make = { histogram: bucketsOf, summary: digestOf }[type] || valueOf;
    children = new Children(metric.labelNames, labels => {
      const hash = hashOf(metric, labels), all = labelsOf(metric, labels);
      const item = (metric.hashMap[hash] = make(metric, labels, metric.hashMap[hash]));
      return { handle: addon.with(index, all), labels: all, item, counts: item[COUNTS], result: { labelHash: hash } };
    }, refusal);
    children.index = index;
    Object.defineProperty(metric, KEY, { value: children, configurable: true });
    if (typeof metric.collect === 'function' || type === 'summary') watch(metric);
  }
  return children;
}

/** Ends all series of an instrument. */
function clear(metric) {
  const children = metric[KEY];
  if (children === undefined) return;
  for (const child of children.all()) addon.remove(children.index, child.labels, child.handle);
  children.clear();
}

/** In prom-client's words. */
function refusal(name, names) {
  return `Added label "${name}" is not included in initial labelset: ${inspect(names)}`;
}

function valueOf(metric, labels, there) {
  return there ?? { value: 0, labels };
}

function digestOf(metric, labels, there) {
  return there; // prom-client makes it when it observes
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
      if (metric.type === 'summary') setQuantiles(metric);
      const done = metric.collect?.();
      if (done instanceof Promise) done.catch(() => {}); // prom-client says so when it is scraped
    } catch {
      // the same
    }
}

function setQuantiles(metric) {
  const ranks = [...metric.percentiles].sort((a, b) => a - b);
  for (const { item, handle } of childrenOf(metric).all()) {
    item.td.compress();
    addon.summaryQuantiles(handle, Float64Array.from(ranks, r => item.td.percentile(r) || 0));
  }
}

/* ---- instruments ---- */

/** remove() and reset() of any of them. */
function patchEnds({ prototype }) {
  const { remove, reset } = prototype;

  prototype.remove = function (...args) {
    const done = remove.apply(this, args); // throws if it is no label
    const labels = isObject(args[0]) ? args[0] : Object.fromEntries(this.labelNames.map((name, i) => [name, args[i]]));
    const child = this[KEY]?.take(labels);
    if (child !== undefined) addon.remove(this[KEY].index, child.labels, child.handle);
    return done;
  };
  prototype.reset = function () {
    clear(this);
    reset.call(this);
    if (this[KEY] !== undefined) for (const { labels } of Object.values(this.hashMap)) this[KEY].find(labels);
  };
}

function isObject(labels) {
  return labels !== null && typeof labels === 'object';
}

function patchCounter({ prototype }) {
  const original = prototype.incWithoutExemplar;
  const { updateExemplar } = prototype;

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
  prototype.incWithExemplar = function (o = {}) {
    const { labels = this.defaultLabels, value = this.defaultValue, exemplarLabels = this.defaultExemplarLabelSet } = o;
    if (exemplarLabels === this.defaultExemplarLabelSet || !(value >= 0 && value < Infinity)) {
      this.incWithoutExemplar(labels, value);
      return;
    }
    const { item, handle, result } = childrenOf(this).find(labels || {});
    let good = false;
    item.value += value;
    try {
      updateExemplar.call(this, exemplarLabels, value, result.labelHash); // throws if it is too long
      good = true;
    } finally {
      if (good) addon.counterAddExemplar(handle, value, flat(exemplarLabels));
      else addon.counterAdd(handle, value);
    }
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

  /** Of a number. exemplar: its labels, or undefined. */
  function observe(metric, labels, value, exemplar) {
    const children = metric[KEY] ?? childrenOf(metric);
    const { item, counts, handle } = labels === undefined ? children.none() : children.find(labels);
    const bounds = metric.upperBounds;
    let i = 0;
    while (i < bounds.length && value > bounds[i]) i++;
    if (i < bounds.length) counts[i]++;
    item.sum += value;
    item.count++;
    if (exemplar === undefined) {
      addon.observe(handle, value);
      return;
    }
    let good = false;
    try {
      metric.updateExemplar(labels || {}, value, exemplar); // throws if it is too long
      good = true;
    } finally {
      if (good) addon.observeExemplar(handle, value, flat(exemplar));
      else addon.observe(handle, value);
    }
  }
  prototype.observeWithoutExemplar = function (labels, value) {
    const object = isObject(labels);
    const n = object ? value : labels;
    if (!Number.isFinite(n)) observeWithoutExemplar.call(this, labels, value); // which refuses it
    else observe(this, object ? labels : undefined, n);
  };
  prototype.observeWithExemplar = function ({ labels = this.defaultLabels, value, exemplarLabels = this.defaultExemplarLabelSet } = {}) {
    if (Object.keys(exemplarLabels).length === 0 || !Number.isFinite(value)) this.observeWithoutExemplar(labels, value);
    else observe(this, labels, value, exemplarLabels);
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

function patchSummary({ prototype }) {
  const { observe, labels: bind } = prototype;

  function publish(metric, labels, value) {
    const children = childrenOf(metric);
    addon.summaryObserve((isObject(labels) ? children.find(labels) : children.none()).handle, value);
  }
  prototype.observe = function (labels, value) {
    observe.call(this, labels, value); // throws if it is no number
    publish(this, value === undefined ? undefined : labels, value === undefined ? labels : value);
  };
  prototype.labels = function (...args) {
    const bound = bind.apply(this, args);
    const { observe: one } = bound;
    const labels = isObject(args[0]) ? args[0] : Object.fromEntries(this.labelNames.map((name, i) => [name, args[i]]));
    bound.observe = value => {
      one(value);
      publish(this, labels, value);
    };
    return bound;
  };
}

/* ---- registries ---- */

/** Publishes a metric as soon as its constructor is through; one without labels with its value, 0. */
function adopt(metric) {
  const children = childrenOf(metric);
  for (const { labels, value, count, sum } of Object.values(metric.hashMap)) {
    const { handle } = children.find(labels);
    // Made before prom-client was patched. What a histogram has observed by then is not known one by one.
    if (metric.type === 'counter' && value > 0) addon.counterAdd(handle, value);
    if (metric.type === 'gauge') addon.gaugeSet(handle, value);
    if (metric.type === 'summary' && count) addon.summaryObserve(handle, sum);
  }
}

function patchRegistry({ prototype }, instruments) {
  const { registerMetric, removeSingleMetric, clear: clearAll } = prototype;
  const ours = metric => instruments.some(i => metric instanceof i);
  const forget = metric => {
    if (!ours(metric) || metric[KEY] === undefined) return;
    clear(metric);
    delete metric[KEY];
    collected.delete(metric);
  };

  prototype.registerMetric = function (metric) {
    registerMetric.call(this, metric);
    if (!ours(metric)) return;
    // By then it may have counted, and be published, or be registered no longer.
    process.nextTick(() => metric[KEY] === undefined && this.getSingleMetric(metric.name) === metric && adopt(metric));
  };
  prototype.removeSingleMetric = function (name) {
    forget(this.getSingleMetric(name));
    return removeSingleMetric.call(this, name);
  };
  prototype.clear = function () {
    for (const metric of this.getMetricsAsArray()) forget(metric);
    return clearAll.call(this);
  };
}

function patch(client) {
  if (!client || !client.Counter || !client.Registry || patched.has(client)) return;
  const instruments = [client.Counter, client.Gauge, client.Histogram, client.Summary];
  patched.add(client);
  patchCounter(client.Counter);
  patchGauge(client.Gauge);
  patchHistogram(client.Histogram);
  patchSummary(client.Summary);
  instruments.forEach(patchEnds);
  patchRegistry(client.Registry, instruments);
}

const load = Module._load;
Module._load = function (request, ...rest) {
  const loaded = load.call(this, request, ...rest);
  if (request === 'prom-client' || /[\\/]prom-client[\\/]index\.js$/.test(request)) patch(loaded); // the latter by import
  return loaded;
};

module.exports = patch;
