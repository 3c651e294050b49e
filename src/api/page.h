/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the live page of web/, embedded in the program. */
#ifndef SL_API_PAGE_H
#define SL_API_PAGE_H

struct http;

/* Adds the routes of the page: "/", its scripts, its style. 0 or -errno. */
int api_page_register(struct http *http);

#endif
