// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/detector.h"

static const struct analyse_detector_ops *const table[] = {
	&analyse_detector_combined,    &analyse_detector_fd,   &analyse_detector_threshold,
	&analyse_detector_mad,	       &analyse_detector_ewma, &analyse_detector_cusum,
	&analyse_detector_autoencoder,
};
#define DETECTORS (sizeof(table) / sizeof(*table))

void analyse_detector_destroy(const struct analyse_detector_ops *ops, void *state)
{
	if (state && ops->destroy)
		ops->destroy(state);
	else
		free(state);
}

const struct analyse_detector_ops *analyse_detector_at(unsigned int i)
{
	return i < DETECTORS ? table[i] : NULL;
}

const struct analyse_detector_ops *analyse_detector_find(const char *name)
{
	for (unsigned int i = 0; i < DETECTORS; i++)
		if (!strcmp(table[i]->name, name))
			return table[i];
	return NULL;
}

const struct analyse_detector_ops *analyse_detector_named(const char *name, char *error,
							  size_t bytes)
{
	const struct analyse_detector_ops *d = analyse_detector_find(name);
	size_t n;

	if (d)
		return d;
	n = (size_t)snprintf(error, bytes, "unknown detector '%.40s', available:", name);
	for (unsigned int i = 0; i < DETECTORS && n < bytes; i++)
		n += (size_t)snprintf(error + n, bytes - n, "%s %s", i ? "," : "", table[i]->name);
	return NULL;
}
