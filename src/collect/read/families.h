/* SPDX-License-Identifier: Apache-2.0 */
/* families.h - the collector's own metric families, for source.c and index.c */
#ifndef SL_COLLECT_READ_FAMILIES_H
#define SL_COLLECT_READ_FAMILIES_H

#include <stdbool.h>

#include "export/model.h"

struct collect_collector;
struct collect_index;
struct collect_part;
struct collect_self;
struct collect_self_group;

/* Groups of the families defined in read/, as opposed to the families of attached parts. */
extern const struct collect_self_group collect_self_tenant;
extern const struct collect_part collect_self_own_part;

/* Exposes the families of the part with that number as well. Returns false if out of memory. */
bool collect_self_add(struct collect_collector *c, const struct collect_part *part,
		      unsigned int number);
/*
 * Returns true if the name is reserved because the collector exposes a family or sample under it.
 */
bool collect_self_has(const struct collect_collector *c, const char *name);
/* Starts a walk over the series. Returns NULL if out of memory. */
struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x);
/* Returns the next family, by name, whose feature is in use; NULL if there are no more. */
const struct export_family *collect_self_peek(struct collect_self *s);
/* Moves on to the series of that family. */
void collect_self_enter(struct collect_self *s);
int collect_self_next(struct collect_self *s, struct export_series *out);
/* Counts series that this walk leaves out because of --max-exposed-series. */
void collect_self_left_out(struct collect_self *s, size_t series);
void collect_self_end(struct collect_self *s);

#endif
