/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - where names of hosts come from:
 *
 *	file:PATH		     a list of {targets: [...]} as Prometheus' file_sd, YAML or JSON
 *	dns:_SERVICE._PROTO.NAME     SRV records
 *	kube:NAMESPACE/SELECTOR:PORT pods of Kubernetes that are ready, by their labels
 *	NAME[,NAME]...		     these
 *
 * Answers are checked. One that is malformed anywhere is refused as a whole, so that the caller
 *keeps the hosts of the last good answer.
 */
#ifndef SL_COLLECT_DISCOVER_SOURCE_H
#define SL_COLLECT_DISCOVER_SOURCE_H

#include <stddef.h>

#define COLLECT_TARGET_MAX  255u
#define COLLECT_TARGETS_MAX 65536u

struct collect_targets {
	char **name;
	size_t n, room;
};

struct collect_source_opts {
	const char *kube_api;	  /* URL; NULL: that of the pod's own cluster */
	const char *kube_account; /* folder with token and ca.crt; NULL: the pod's own */
	const char *dns_server;	  /* ADDRESS:PORT; NULL: those of resolv.conf */
};

/* Adds the hosts that a source names. On failure -EINVAL with one line in error, and none is added.
 */
int collect_source_ask(const char *source, const struct collect_source_opts *o,
		       struct collect_targets *out, char *error, size_t error_bytes);
/* 0, or -EINVAL with one line if the source has none of the forms above. */
int collect_source_check(const char *source, char *error, size_t error_bytes);
/* The path of "file:PATH", or NULL. */
const char *collect_source_file(const char *source);
/* Adds a name. 0, -EINVAL (empty, too long, control characters), -ENOMEM, -E2BIG. */
int collect_targets_add(struct collect_targets *t, const char *name);
void collect_targets_free(struct collect_targets *t);

#endif
