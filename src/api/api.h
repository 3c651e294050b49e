/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - serves the collector's data as JSON over HTTP, and the web page. Depends on collect.h and
 * http.h only. docs/api.md describes all endpoints.
 */
#ifndef SL_API_API_H
#define SL_API_API_H

struct http;
struct collect_collector;
struct collect_services;
struct collect_tracer;
struct dta_store_server;

/*
 * Adds the routes under /api/v1/ and the routes of the page, including "/". Call before
 * http_start(). c must outlive the server. Supports one collector per process, because rates are
 * kept per process. Returns 0 or a negative errno.
 */
int api_register(struct http *http, struct collect_collector *c);
/*
 * Adds a part of this build to /api/v1/status. name: a string literal, the name of the Meson
 * option. Call it after api_register().
 */
void api_part_add(const char *name);
/* Adds the routes for the analysis: verdicts and Kubernetes' external metrics. */
int api_analysis(struct http *http, struct collect_collector *c);
/* Adds the route for remote read. */
int api_remote_read(struct http *http, struct collect_collector *c);
/* Adds the routes for traces. */
int api_traces(struct http *http, struct collect_tracer *t);
/* Adds the routes for services and their map. tracer may be NULL. Both must outlive the server. */
int api_services(struct http *http, struct collect_services *s, struct collect_tracer *tracer);
/* Adds the routes for DTA stores, /api/v1/dta (dta/store_server/server.h). */
int api_dta(struct http *http, struct dta_store_server *o);

#endif
