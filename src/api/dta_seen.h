/* SPDX-License-Identifier: Apache-2.0 */
/* dta_seen.h - flows by device, drops and top talkers (dta/query/seen.h); arg is the store server
 */
#ifndef SL_API_DTA_SEEN_H
#define SL_API_DTA_SEEN_H

#include "http/http.h"

void api_get_dta_paths(struct http_request *req, void *arg);
void api_get_dta_drops(struct http_request *req, void *arg);
void api_get_dta_top(struct http_request *req, void *arg);

#endif
