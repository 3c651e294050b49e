/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - where names of hosts come from:
 *
 *	file:PATH		     a list of {targets: [...]} as Prometheus' file_sd, YAML or JSON
 *	dns:_SERVICE._PROTO.NAME     SRV records
 *	kube:NAMESPACE/SELECTOR:PORT pods of Kubernetes that are ready, by their labels
 *	NAME[,NAME]...		     these
 *
 * What others say is checked: a bad answer is an error as a whole, so that the caller keeps what it
 * had.
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
	const char *kube_api;	  /* URL; NULL: of the cluster that this runs in */
	const char *kube_account; /* folder with token and ca.crt; NULL: the usual one */
	const char *dns_server;	  /* ADDRESS:PORT; NULL: of resolv.conf */
};

/* Adds what a source has now. 0, or -EINVAL with one line in error, and nothing was added. */
int collect_source_ask(const char *source, const struct collect_source_opts *o,
		       struct collect_targets *out, char *error, size_t error_bytes);
/* 0, or -EINVAL with one line: not one of the forms above. */
int collect_source_check(const char *source, char *error, size_t error_bytes);
/* Adds a name, once. 0, -EINVAL (empty, too long, control characters), -ENOMEM, -E2BIG. */
int collect_targets_add(struct collect_targets *t, const char *name);
void collect_targets_free(struct collect_targets *t);

#endif
