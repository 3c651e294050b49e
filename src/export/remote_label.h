/* SPDX-License-Identifier: Apache-2.0 */
/* remote_label.h - labels in the protobuf format of Prometheus' protocols. */
#ifndef SL_EXPORT_REMOTE_LABEL_H
#define SL_EXPORT_REMOTE_LABEL_H

#include <stddef.h>
#include <stdint.h>

#include "export/pb.h"

struct export_label {
	const char *name, *value, *more; /* the value is the concatenation of value and more */
};

/* Returns the size of a field of n bytes, with its header. */
static inline size_t export_label_field(size_t n)
{
	return 1 + export_pb_varint_bytes(n) + n;
}

size_t export_labels_bytes(const struct export_label *l, size_t n);
/* Writes the labels. Returns the end. */
uint8_t *export_labels_put(uint8_t *p, const struct export_label *l, size_t n);

#endif
