/* SPDX-License-Identifier: Apache-2.0 */
/* collect_discover.h - options of 'sidelight collect' for discovered hosts and for peers. */
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

#define CLI_COLLECT_DISCOVER_DEFAULTS                            \
	{                                                        \
		.o = {.every_ns = 5000000000}, .max_hosts = 1024 \
	}

#define CLI_COLLECT_DISCOVER_OPTIONS(to)                                                      \
	BASE_LIST("discover", 0, &(to).o.sources, "SOURCE",                                   \
		  "read the hosts that this source names: file:PATH, dns:NAME, "              \
		  "kube:NAMESPACE/SELECTOR:PORT or NAME,...; repeatable"),                    \
		BASE_LIST("peers", 0, &(to).o.peers, "SOURCE",                                \
			  "share these hosts with the collectors that this source names, by " \
			  "the addresses of their HTTP; repeatable"),                         \
		BASE_STRING("self", 0, &(to).o.self, "HOST:PORT",                             \
			    "this collector's name among --peers (default: --listen)"),       \
		CLI_OPTION_CLIENT("peers-config", &(to).o.peers_config, "--peers"),           \
		BASE_TIME("discover-every", 0, &(to).o.every_ns, 1e8, 3.6e12, "DURATION",     \
			  "ask sources at this interval"),                                    \
		BASE_UINT("max-hosts", 0, &(to).max_hosts, 1, 65536, "N",                     \
			  "with --discover, read at most this many hosts"),                   \
		BASE_STRING("kube-api", 0, &(to).o.source.kube_api, "URL",                    \
			    "ask this Kubernetes API (default: that of the pod's cluster)"),  \
		BASE_STRING("kube-account", 0, &(to).o.source.kube_account, "DIR",            \
			    "service account: a folder with token and ca.crt (default: the "  \
			    "pod's)"),                                                        \
		BASE_STRING("dns-server", 0, &(to).o.source.dns_server, "ADDRESS:PORT",       \
			    "ask this DNS server (default: of resolv.conf)")

/*
 * Returns BASE_EXIT_OK, or an exit code after printing an error. listen: address of the HTTP
 * server, or NULL.
 */
int cli_collect_discover_check(const struct base_command *self, struct cli_collect_discover *d,
			       const char *listen);
/* Adds the files of the sources to the paths that a confined process may read. */
void cli_collect_discover_paths(const struct cli_collect_discover *d, struct base_confine_opts *c);

#endif
