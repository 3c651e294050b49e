/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - the agent of a host: admits publishers over a unix socket, owns the directory, detects
 * the death of publishers, keeps their final values, and registers memory for remote reading. It
 * has no metrics except its own, does no analysis, and never waits for a client.
 */
#ifndef SL_AGENT_AGENT_H
#define SL_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/host.h"
#include "source/tcp/loader.h"

/* default name of the REST socket, in the directory of .socket */
#define AGENT_REST_DEFAULT "rest.sock"

struct agent;
struct base_child;
struct http_front;

/* Everything that it points to must outlive the agent. */
struct agent_opts {
	/* path of the publishers' socket; NULL means $SIDELIGHT_SOCKET or SL_SOCKET_DEFAULT */
	const char *socket;
	/* second socket for publishers, in another directory; NULL means none */
	const char *publish_socket;
	/* path of the consumers' socket; NULL means .socket with SL_SOCKET_CONSUME appended */
	const char *consume_socket;
	uint32_t socket_mode; /* permission bits of the publishers' sockets; 0 means 0666 */
	/* permission bits of the consumers' socket; 0 means 0600, or 0666 if there are consumers */
	uint32_t consume_mode;
	/* uids, besides root and the agent's own, that may SUBSCRIBE and request STATUS */
	const uint32_t *consumers;
	size_t consumer_count;	 /* number of uids in .consumers */
	const uint32_t *origins; /* uids that may publish regions with SL_REGION_ORIGIN */
	size_t origin_count;
	const char *host; /* the directory's label "host"; NULL means gethostname() */

	uint64_t grace_ns;	  /* how long final values stay readable */
	uint64_t lease_ns;	  /* 0 means 1 s */
	uint32_t max_regions;	  /* 0 means 4096 */
	uint64_t max_region_size; /* 0 means 16 MiB */
	/* limit for the memory of all regions until they are freed; 0 means 1 GiB */
	uint64_t max_memory;
	/* limit of regions per uid, except root and the agent's; 0 means half of max_regions */
	uint32_t max_regions_per_uid;

	const char *rest;   /* REST address "unix:/PATH" or "HOST:PORT"; NULL means no REST */
	bool rest_optional; /* only warn if the REST address is in use */
	/* access to REST by TCP, see http.h */
	const char *rest_token_file, *web_config, *roles_file;
	bool insecure;
	struct http_front *rest_front; /* http_opts.front */
	/*
	 * time after which the region of a REST client that has stopped posting is closed; 0 means
	 * 5 min
	 */
	uint64_t rest_idle_ns;

	bool rdma; /* regions can be read remotely, with the options .fabric */
	/* .shares and .notifier_ns are set by the agent; a .device of "" is like NULL */
	struct fabric_host_opts fabric;
	uint64_t rdma_settle_ns; /* age at which regions are registered together; 0 means 2 s */
	uint64_t rdma_key_lifetime_ns; /* maximum age of an RDMA key; 0 means unlimited */

	/* Kernel tables: "flows", "layers", "cpu", "net", separated by commas; NULL means none. */
	const char *tcp;
	/* .flows and .net say what to record; the agent sets the other members */
	struct tcp_loader_opts tables;
	struct tcp_loader *tcp_loader; /* from agent_tcp_fork(); NULL means agent_new() forks it */
	bool unconfined;	       /* let the eBPF loader keep all privileges */

	int children_fd;	    /* base_children_fd(); 0 means helpers are not watched */
	struct base_child *bridges; /* restarted when they exit; or NULL */
};

/*
 * Forks the spawners of the eBPF loader, for .tcp, and sets .tcp_loader. Call it before there are
 * secrets, threads and other descriptors. Returns 0, or -errno with one line in error.
 */
int agent_tcp_fork(struct agent_opts *o, char *error, size_t bytes);

/*
 * Binds the socket and creates the directory; admits nothing yet. On failure, returns NULL with
 * errno and one line in error: EADDRINUSE (another agent answers on the socket), EINVAL (bad
 * option), or another error.
 */
struct agent *agent_new(const struct agent_opts *opts, char *error, size_t error_bytes);

/* Serves until stop_fd is readable. Returns 0 or -errno. */
int agent_run(struct agent *a, int stop_fd);

/* Marks the directory as closed, removes the socket's file, and frees everything. */
void agent_free(struct agent *a);

/*
 * Checks a listening address for REST. Returns 1 if it is reachable from this host only, 0 if also
 * from other hosts, -EACCES for TCP without a token, -EINVAL if malformed; an error leaves one line
 * in error.
 */
int agent_rest_check(const char *listen, bool proves, char *error, size_t error_bytes);
/* Checks .tcp and .tcp_filter on this host. Returns 0, or -EINVAL with one line in error. */
int agent_tcp_check(const struct agent_opts *opts, char *error, size_t error_bytes);

const char *agent_socket(const struct agent *a);
const char *agent_consume_socket(const struct agent *a);
const char *agent_rest(const struct agent *a); /* returns the bound address, or NULL */
const char *agent_rdma(const struct agent *a); /* returns "DEVICE:PORT", or NULL */
/*
 * Opens the RDMA device, if there is one. Call it before agent_run(), and after any change of
 * credentials: Linux refuses requests on a device opened before such a change
 * (ib_safe_file_access()), and librdmacm never closes a device. Returns 0, or -errno with one line
 * in error.
 */
int agent_rdma_start(struct agent *a, char *error, size_t error_bytes);

#endif
