/* SPDX-License-Identifier: Apache-2.0 */
/* page_assets.h - the arrays that web/embed.py generates. */
#ifndef SL_API_PAGE_ASSETS_H
#define SL_API_PAGE_ASSETS_H

#include <stddef.h>

struct api_asset {
	const char *path; /* path of the asset, such as "/app.js" */
	const char *content_type;
	const char *etag; /* hash of the content, without quotes */
	const unsigned char *body;
	size_t bytes;
};

extern const struct api_asset api_assets[];
extern const size_t api_asset_count;
/* Hash of the script in index.html, for the Content-Security-Policy. */
extern const char api_asset_script[];

#endif
