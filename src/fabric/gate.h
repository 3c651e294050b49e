/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h - code common to both ways of connecting, RDMA-CM and TCP: the private data of their
 * packets, and the admission of peers. Included only by src/fabric/ and src/dta/.
 */
#ifndef SL_FABRIC_GATE_H
#define SL_FABRIC_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/auth.h"
#include "fabric/host.h"

#define FABRIC_NOTIFIERS_MAX 16u /* maximum number of notifier connections */

/* Private data of a connection request; any other request is rejected. */
#define FABRIC_VERBS_REQUEST_MAGIC 0x31434c53u /* "SLC1" */
struct fabric_verbs_request {
	uint32_t magic;
	uint32_t version;
	/* FABRIC_VERBS_ flags; 0 means a reader, as CM pads private data with zeros */
	uint32_t flags;
	uint32_t reserved;
	uint64_t instance; /* instance and name are used only with FABRIC_VERBS_STORE */
	char name[32];
};
_Static_assert(sizeof(struct fabric_verbs_request) <= 56,
	       "of 92 bytes CM takes 36 (IBTA 12.6.5, A11)");
#define FABRIC_VERBS_NOTIFY 1u /* sends verdicts, but no READs */
#define FABRIC_VERBS_STORE  2u /* sends WRITEs and FETCH_ADDs to stores, but no READs */
#define FABRIC_VERBS_PROOF  4u /* the request is a fabric_verbs_proof, see auth.h */

/* Private data of a rejection; with error 0 it is a challenge. */
#define FABRIC_VERBS_REFUSAL_MAGIC 0x31524c53u /* "SLR1" */
struct fabric_verbs_refusal {
	uint32_t magic;
	/*
	 * positive errno: ENOSPC: no queue pair left; EDQUOT: none left for this address; EPROTO:
	 * malformed; EOPNOTSUPP: no board; ENOKEY: secret required; EKEYREJECTED: wrong secret
	 */
	int32_t error;
	uint8_t cookie[16];
};

#define FABRIC_VERBS_HELLO_MAGIC 0x31484c53u /* "SLH1" */
#define FABRIC_VERBS_VERSION	 1u

/* ---- the host ---- */

/* A connection request: a copy of its private data, padded with zeros. */
struct fabric_host_request {
	union {
		struct fabric_verbs_request plain;
		struct fabric_verbs_proof proof; /* valid if FABRIC_VERBS_PROOF is set */
	};
	uint32_t queue; /* number of the peer's queue pair; 0 over TCP */
	uint8_t reads;	/* number of READs that the peer wants in flight */
	uint8_t address[16];
};

struct fabric_gate {
	struct fabric_auth *auth; /* NULL means no secret */
	bool shares;
	bool known; /* each peer has proved by TLS that it knows the secret */
	uint32_t queues, queues_max, notifiers; /* number of connections, including notifiers */
	/* magic is 0 until there is a directory: readers are refused until then */
	struct fabric_host_hello hello;
	struct fabric_host_stats stats;
};

/*
 * Decides whether to admit a request. held: connections, and notifiers, from its address. If it
 * returns false, *say is set to the answer: a refusal with its cause, or a challenge (error 0).
 */
bool fabric_gate_admits(struct fabric_gate *g, const struct fabric_host_request *r,
			const uint32_t held[2], enum fabric_refusal *cause,
			struct fabric_verbs_refusal *say);
bool fabric_gate_refuse(enum fabric_refusal *cause, struct fabric_verbs_refusal *say,
			enum fabric_refusal why, int error); /* always returns false */
bool fabric_gate_request_fits(const struct fabric_host_request *r);
/* Counts a refusal or a challenge. */
void fabric_gate_count(struct fabric_gate *g, enum fabric_refusal cause,
		       const struct fabric_verbs_refusal *say);
/*
 * Computes the address by which connections are counted: itself, or the /64 of a routed IPv6 one.
 */
void fabric_gate_share_of(const struct sockaddr *peer, uint8_t address[16]);

/* ---- the collector ---- */

/* True if the welcome of a reader or notifier has plausible values. */
bool fabric_gate_hello_is_sound(const struct fabric_host_hello *h);
/* Returns the meaning of a refusal, or NULL. */
const char *fabric_gate_why(const struct fabric_verbs_refusal *r);

/* ---- addresses ---- */

/* Sets the port of an IPv4 or IPv6 address. */
void fabric_gate_set_port(struct sockaddr_storage *address, uint16_t port);
/* Accepts HOST, HOST:PORT, [V6], [V6]:PORT and V6. */
bool fabric_gate_split(const char *target, char host[256], char service[8]);

/* Reasons why a part is absent from this build. */
#define FABRIC_NO_VERBS "this sidelight was built without RDMA (libibverbs, librdmacm)"
#define FABRIC_NO_TCP	"this build has no READs over TCP: rebuild with -Dfabric-tcp=enabled"

/*
 * The operations of a passive side, implemented by verbs (host.c) and TCP (tcp_host.c), for use in
 * src/fabric/ only. The functions correspond to those in host.h.
 */

struct fabric_host_ops {
	struct fabric_host *(*open)(const struct fabric_host_opts *opts, char *error,
				    size_t error_bytes);
	void (*close)(struct fabric_host *h);
	int (*add)(struct fabric_host *h, void *map, size_t bytes, struct fabric_host_key *key);
	void (*remove)(struct fabric_host *h, struct fabric_host_key *key);
	int (*let_notify)(struct fabric_host *h, void *map, size_t bytes,
			  void (*notice)(void *arg, uint32_t entry), void *arg);
	void (*set_directory)(struct fabric_host *h, const struct fabric_host_hello *hello);
	int (*fd)(const struct fabric_host *h);
	void (*dispatch)(struct fabric_host *h);
	size_t (*queues)(const struct fabric_host *h, struct fabric_host_queue *out, size_t max);
	void (*stats)(const struct fabric_host *h, struct fabric_host_stats *out);
};

/* The first member of each implementation's structure. */
struct fabric_host {
	const struct fabric_host_ops *ops;
};

extern const struct fabric_host_ops fabric_host_verbs, fabric_host_tcp;

#endif
