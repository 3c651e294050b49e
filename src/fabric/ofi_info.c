// SPDX-License-Identifier: Apache-2.0
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "fabric/ofi.h"

/* Runs before libfabric reads its environment, once. Variables set by the user are kept. */
static void set_environment(void)
{
	/* Other providers have no connected endpoints, and some of them search for hardware. */
	setenv("FI_PROVIDER", "tcp,verbs", 0);
	/*
	 * An answer that waits for its reader is copied by the kernel instead of this process: if
	 * memory is gone, the kernel returns an error where a copy would raise a signal.
	 */
	setenv("FI_TCP_STAGING_SBUF_SIZE", "0", 0);
}

struct fi_info *fabric_ofi_info(const char *provider, const struct sockaddr_storage *at,
				bool passive, char *error, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct fi_info *hints, *found = NULL;
	char host[NI_MAXHOST], service[NI_MAXSERV];
	int err;

	pthread_once(&once, set_environment);
	err = getnameinfo((const struct sockaddr *)at, sizeof(*at), host, sizeof(host), service,
			  sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV);
	hints = err ? NULL : fi_allocinfo();
	if (!hints || !(hints->fabric_attr->prov_name = strdup(provider))) {
		snprintf(error, bytes, "%s", err ? gai_strerror(err) : "out of memory");
		fi_freeinfo(hints);
		return NULL;
	}
	hints->caps = FI_MSG | FI_RMA | (passive ? FI_REMOTE_READ | FI_RECV : FI_READ | FI_SEND);
	hints->ep_attr->type = FI_EP_MSG;
	hints->tx_attr->inject_size = sizeof(struct fabric_ofi_notice);
	/* The modes supported by this program; a provider removes those that it does not need. */
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	/* No threads of libfabric: the owner's calls do the work, so its CPU time is known. */
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	err = fi_getinfo(FI_VERSION(1, 17), host, service,
			 FI_NUMERICHOST | (passive ? FI_SOURCE : 0), hints, &found);
	fi_freeinfo(hints);
	if (!err && found)
		return found;
	if (err == -FI_ENODATA || err == -FI_ENOSYS)
		snprintf(error, bytes,
			 "libfabric has no provider '%s' with connected endpoints for %s", provider,
			 host);
	else
		snprintf(error, bytes, "fi_getinfo: %s", fi_strerror(-err));
	return NULL;
}
