/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.h - saved pipelines by name: of a pod (sidelight replay), or of a service (the collector,
 * where a new pod starts with the model of its replicas). They persist in a file. Any thread. Files
 * are hostile until checked.
 *
 * The file: "SLMODLS1", the number of models (u32, little-endian); for each the bytes of its name
 * (u32) and of the model (u32), the name, and the model of analyse_pipeline_save(), which has its
 * own version and checksum.
 */
#ifndef SL_COLLECT_JUDGE_MODELS_H
#define SL_COLLECT_JUDGE_MODELS_H

#include "analyse/pipeline.h"

struct collect_models;

struct collect_models *collect_models_new(void);    /* NULL: ENOMEM */
void collect_models_free(struct collect_models *m); /* does not write; NULL is fine */

/*
 * Finds the model of a pod by its name, or else by that of its service; either may be "". 0: info
 * is of it. -ENOENT: none; otherwise the model is not valid.
 */
int collect_models_info(struct collect_models *m, const char *pod, const char *service,
			struct analyse_model_info *info);
/*
 * Loads it into p with its names. Returns as collect_models_info(), and -EINVAL if p is of another
 * kind.
 */
int collect_models_load(struct collect_models *m, const char *pod, const char *service,
			struct analyse_pipeline *p);
/* Saves p under a name unless the saved one has learned more. 0 or -ENOMEM. */
int collect_models_keep(struct collect_models *m, const char *name,
			const struct analyse_pipeline *p);

/*
 * Visits all models in the order of names. fn must not call into m; bytes are valid during the
 * call.
 */
void collect_models_each(struct collect_models *m,
			 void (*fn)(void *arg, const char *name, const void *bytes, size_t length),
			 void *arg);
/* Copies the bytes. 0, or -ENOMEM (or too many). */
int collect_models_put(struct collect_models *m, const char *name, const void *bytes,
		       size_t length);

/*
 * Adds the models of a file. -ENOENT: no file; -EINVAL: not a file of models, truncated or damaged;
 * -EPROTONOSUPPORT: another version; after these two, m is empty and has counted the refusal. Or an
 * error of reading. Not 0: error has one line.
 */
int collect_models_read(struct collect_models *m, const char *path, char *error,
			size_t error_bytes);
/* Replaces the file atomically and durably. 0 or -errno. */
int collect_models_write(struct collect_models *m, const char *path);

/*
 * Starts a thread that writes the file, whose path stays valid, every every_ns (> 0). Before each
 * write it changes collect_models_asked(), upon which owners of pipelines call
 * collect_models_keep(). 0 or -errno.
 */
int collect_models_start(struct collect_models *m, const char *path, uint64_t every_ns);
void collect_models_stop(struct collect_models *m); /* ends the thread */
uint64_t collect_models_asked(const struct collect_models *m);

struct collect_models_stats {
	uint64_t refused; /* files and models not valid, or of another kind */
	uint64_t failed;  /* failed writes */
};
void collect_models_stats(struct collect_models *m, struct collect_models_stats *out);

#endif
