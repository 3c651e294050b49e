/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - serves a source as an HTTP route: the Accept header selects the format; the body is
 * streamed, and compressed on request.
 */
#ifndef SL_EXPORT_SERVE_H
#define SL_EXPORT_SERVE_H

#include "export/model.h"
#include "http/http.h"

/*
 * Serves source, which must outlive h, at GET path ("/metrics"). Each request walks the source
 * separately, in bounded memory. Returns the result of http_route().
 */
int export_route(struct http *h, const char *path, const struct export_source *source);

#endif
