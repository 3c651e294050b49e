/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.h - saved pipelines by name: of a pod (sidelight replay), or of a service (the collector,
 * where a new pod starts with the model of its replicas). They persist in a file. Thread-safe.
 * Files are hostile until checked.
 *
 * The file consists of "SLMODLS1", the number of models (u32, little-endian), and for each model
 * the length of its name (u32) and of its data (u32), the name, and the data from
 * analyse_pipeline_save_all(), which have a version and checksum of their own.
 */
#ifndef SL_COLLECT_JUDGE_MODELS_H
#define SL_COLLECT_JUDGE_MODELS_H

#include "analyse/pipeline.h"

struct collect_models;

struct collect_models *collect_models_new(void);    /* returns NULL if out of memory */
void collect_models_free(struct collect_models *m); /* m may be NULL; does not write the file */

/*
 * Finds the model of a pod by the pod's name, or else by its service's name; either may be "".
 * Returns 0 with the model's info, -ENOENT if there is none, or another error if the model is not
 * valid.
 */
int collect_models_info(struct collect_models *m, const char *pod, const char *service,
			struct analyse_model_info *info);
/*
 * Loads the model into p, along with the names of its columns. Returns the same as
 * collect_models_info(), or -EINVAL if p is of another kind.
 */
int collect_models_load(struct collect_models *m, const char *pod, const char *service,
			struct analyse_pipeline *p);

/* Visits all models sorted by name. fn must not call into m; bytes are valid during the call. */
void collect_models_each(struct collect_models *m,
			 void (*fn)(void *arg, const char *name, const void *bytes, size_t length),
			 void *arg);
/*
 * Copies and saves the bytes of a model. Returns 0, or -ENOMEM (or if there are too many models).
 */
int collect_models_put(struct collect_models *m, const char *name, const void *bytes,
		       size_t length);
/*
 * If there is no room for a model of this name, removes the least recently saved or loaded one,
 * and counts and logs the removal.
 */
void collect_models_make_room(struct collect_models *m, const char *name);

/*
 * Adds the models of a file. Returns 0, -ENOENT (no file), -EINVAL (not a model file, truncated or
 * damaged), -EPROTONOSUPPORT (another version) or a read error. After -EINVAL and -EPROTONOSUPPORT,
 * m is empty and has counted the refusal. On failure, error holds a one-line message.
 */
int collect_models_read(struct collect_models *m, const char *path, char *error,
			size_t error_bytes);
/* Replaces the file atomically and durably. Returns 0 or -errno. */
int collect_models_write(struct collect_models *m, const char *path);

/*
 * Starts a thread that writes the file every every_ns (> 0); path must stay valid. Before each
 * write it changes the value of collect_models_asked(), which prompts the owners of pipelines to
 * put their models. Returns 0 or -errno.
 */
int collect_models_start(struct collect_models *m, const char *path, uint64_t every_ns);
void collect_models_stop(struct collect_models *m); /* stops the thread */
uint64_t collect_models_asked(const struct collect_models *m);

struct collect_models_stats {
	uint64_t refused; /* files and models that are not valid, or of another kind */
	uint64_t failed;  /* number of failed writes */
	uint64_t removed; /* models removed because there were too many */
};
void collect_models_stats(struct collect_models *m, struct collect_models_stats *out);

#endif
