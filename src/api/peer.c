// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - the route by which other collectors check that this one is alive and which peers it
 * hears.
 */
#include "api/api.h"
#include "api/internal.h"
#include "collect/discover/discover.h"

static void get_peer(struct http_request *req, void *arg)
{
	struct api_answer *a = api_answer(req);

	if (!a)
		return;
	collect_discover_put(arg, &a->json);
	api_answer_end(req, a);
}

int api_peer(struct http *http, struct collect_discover *d)
{
	return http_route(http, "GET", "/api/v1/peer", HTTP_READER, get_peer, d);
}
