// SPDX-License-Identifier: Apache-2.0
/* names.c - names of states and kinds. */
#include "region/decode.h"

const char *region_state_name(uint32_t state)
{
	static const char *const names[] = {
		[SL_STATE_FREE] = "free",	[SL_STATE_LIVE] = "live",
		[SL_STATE_DEAD] = "dead",	[SL_STATE_CLOSED] = "closed",
		[SL_STATE_RETIRED] = "retired",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "unknown";
}

const char *region_kind_name(enum sl_metric_kind kind)
{
	switch (kind) {
	case SL_KIND_COUNTER:
	case SL_KIND_COUNTER_F64:
		return "counter";
	case SL_KIND_GAUGE:
	case SL_KIND_GAUGE_F64:
		return "gauge";
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_HISTOGRAM:
		return "histogram";
	case SL_KIND_INFO:
		return "info";
	case SL_KIND_STATESET:
		return "stateset";
	}
	return "unknown";
}
