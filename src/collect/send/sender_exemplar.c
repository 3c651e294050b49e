// SPDX-License-Identifier: Apache-2.0
#include "base/grow.h"
#include "collect/send/sender_exemplar.h"

#include <stdlib.h>

#include "collect/read/exemplars.h"

/* Time and position of an exemplar, for sorting, since exemplars are large. */
struct mark {
	uint64_t ns;
	uint32_t before;
};

void collect_sender_exemplars(struct export_remote_write *w, const struct collect_region *r,
			      const struct collect_column *column,
			      struct export_remote_series **series, uint32_t count, int64_t ns)
{
	const uint32_t first = region_is_histogram(&column->def->metric) ? SL_HIST_BUCKETS : 0;
	struct mark mark[COLLECT_SERIES_EXEMPLARS];
	struct region_exemplar e;
	uint32_t at = 0, n = 0;

	for (uint32_t before = 0;
	     n < COLLECT_SERIES_EXEMPLARS && collect_exemplars_next(r, column, &at, &e);
	     before = at)
		mark[n++] = (struct mark){e.ns, before};
	if (count == 1)
		qsort(mark, n, sizeof(*mark), base_by_u64);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bucket;

		at = mark[i].before;
		if (!collect_exemplars_next(r, column, &at, &e))
			continue; /* the exemplar was replaced in the meantime */
		bucket = e.cell - first;
		if ((count == 1 || bucket < count) && series[count == 1 ? 0 : bucket])
			export_remote_write_exemplar(
				w, series[count == 1 ? 0 : bucket], ns,
				&(struct export_exemplar){.value = e.value,
							  .ns = e.ns,
							  .labels = e.labels,
							  .label_count = e.label_count});
	}
}
