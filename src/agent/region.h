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
	uint64_t ns; /* when it arrived; 0: unused */
};

struct agent_region {
	uint64_t id;
	uint32_t slot;
	enum sl_region_state state;
	bool unrepaired;  /* marked dead while its process was alive */
	char stored[192]; /* the name of systemd's copy of the descriptor, "" if none */
	int fd;		  /* read-only: what consumers get, after agent_region_protect() */
	int rw_fd;	  /* to seal it by; -1: it is sealed, or: */
	bool sealing;	  /* a thread does */
	void *map;	  /* read-write, unless: */
	bool read_only;	  /* sealed before a restart of the agent */
	bool copied;	  /* map and fd are of a repaired copy: the publisher has another memory */
	dev_t dev;
	ino_t ino;
	uint64_t instance; /* of the directory; info->instance is the header's: tenant.h */
	pid_t pid;	   /* as seen from here; info->pid is what the header says */
	uint64_t admitted_ns, changed_ns; /* CLOCK_REALTIME */
	struct region_info *info;
	struct agent_conn *conn;
	struct agent_peer *peer;
	struct agent_proxy *proxy; /* written by REST */
	bool self;		   /* the agent's own metrics */
	bool kernel;		   /* an eBPF map: the agent never writes to it */
	struct agent_mr *mr;
	struct agent_timer timer;			     /* ORPHAN, GRACE or QUARANTINE */
	struct agent_timer settle;			     /* SETTLE */
	struct agent_verdict verdict[AGENT_VERDICT_READERS]; /* the latest of each reader */
	TAILQ_ENTRY(agent_region) peer_link;
	LIST_ENTRY(agent_region) id_link, instance_link;
};

struct agent_refused {
	enum agent_refusal cause;
	int error;
	char reason[252];
};

/* Fills why; always -1. */
int agent_refuse(struct agent_refused *why, enum agent_refusal cause, int error, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));

/* Admits a memfd, which stays the caller's: 0, or -1 with why. conn and peer may be NULL. */
int agent_region_admit(struct agent *a, int fd, const struct sl_msg_publish *say,
		       struct agent_conn *conn, struct agent_peer *peer, struct agent_region **out,
		       struct agent_refused *why);
/*
 * Admits an eBPF array in region format, of a kind beyond the directory. fd: the map's, mapped
 * writable because RDMA registration requires it. read_only: what consumers get, taken over also on
 * failure; -1: local consumers are refused. The region is live until agent_region_retire(); fd must
 * stay open only until then, since the mapping holds the memory.
 */
int agent_region_admit_kernel(struct agent *a, int fd, int read_only, uint64_t size,
			      struct agent_region **out, struct agent_refused *why);
#define KERNEL_REGIONS 8u /* directory slots reserved for them, those in quarantine included */

/*
 * Seals the memory against writing but for the mappings that exist, before a consumer gets a
 * descriptor: its mode does not stop root in a container from opening it for writing. 0; -EAGAIN:
 * a thread does it, which takes as long as the publisher wants; -errno.
 */
int agent_region_protect(struct agent *a, struct agent_region *r);
void agent_region_protect_all(struct agent *a); /* a consumer has come */
struct agent_region *agent_region_by_id(struct agent *a, uint64_t id);
struct agent_region *agent_region_by_instance(struct agent *a, uint64_t of_directory);
void agent_region_lost(struct agent *a, struct agent_region *r);     /* its connection is gone */
void agent_region_restored(struct agent *a, struct agent_region *r); /* from systemd's store */
void agent_region_dead(struct agent *a, struct agent_region *r);
void agent_region_revive(struct agent *a, struct agent_region *r); /* REST posts again */
void agent_region_closed(struct agent *a, struct agent_region *r);
void agent_region_retire(struct agent *a, struct agent_region *r);
void agent_region_free(struct agent *a, struct agent_region *r);
void agent_region_publish(struct agent *a, struct agent_region *r); /* writes its entry */
void agent_region_timer_orphan(struct agent *a, struct agent_timer *t);
void agent_region_timer_grace(struct agent *a, struct agent_timer *t);
void agent_region_timer_quarantine(struct agent *a, struct agent_timer *t);
const char *agent_region_label(const struct agent_region *r, const char *key); /* "" if none */

#endif
