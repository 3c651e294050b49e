/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receiver.h - an HTTP receiver on a free port of loopback that follows a script of one letter per
 * request: 'o' 200, 'n' 204, 'e' 500, 'u' 503, 'l' 429 with Retry-After: 1, 'b' 400, 'm' 302, 'h'
 * hangs, 'r' resets, 'g' garbage, 'x' an endless answer. After the last letter: 'o'.
 */
#ifndef SL_TESTS_ACT_RECEIVER_H
#define SL_TESTS_ACT_RECEIVER_H

#include <stddef.h>

struct receiver;

struct receiver *receiver_new(const char *script);
const char *receiver_url(const struct receiver *r); /* "http://127.0.0.1:PORT/path" */
size_t receiver_requests(struct receiver *r);
/* Returns the i-th request as received, head and body, NUL-terminated; *body: size of the body. */
const char *receiver_request(struct receiver *r, size_t i, const char **body, size_t *bytes);
void receiver_free(struct receiver *r);

#endif
