// SPDX-License-Identifier: Apache-2.0
// otel.js MODULES URL proto|json cumulative|delta N - OpenTelemetry's own SDK counts to N, observes N values, ends a
// trace, and sends all of it in several parts. Prints what it did.
'use strict';

const path = require('path');
const { createRequire } = require('module');

const [modules, url, format, temporality, count] = process.argv.slice(2);
const from = createRequire(path.join(modules, 'x.js'));
const otel = (name) => from('@opentelemetry/' + name);
const { MeterProvider, PeriodicExportingMetricReader, AggregationTemporality, AggregationType, View, Aggregation } =
  otel('sdk-metrics');
const { BasicTracerProvider, BatchSpanProcessor } = otel('sdk-trace-base');
const { Resource } = otel('resources');
const { trace, SpanKind, SpanStatusCode, context } = otel('api');

const of = format === 'proto' ? 'proto' : 'http';
const { OTLPMetricExporter } = otel('exporter-metrics-otlp-' + of);
const { OTLPTraceExporter } = otel('exporter-trace-otlp-' + of);

async function main() {
  const n = Number(count), parts = 10;
  const resource = new Resource({ 'service.name': 'otel', 'service.instance.id': `${format}-${temporality}` });
  const exporter = new OTLPMetricExporter({
    url: url + '/v1/metrics',
    temporalityPreference: temporality === 'delta' ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE,
  });
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3600e3 });
  const provider = new MeterProvider({
    resource,
    readers: [reader],
    views: ['size', 'near'].map((instrumentName) => new View({ instrumentName, aggregation: Aggregation.ExponentialHistogram() })),
  });
  const meter = provider.getMeter('test');
  const requests = meter.createCounter('http.requests', { description: 'Requests.' });
  const level = meter.createUpDownCounter('level');
  const wait = meter.createHistogram('wait', { unit: 's', advice: { explicitBucketBoundaries: [1, 10, 100] } });
  const size = meter.createHistogram('size', { unit: 'By' });
  const near = meter.createHistogram('near', { unit: 'By' });
  const done = { exponential: 0 };
  const other = provider.getMeter('other');

  // Points that are different here and could become the same: scopes, lists, keys, names.
  meter.createCounter('scoped').add(10);
  other.createCounter('scoped').add(3);
  const lists = meter.createCounter('lists'), keys = meter.createCounter('keys');
  lists.add(10, { a: ['x'] });
  lists.add(3, { a: ['y'] });
  keys.add(10, { 'a.b': '1', a_b: '2' });
  keys.add(3, { a_b: '1' });
  meter.createCounter('name.x').add(10);
  meter.createCounter('name_x').add(3);

  for (let part = 0; part < parts; part++) {
    for (let i = part * (n / parts); i < (part + 1) * (n / parts); i++) {
      requests.add(1, { 'http.route': i % 2 ? '/a' : '/b' });
      level.add(i % 2 ? 1 : -2);
      wait.record(i % 200);
      size.record(i % 1000);
      near.record(100 + i % 1000);
      done.exponential += i % 1000;
    }
    await provider.forceFlush();
  }
  const tracer = new BasicTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: url + '/v1/traces' }))],
  });
  const root = tracer.getTracer('test').startSpan('GET /cart', { kind: SpanKind.SERVER });
  const child = tracer.getTracer('test').startSpan('SELECT', { kind: SpanKind.CLIENT, attributes: { 'db.system': 'pg' } },
    trace.setSpan(context.active(), root));

  child.end();
  root.setStatus({ code: SpanStatusCode.ERROR, message: 'no stock' });
  root.end();
  await tracer.forceFlush();
  console.log(JSON.stringify({ ...done, trace: root.spanContext().traceId, child: child.spanContext().spanId }));
  await provider.shutdown();
  await tracer.shutdown();
}

main().catch((e) => { console.error(e); process.exit(1); });
