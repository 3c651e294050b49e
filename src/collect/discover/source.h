/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - the sources of host names:
 *
 *	file:PATH		     a list of {targets: [...]} as in Prometheus' file_sd, YAML or
 *JSON dns:_SERVICE._PROTO.NAME     SRV records kube:NAMESPACE/SELECTOR:PORT ready pods of
 *Kubernetes, by label NAME[,NAME]...		     the hosts themselves
 *
 * Answers are checked. A malformed answer is refused as a whole, so that the caller
 * keeps the hosts of the last good answer.
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
	const char *kube_api;	  /* URL; NULL means the API of the pod's own cluster */
	const char *kube_account; /* folder with token and ca.crt; NULL means the pod's own */
	const char *dns_server;	  /* ADDRESS:PORT; NULL means the servers in resolv.conf */
};

/*
 * Adds the hosts that a source names to an empty list. On failure, returns -EINVAL with a one-line
 * message in error, and the list is not complete.
 */
int collect_source_ask(const char *source, const struct collect_source_opts *o,
		       struct collect_targets *out, char *error, size_t error_bytes);
/* Returns 0, or -EINVAL with a one-line message if the source has none of the forms above. */
int collect_source_check(const char *source, char *error, size_t error_bytes);
/* Returns the path of "file:PATH", or NULL. */
const char *collect_source_file(const char *source);
void collect_targets_free(struct collect_targets *t);

#endif
