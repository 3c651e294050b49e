/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - a source as an HTTP route: the format by Accept, streamed, compressed if asked for. */
#ifndef SL_EXPORT_SERVE_H
#define SL_EXPORT_SERVE_H

#include "export/model.h"
#include "http/http.h"

/*
 * Serves source at GET path ("/metrics"). source must live as long as h. Each request walks it by
 * itself, in bounded memory. Returns what http_route() does.
 */
int export_route(struct http *h, const char *path, const struct export_source *source);

#endif
