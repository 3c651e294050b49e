// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/detector.h"

void analyse_detector_destroy(const struct analyse_detector_ops *ops, void *state)
{
	if (state && ops->destroy)
		ops->destroy(state);
	else
		free(state);
}

const struct analyse_detector_ops *analyse_detector_find(const char *name)
{
	for (unsigned int i = 0; analyse_detectors[i]; i++)
		if (!strcmp(analyse_detectors[i]->name, name))
			return analyse_detectors[i];
	return NULL;
}

const struct analyse_detector_ops *analyse_detector_named(const char *name, char *error,
							  size_t bytes)
{
	const struct analyse_detector_ops *d = analyse_detector_find(name);
	size_t n;

	if (d)
		return d;
	n = (size_t)snprintf(error, bytes, "unknown detector '%.40s'; available:", name);
	for (unsigned int i = 0; analyse_detectors[i] && n < bytes; i++)
		n += (size_t)snprintf(error + n, bytes - n, "%s %s", i ? "," : "",
				      analyse_detectors[i]->name);
	return NULL;
}
