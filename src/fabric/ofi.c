// SPDX-License-Identifier: Apache-2.0
/*
 * ofi.c - the fabric provider for hosts without RDMA: a connected libfabric endpoint, with a target
 * of the form NAME://HOST. libfabric's provider tcp works on any host. ofi_host.c is the other
 * side.
 *
 * A request is fi_readmsg() of READs with adjacent memory. Its context is its position in the queue
 * of outstanding requests: a completion with any other context is counted and closes the
 * connection. After a failure the endpoint is closed, which ends all use of the landing memory, and
 * a new one is created after a back-off.
 */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/base.h"
#include "fabric/host.h"
#include "fabric/provider.h"

/* Splits NAME:// from the target; returns the rest. */
static const char *parse_scheme(const char *target, char name[FABRIC_PROVIDER_MAX])
{
	size_t n = 0;

	while (n < FABRIC_PROVIDER_MAX - 1 && (islower(target[n]) || isdigit(target[n])))
		n++;
	if (!n || strncmp(target + n, "://", 3))
		return NULL;
	memcpy(name, target, n);
	name[n] = '\0';
	return target + n + 3;
}

static bool ofi_takes(const char *target)
{
	char name[FABRIC_PROVIDER_MAX];

	return parse_scheme(target, name);
}

#if HAVE_LIBFABRIC
#include "fabric/lookup.h"
#include "fabric/merge.h"
#include "fabric/ofi.h"

#define COMPLETIONS_PER_POLL 32
#define CHECK_UP_NS	     2000000u /* interval of event checks while up */

_Static_assert(FABRIC_MERGE_GAP_MAX <= FABRIC_BUFFER_TAIL, "the sink");

struct ofi_request {
	struct fabric_read *first; /* pointer into the caller's array */
	uint32_t reads;
	bool done;
	int status;
	uint64_t posted_ns;
};

struct fabric_ofi {
	struct fabric base;
	char provider[FABRIC_PROVIDER_MAX], host[256], service[8];
	struct fabric_lookup *lookup;
	struct sockaddr_storage to;
	uint64_t deadline_ns, check_ns;

	struct fi_info *info; /* description of the endpoint; NULL means no connection */
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_mr *mr; /* registration of the landing memory, if the provider needs one */
	struct fid_ep *ep;
	void *descriptor;
	struct fabric_verbs_proof request; /* the last request, if there is opts.secret */
	bool challenged;		   /* true if the cookie in request comes from the host */
	bool broken;			   /* the next drive or poll resets the connection */

	uint64_t bias;
	struct fabric_merge_limits limits;
	uint32_t depth, head, tail, mask; /* outstanding requests are [head, tail) */
	struct ofi_request *requests;	  /* indexed by number & mask */
};

static struct fabric_ofi *ofi_of(struct fabric *f)
{
	return (struct fabric_ofi *)f;
}

/* ---- tearing down ---- */

static void tear_down(struct fabric_ofi *o)
{
	OFI_CLOSE(o->ep);
	OFI_CLOSE(o->mr);
	OFI_CLOSE(o->cq);
	OFI_CLOSE(o->domain);
	OFI_CLOSE(o->eq);
	OFI_CLOSE(o->fabric);
	if (o->info)
		fi_freeinfo(o->info);
	o->info = NULL;
	o->broken = false;
}

static void finish_oldest(struct fabric_ofi *o, int status)
{
	struct ofi_request *r = &o->requests[o->head++ & o->mask];

	for (uint32_t i = 0; i < r->reads; i++)
		fabric_finish(&o->base, &r->first[i], r->done ? r->status : status);
}

static void reset_connection(struct fabric_ofi *o, uint64_t now_ns, uint64_t timeout_ns)
{
	tear_down(o);
	while (o->head != o->tail) {
		uint64_t posted = o->requests[o->head & o->mask].posted_ns;

		finish_oldest(o,
			      fabric_is_late(posted, now_ns, timeout_ns) ? -ETIMEDOUT : -ENOTCONN);
	}
	fabric_went_down(&o->base, now_ns);
}

static void give_up(struct fabric_ofi *o, uint64_t now_ns, const char *why)
{
	fabric_failed(&o->base, "%s: %s", o->base.target, why);
	reset_connection(o, now_ns, 0);
}

/* ---- connecting ---- */

/*
 * Creates an endpoint with its objects. Returns NULL, or the name of the failed call with *err set.
 */
static const char *make_endpoint(struct fabric_ofi *o, int *err)
{
	struct fi_eq_attr events = {.wait_obj = FI_WAIT_NONE};
	struct fi_cq_attr completions = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};

	o->depth = BASE_MIN(o->base.opts.queue_depth, (uint32_t)o->info->tx_attr->size);
	o->limits = (struct fabric_merge_limits){
		.areas = BASE_MIN((uint32_t)o->info->tx_attr->iov_limit, FABRIC_MERGE_AREAS_MAX),
		.bytes = o->info->ep_attr->max_msg_size,
		.sink = o->base.buffer + o->base.opts.buffer_bytes,
	};
	o->bias = fabric_ofi_bias(o->info);
	completions.size = o->depth;
	if (!o->depth || !o->limits.areas)
		return *err = -FI_EINVAL, "the provider's limits";
	*err = fi_fabric(o->info->fabric_attr, &o->fabric, NULL);
	if (*err)
		return "fi_fabric";
	*err = fi_eq_open(o->fabric, &events, &o->eq, NULL);
	if (*err)
		return "fi_eq_open";
	*err = fi_domain(o->fabric, o->info, &o->domain, NULL);
	if (*err)
		return "fi_domain";
	*err = fi_cq_open(o->domain, &completions, &o->cq, NULL);
	if (*err)
		return "fi_cq_open";
	*err = fi_endpoint(o->domain, o->info, &o->ep, NULL);
	if (*err)
		return "fi_endpoint";
	*err = fi_ep_bind(o->ep, &o->eq->fid, 0);
	*err = *err ?: fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV);
	*err = *err ?: fi_enable(o->ep);
	return *err ? "fi_enable" : NULL;
}

static void connect_endpoint(struct fabric_ofi *o, uint64_t now_ns)
{
	struct fabric_verbs_proof *p = &o->request;
	const char *what;
	char why[160];
	int err = 0;

	o->info = fabric_ofi_info(o->provider, &o->to, false, why, sizeof(why));
	if (!o->info) {
		give_up(o, now_ns, why);
		return;
	}
	p->magic = FABRIC_VERBS_REQUEST_MAGIC;
	p->version = FABRIC_VERBS_VERSION;
	p->flags = (o->base.opts.notify ? FABRIC_VERBS_NOTIFY : 0) |
		   (o->base.opts.secret ? FABRIC_VERBS_PROOF : 0);
	what = make_endpoint(o, &err);
	if (!what && o->base.opts.secret && !o->challenged &&
	    getrandom(p->nonce, sizeof(p->nonce), 0) != sizeof(p->nonce))
		what = "getrandom", err = -errno;
	if (!what && o->challenged)
		fabric_auth_prove(o->base.opts.secret, o->base.opts.secret_bytes, p, 0);
	if (!what && (err = fi_connect(o->ep, o->info->dest_addr, p, sizeof(*p))))
		what = "fi_connect";
	if (what) {
		snprintf(why, sizeof(why), "%s: %s", what, fi_strerror(-err));
		give_up(o, now_ns, why);
	}
}

static void start_connecting(struct fabric_ofi *o, uint64_t now_ns)
{
	int code;

	o->base.state = FABRIC_CONNECTING;
	o->challenged = false;
	o->check_ns = 0;
	memset(&o->request, 0, sizeof(o->request));
	o->deadline_ns = now_ns + (uint64_t)o->base.opts.connect_timeout_ms * 1000000u;
	if (fabric_lookup_numeric(o->host, o->service, &o->to)) {
		connect_endpoint(o, now_ns);
		return;
	}
	code = fabric_lookup_start(&o->lookup, o->host);
	if (code)
		give_up(o, now_ns, gai_strerror(code));
}

static void look_up(struct fabric_ofi *o, uint64_t now_ns)
{
	int code = fabric_lookup_take(&o->lookup, o->service, &o->to);

	if (!code)
		connect_endpoint(o, now_ns);
	else if (code != EAI_INPROGRESS)
		give_up(o, now_ns, gai_strerror(code));
}

static void handle_established(struct fabric_ofi *o, uint64_t now_ns, const uint8_t *data,
			       size_t bytes)
{
	struct fabric_verbs_welcome w = {0};
	const struct fabric_host_hello *hello = &w.hello;
	int err = 0;

	memcpy(&w, data, BASE_MIN(bytes, sizeof(w)));
	if (!fabric_gate_hello_is_sound(hello) || hello->directory_addr < o->bias) {
		give_up(o, now_ns, "the peer is not a sidelight agent of this version");
		return;
	}
	if (o->base.opts.secret &&
	    !fabric_auth_welcome_fits(o->base.opts.secret, o->base.opts.secret_bytes, &o->request,
				      0, &w)) {
		give_up(o, now_ns,
			"the agent did not prove the secret: give it --rdma-secret, too");
		return;
	}
	/* Register only now: an unreachable host then costs no registration per attempt. */
	if (o->info->domain_attr->mr_mode & FI_MR_LOCAL)
		err = fi_mr_reg(o->domain, o->base.buffer,
				o->base.opts.buffer_bytes + FABRIC_BUFFER_TAIL, FI_READ | FI_SEND,
				0, 0, 0, &o->mr, NULL);
	if (err) {
		give_up(o, now_ns, "registering the landing memory (ulimit -l?)");
		return;
	}
	o->descriptor = o->mr ? fi_mr_desc(o->mr) : NULL;
	fabric_went_up(&o->base, &(struct fabric_remote){
					 .addr = hello->directory_addr,
					 .length = hello->directory_length,
					 .rkey = hello->directory_rkey,
				 });
}

static void handle_refusal(struct fabric_ofi *o, uint64_t now_ns,
			   const struct fabric_verbs_refusal *r, int err)
{
	const char *why = fabric_gate_why(r);

	if (o->base.opts.secret && !o->challenged && r->magic == FABRIC_VERBS_REFUSAL_MAGIC &&
	    !r->error) { /* a challenge: connect again, with the proof */
		memcpy(o->request.cookie, r->cookie, sizeof(o->request.cookie));
		o->challenged = true;
		tear_down(o);
		connect_endpoint(o, now_ns);
		return;
	}
	give_up(o, now_ns, why ?: fi_strerror(err));
}

/* Handles events of the connection; returns after one that closes it. */
static void take_events(struct fabric_ofi *o, uint64_t now_ns)
{
	union fabric_ofi_event e;
	struct fabric_verbs_refusal r = {0};
	struct fi_eq_err_entry failed = {.err_data = e.room, .err_data_size = sizeof(e.room)};
	uint32_t type;
	ssize_t n;

	while (o->eq && (n = fi_eq_read(o->eq, &type, &e, sizeof(e), 0)) != -FI_EAGAIN) {
		if (n == -FI_EAVAIL && fi_eq_readerr(o->eq, &failed, 0) > 0) {
			if (failed.err_data && failed.err_data_size >= sizeof(r))
				memcpy(&r, failed.err_data, sizeof(r));
			handle_refusal(o, now_ns, &r, failed.err);
			return;
		}
		if (n < (ssize_t)sizeof(e.cm) || type == FI_SHUTDOWN) {
			give_up(o, now_ns,
				n < 0 ? fi_strerror((int)-n) : "the peer closed the connection");
			return;
		}
		if (type == FI_CONNECTED && o->base.state == FABRIC_CONNECTING)
			handle_established(o, now_ns, e.cm.data, (size_t)n - sizeof(e.cm));
	}
}

/* ---- reading ---- */

static int ofi_map(struct fabric *f, struct fabric_remote *remote)
{
	if (!remote->addr || remote->addr < ofi_of(f)->bias || !remote->length ||
	    remote->addr > UINT64_MAX - remote->length)
		return -EINVAL;
	return 0;
}

static uint32_t ofi_post(struct fabric *f, struct fabric_read *reads, uint32_t count)
{
	struct fabric_ofi *o = ofi_of(f);
	uint64_t now = base_now_ns();
	void *descriptors[FABRIC_MERGE_AREAS_MAX];
	struct fabric_merged merged;
	uint32_t taken = 0;
	ssize_t err;

	for (uint32_t i = 0; i < o->limits.areas; i++)
		descriptors[i] = o->descriptor;

	while (taken < count && !o->broken && o->tail - o->head < o->depth) {
		struct fabric_read *first = &reads[taken];
		struct ofi_request *r = &o->requests[o->tail & o->mask];
		struct fi_rma_iov remote;
		struct fi_msg_rma m;

		if (first->length > o->limits.bytes) {
			fabric_finish(f, first, -ERANGE);
			taken++;
			continue;
		}
		fabric_merge(&merged, &o->limits, first, count - taken);
		remote = (struct fi_rma_iov){
			.addr = merged.addr - o->bias,
			.len = merged.bytes,
			.key = merged.rkey,
		};
		m = (struct fi_msg_rma){
			.msg_iov = merged.area,
			.desc = descriptors,
			.iov_count = merged.areas,
			.rma_iov = &remote,
			.rma_iov_count = 1,
			.context = r,
		};
		err = fi_readmsg(o->ep, &m, FI_COMPLETION);
		if (err) {
			if (err != -FI_EAGAIN) { /* the next drive or poll closes the connection */
				fabric_failed(f, "%s: fi_readmsg: %s", f->target,
					      fi_strerror((int)-err));
				o->broken = true;
			}
			break;
		}
		*r = (struct ofi_request){.first = first, .reads = merged.reads, .posted_ns = now};
		o->tail++;
		taken += merged.reads;
		f->stats.work_requests++;
		f->stats.doorbells++;
	}
	return taken;
}

/* Sends a message, which libfabric copies: a host without RDMA exposes no board. */
static int ofi_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	struct fabric_ofi *o = ofi_of(f);
	struct fabric_ofi_notice n = {.entry = entry};
	uint64_t cell[8] = {0};
	ssize_t err;

	if (o->broken)
		return -ENOTCONN;
	memcpy(cell, verdict, sizeof(*verdict));
	cell[7] = sl_line_check(cell);
	memcpy(&n.line, cell, sizeof(n.line));
	err = fi_inject(o->ep, &n, sizeof(n), 0);
	if (!err)
		return 0;
	if (err == -FI_EAGAIN)
		return -EAGAIN;
	fabric_failed(f, "%s: fi_inject: %s", f->target, fi_strerror((int)-err));
	o->broken = true;
	return -ENOTCONN;
}

static int status_of(int err)
{
	switch (err) {
	case FI_EACCES:
	case FI_EKEYREJECTED:
	case FI_ENOKEY:
		return -EACCES;
	case FI_ETIMEDOUT:
		return -ETIMEDOUT;
	case FI_ECANCELED:
	case FI_ECONNRESET:
	case FI_ECONNABORTED:
	case FI_ENOTCONN:
		return -ENOTCONN;
	default:
		return -EIO;
	}
}

/* Returns false if the connection must be closed. */
static bool finish_request(struct fabric_ofi *o, const void *context, int err)
{
	struct fabric *f = &o->base;
	uintptr_t at = (uintptr_t)context - (uintptr_t)o->requests;
	uint32_t i = (uint32_t)(at / sizeof(*o->requests));
	struct ofi_request *r;

	if (at % sizeof(*o->requests) || at / sizeof(*o->requests) > o->mask ||
	    ((i - o->head) & o->mask) >= o->tail - o->head || o->requests[i].done) {
		f->stats.wrong_id++;
		fabric_failed(f, "%s: a completion without an outstanding request", f->target);
		return false;
	}
	r = &o->requests[i];
	r->done = true;
	r->status = err ? status_of(err) : 0;
	if (err)
		fabric_failed(f, "%s: READ of region %llu at %llu (%u merged): %s", f->target,
			      (unsigned long long)r->first->remote->id,
			      (unsigned long long)r->first->offset, r->reads, fi_strerror(err));
	while (o->head != o->tail && o->requests[o->head & o->mask].done)
		finish_oldest(o, 0);
	return !err;
}

static bool take_completions(struct fabric_ofi *o)
{
	struct fi_cq_entry done[COMPLETIONS_PER_POLL];
	struct fi_cq_err_entry failed = {0};
	ssize_t n;

	do {
		n = fi_cq_read(o->cq, done, COMPLETIONS_PER_POLL);
		for (ssize_t i = 0; i < n; i++)
			if (!finish_request(o, done[i].op_context, 0))
				return false;
	} while (n == COMPLETIONS_PER_POLL);
	if (n >= 0 || n == -FI_EAGAIN)
		return true;
	if (n == -FI_EAVAIL && fi_cq_readerr(o->cq, &failed, 0) > 0 && o->head != o->tail)
		finish_request(o, failed.op_context, failed.err ?: FI_EIO);
	return false;
}

static void ofi_poll(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	struct fabric_ofi *o = ofi_of(f);

	if (!o->cq)
		return;
	if (!take_completions(o) || o->broken) {
		reset_connection(o, now_ns, timeout_ns);
		return;
	}
	if (o->head != o->tail &&
	    fabric_got_no_answer(f, o->requests[o->head & o->mask].posted_ns, now_ns, timeout_ns))
		reset_connection(o, now_ns, timeout_ns);
}

static void ofi_drive(struct fabric *f, uint64_t now_ns)
{
	struct fabric_ofi *o = ofi_of(f);

	if (f->state == FABRIC_DOWN) {
		if (now_ns >= f->retry_ns)
			start_connecting(o, now_ns);
		return;
	}
	if (o->broken) {
		reset_connection(o, now_ns, 0);
		return;
	}
	if (f->state == FABRIC_CONNECTING) {
		if (now_ns >= o->deadline_ns) {
			give_up(o, now_ns,
				o->info ? "no answer" : "the host name cannot be resolved");
			return;
		}
		if (!o->info) {
			look_up(o, now_ns);
			return;
		}
	} else if (now_ns < o->check_ns) {
		return;
	}
	o->check_ns = now_ns + CHECK_UP_NS;
	/* Only these calls make progress. */
	if (f->state == FABRIC_CONNECTING || f->opts.notify)
		take_completions(o);
	take_events(o, now_ns);
}

/* ---- opening ---- */

static void ofi_fini(struct fabric *f)
{
	struct fabric_ofi *o = ofi_of(f);

	tear_down(o);
	fabric_lookup_end(&o->lookup);
	free(o->requests);
}

static int ofi_init(struct fabric *f, const char *target)
{
	struct fabric_ofi *o = ofi_of(f);
	const char *rest = parse_scheme(target, o->provider);

	if (!rest || !fabric_gate_split(rest, o->host, o->service)) {
		fabric_failed(f, "'%s' is not %s://HOST[:PORT]", target, o->provider);
		return -EINVAL;
	}
	for (o->mask = 1; o->mask < f->opts.queue_depth; o->mask *= 2)
		;
	o->requests = calloc(o->mask, sizeof(*o->requests));
	o->mask--;
	return o->requests ? 0 : -ENOMEM;
}

const struct fabric_ops fabric_provider_ofi = {
	.name = "ofi",
	.takes = ofi_takes,
	.bytes = sizeof(struct fabric_ofi),
	.open = ofi_init,
	.close = ofi_fini,
	.drive = ofi_drive,
	.map = ofi_map,
	.post = ofi_post,
	.poll = ofi_poll,
	.notify = ofi_notify,
};
#else /* built without libfabric */
static int ofi_init(struct fabric *f, const char *target)
{
	fabric_failed(f, "%s: this sidelight was built without libfabric", target);
	return -EOPNOTSUPP;
}

const struct fabric_ops fabric_provider_ofi = {
	.name = "ofi",
	.takes = ofi_takes,
	.bytes = sizeof(struct fabric),
	.open = ofi_init,
};
#endif
