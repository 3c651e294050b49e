// SPDX-License-Identifier: Apache-2.0
/* raw_queue.c - the store server's end of a queue pair for the raw output, set up without the CM */
#include "dta/io/output_rdma.h"

#include <errno.h>
#include <string.h>

#if HAVE_VERBS
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "base/network.h"
#include "fabric/host.h"
#include "fabric/rdma.h"

#define ATOMICS_MAX 128u
/* 0.64 ms (IBTA table 45): time for the store server's loop to post again */
#define RNR_TIMER      12
#define MTU_BYTES(mtu) (128u << (mtu)) /* mtu is an enum ibv_mtu */

/* Finds the MAC address at which a neighbour reaches the device's GID. */
static int mac_of(struct ibv_context *verbs, uint32_t ib_port, uint32_t index, uint8_t mac[6])
{
	struct ibv_gid_entry gid;
	char name[IF_NAMESIZE];
	struct ifreq req = {0};
	int err;

	if (ibv_query_gid_ex(verbs, ib_port, index, &gid, 0))
		return -errno;
	if (!if_indextoname(gid.ndev_ifindex, name))
		return -ENODEV;
	err = base_interface_ioctl(name, SIOCGIFHWADDR, &req);
	memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	return err;
}

/*
 * Describes our end of the queue pair. This end sends no requests, so its PSN can have any value.
 */
static int our_end(struct ibv_qp *qp, const struct fabric_host_stats *s, struct dta_roce_end *ours)
{
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	union ibv_gid gid;

	if (ibv_query_port(qp->context, (uint8_t)s->ib_port, &port) ||
	    ibv_query_gid(qp->context, (uint8_t)s->ib_port, s->gid_index, &gid) ||
	    ibv_query_device(qp->context, &device))
		return errno ? -errno : -EIO;
	*ours = (struct dta_roce_end){
		.qpn = qp->qp_num,
		.mtu = (uint16_t)MTU_BYTES(port.active_mtu),
		.atomics = device.max_qp_rd_atom < (int)ATOMICS_MAX
				   ? (uint32_t)device.max_qp_rd_atom
				   : ATOMICS_MAX,
	};
	if (getrandom(&ours->psn, sizeof(ours->psn), 0) < 0)
		return -errno;
	ours->psn &= DTA_ROCE_24;
	memcpy(ours->gid, gid.raw, 16);
	return mac_of(qp->context, (uint32_t)s->ib_port, (uint32_t)s->gid_index, ours->mac);
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && MTU_BYTES(mtu + 1) <= bytes)
		mtu++;
	return mtu;
}

/* Moves the queue pair from INIT to RTS (IBTA 10.3.1; ibv_modify_qp(3)). */
static int bring_up(struct ibv_qp *qp, const struct fabric_host_stats *s,
		    const struct dta_roce_end *theirs, const struct dta_roce_end *ours)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_of(theirs->mtu < ours->mtu ? theirs->mtu : ours->mtu),
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = (uint8_t)ours->atomics,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr =
			{
				.is_global = 1,
				.port_num = (uint8_t)s->ib_port,
				.grh = {.sgid_index = (uint8_t)s->gid_index, .hop_limit = 64},
			},
	};
	int err;

	memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, 16);
	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (err)
		return -err;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = ours->psn,
		.timeout = FABRIC_VERBS_ACK_TIMEOUT,
		.retry_cnt = FABRIC_VERBS_RETRIES,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	return -ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

int dta_raw_queue_new(struct fabric_host *h, const char *name, const struct dta_roce_end *theirs,
		      struct dta_roce_end *ours, uint64_t *queue)
{
	struct fabric_host_stats s;
	struct ibv_qp *qp;
	int err = dta_roce_end_check(theirs);

	if (err)
		return err;
	fabric_host_stats(h, &s);
	qp = fabric_host_queue_new(h, name, queue);
	if (!qp)
		return -errno;
	err = our_end(qp, &s, ours);
	if (!err)
		err = bring_up(qp, &s, theirs, ours);
	if (err)
		fabric_host_queue_end(h, *queue);
	return err;
}
#else
int dta_raw_queue_new(struct fabric_host *h, const char *name, const struct dta_roce_end *theirs,
		      struct dta_roce_end *ours, uint64_t *queue)
{
	(void)h, (void)name, (void)theirs, (void)ours, (void)queue;
	return -EOPNOTSUPP;
}
#endif
