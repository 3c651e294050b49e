/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the collector as JSON over HTTP, and the page that is drawn from it. Knows collect.h and
 * http.h. Every endpoint is described in docs/api.md.
 */
#ifndef SL_API_API_H
#define SL_API_API_H

struct sl_http;
struct sl_collector;
struct sl_tracer;
struct sl_owner;

/*
 * Adds the routes under /api/v1/ and those of the page, "/" among them. Before sl_http_start(). c
 * must outlive the server. One collector a process: rates are kept per process. 0 or -errno.
 */
int sl_api_register(struct sl_http *http, struct sl_collector *c);
/* Those of traces, in the same way. */
int sl_api_traces(struct sl_http *http, struct sl_tracer *t);
/* Those of stores of reports, /api/v1/dta: dta/store_server/server.h. */
int sl_api_dta(struct sl_http *http, struct sl_owner *o);

#endif
