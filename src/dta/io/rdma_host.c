// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - the owner's side of RDMA, over the passive side in src/fabric/. What is here is the
 * set-up of a queue pair whose other end is no device's: its numbers come by the control channel
 * instead of by CM.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dta/io/rdma_host.h"
#include "fabric/host.h"

_Static_assert(DTA_NAME_MAX == FABRIC_HOST_NAME_MAX, "of a translator");

struct dta_rdma_host {
	struct fabric_host *host;
	struct dta_rdma_host_opts opts;
	struct dta_rdma_host_stats stats;
};

static bool came(void *arg, uint64_t queue, const char *name)
{
	struct dta_rdma_host *h = arg;

	return !h->opts.came || h->opts.came(h->opts.arg, queue, name);
}

static void gone(void *arg, uint64_t queue, const char *name)
{
	struct dta_rdma_host *h = arg;

	h->stats.ended++;
	if (h->opts.gone)
		h->opts.gone(h->opts.arg, queue, name);
}

static void immediate(void *arg, uint64_t queue, uint32_t number)
{
	struct dta_rdma_host *h = arg;

	h->stats.immediates++;
	if (h->opts.immediate)
		h->opts.immediate(h->opts.arg, queue, number);
}

struct dta_rdma_host *dta_rdma_host_open(const struct dta_rdma_host_opts *opts, char *error,
					 size_t error_bytes)
{
	const struct fabric_host_opts below = {
		.device = opts->device,
		.address = opts->address,
		.port = opts->port ? opts->port : DTA_VERBS_PORT,
		.gid_index = opts->gid_index,
		.ib_port = opts->ib_port,
		.max_queues = opts->max_queues,
		.keepalive_ms = opts->keepalive_ms,
	};
	struct dta_rdma_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	h->opts = *opts;
	h->host = fabric_host_open(&below, error, error_bytes);
	if (!h->host) {
		err = errno;
		goto err_free;
	}
	err = -fabric_host_let_write(h->host, &(struct fabric_host_writers){
						      .instance = opts->instance,
						      .came = came,
						      .gone = gone,
						      .immediate = immediate,
						      .arg = h,
					      });
	if (!err)
		return h;
	snprintf(error, error_bytes, "completion queue: %s", strerror(err));
	fabric_host_close(h->host);
err_free:
	free(h);
	errno = err;
	return NULL;
}

void dta_rdma_host_close(struct dta_rdma_host *h)
{
	if (!h)
		return;
	fabric_host_close(h->host);
	free(h);
}

int dta_rdma_host_register(struct dta_rdma_host *h, void *map, uint64_t bytes,
			   struct dta_rdma_host_key *key)
{
	struct fabric_host_key below;
	int err = fabric_host_register_writable(h->host, map, bytes, &below);

	if (err)
		return err;
	*key = (struct dta_rdma_host_key){below.addr, below.rkey, below.mr};
	return 0;
}

void dta_rdma_host_unregister(struct dta_rdma_host *h, struct dta_rdma_host_key *key)
{
	struct fabric_host_key below = {key->addr, key->rkey, key->mr};

	fabric_host_unregister(h->host, &below);
	*key = (struct dta_rdma_host_key){0};
}

int dta_rdma_host_fd(const struct dta_rdma_host *h)
{
	return fabric_host_fd(h->host);
}

void dta_rdma_host_dispatch(struct dta_rdma_host *h)
{
	fabric_host_dispatch(h->host);
}

int dta_rdma_host_end(struct dta_rdma_host *h, uint64_t queue)
{
	return fabric_host_queue_end(h->host, queue);
}

void dta_rdma_host_stats(const struct dta_rdma_host *h, struct dta_rdma_host_stats *out)
{
	struct fabric_host_stats below;

	fabric_host_stats(h->host, &below);
	*out = h->stats;
	out->accepted = below.accepted;
	out->rejected = below.rejected;
	out->registered_objects = below.registered_regions;
	out->registered_bytes = below.registered_bytes;
	out->queues = (uint32_t)fabric_host_queues(h->host, NULL, 0);
	out->lost = below.lost;
	memcpy(out->device, below.device, sizeof(out->device));
	memcpy(out->gid, below.gid, sizeof(out->gid));
	memcpy(out->address, below.address, sizeof(out->address));
	out->port = below.port;
}

/* ---- queue pairs towards frames made by hand ---- */

#if HAVE_VERBS
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "fabric/rdma.h"

#define ATOMICS_MAX    128u
#define RNR_TIMER      12	       /* 0.64 ms: IBTA table 45. Until the owner's loop came by */
#define MTU_BYTES(mtu) (128u << (mtu)) /* of enum ibv_mtu */

/* By which a neighbour reaches the device's GID. */
static int mac_of(struct ibv_context *verbs, uint32_t ib_port, uint32_t index, uint8_t mac[6])
{
	struct ibv_gid_entry gid;
	struct ifreq req = {0};
	int fd, err = 0;

	if (ibv_query_gid_ex(verbs, ib_port, index, &gid, 0))
		return -errno;
	if (!if_indextoname(gid.ndev_ifindex, req.ifr_name))
		return -ENODEV;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, SIOCGIFHWADDR, &req))
		err = -errno;
	close(fd);
	memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	return err;
}

/* What we say of our end; its PSN, of which nothing is ever sent, is chosen at random. */
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

/* From INIT to RTS (IBTA 10.3.1; ibv_modify_qp(3)). */
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

int dta_rdma_host_queue(struct dta_rdma_host *h, const char *name,
			const struct dta_roce_end *theirs, struct dta_roce_end *ours,
			uint64_t *queue)
{
	struct fabric_host_stats s;
	struct ibv_qp *qp;
	int err = dta_roce_end_check(theirs);

	if (err)
		return err;
	fabric_host_stats(h->host, &s);
	qp = fabric_host_queue_new(h->host, name, queue);
	if (!qp)
		return -errno;
	err = our_end(qp, &s, ours);
	if (!err)
		err = bring_up(qp, &s, theirs, ours);
	if (err)
		fabric_host_queue_end(h->host, *queue);
	return err;
}
#else
int dta_rdma_host_queue(struct dta_rdma_host *h, const char *name,
			const struct dta_roce_end *theirs, struct dta_roce_end *ours,
			uint64_t *queue)
{
	(void)h, (void)name, (void)theirs, (void)ours, (void)queue;
	return -EOPNOTSUPP;
}
#endif
