/* SPDX-License-Identifier: Apache-2.0 */
/* collect_discover.h - options of 'sidelight collect' for discovered hosts and shards. */
#ifndef SL_CLI_COLLECT_DISCOVER_H
#define SL_CLI_COLLECT_DISCOVER_H

#include "base/base.h"
#include "base/confine.h"
#include "cli/common/common.h"
#include "collect/discover/discover.h"

struct cli_collect_discover {
	struct collect_discover_opts o;
	unsigned int max_hosts;
};

#define CLI_COLLECT_DISCOVER_DEFAULTS                                           \
	{                                                                       \
		.o = {.every_ns = 5000000000, .replicas = 1}, .max_hosts = 1024 \
	}

#define CLI_COLLECT_DISCOVER_OPTIONS(to)                                                          \
	BASE_LIST("discover", 0, &(to).o.sources, "SOURCE",                                       \
		  "read the hosts that this source lists: file:PATH, dns:NAME, "                  \
		  "kube:NAMESPACE/SELECTOR:PORT or NAME,...; repeatable"),                        \
		BASE_STRING("shard", 0, &(to).o.shard, "SHARD",                                   \
			    "read only the discovered hosts in shard I of N: I/N, "               \
			    "auto/N (I ends the pod's or host's name) or file:PATH with "         \
			    "either, read again at --discover-every"),                            \
		BASE_UINT("replicas", 0, &(to).o.replicas, 1, COLLECT_REPLICAS_MAX, "N",          \
			  "with --shard, let this many shards read each host"),                   \
		BASE_TIME("discover-every", 0, &(to).o.every_ns, 1e8, 3.6e12, "DURATION",         \
			  "query the sources at this interval"),                                  \
		BASE_UINT("max-hosts", 0, &(to).max_hosts, 1, 65536, "N",                         \
			  "with --discover, read at most this many hosts"),                       \
		BASE_STRING("kube-api", 0, &(to).o.source.kube_api, "URL",                        \
			    "query this Kubernetes API (default: the API of the pod's cluster)"), \
		BASE_STRING("kube-account", 0, &(to).o.source.kube_account, "DIR",                \
			    "service account: a folder with token and ca.crt (default: the "      \
			    "pod's)"),                                                            \
		BASE_STRING("dns-server", 0, &(to).o.source.dns_server, "ADDRESS:PORT",           \
			    "ask this DNS server (default: of resolv.conf)")

/* Returns BASE_EXIT_OK, or an exit code after printing an error. */
int cli_collect_discover_check(const struct base_command *self,
			       const struct cli_collect_discover *d);
/* Adds the files of the sources and of the shard to the paths that a confined process may read. */
void cli_collect_discover_paths(const struct cli_collect_discover *d, struct base_confine_opts *c);

#endif
