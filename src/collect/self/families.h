/* SPDX-License-Identifier: Apache-2.0 */
/* families.h - the collector's own families, for the walk of source.c and the names of index.c. */
#ifndef SL_COLLECT_SELF_FAMILIES_H
#define SL_COLLECT_SELF_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>

#include "export/model.h"

struct collect_collector;
struct collect_index;
struct collect_self;

size_t collect_self_families(void);
/* Family i, in the order of names. */
void collect_self_family(size_t i, struct export_family *out);
/* The name is reserved: a family of the collector, or a sample of one, is exposed under it. */
bool collect_self_has(const char *name);

/* A walk over the series. NULL: out of memory. */
struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x);
/* The family is exposed: the feature that it belongs to is in use. */
bool collect_self_exposed(const struct collect_self *s, size_t family);
void collect_self_enter(struct collect_self *s, size_t family);
int collect_self_next(struct collect_self *s, struct export_series *out);
void collect_self_end(struct collect_self *s);

#endif
