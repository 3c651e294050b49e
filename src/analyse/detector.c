// SPDX-License-Identifier: Apache-2.0
/* detector.c - the table of detectors. */
#include <stdlib.h>
#include <string.h>

#include "analyse/detector.h"

static const struct sl_detector_ops *const table[] = {
	&sl_detector_combined, &sl_detector_fd,	   &sl_detector_threshold,   &sl_detector_mad,
	&sl_detector_ewma,     &sl_detector_cusum, &sl_detector_autoencoder,
};
#define DETECTORS (sizeof(table) / sizeof(*table))

void sl_detector_destroy(const struct sl_detector_ops *ops, void *state)
{
	if (state && ops->destroy)
		ops->destroy(state);
	else
		free(state);
}

const struct sl_detector_ops *sl_detector_at(unsigned int i)
{
	return i < DETECTORS ? table[i] : NULL;
}

const struct sl_detector_ops *sl_detector_find(const char *name)
{
	for (unsigned int i = 0; i < DETECTORS; i++)
		if (!strcmp(table[i]->name, name))
			return table[i];
	return NULL;
}
