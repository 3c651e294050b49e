// SPDX-License-Identifier: Apache-2.0
/*
 * detectors.c - the table of detectors. It has its own file, so that a program can link another
 * table instead.
 */
#include "analyse/detector.h"

const struct analyse_detector_ops *const analyse_detectors[] = {
	&analyse_detector_combined,
	&analyse_detector_fd,
	&analyse_detector_threshold,
	&analyse_detector_autoencoder,
	NULL,
};
