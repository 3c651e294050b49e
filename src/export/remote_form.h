/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_form.h - a queued request of remote write in the form of its receiver: version 1.0 or 2.0
 * of the protocol (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/). Pure functions.
 *
 * Queued is a WriteRequest of version 1.0 with what only 2.0 has in fields that no version uses:
 *
 *	WriteRequest { MetricMetadata metadata = 3; }   type = 1, help = 4, unit = 5
 *	TimeSeries   { Sample last = 13; uint64 metadata = 14; int64 created_ms = 15; }
 *
 * `metadata` is 1 for the request's first one, 0 for none. `last` is that of the series when the
 * message has exemplars alone, which 2.0 has not: the sample is sent again then, which changes
 * nothing at the receiver.
 */
#ifndef SL_EXPORT_REMOTE_FORM_H
#define SL_EXPORT_REMOTE_FORM_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT_REMOTE_LAST     13u
#define EXPORT_REMOTE_METADATA 14u
#define EXPORT_REMOTE_CREATED  15u

/* Each makes a body to be freed. 0, -EINVAL: what is queued is malformed, -ENOMEM. */
int export_remote_form_1(const void *queued, size_t bytes, void **body, size_t *body_bytes);
/* *items: samples, histograms and exemplars in it, which the receiver is to count. */
int export_remote_form_2(const void *queued, size_t bytes, void **body, size_t *body_bytes,
			 uint64_t *items);

#endif
