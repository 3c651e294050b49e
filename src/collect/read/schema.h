/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_SCHEMA_H
#define SL_COLLECT_READ_SCHEMA_H

#include <stdint.h>

struct collect_link;
struct collect_region;

/* Requests the schema if the layout changed, at a bounded rate. */
void collect_schema_want(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
void collect_schema_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Installs control's layout if it is ready. Must not be called during a pass. */
void collect_schema_install(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Discards a partly read schema. */
void collect_schema_abort(struct collect_region *r);

#endif
