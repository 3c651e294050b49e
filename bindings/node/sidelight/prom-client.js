// SPDX-License-Identifier: Apache-2.0
// Makes prom-client publish: node -r sidelight/prom-client app.js. Each instrument works as before, and register.metrics()
// too; what changes is that a collector reads the values without asking this process.
//
// probe() distinguishes two kinds of prom-client. HASHED, version 15: children are objects in a hashMap, which are replaced by
// ours. STORED, the main branch after 15: children are in a store that counts them; each update is then published as well. Any
// other prom-client is left unchanged, with one warning.
'use strict';

const Module = require('module');
const path = require('path');
const { inspect } = require('util');
const { internal } = require('./index.js');
const { addon, Children, family, flat } = internal;

/** How the processes' values of a gauge are combined, by its aggregator; with any other, each process has its own series. */
const COMBINE = { sum: 'sum', min: 'min', max: 'max' };

/** Seconds between calls of the collect() functions, which prom-client makes when it is scraped. */
const COLLECT_SECONDS = Number(process.env.SIDELIGHT_COLLECT_SECONDS) || 5;

const KEY = Symbol('sidelight');
const COUNTS = Symbol('counts');
const HASHED = Symbol('hashed'), STORED = Symbol('stored');
const collected = new Set(); // metrics with a collect()
const patched = new WeakSet();

/** Returns prom-client's key in its hashMap for these labels. 15.0 has no sortedLabelNames, and no comma at the end of the key. */
function hashOf({ sortedLabelNames, labelNames }, labels) {
  const pairs = [];
  for (const name of sortedLabelNames ?? [...labelNames].sort()) if (labels[name] !== undefined) pairs.push(`${name}:${labels[name]}`);
  return sortedLabelNames && pairs.length ? `${pairs.join(',')},` : pairs.join(',');
}

function shapeOf(metric) {
  return metric.hashMap === undefined ? STORED : HASHED;
}

/** Returns prom-client's own objects for the children: {labels, value} or {labels, sum, count}. */
function itemsOf(metric) {
  return shapeOf(metric) === HASHED ? Object.values(metric.hashMap) : Array.from(metric.store.values());
}

/** Returns the registry's default labels and the child's own labels. */
function labelsOf(metric, labels) {
  const register = metric.registers && metric.registers[0];
  return flat({ ...(register && register._defaultLabels), ...labels });
}

function ranksOf(metric) {
  return [...metric.percentiles].sort((a, b) => a - b);
}

/**
 * Returns the children of an instrument: {handle, labels}. Summaries also have the labels given by the application; other
 * instruments, if HASHED, have {item, counts, result}, where item is the object in prom-client's hashMap.
 */
function childrenOf(metric) {
  let children = metric[KEY];
  if (children === undefined) {
    const { name, help, type } = metric;
    const index = family(type, {
      name,
      help,
      buckets: type === 'histogram' ? metric.upperBounds : undefined,
      quantiles: type === 'summary' ? ranksOf(metric) : undefined,
      combine: type === 'gauge' ? COMBINE[metric.aggregator] || 'all' : undefined,
    });
    const make = type === 'histogram' ? bucketsOf : valueOf;
    const exchanged = shapeOf(metric) === HASHED && type !== 'summary';
    children = new Children([...metric.labelNames], labels => {
      const all = labelsOf(metric, labels), child = { handle: addon.with(index, all), labels: all };
      if (type === 'summary') child.given = { ...labels };
      if (!exchanged) return child;
      const hash = hashOf(metric, labels);
      const item = (metric.hashMap[hash] = make(metric, labels, metric.hashMap[hash]));
      return { ...child, item, counts: item[COUNTS], result: { labelHash: hash } };
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

/** Ends the series of these labels. */
function end(metric, labels) {
  const child = metric[KEY]?.take(labels);
  if (child !== undefined) addon.remove(metric[KEY].index, child.labels, child.handle);
}

/** Returns the error message of prom-client. */
function refusal(name, names) {
  return `Added label "${name}" is not included in initial labelset: ${inspect(names)}`;
}

function valueOf(metric, labels, there) {
  return there ?? { value: 0, labels };
}

/** Stores buckets by index instead of by bound; bucketValues converts them when prom-client is scraped, which is rare. */
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

/* ---- values that only collect() provides ---- */

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
      if (done instanceof Promise) done.catch(() => {}); // prom-client reports the error when it is scraped
    } catch {
      // the same
    }
}

/** Publishes quantiles. Ends children that prom-client has dropped (pruneAgedBuckets). */
function setQuantiles(metric) {
  const ranks = ranksOf(metric), children = childrenOf(metric), shown = new Set();

  for (const { labels, td } of itemsOf(metric)) {
    const child = children.find(labels);
    td.compress();
    addon.summaryQuantiles(child.handle, Float64Array.from(ranks, r => td.percentile(r) || 0));
    shown.add(child);
  }
  for (const child of [...children.all()]) if (!shown.has(child)) end(metric, child.given);
}

/* ---- instruments ---- */

function isObject(labels) {
  return labels !== null && typeof labels === 'object';
}

/** Returns the first argument of observe() as prom-client takes it: what is falsy, except 0, means no labels. */
function givenLabels(labels) {
  return labels === 0 ? 0 : labels || {};
}

function labelsOfArguments(metric, args) {
  return isObject(args[0]) ? args[0] : Object.fromEntries([...metric.labelNames].map((name, i) => [name, args[i]]));
}

/** Patches remove() and reset() of an instrument. */
function patchEnds({ prototype }) {
  const { remove, reset } = prototype;

  prototype.remove = function (...args) {
    const done = remove.apply(this, args); // throws if a label is unknown
    end(this, labelsOfArguments(this, args));
    return done;
  };
  prototype.reset = function () {
    clear(this);
    reset.call(this);
    if (this[KEY] !== undefined) for (const { labels } of itemsOf(this)) this[KEY].find(labels);
  };
}

/** Patches zero(), which restarts the series with these labels at 0. It accepts unknown labels, which are not published. */
function patchZero({ prototype }) {
  const { zero } = prototype;

  prototype.zero = function (labels) {
    zero.call(this, labels);
    const known = Object.fromEntries([...this.labelNames].filter(name => labels?.[name] !== undefined).map(name => [name, labels[name]]));
    end(this, known);
    childrenOf(this).find(known);
  };
}

/* ---- HASHED: these functions count in place of prom-client ---- */

function patchCounter({ prototype }) {
  const original = prototype.incWithoutExemplar;
  const { updateExemplar } = prototype;

  prototype.incWithoutExemplar = function inc(labels, value) {
    const object = isObject(labels);
    const n = object ? value : labels;
    if (typeof n !== 'number' ? n !== undefined && n !== null : !(n >= 0 && n < Infinity)) return original.call(this, labels, value); // throws
    const children = this[KEY] ?? childrenOf(this);
    const child = object ? children.find(labels) : children.none();
    const add = n ?? 1;
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
    if (typeof n !== 'number') return set.call(this, labels, value); // throws
    const children = this[KEY] ?? childrenOf(this);
    const child = object ? children.find(labels) : children.none();
    child.item.value = n;
    addon.gaugeSet(child.handle, n);
  };
  // Unlike inc(), dec() accepts strings such as "3": it negates its argument, which converts it to a number.
  const move = (byArgument, original) =>
    function (labels, value) {
      const object = isObject(labels);
      const by = byArgument(object ? value : labels);
      if (typeof by !== 'number') return original.call(this, labels, value); // throws
      const children = this[KEY] ?? childrenOf(this);
      const child = object ? children.find(labels) : children.none();
      child.item.value += by;
      addon.gaugeAdd(child.handle, by);
    };
  prototype.inc = move(n => (n === undefined ? 1 : n), inc);
  prototype.dec = move(n => (n === undefined ? -1 : -n), dec);
}

function patchHistogram({ prototype }) {
  const { observeWithoutExemplar, labels: bind } = prototype;

  /** Observes a number. exemplar: the exemplar's labels, or undefined. */
  function observe(metric, labels, value, exemplar) {
    const children = metric[KEY] ?? childrenOf(metric);
    const { item, counts, handle } = isObject(labels) ? children.find(labels) : children.none();
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
    const given = givenLabels(labels), n = isObject(given) ? value : given;
    if (!Number.isFinite(n)) observeWithoutExemplar.call(this, labels, value); // throws
    else observe(this, given, n);
  };
  prototype.observeWithExemplar = function ({ labels = this.defaultLabels, value, exemplarLabels = this.defaultExemplarLabelSet } = {}) {
    if (Object.keys(exemplarLabels).length === 0 || !Number.isFinite(value)) this.observeWithoutExemplar(labels, value);
    else observe(this, labels, value, exemplarLabels);
  };
  prototype.labels = function (...args) {
    const { startTimer } = bind.apply(this, args); // throws if a label is unknown
    const labels = labelsOfArguments(this, args);
    return { observe: value => this.observeWithoutExemplar(labels, value), startTimer };
  };
}

/* ---- STORED, and all summaries: publish what prom-client has counted ---- */

let within = false;

/**
 * Calls prom-client, then publish(), or failed() if it throws. Methods of prom-client call each other, so only the outermost
 * call publishes.
 */
function beside(call, publish, failed = () => {}) {
  let done, good = false;

  if (within) return call();
  within = true;
  try {
    done = call();
    good = true;
  } finally {
    within = false;
    if (!good) failed();
  }
  publish();
  return done;
}

/**
 * Patches a method with the parameters (labels, value) or (value), to call publish(handle, value) after each call. given(labels)
 * returns the labels as the method takes them.
 */
function patchBeside({ prototype }, name, publish, given = labels => labels) {
  const original = prototype[name];

  prototype[name] = function (labels, value) {
    const [own, n] = isObject(given(labels)) ? [given(labels), value] : [{}, labels];
    return beside(() => original.call(this, labels, value), () => publish(handleOf(this, own), n));
  };
}

/** Restarts the series of a child that a summary had dropped (pruneAgedBuckets). */
function handleOf(metric, labels) {
  if (metric.pruneAgedBuckets && itemOf(metric, labels).count === 1) end(metric, labels);
  return childrenOf(metric).find(labels).handle;
}

function itemOf(metric, labels) {
  return shapeOf(metric) === HASHED ? metric.hashMap[hashOf(metric, labels)] : metric.store.entry(labels);
}

/** Patches labels() of a histogram or a summary, because the functions that it returns do not call the patched methods. */
function patchBound({ prototype }, publish) {
  const { labels: bind } = prototype;

  prototype.labels = function (...args) {
    const bound = bind.apply(this, args), labels = labelsOfArguments(this, args);
    return { ...bound, observe: value => beside(() => bound.observe(value), () => publish(handleOf(this, labels), value)) };
  };
}

/** Patches a method with the parameters ({labels, value, exemplarLabels}), which counts even if it then refuses the exemplar. */
function patchBesideExemplar({ prototype }, name, plain, marked) {
  const original = prototype[name];

  prototype[name] = function (o = {}) {
    const { value = this.defaultValue, exemplarLabels = {} } = o, labels = o.labels || {};
    const seen = () => this.store.entry(labels)?.[this.type === 'histogram' ? 'count' : 'value'];
    const before = Object.keys(labels).every(name => [...this.labelNames].includes(name)) ? seen() : undefined;
    const publish = Object.keys(exemplarLabels).length ? marked : plain;
    return beside(() => original.call(this, o), () => publish(handleOf(this, labels), value, flat(exemplarLabels)),
      () => before !== undefined && seen() !== before && plain(handleOf(this, labels), value));
  };
}

function patchStored({ Counter, Gauge, Histogram }) {
  patchBeside(Counter, 'incWithoutExemplar', (handle, n) => addon.counterAdd(handle, n ?? 1));
  patchBesideExemplar(Counter, 'incWithExemplar', addon.counterAdd, addon.counterAddExemplar);
  patchBeside(Gauge, 'set', addon.gaugeSet);
  patchBeside(Gauge, 'inc', (handle, n) => addon.gaugeAdd(handle, n ?? 1));
  patchBeside(Gauge, 'dec', (handle, n) => addon.gaugeAdd(handle, -(n ?? 1)));
  patchBeside(Histogram, 'observeWithoutExemplar', addon.observe, givenLabels);
  patchBesideExemplar(Histogram, 'observeWithExemplar', addon.observe, addon.observeExemplar);
  patchBound(Histogram, addon.observe);
}

function patchHashed({ Counter, Gauge, Histogram }) {
  patchCounter(Counter);
  patchGauge(Gauge);
  patchHistogram(Histogram);
}

/* ---- registries ---- */

/** Publishes a metric after its constructor has returned; a metric without labels starts with the value 0. */
function adopt(metric) {
  const children = childrenOf(metric);
  for (const { labels, value, count, sum } of itemsOf(metric)) {
    const { handle } = children.find(labels);
    // It has counted before, with other default labels. The individual observations of a histogram are not known.
    if (metric.type === 'histogram' && count) warn(`the observations of ${metric.name} before setDefaultLabels() are not published`);
    if (metric.type === 'counter' && value > 0) addon.counterAdd(handle, value);
    if (metric.type === 'gauge') addon.gaugeSet(handle, value);
    if (metric.type === 'summary' && count) addon.summaryObserve(handle, sum);
  }
}

function patchRegistry({ prototype }, instruments) {
  const { registerMetric, removeSingleMetric, clear: clearAll, setDefaultLabels } = prototype;
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
    // By then, it may have counted and been published already, or may have been removed from the registry.
    process.nextTick(() => metric[KEY] === undefined && this.getSingleMetric(metric.name) === metric && adopt(metric));
  };
  prototype.removeSingleMetric = function (name) {
    forget(this.getSingleMetric(name));
    return removeSingleMetric.call(this, name);
  };
  prototype.setDefaultLabels = function (labels) {
    const published = this.getMetricsAsArray().filter(metric => metric[KEY] !== undefined);
    published.forEach(forget);
    setDefaultLabels.call(this, labels);
    published.forEach(adopt);
  };
  prototype.clear = function () {
    for (const metric of this.getMetricsAsArray()) forget(metric);
    return clearAll.call(this);
  };
}

/* ---- detection of prom-client's kind ---- */

/** The methods of the instruments of a supported prom-client. */
const METHODS = {
  Counter: ['incWithoutExemplar', 'incWithExemplar', 'updateExemplar', 'reset', 'get', 'labels', 'remove'],
  Gauge: ['set', 'inc', 'dec', 'reset', 'setToCurrentTime', 'startTimer', 'get', 'labels', 'remove'],
  Histogram: ['observeWithoutExemplar', 'observeWithExemplar', 'updateExemplar', 'get', 'reset', 'zero', 'startTimer',
    'labels', 'remove'],
  Summary: ['observe', 'get', 'reset', 'startTimer', 'labels', 'remove'],
  Registry: ['registerMetric', 'removeSingleMetric', 'clear', 'setDefaultLabels', 'getSingleMetric', 'getMetricsAsArray'],
};

/** For each kind of instrument: an update, and a check of the resulting item. */
const TRIALS = [
  ['Counter', m => m.inc({ a: 'x' }, 2), (m, item) => m.inc === m.incWithoutExemplar && item.value === 2],
  ['Gauge', m => m.set({ a: 'x' }, 2), (m, item) => item.value === 2],
  ['Histogram', m => m.observe({ a: 'x' }, 2), (m, item) => m.observe === m.observeWithoutExemplar && item.sum === 2 &&
    item.count === 1 && m.upperBounds.every(b => item.bucketValues[b] === (b === 2.5 ? 1 : 0))],
  ['Summary', m => m.observe({ a: 'x' }, 2), (m, item) => item.sum === 2 && item.count === 1 && item.td.compress !== undefined &&
    item.td.percentile(0.5) === 2],
];

/** Returns HASHED or STORED if everything that this file relies on is present, otherwise undefined. */
function probe(client) {
  const shapes = new Set();

  for (const [kind, methods] of Object.entries(METHODS))
    if (!methods.every(name => typeof client[kind].prototype[name] === 'function')) return undefined;
  for (const [kind, update, good] of TRIALS) {
    const m = new client[kind]({ name: 'probe', help: 'p', labelNames: ['a'], registers: [new client.Registry()] });
    update(m);
    const items = itemsOf(m);
    if (items.length !== 1 || items[0] !== itemOf(m, { a: 'x' }) || items[0].labels.a !== 'x' || !good(m, items[0])) return undefined;
    shapes.add(shapeOf(m));
  }
  return shapes.size === 1 ? [...shapes][0] : undefined;
}

function unknownMethods(client) {
  const own = kind => Object.getOwnPropertyNames(client[kind].prototype);
  return Object.keys(METHODS).filter(kind => kind !== 'Registry')
    .flatMap(kind => own(kind).filter(name => name !== 'constructor' && name !== 'getForPromString' && name[0] !== '_' &&
      !METHODS[kind].includes(name)).map(name => `${kind}.${name}`));
}

function warn(text) {
  process.emitWarning(text, 'SidelightWarning');
}

/** Never throws. Leaves an unsupported prom-client unchanged. */
function patch(client, version = 'of an unknown version') {
  let shape;

  if (!client || patched.has(client)) return;
  patched.add(client);
  try {
    shape = probe(client);
  } catch {
    // an unsupported prom-client
  }
  if (shape === undefined) {
    warn(`prom-client ${version} is not supported by sidelight: it works as usual, but is not published`);
    return;
  }
  const instruments = [client.Counter, client.Gauge, client.Histogram, client.Summary], unknown = unknownMethods(client);
  if (unknown.length)
    warn(`prom-client ${version} has methods that sidelight does not support, so their changes are not published: ${unknown.join(', ')}`);
  if (client.register?.getMetricsAsArray().length)
    warn('sidelight/prom-client was loaded after the first metrics, which are not published: load it first, by node -r');
  (shape === HASHED ? patchHashed : patchStored)(client);
  patchBeside(client.Summary, 'observe', addon.summaryObserve, givenLabels);
  patchBound(client.Summary, addon.summaryObserve);
  patchZero(client.Histogram);
  instruments.forEach(patchEnds);
  patchRegistry(client.Registry, instruments);
}

function versionOf(request, parent) {
  try {
    return load.call(Module, path.join(path.dirname(Module._resolveFilename(request, parent)), 'package.json')).version;
  } catch {
    return undefined;
  }
}

const load = Module._load;
Module._load = function (request, parent, ...rest) {
  const loaded = load.call(this, request, parent, ...rest);
  // An import statement passes the path of the file.
  if (request === 'prom-client' || /[\\/]prom-client[\\/]index\.js$/.test(request)) patch(loaded, versionOf(request, parent));
  return loaded;
};

module.exports = patch;
