/* SPDX-License-Identifier: Apache-2.0 */
/*
 * models.h - what pipelines have learned, by name: of a pod, as sidelight replay knows them, or of
 * a service, as the collector does, where a new pod starts with what a sibling knew. All of it
 * outlives the process in a file. Any thread. Files are hostile until checked.
 *
 * The file: "SLMODLS1", number of models (u32, little-endian); each: bytes of the name (u32), bytes
 * of the model (u32), the name, the model as analyse_pipeline_save() makes it, which carries its
 * own version and checksum.
 */
#ifndef SL_COLLECT_ANALYSIS_MODELS_H
#define SL_COLLECT_ANALYSIS_MODELS_H

#include "analyse/pipeline.h"

struct collect_models;

struct collect_models *collect_models_new(void);    /* NULL: ENOMEM */
void collect_models_free(struct collect_models *m); /* does not write; NULL is fine */

/*
 * What is known of a pod: by its name, or else by that of its service; either may be "". 0: info is
 * of it. -ENOENT: nothing; -EAGAIN: somebody is at it, ask again; else the model is no good.
 */
int collect_models_info(struct collect_models *m, const char *pod, const char *service,
			struct analyse_model_info *info);
/* p learns it, and takes names; returns as collect_models_info(), and -EINVAL if p is of another
 * kind. */
int collect_models_load(struct collect_models *m, const char *pod, const char *service,
			struct analyse_pipeline *p);
/* What p has learned is kept under a name, if it is no less than what is. 0, -EAGAIN, -ENOMEM. */
int collect_models_keep(struct collect_models *m, const char *name,
			const struct analyse_pipeline *p);
/* ... and waits its turn, in place of -EAGAIN. */
int collect_models_keep_last(struct collect_models *m, const char *name,
			     const struct analyse_pipeline *p);

/* fn gets each, in the order of names; must not call into m. Bytes are valid during the call. */
void collect_models_each(struct collect_models *m,
			 void (*fn)(void *arg, const char *name, const void *bytes, size_t length),
			 void *arg);
/* Bytes are copied. 0 or -ENOMEM (or too many). */
int collect_models_put(struct collect_models *m, const char *name, const void *bytes,
		       size_t length);

/*
 * Adds what is in a file. -ENOENT: there is none; -EINVAL: no file of models, cut short or damaged;
 * -EPROTONOSUPPORT: of another version; or what reading it said. Not 0: a line in error.
 */
int collect_models_read(struct collect_models *m, const char *path, char *error,
			size_t error_bytes);
/* As a whole or not at all, and on the disk when it returns. 0 or -errno. */
int collect_models_write(struct collect_models *m, const char *path);

/*
 * For who runs for long: a thread that asks for what was learned (collect_models_asked() changes,
 * upon which each owner of pipelines calls collect_models_keep() when it suits him), and writes it
 * a while later, again and again. every_ns: > 0. 0 or -errno.
 */
int collect_models_start(struct collect_models *m, const char *path, uint64_t every_ns);
void collect_models_stop(
	struct collect_models *m); /* nothing is written behind one's back any more */
uint64_t collect_models_asked(const struct collect_models *m);

struct collect_models_stats {
	uint64_t loaded;  /* by pipelines */
	uint64_t refused; /* files and models that were no good, or of another kind */
	uint64_t written; /* times */
	uint64_t failed;  /* times that it could not be written */
};
void collect_models_stats(struct collect_models *m, struct collect_models_stats *out);
/* A file that was refused. */
void collect_models_refused(struct collect_models *m);

#endif
