/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ofi.h - code common to both sides of libfabric: connected endpoints (FI_EP_MSG) of the provider
 * named by a target or --fabric. Only with HAVE_LIBFABRIC. The private data of a connection request
 * is the same as for RDMA-CM (gate.h).
 *
 * Addresses: a provider with FI_MR_VIRT_ADDR reads at the host's addresses. Others read at offsets
 * within a registration; these are published with OFI_BIAS added, as no address may be 0.
 */
#ifndef SL_FABRIC_OFI_H
#define SL_FABRIC_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <sidelight/attach.h>

#include "fabric/gate.h"

#define OFI_BIAS     4096u
#define OFI_CM_BYTES 256u /* size of private data; libfabric's tcp supports as many */

/* A verdict sent to the host. */
struct fabric_ofi_notice {
	uint32_t entry, reserved;
	struct sl_board_line line;
};

/* Space for an event with its private data. */
union fabric_ofi_event {
	struct fi_eq_cm_entry cm;
	uint8_t room[sizeof(struct fi_eq_cm_entry) + OFI_CM_BYTES];
};

/*
 * Returns the description of an endpoint, to be freed with fi_freeinfo(). Returns NULL with one
 * line in error.
 */
struct fi_info *fabric_ofi_info(const char *provider, const struct sockaddr_storage *at,
				bool passive, char *error, size_t bytes);

static inline uint64_t fabric_ofi_bias(const struct fi_info *info)
{
	return info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? 0 : OFI_BIAS;
}

/* Closes an object and clears the pointer. */
#define OFI_CLOSE(object)                         \
	do {                                      \
		if (object)                       \
			fi_close(&(object)->fid); \
		(object) = NULL;                  \
	} while (0)

#endif
