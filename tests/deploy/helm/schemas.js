// SPDX-License-Identifier: Apache-2.0
// What Kubernetes' schemas say of the documents, a JSON array on standard input: a JSON array of lines.
'use strict';
const wrong = [];

// A copy that knows which of its keys the schema has asked for: the others are none of the schema's.
function watch(value, path, asked) {
  if (value === null || typeof value !== 'object') return value;
  const copy = Array.isArray(value) ? [] : {};
  for (const key of Object.keys(value)) {
    const at = `${path}/${key}`;
    const inner = watch(value[key], at, asked);
    if (!Array.isArray(value)) asked.set(at, false);
    Object.defineProperty(copy, key, {enumerable: true, get() { asked.set(at, true); return inner; }});
  }
  return copy;
}

for (const document of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
  const {apiVersion, kind, metadata} = document, name = `${kind} ${metadata && metadata.name}`;
  const group = apiVersion.includes('/') ? apiVersion : 'v1';
  let model;
  try {
    model = require(`kubernetes-models/${group}`)[kind];
  } catch (e) {
    if (e.code !== 'MODULE_NOT_FOUND' && e.code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw e;
  }
  if (!model) {
    wrong.push(`${name}: no schema of ${apiVersion}`);
    continue;
  }
  const asked = new Map(), checked = Object.create(model.prototype);
  for (const key of Object.keys(document)) {
    asked.set(`/${key}`, false);
    const inner = watch(document[key], `/${key}`, asked);
    Object.defineProperty(checked, key, {enumerable: true, get() { asked.set(`/${key}`, true); return inner; }});
  }
  try {
    checked.validate();
  } catch (e) {
    wrong.push(`${name}: ${e.message}`);
  }
  for (const [path, was] of asked) if (!was) wrong.push(`${name}: ${path} is not in the schema`);
}
console.log(JSON.stringify(wrong));
