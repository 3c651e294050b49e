// SPDX-License-Identifier: Apache-2.0
// Metrics in memory that a collector reads by itself: counters, gauges and histograms. See README.md.
'use strict';

const path = require('path');
const addon = require('./sidelight_node.node');

const KIND = { counter: 0, gauge: 1, histogram: 2, summary: 3 };
/** How a collector combines the processes of a service if it shows them as one. */
const COMBINE = { sum: 1, min: 2, max: 3, all: 5 };

/**
 * Opens the publisher of this process, which all of its threads share. The first metric does so by
 * itself. Options: service (default $SIDELIGHT_SERVICE, the package's name, or the program's), pod,
 * namespace, labels ({key: value}), socket (default $SIDELIGHT_SOCKET), maxCells, maxThreads, schemaBytes, and fixed: refuse
 * what does not fit instead of taking more memory.
 * Throws if an option is invalid. Does not need a running agent: the publisher attaches when there is one.
 */
function open(options = {}) {
  const o = { maxCells: 65536, maxThreads: 4, ...options };
  const program = process.argv[1] || 'node';
  o.service ??= process.env.SIDELIGHT_SERVICE || process.env.npm_package_name || path.basename(program, path.extname(program));
  o.labels = Object.entries(o.labels || {}).flat().map(String);
  addon.open(o);
}

/** Numbers are equal to strings that look the same. */
function key(value) {
  return typeof value === 'number' ? `${value}` : value;
}

/**
 * The children of a metric, one per set of label values, created by create(labels). refusal(name, names) returns the message for
 * an unknown label.
 */
class Children {
  constructor(names, create, refusal = refusalOf) {
    this.names = names;
    this.create = create;
    this.refusal = refusal;
    this.clear();
  }

  clear() {
    this.bare = undefined;
    this.root = new Map();
  }

  /** Returns the child with the labels {name: value}. A missing name means that the label is missing. */
  find(labels) {
    const names = this.names;
    let at = this.root, some = 0;
    for (const name in labels) some++; // eslint-disable-line no-unused-vars
    for (let i = 0; i < names.length; i++) {
      const value = labels[names[i]];
      if (value !== undefined) some--;
      at = at.get(key(value));
      if (at === undefined) return this.make(labels);
    }
    if (some !== 0) this.refuse(labels);
    return names.length ? at : this.none();
  }

  /** Returns the child without labels. */
  none() {
    return this.names.length ? this.find({}) : (this.bare ??= this.create({}));
  }

  /** Removes and returns the child with these labels, or undefined if there is none. */
  take(labels) {
    const last = this.names.length - 1;
    let at = this.root;
    if (last < 0) {
      const { bare } = this;
      this.bare = undefined;
      return bare;
    }
    for (let i = 0; i < last && at !== undefined; i++) at = at.get(key(labels[this.names[i]]));
    const child = at && at.get(key(labels[this.names[last]]));
    if (child !== undefined) at.delete(key(labels[this.names[last]]));
    return child;
  }

  /** Returns all children. */
  *all(at = this.root, depth = this.names.length) {
    if (this.bare !== undefined && at === this.root) yield this.bare;
    for (const next of at.values())
      if (depth > 1) yield* this.all(next, depth - 1);
      else yield next;
  }

  refuse(labels) {
    for (const name in labels) if (!this.names.includes(name)) throw new Error(this.refusal(name, this.names));
  }

  make(labels) {
    this.refuse(labels);
    let at = this.root;
    for (const name of this.names.slice(0, -1)) {
      const value = key(labels[name]);
      if (!at.has(value)) at.set(value, new Map());
      at = at.get(value);
    }
    const child = this.create(labels);
    at.set(key(labels[this.names[this.names.length - 1]]), child);
    return child;
  }
}

function refusalOf(name, names) {
  return names.length ? `label "${name}" is not one of ${names.join(', ')}` : `label "${name}" of a metric without labels`;
}

/** Returns ["key", "value", ...], the form that the addon expects. */
function flat(labels) {
  const out = [];
  for (const name in labels) if (labels[name] !== undefined) out.push(name, `${labels[name]}`);
  return out;
}

/** Returns bounds that a region accepts: finite ones, and at least one. The bucket up to infinity is implied. */
function finiteBounds(buckets) {
  const finite = Array.from(buckets).filter(bound => bound !== Infinity);
  return finite.length ? finite : [Number.MAX_VALUE];
}

let warned = false;

/** Warns once if there is no publisher: metrics are not published then, and the application goes on. */
function openDefault() {
  try {
    open(module.exports.defaults);
  } catch (e) {
    if (!warned) process.emitWarning(`metrics are not published: ${e.message}`, 'SidelightWarning');
    warned = true;
  }
}

/** Creates a family. Returns its index. */
function family(type, { name, help = '', unit = '', buckets, quantiles, combine }) {
  const some = buckets ? finiteBounds(buckets) : quantiles;
  openDefault();
  return addon.family(KIND[type], name, help, unit, some ? Float64Array.from(some) : null, COMBINE[combine] || 0);
}

class Metric {
  constructor(type, o) {
    this.index = family(type, o);
    this.children = new Children(o.labelNames || [], labels => addon.with(this.index, flat(labels)));
    if (!this.children.names.length) this.children.none();
  }

  handle(labels) {
    return labels ? this.children.find(labels) : this.children.none();
  }

  /** Ends the series with these labels. If it is counted again, it starts at 0. */
  remove(labels = {}) {
    const handle = this.children.take(labels);
    if (handle !== undefined) addon.remove(this.index, flat(labels), handle);
  }
}

function finite(value) {
  if (typeof value !== 'number') throw new TypeError(`not a number: ${value}`);
  return value;
}

/** new Counter({name, help, unit, labelNames}) */
class Counter extends Metric {
  constructor(o) {
    super('counter', o);
  }

  /** inc(), inc(2), inc({route: '/'}), inc({route: '/'}, 2); values that are negative or not numbers are refused and counted. */
  inc(labels, value = 1) {
    if (typeof labels === 'number') addon.counterAdd(this.handle(), labels);
    else addon.counterAdd(this.handle(labels), finite(value));
  }
}

/** new Gauge({name, help, unit, labelNames, combine}): combine is 'sum', 'min', 'max' or 'all', the default. */
class Gauge extends Metric {
  constructor(o) {
    super('gauge', o);
  }

  set(labels, value) {
    if (typeof labels === 'number') addon.gaugeSet(this.handle(), labels);
    else addon.gaugeSet(this.handle(labels), finite(value));
  }

  inc(labels, value = 1) {
    if (typeof labels === 'number') addon.gaugeAdd(this.handle(), labels);
    else addon.gaugeAdd(this.handle(labels), finite(value));
  }

  dec(labels, value = 1) {
    if (typeof labels === 'number') this.inc(-labels);
    else this.inc(labels, -value);
  }
}

/** new Histogram({name, help, unit, labelNames, buckets}); without buckets, they are exponential with a factor of 1.09. */
class Histogram extends Metric {
  constructor(o) {
    super('histogram', o);
  }

  observe(labels, value) {
    if (typeof labels === 'number') addon.observe(this.handle(), labels);
    else addon.observe(this.handle(labels), finite(value));
  }

  /** Returns a function that observes the seconds since this call; it accepts further labels. */
  startTimer(labels) {
    const start = process.hrtime.bigint();
    return more => {
      const seconds = Number(process.hrtime.bigint() - start) / 1e9;
      this.observe({ ...labels, ...more }, seconds);
      return seconds;
    };
  }
}

module.exports = {
  open,
  Counter,
  Gauge,
  Histogram,
  /** Sets the options of the publisher, which the first metric opens. */
  defaults: {},
  /** True while this process is attached to an agent. */
  attached: addon.attached,
  /** True while a collector finds this process anomalous. */
  alarmed: addon.alarmed,
  /** The number of metrics and observations that were refused. */
  refused: addon.refused,
  internal: { addon, Children, family, flat },
};
