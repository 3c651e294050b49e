/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.h - what pipelines have learned, by service: a new pod starts with what a sibling knew, and
 * all of it outlives the collector in a file. Any thread. Files are hostile until checked.
 *
 * The file: "SLMODLS1", number of models (u32, little-endian); each: bytes of the service's name
 * (u32), bytes of the model (u32), the name, the model as sl_pipeline_save() makes it, which carries
 * its own version and checksum.
 */
#ifndef SL_COLLECT_MODELS_H
#define SL_COLLECT_MODELS_H

#include "analyse/pipeline.h"

struct models;

struct models *models_new(void);
void models_free(struct models *m);
/* True if p knows now what a pod of this service knew. Does not wait. */
bool models_load(struct models *m, const char *service, struct sl_pipeline *p);
/* Keeps what p has learned, if it is more than what is kept of the service. */
void models_keep(struct models *m, const char *service, const struct sl_pipeline *p);
/* A file that is not there is fine. -errno with a line in error. */
int models_read(struct models *m, const char *path, char *error, size_t error_bytes);
/* As a whole or not at all. 0 or -errno. */
int models_write(struct models *m, const char *path);
void models_stats(struct models *m, uint64_t *loaded, uint64_t *refused);

#endif
