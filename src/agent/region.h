/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - an admitted region, from PUBLISH to the end of its quarantine. */
#ifndef SL_AGENT_REGION_H
#define SL_AGENT_REGION_H

#include <sidelight/attach.h>

#include "agent/internal.h"
#include "region/decode.h"

#define AGENT_VERDICT_READERS 8

struct agent_verdict {
	struct sl_msg_verdict said;
	uint64_t ns; /* arrival time; 0 means unused */
};

struct agent_region {
	struct base_node by_instance;
	uint64_t id;
	uint32_t slot;
	enum sl_region_state state;
	bool unrepaired;  /* the region was marked dead while its process was still alive */
	bool held;	  /* its death or removal waits for its tenant's time */
	char stored[192]; /* name of the descriptor in systemd's store, "" if none */
	int fd;		  /* read-only; consumers get it after agent_region_protect() */
	int rw_fd;    /* writable descriptor for sealing; -1 once sealed or while being sealed */
	bool sealing; /* a thread is sealing the memory */
	void *map;    /* mapping; read-write unless .read_only */
	/* the memory was sealed before a restart of the agent, so it is mapped read-only */
	bool read_only;
	bool copied; /* map and fd refer to a repaired copy; the publisher has other memory */
	dev_t dev;
	ino_t ino;
	/* instance in the directory; the instance in the header is info->instance, see tenant.h */
	uint64_t instance;
	uint64_t admitted_ns, changed_ns; /* CLOCK_REALTIME */
	struct region_info *info;
	struct agent_conn *conn;
	struct agent_peer *peer;
	struct agent_proxy *proxy; /* state of a region that is written by REST requests */
	bool self;		   /* the region holds the agent's own metrics */
	bool kernel;		   /* the region is an eBPF map, to which the agent never writes */
	struct agent_mr *mr;
	struct agent_timer timer;  /* timer in queue ORPHAN, GRACE or QUARANTINE */
	struct agent_timer settle; /* timer in queue SETTLE or REGISTER */
	struct agent_timer names;  /* timer in queue NAMES */
	/* number of names in the directory, and of looks since the first one */
	uint32_t named, looks;
	struct agent_verdict verdict[AGENT_VERDICT_READERS]; /* the latest verdict of each reader */
	TAILQ_ENTRY(agent_region) peer_link;
	struct base_node by_id;
};

struct agent_refused {
	enum agent_refusal cause;
	int error;
	char reason[252];
};

/* Fills in *why. Always returns -1. */
int agent_refuse(struct agent_refused *why, enum agent_refusal cause, int error, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));

/*
 * Admits a memfd, which the caller keeps. Returns 0, or -1 with the reason in why. conn may be
 * NULL. own: the region holds the agent's own metrics, to which --max-region-size and
 * --max-regions-per-uid do not apply.
 */
int agent_region_admit(struct agent *a, int fd, const struct sl_msg_publish *say,
		       struct agent_conn *conn, struct agent_peer *peer, bool own,
		       struct agent_region **out, struct agent_refused *why);
/*
 * Admits an eBPF array in region format. fd: the map, which is mapped writable because RDMA
 * registration requires it. read_only: descriptor for consumers, owned by this function even on
 * failure; -1 means local consumers are refused. The region is live until agent_region_retire();
 * the caller may close fd earlier, as the mapping holds the memory.
 */
int agent_region_admit_kernel(struct agent *a, int fd, int read_only, uint64_t size,
			      struct agent_region **out, struct agent_refused *why);
/* directory slots reserved for such regions, including those in quarantine */
#define KERNEL_REGIONS 8u

/*
 * Seals the memory so that only existing mappings can write, before a consumer gets a descriptor:
 * the file mode does not keep root in a container from opening it for writing. Returns 0; -EAGAIN
 * while a thread does it, which a publisher can delay; or -errno.
 */
int agent_region_protect(struct agent *a, struct agent_region *r);
void agent_region_protect_all(struct agent *a); /* called when a consumer subscribes */
struct agent_region *agent_region_by_id(struct agent *a, uint64_t id);
struct agent_region *agent_region_by_instance(struct agent *a, uint64_t of_directory);
/* called when the region's connection is gone */
void agent_region_lost(struct agent *a, struct agent_region *r);
/* called when the region was restored from systemd's store */
void agent_region_restored(struct agent *a, struct agent_region *r);
void agent_region_dead(struct agent *a, struct agent_region *r);
/* Like agent_region_dead(), but a little later if the tenant's time is used up. */
void agent_region_died(struct agent *a, struct agent_region *r);
/*
 * The death or removal of a large region takes time: the dead memory is repaired, and finally
 * freed. Each tenant has a millisecond for this until the next agent_timer_expire(). Calls end(),
 * or returns false if the millisecond is used up. r may be gone afterwards.
 */
struct agent_timer;
bool agent_region_end(struct agent *a, struct agent_region *r,
		      void (*end)(struct agent *a, struct agent_timer *t));
/* called when REST posts to a dead region again */
void agent_region_revive(struct agent *a, struct agent_region *r);
void agent_region_closed(struct agent *a, struct agent_region *r);
void agent_region_retire(struct agent *a, struct agent_region *r);
void agent_region_free(struct agent *a, struct agent_region *r);
/* writes the region's directory entry */
void agent_region_publish(struct agent *a, struct agent_region *r);
/*
 * Writes the region's tenant and the names known so far, and looks for missing names later. Call it
 * before agent_region_publish(), so that a reader of the entry finds its tenant.
 */
void agent_region_publish_tenant(struct agent *a, struct agent_region *r);
void agent_region_timer_orphan(struct agent *a, struct agent_timer *t);
void agent_region_timer_names(struct agent *a, struct agent_timer *t);
void agent_region_timer_grace(struct agent *a, struct agent_timer *t);
void agent_region_timer_quarantine(struct agent *a, struct agent_timer *t);

#endif
