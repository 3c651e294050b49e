// SPDX-License-Identifier: Apache-2.0
/* page.c - serves the files of web/, which embed.py turns into arrays. */
#include <stddef.h>
#include <stdio.h>

#include "api/internal.h"
#include "api/page_assets.h"

/*
 * Allows only content of this server, no inline style, and a single inline script, identified by
 * its hash. So a label cannot become code, and the page works without Internet access.
 */
#define POLICY                                                                           \
	"default-src 'none'; script-src 'self' '%s'; style-src 'self'; img-src 'self'; " \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* Needs no token: assets contain no data, and the page asks for a token when it needs one. */
static void get_asset(struct http_request *req, void *arg)
{
	const struct api_asset *asset = arg;
	char policy[sizeof(POLICY) + 64];

	snprintf(policy, sizeof(policy), POLICY, api_asset_script);
	http_add_header(req, "Content-Security-Policy", policy);
	http_add_header(req, "X-Content-Type-Options", "nosniff");
	http_add_header(req, "Referrer-Policy", "no-referrer");
	/* Clients revalidate each time, so that an upgrade takes effect at once. */
	http_add_header(req, "Cache-Control", "no-cache");
	http_reply_static(req, 200, asset->content_type, asset->body, asset->bytes, asset->etag);
}

int api_page_register(struct http *http)
{
	for (size_t i = 0; i < api_asset_count; i++) {
		int err = http_route(http, "GET", api_assets[i].path, HTTP_PUBLIC, get_asset,
				     (void *)&api_assets[i]);

		if (err)
			return err;
	}
	return 0;
}
