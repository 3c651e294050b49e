// SPDX-License-Identifier: Apache-2.0
/* clang-format off */
/*
 * region.c - the states of a region: admitted, live, dead or closed, retired, freed.
 *
 *	           CLOSE                grace               2 x lease
 *	  live ------------> closed ------------> retired ------------> freed, slot reusable
 *	   |   ^                                  ^
 *	   |   '------- PUBLISH again ------.     |
 *	   '-- hang-up --> orphan --> dead -'-----'
 *
 * The agent trusts nothing that the publisher can still change: it copies and checks the header
 * once, takes sizes from the sealed descriptor, and uses its own copy of the header when it writes.
 */
/* clang-format on */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/peer.h"
#include "agent/proxy.h"
#include "agent/region.h"
#include "base/hash.h"

#define TMPFS_MAGIC_ 0x01021994

const char *const agent_refusal_names[REFUSED_COUNT] = {
	[REFUSED_MALFORMED] = "malformed",
	[REFUSED_PERMISSION] = "permission",
	[REFUSED_DESCRIPTOR] = "descriptor",
	[REFUSED_SEALS] = "seals",
	[REFUSED_SIZE] = "size",
	[REFUSED_SPARSE] = "sparse",
	[REFUSED_HEADER] = "header",
	[REFUSED_INSTANCE] = "instance",
	[REFUSED_REGIONS] = "regions",
	[REFUSED_MEMORY] = "memory",
	[REFUSED_QUOTA] = "quota",
	[REFUSED_SYSTEM] = "system",
	[REFUSED_IDENTITY] = "identity",
	[REFUSED_ABSENT] = "absent",
};

void agent_refused_count(struct agent *a, enum agent_refusal cause)
{
	a->n.refused[cause]++;
	if (cause != REFUSED_ABSENT && a->dir.map)
		agent_directory_hot(a);
}

int agent_refuse(struct agent_refused *why, enum agent_refusal cause, int error, const char *fmt,
		 ...)
{
	va_list ap;

	why->cause = cause;
	why->error = error;
	va_start(ap, fmt);
	vsnprintf(why->reason, sizeof(why->reason), fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- finding ---- */

struct agent_region *agent_region_by_id(struct agent *a, uint64_t id)
{
	struct agent_region *r = NULL;

	for (void *at = base_table_first(&a->by_id, base_hash_u64(id)); at;
	     at = base_table_next(at)) {
		r = (void *)((char *)at - offsetof(struct agent_region, by_id));
		if (r->id == id)
			return r;
	}
	return NULL;
}

struct agent_region *agent_region_by_instance(struct agent *a, uint64_t instance)
{
	struct agent_region *r = base_table_first(&a->by_instance, base_hash_u64(instance));

	while (r && r->instance != instance)
		r = base_table_next(r);
	return r;
}

/* ---- the entry ---- */

void agent_region_publish(struct agent *a, struct agent_region *r)
{
	const struct fabric_host_key key = agent_rdma_key(a, r);
	const uint64_t cells[7] = {
		[SL_ENTRY_ID] = r->id,
		[SL_ENTRY_ADDR] = key.addr,
		[SL_ENTRY_LENGTH] = r->info->size,
		[SL_ENTRY_KEY] = SL_ENTRY_KEY_OF(key.rkey, r->state, r->info->kind),
		[SL_ENTRY_INSTANCE] = r->instance,
	};

	agent_directory_set(a, r->slot, cells);
}

static void set_state(struct agent *a, struct agent_region *r, enum sl_region_state state)
{
	if (r->state != SL_STATE_FREE)
		a->state_count[r->state]--;
	a->state_count[state]++;
	r->state = state;
	r->changed_ns = base_realtime_ns();
	agent_region_publish(a, r);
}

/* Sets the state in the region's own hot line, for readers that only have the region. */
static void set_hot_state(struct agent_region *r, enum sl_region_state state)
{
	uint64_t *hot = (uint64_t *)((char *)r->map + r->info->hot), was;

	/* If the hot line is in a hole, do not allocate it: that is up to the publisher. */
	if (r->read_only || !agent_memory_held(r->fd, r->info->hot))
		return;
	was = __atomic_load_n(&hot[SL_HOT_STATE], __ATOMIC_RELAXED);
	if ((was & 0xff) != state)
		agent_line_set(hot, SL_HOT_STATE, (was & ~0xffull) | state);
}

int agent_region_protect(struct agent *a, struct agent_region *r)
{
	int seals, err;

	if (r->rw_fd < 0 && !r->sealing)
		return 0;
	seals = fcntl(r->fd, F_GET_SEALS);
	if (seals < 0 || (seals & (F_SEAL_SEAL | AGENT_SEAL_FUTURE_WRITE)) == F_SEAL_SEAL)
		return -EPERM;
	if (seals & AGENT_SEAL_FUTURE_WRITE && seals & F_SEAL_SEAL) {
		if (r->rw_fd >= 0)
			close(r->rw_fd);
		r->rw_fd = -1;
		r->sealing = false;
		return 0;
	}
	if (r->sealing)
		return -EAGAIN;
	if (!r->peer->tenant->trusted && !r->copied && a->epoll_fd >= 0) {
		agent_closer_seal(a, r->peer->tenant, r->rw_fd);
		r->rw_fd = -1;
		r->sealing = true;
		return -EAGAIN;
	}
	err = agent_seal(r->rw_fd);
	return err ?: agent_region_protect(a, r);
}

void agent_region_protect_all(struct agent *a)
{
	for (uint32_t i = 0; i < a->slot_count; i++)
		if (a->slots[i] && !a->slots[i]->kernel && a->slots[i]->state != SL_STATE_RETIRED)
			agent_region_protect(a, a->slots[i]);
}

/* ---- admission ---- */

/*
 * The order matters: F_GET_SEALS fails on everything except memory files, so fstat(), read() and
 * mmap() are never called on a file whose file system could block them.
 */
static int check_descriptor(struct agent *a, int fd, const struct sl_msg_publish *say, bool own,
			    struct stat *st, bool *read_only, struct agent_refused *why)
{
	const int need = F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	int flags = fcntl(fd, F_GETFL);
	struct statfs fs;

	if (seals < 0)
		return agent_refuse(why, REFUSED_DESCRIPTOR, EINVAL,
				    "the descriptor is not a memfd: use memfd_create()");
	if ((seals & need) != need)
		return agent_refuse(why, REFUSED_SEALS, EPERM,
				    "the memfd is not sealed: add F_SEAL_SHRINK and F_SEAL_GROW");
	if (seals & F_SEAL_WRITE)
		return agent_refuse(
			why, REFUSED_SEALS, EPERM,
			"the memfd is sealed against writing, but its publisher must write to it");
	if (flags < 0 || (flags & O_ACCMODE) != O_RDWR)
		return agent_refuse(why, REFUSED_DESCRIPTOR, EACCES,
				    "the memfd is not open for writing");
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC_)
		return agent_refuse(why, REFUSED_DESCRIPTOR, EINVAL,
				    "memfds with huge pages are not supported");
	if (fstat(fd, st) || !S_ISREG(st->st_mode))
		return agent_refuse(why, REFUSED_DESCRIPTOR, EINVAL,
				    "the descriptor is not a regular file");
	if (st->st_size < 0 || (uint64_t)st->st_size != say->size)
		return agent_refuse(why, REFUSED_SIZE, EBADMSG,
				    "the memfd has %lld bytes, but the message says %" PRIu64,
				    (long long)st->st_size, say->size);
	if (say->size > a->o.max_region_size && !own)
		return agent_refuse(why, REFUSED_SIZE, E2BIG,
				    "the region has %" PRIu64 " bytes, but at most %" PRIu64 " "
				    "are allowed (--max-region-size)",
				    say->size, a->o.max_region_size);
	if (say->size < SL_HEADER_SIZE + SL_LINE_SIZE)
		return agent_refuse(why, REFUSED_SIZE, EBADMSG,
				    "%" PRIu64 " bytes is too small for a region", say->size);
	*read_only = seals & AGENT_SEAL_FUTURE_WRITE;
	return 0;
}

static int check_header(int fd, const struct sl_msg_publish *say, const struct agent_tenant *t,
			struct region_info *info, struct agent_refused *why)
{
	char name[AGENT_TENANT_NAME];

	_Alignas(64) struct sl_region_header copy;
	enum region_fault fault;

	/* Check a copy, as the publisher may write. pread() does not allocate pages in holes. */
	if (pread(fd, &copy, sizeof(copy), 0) != sizeof(copy))
		return agent_refuse(why, REFUSED_SYSTEM, EIO, "cannot read the region's header");
	fault = region_info_parse(&copy, say->size, info);
	if (fault)
		return agent_refuse(why, REFUSED_HEADER, EBADMSG, "invalid region header: %s",
				    region_fault_name(fault));
	if (info->kind != SL_REGION_METRICS)
		return agent_refuse(why, REFUSED_HEADER, EBADMSG,
				    "regions of kind %u are not accepted", info->kind);
	if (info->size != say->size)
		return agent_refuse(why, REFUSED_SIZE, EBADMSG,
				    "the header says %" PRIu64 " bytes, but the memfd has %" PRIu64,
				    info->size, say->size);
	if (info->instance != say->instance)
		return agent_refuse(why, REFUSED_INSTANCE, EBADMSG,
				    "the instance in the message differs from that in the header");
	if (info->origin && !t->origin)
		return agent_refuse(
			why, REFUSED_IDENTITY, EPERM,
			"%s may not publish series of other publishers: start the agent "
			"with --origin-uid %u, which applies outside of containers",
			agent_tenant_name(t, name), (unsigned int)t->id.uid);
	return 0;
}

/* The agent made the mapping itself, but its contents are checked nevertheless. */
static int check_kernel(const void *map, const struct sl_msg_publish *say, struct region_info *info,
			struct agent_refused *why)
{
	_Alignas(64) struct sl_region_header copy;
	enum region_fault fault;

	memcpy(&copy, map, sizeof(copy));
	fault = region_header_parse(&copy, say->size, info);
	if (fault || info->kind <= SL_REGION_DIRECTORY || info->size != say->size)
		return agent_refuse(why, REFUSED_HEADER, EBADMSG, "invalid kernel region: %s",
				    region_fault_name(fault ? fault : REGION_FAULT_VERSION));
	return 0;
}

/* Refuses requests that exceed the tenant's share of a resource. */
static int check_share(const struct agent *a, const struct agent_tenant *t,
		       enum agent_resource resource, uint64_t want, struct agent_refused *why)
{
	static const struct {
		const char *unit, *raise;
	} is[] = {
		[RESOURCE_REGIONS] = {"regions", "--max-regions"},
		[RESOURCE_MEMORY] = {"bytes", "--max-memory"},
		[RESOURCE_DESCRIPTORS] = {"descriptors", "LimitNOFILE"},
	};
	const struct agent_use u = agent_tenant_use(a, t, resource);
	char name[AGENT_TENANT_NAME];

	if (t->trusted || u.held + want <= u.limit)
		return 0;
	return agent_refuse(why, REFUSED_QUOTA, EDQUOT,
			    "%s has %" PRIu64 " of %" PRIu64 " %s and requests %" PRIu64 " more, "
			    "but its share is %" PRIu64 ": publish less, or raise %s",
			    agent_tenant_name(t, name), u.held, u.all.capacity, is[resource].unit,
			    want, u.limit, is[resource].raise);
}

/*
 * Chooses a region to retire early to make room: the tenant's own region that has been in grace the
 * longest. If there is no room at all for a tenant's first region, chooses a region of a tenant
 * that has several, one at a time.
 */
static struct agent_region *find_evictable(struct agent *a, const struct agent_tenant *tenant,
					   uint64_t size, bool full)
{
	bool first = full && !tenant->regions && !a->state_count[SL_STATE_RETIRED] &&
		     size <= a->o.max_memory / 64;
	struct agent_timer *t;

	TAILQ_FOREACH(t, &a->timers[TIMER_GRACE].head, link)
	{
		struct agent_region *r = AGENT_TIMER_OWNER(t, struct agent_region, timer);
		const struct agent_tenant *whose = r->peer->tenant;

		if ((tenant->trusted && full) || whose == tenant || (first && whose->regions > 1))
			return r;
	}
	return NULL;
}

static int check_room(struct agent *a, uint64_t size, const struct agent_tenant *tenant, bool own,
		      struct agent_refused *why)
{
	bool slots = a->region_count - a->own_count >= a->o.max_regions;
	bool full = slots || a->memory + size > a->o.max_memory;
	/* The agent's own regions are exempt, but their tenant is the agent's user. */
	bool mine = tenant->id.uid == a->uid && !tenant->id.contained;
	uint32_t regions = tenant->regions - (mine ? a->own_count : 0);
	uint32_t most = a->o.max_regions_per_uid;
	struct agent_region *r;

	if (!own && most && regions >= most)
		return agent_refuse(why, REFUSED_QUOTA, EDQUOT,
				    "uid %d already has %u regions: raise --max-regions-per-uid",
				    (int)tenant->id.uid, regions);
	if (!full && !check_share(a, tenant, RESOURCE_REGIONS, 1, why) &&
	    !check_share(a, tenant, RESOURCE_MEMORY, size, why) &&
	    !check_share(a, tenant, RESOURCE_DESCRIPTORS, AGENT_FDS_REGION, why))
		return 0;
	r = find_evictable(a, tenant, size, full);
	if (r) {
		a->n.evicted++;
		agent_region_retire(a, r);
	}
	if (!full)
		return -1;
	if (slots)
		return agent_refuse(
			why, REFUSED_REGIONS, ENOSPC,
			"all %u regions are in use: raise --max-regions or shorten --grace",
			a->o.max_regions);
	return agent_refuse(why, REFUSED_MEMORY, ENOSPC,
			    "%" PRIu64 " of %" PRIu64
			    " bytes are in use: raise --max-memory or shorten --grace",
			    a->memory, a->o.max_memory);
}

/* The same region is published again, after a lost connection or a restart of the agent. */
static int reattach_region(struct agent *a, struct agent_region *r, const struct stat *st,
			   struct agent_conn *conn, struct agent_peer *peer,
			   struct agent_refused *why)
{
	const uint64_t instance = r->instance;
	bool same = r->dev == st->st_dev && r->ino == st->st_ino && r->peer->tenant == peer->tenant;
	bool drained;

	if (r->conn && r->conn != conn && same && r->conn->fd >= 0) {
		/* The old connection's hang-up may be in the same batch of events. */
		struct agent_conn *old = r->conn;
		struct pollfd p = {.fd = old->fd, .events = POLLRDHUP};

		if (poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR)) {
			/*
			 * The old connection's packets may publish regions of other connections
			 * again, and so call this function. Draining only one connection at a time
			 * limits the recursion.
			 */
			if (a->draining)
				return agent_refuse(why, REFUSED_INSTANCE, EAGAIN, "try again");
			a->draining = true;
			drained = agent_conn_drain(a, old);
			a->draining = false;
			if (drained && !old->gone)
				agent_conn_close(a, old);
			if (!drained || conn->gone || agent_region_by_instance(a, instance) != r)
				return agent_refuse(why, REFUSED_INSTANCE, EAGAIN, "try again");
		}
	}
	if (!same || r->proxy || r->self || r->kernel)
		return agent_refuse(
			why, REFUSED_INSTANCE, EEXIST,
			"another region already uses this instance number: choose it at random");
	if (r->conn == conn)
		return 0; /* repeated request */
	if (r->conn)
		return agent_refuse(why, REFUSED_INSTANCE, EEXIST,
				    "another connection already publishes this region");
	if (r->state == SL_STATE_CLOSED)
		return agent_refuse(why, REFUSED_INSTANCE, ESTALE, "this region was closed");

	agent_timer_stop(&r->timer);
	TAILQ_REMOVE(&r->peer->regions, r, peer_link);
	agent_peer_put(a, r->peer);
	r->peer = peer;
	peer->refs++;
	TAILQ_INSERT_TAIL(&peer->regions, r, peer_link);
	r->conn = conn;
	conn->regions++;
	a->n.reattached++;
	if (r->state != SL_STATE_LIVE) {
		if (!r->unrepaired)
			set_hot_state(r, SL_STATE_LIVE);
		r->unrepaired = false;
		set_state(a, r, SL_STATE_LIVE);
	}
	return 0;
}

static void close_memory(struct agent_region *r)
{
	if (r->fd >= 0)
		close(r->fd);
	if (r->rw_fd >= 0)
		close(r->rw_fd);
}

/*
 * Maps and registers the memory and writes its entry. Takes ownership of r and its descriptor, even
 * on failure.
 */
static int take_in(struct agent *a, struct agent_region *r, int fd,
		   const struct sl_msg_publish *say, struct agent_peer *peer,
		   struct agent_refused *why)
{
	int err;

	r->map = MAP_FAILED;
	r->info = malloc(sizeof(*r->info));
	if (!r->info) {
		agent_refuse(why, REFUSED_SYSTEM, ENOMEM, "out of memory");
		goto err;
	}
	r->map = agent_rdma_map(a, fd, say->size, !r->read_only);
	if (r->map == MAP_FAILED) {
		agent_refuse(why, REFUSED_SYSTEM, errno, "cannot map the region: %s",
			     strerror(errno));
		goto err;
	}
	if (r->kernel ? check_kernel(r->map, say, r->info, why)
		      : check_header(fd, say, peer->tenant, r->info, why))
		goto err;

	r->instance = agent_tenant_instance(peer->tenant, r->info->instance);
	while (a->slot_free_hint < a->slot_count && a->slots[a->slot_free_hint])
		a->slot_free_hint++;
	/* Kernel tables that are still leased to readers may take more than their share. */
	if (a->slot_free_hint == a->slot_count) {
		agent_refuse(why, REFUSED_REGIONS, ENOSPC,
			     "all entries of the directory are in use");
		goto err;
	}
	r->slot = a->slot_free_hint;
	r->id = a->last_id + 1;
	err = agent_rdma_add(a, r);
	if (err && r->read_only && err != -ENODATA) {
		/* Before Linux 6.2, only writable memory can be registered. */
		base_log_limited(BASE_WARN, AGENT_LOG,
				 "region cannot be read remotely id=%" PRIu64
				 ": it was sealed for a local "
				 "reader before the agent restarted: %s",
				 r->id, strerror(-err));
	} else if (err == -ENODATA) {
		agent_refuse(why, REFUSED_SPARSE, ENODATA,
			     "the memfd has holes, which RDMA cannot skip: allocate all of it with "
			     "posix_fallocate()");
		goto err;
	} else if (err) {
		agent_refuse(why, REFUSED_SYSTEM, -err, "cannot register the region: %s",
			     strerror(-err));
		goto err;
	}

	/* Nothing can fail from here on. */
	a->last_id++;
	a->slots[r->slot] = r;
	a->region_count++;
	peer->tenant->regions++;
	peer->tenant->bytes += say->size;
	r->admitted_ns = base_realtime_ns();
	r->peer = peer;
	peer->refs++;
	TAILQ_INSERT_TAIL(&peer->regions, r, peer_link);
	base_table_add(&a->by_id, &r->by_id, base_hash_u64(r->id));
	base_table_add(&a->by_instance, r, base_hash_u64(r->instance));
	agent_region_publish_tenant(a, r);
	set_state(a, r, SL_STATE_LIVE);
	return 0;

err:
	if (r->map != MAP_FAILED)
		agent_rdma_unmap(a, r->map, say->size);
	close_memory(r);
	free(r->info);
	free(r);
	return -1;
}

int agent_region_admit(struct agent *a, int fd, const struct sl_msg_publish *say,
		       struct agent_conn *conn, struct agent_peer *peer, bool own,
		       struct agent_region **out, struct agent_refused *why)
{
	struct agent_region *r;
	struct stat st;
	bool read_only = false;
	int err;

	if (check_descriptor(a, fd, say, own, &st, &read_only, why))
		return -1;
	r = agent_region_by_instance(a, agent_tenant_instance(peer->tenant, say->instance));
	if (r && r->copied && conn && r->peer->tenant == peer->tenant && r->ino == st.st_ino) {
		/* The publisher is alive after all: leave the copy for its own memory. */
		agent_region_retire(a, r);
		r = NULL;
	}
	if (r) {
		if (!conn)
			return agent_refuse(why, REFUSED_INSTANCE, EEXIST, "known already");
		*out = r;
		return reattach_region(a, r, &st, conn, peer, why);
	}
	if (check_room(a, say->size, peer->tenant, own, why))
		return -1;

	r = calloc(1, sizeof(*r));
	if (!r)
		return agent_refuse(why, REFUSED_SYSTEM, ENOMEM, "out of memory");
	r->read_only = read_only;
	r->fd = agent_reopen_read_only(fd);
	r->rw_fd = r->read_only || r->fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (r->fd < 0 || (r->rw_fd < 0 && !r->read_only)) {
		err = r->fd < 0 ? -r->fd : errno;
		close_memory(r);
		free(r);
		if (err == EMFILE || err == ENFILE)
			return agent_refuse(why, REFUSED_SYSTEM, err,
					    "out of file descriptors: raise LimitNOFILE");
		return agent_refuse(
			why, REFUSED_DESCRIPTOR, err,
			"cannot reopen the memfd read-only: %s (its mode must allow reading)",
			strerror(err));
	}
	if (take_in(a, r, fd, say, peer, why))
		return -1;
	a->memory += say->size;
	a->n.admitted++;
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	r->conn = conn;
	if (conn) {
		conn->regions++;
		agent_store_add(a, r, fd);
	}
	if (a->consumer_conns) /* the consumer will ask for this region */
		agent_region_protect(a, r);
	base_logf(BASE_DEBUG, AGENT_LOG,
		  "region admitted id=%" PRIu64 " pid=%d uid=%d bytes=%" PRIu64 " service=%s",
		  r->id, (int)r->peer->pid, (int)peer->tenant->id.uid, r->info->size,
		  region_label(r->info, "service"));
	*out = r;
	return 0;
}

int agent_region_admit_kernel(struct agent *a, int fd, int read_only, uint64_t size,
			      struct agent_region **out, struct agent_refused *why)
{
	struct sl_msg_publish say = {.size = size};
	struct agent_region *r = calloc(1, sizeof(*r));
	struct agent_peer *peer = agent_peer_self(a);
	int err = -1;

	if (!r || !peer || a->region_count >= a->slot_count) {
		agent_refuse(why, REFUSED_SYSTEM, r && peer ? ENOSPC : ENOMEM,
			     "the directory has "
			     "no free slot");
		if (read_only >= 0)
			close(read_only);
		free(r);
	} else {
		r->fd = read_only;
		r->rw_fd = -1;
		r->kernel = true;
		err = take_in(a, r, fd, &say, peer, why);
	}
	agent_peer_put(a, peer);
	if (err)
		return err;
	a->own_count++;
	base_logf(BASE_DEBUG, AGENT_LOG,
		  "kernel region admitted id=%" PRIu64 " bytes=%" PRIu64 " kind=%u", r->id,
		  r->info->size, r->info->kind);
	*out = r;
	return 0;
}

/* ---- the end ---- */

/* maximum time per turn of the loop for the ends of a tenant's regions */
#define END_NS 1000000u

bool agent_region_end(struct agent *a, struct agent_region *r,
		      void (*end)(struct agent *a, struct agent_timer *t))
{
	struct agent_tenant *t = r->peer->tenant;
	uint64_t start = agent_now(a);

	if (t->end_turn != a->end_turn) {
		t->end_turn = a->end_turn;
		t->end_ns = 0;
	}
	if (t->end_ns >= END_NS) {
		a->n.ends_held += !r->held;
		r->held = true;
		return false;
	}
	r->held = false;
	t->refs++;
	end(a, &r->timer);
	t->end_ns += agent_now(a) - start;
	agent_tenant_put(t);
	return true;
}

static void leave_conn(struct agent_region *r)
{
	if (r->conn)
		r->conn->regions--;
	r->conn = NULL;
}

void agent_region_lost(struct agent *a, struct agent_region *r)
{
	leave_conn(r);
	if (r->state != SL_STATE_LIVE)
		return;
	a->n.lost_connections++;
	if (agent_peer_check(a, r->peer))
		agent_region_died(a, r);
	else
		agent_timer_start(a, TIMER_ORPHAN, &r->timer);
}

/*
 * Handles a region restored after a restart of the agent. A live publisher attaches again within a
 * second; otherwise, it is treated as if its connection were lost.
 */
void agent_region_restored(struct agent *a, struct agent_region *r)
{
	const uint64_t *hot = (const uint64_t *)((char *)r->map + r->info->hot);
	uint64_t line[8];
	struct region_hot is;

	/* In a hole, there is no state to read. */
	memset(line, 0, sizeof(line));
	if (agent_memory_held(r->fd, r->info->hot))
		region_copy_words(line, hot, 8);
	if (!region_hot_parse(line, r->info, &is) && is.state == SL_STATE_CLOSED)
		agent_region_closed(a, r);
	else if (r->peer->known && agent_peer_check(a, r->peer))
		agent_region_dead(a, r);
	else
		agent_timer_start(a, TIMER_RESTORED, &r->timer);
}

/*
 * Replaces memory that is sealed and can no longer be mapped writable by a copy that can be
 * repaired. Consumers find the copy through the entry's next generation. Memory that is registered,
 * or will be, is not replaced.
 */
static void copy_memory(struct agent *a, struct agent_region *r)
{
	int fd, ro = -1;
	void *map;

	if (r->mr || r->settle.in || r->kernel)
		return;
	fd = agent_memory_copy(r->fd, r->info->size);
	map = fd < 0 ? MAP_FAILED : agent_rdma_map(a, fd, r->info->size, true);
	if (map != MAP_FAILED)
		ro = agent_reopen_read_only(fd);
	if (ro < 0) {
		base_log_limited(BASE_WARN, AGENT_LOG,
				 "last values not repaired id=%" PRIu64 ": not enough memory for "
				 "a copy",
				 r->id);
		if (map != MAP_FAILED)
			agent_rdma_unmap(a, map, r->info->size);
		if (fd >= 0)
			close(fd);
		return;
	}
	agent_rdma_unmap(a, r->map, r->info->size);
	close_memory(r);
	r->map = map;
	r->fd = ro;
	r->rw_fd = fd;
	r->read_only = false;
	r->copied = true;
}

/*
 * The origins of a region's series may be alive although its publisher is not, and the publisher's
 * successor may publish the same series: their last values must not remain.
 */
static void start_grace(struct agent *a, struct agent_region *r)
{
	if (r->info->origin)
		agent_region_retire(a, r);
	else
		agent_timer_start(a, TIMER_GRACE, &r->timer);
}

/* The writer is dead: from here on, only the agent writes to the memory. */
void agent_region_dead(struct agent *a, struct agent_region *r)
{
	uint64_t repaired;

	leave_conn(r);
	if (r->state != SL_STATE_LIVE && !r->unrepaired)
		return;
	if (r->read_only)
		copy_memory(a, r);
	repaired = r->read_only ? 0 : agent_memory_repair(r->fd, r->map, r->info);
	a->n.lines_repaired += repaired;
	set_hot_state(r, SL_STATE_DEAD);
	/* marked dead when the connection was lost, which started the grace timer */
	if (r->unrepaired) {
		r->unrepaired = false;
		agent_region_publish(a, r);
		if (!r->timer.in) /* agent_region_died() stopped it */
			start_grace(a, r);
		return;
	}
	a->n.dead++;
	set_state(a, r, SL_STATE_DEAD);
	start_grace(a, r);
	base_log_limited(BASE_INFO, AGENT_LOG,
			 "publisher died id=%" PRIu64 " pid=%d service=%s pod=%s repaired=%" PRIu64,
			 r->id, (int)r->peer->pid, region_label(r->info, "service"),
			 region_label(r->info, "pod"), repaired);
}

static void end_dead(struct agent *a, struct agent_timer *t)
{
	agent_region_dead(a, AGENT_TIMER_OWNER(t, struct agent_region, timer));
}

void agent_region_died(struct agent *a, struct agent_region *r)
{
	leave_conn(r);
	if (r->state != SL_STATE_LIVE && !r->unrepaired)
		return;
	/* A retired region has no readers, so it is not repaired later. */
	if (!agent_region_end(a, r, end_dead) && r->state != SL_STATE_RETIRED)
		agent_timer_start(a, TIMER_ORPHAN, &r->timer);
}

/* After CLOSE, the publisher no longer writes to the region; see sidelight-attach(7). */
void agent_region_closed(struct agent *a, struct agent_region *r)
{
	leave_conn(r);
	if (r->state != SL_STATE_LIVE)
		return;
	a->n.closed++;
	set_hot_state(r, SL_STATE_CLOSED);
	set_state(a, r, SL_STATE_CLOSED);
	start_grace(a, r);
	base_logf(BASE_DEBUG, AGENT_LOG, "region closed id=%" PRIu64 " pid=%d service=%s", r->id,
		  (int)r->peer->pid, region_label(r->info, "service"));
}

void agent_region_revive(struct agent *a, struct agent_region *r)
{
	agent_timer_stop(&r->timer);
	agent_proxy_revived(r);
	a->n.reattached++;
	set_state(a, r, SL_STATE_LIVE);
}

/*
 * The process of an orphan is alive: it closed all descriptors, or the agent dropped its
 * connection. Readers see the region as dead until it is attached again. Its memory is not touched,
 * because the process may be writing.
 */
void agent_region_timer_orphan(struct agent *a, struct agent_timer *t)
{
	struct agent_region *r = AGENT_TIMER_OWNER(t, struct agent_region, timer);

	agent_timer_stop(t);
	if (agent_peer_check(a, r->peer)) {
		agent_region_dead(a, r);
		return;
	}
	a->n.dead++;
	r->unrepaired = true;
	set_state(a, r, SL_STATE_DEAD);
	start_grace(a, r);
	base_logf(BASE_INFO, AGENT_LOG,
		  "connection lost id=%" PRIu64 " pid=%d service=%s: process still alive", r->id,
		  (int)r->peer->pid, region_label(r->info, "service"));
}

void agent_region_timer_grace(struct agent *a, struct agent_timer *t)
{
	agent_timer_stop(t);
	a->n.expired++;
	agent_region_retire(a, AGENT_TIMER_OWNER(t, struct agent_region, timer));
}

/* Readers stop within one lease. The instance may be published again as a new region. */
void agent_region_retire(struct agent *a, struct agent_region *r)
{
	leave_conn(r);
	base_table_remove(&a->by_instance, r);
	if (r->proxy)
		agent_proxy_retire(a, r);
	set_state(a, r, SL_STATE_RETIRED);
	agent_rdma_retire(a, r);
	agent_timer_start(a, TIMER_QUARANTINE, &r->timer);
	agent_store_remove(a, r);
}

void agent_region_timer_quarantine(struct agent *a, struct agent_timer *t)
{
	agent_region_free(a, AGENT_TIMER_OWNER(t, struct agent_region, timer));
}

void agent_region_free(struct agent *a, struct agent_region *r)
{
	const uint64_t nothing[7] = {0};
	struct agent_tenant *tenant = r->peer->tenant;

	tenant->refs++;
	agent_timer_stop(&r->timer);
	agent_timer_stop(&r->settle);
	agent_timer_stop(&r->names);
	leave_conn(r);
	a->state_count[r->state]--;
	if (r->state != SL_STATE_RETIRED)
		base_table_remove(&a->by_instance, r);
	base_table_remove(&a->by_id, &r->by_id);
	agent_directory_set(a, r->slot, nothing);
	a->slots[r->slot] = NULL;
	if (r->slot < a->slot_free_hint)
		a->slot_free_hint = r->slot;
	a->region_count--;
	if (r->self || r->kernel)
		a->own_count--;
	else
		a->memory -= r->info->size;
	a->n.freed++;
	r->peer->tenant->regions--;
	r->peer->tenant->bytes -= r->info->size;
	TAILQ_REMOVE(&r->peer->regions, r, peer_link);
	agent_peer_put(a, r->peer);
	if (r->proxy)
		agent_proxy_free(a, r);
	agent_rdma_remove(a, r);
	agent_rdma_unmap(a, r->map, r->info->size);
	/* Closing the last descriptor frees the memory, which takes time. */
	if (r->rw_fd >= 0)
		close(r->rw_fd);
	if (r->fd >= 0 && (r->kernel || r->self))
		/* the agent created this memory: it is small, and not on a foreign file system */
		close(r->fd);
	else if (r->fd >= 0)
		agent_closer_close(a, tenant, r->fd);
	agent_tenant_put(tenant);
	free(r->info);
	free(r);
}
