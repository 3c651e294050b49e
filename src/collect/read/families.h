/* SPDX-License-Identifier: Apache-2.0 */
/* families.h - the collector's own families, for source.c and index.c. */
#ifndef SL_COLLECT_READ_FAMILIES_H
#define SL_COLLECT_READ_FAMILIES_H

#include <stdbool.h>

#include "export/model.h"

struct collect_collector;
struct collect_index;
struct collect_part;
struct collect_self;
struct collect_self_group;

/* The families of read/ itself. */
extern const struct collect_self_group collect_self_tenant;
extern const struct collect_part collect_self_own_part;

/* The families of the part, which has that number, are exposed, too. False: out of memory. */
bool collect_self_add(struct collect_collector *c, const struct collect_part *part,
		      unsigned int number);
/* The name is reserved: a family of the collector, or a sample of one, is exposed under it. */
bool collect_self_has(const struct collect_collector *c, const char *name);
/* A walk over the series. NULL: out of memory. */
struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x);
/* The next family, by name, that is exposed because its feature is in use; NULL: no more. */
const struct export_family *collect_self_peek(struct collect_self *s);
/* Moves on to the series of that family. */
void collect_self_enter(struct collect_self *s);
int collect_self_next(struct collect_self *s, struct export_series *out);
/* Series that this walk leaves out by --max-exposed-series. */
void collect_self_left_out(struct collect_self *s, size_t series);
void collect_self_end(struct collect_self *s);

#endif
