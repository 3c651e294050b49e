/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - the agent of a host: admits publishers over a unix socket, owns the directory, detects
 * the death of publishers, keeps their final values, registers memory for remote reading. It knows
 * no metrics but its own and no analysis, and it never waits for a client.
 */
#ifndef SL_AGENT_AGENT_H
#define SL_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_REST_DEFAULT "rest.sock" /* in the folder of the socket */

struct agent;
struct http_front;
struct tcp_filter;

struct agent_opts {
	const char *socket; /* of publishers; NULL: $SIDELIGHT_SOCKET or SL_SOCKET_DEFAULT */
	const char *publish_socket; /* a second one, in another folder; NULL: none */
	const char
		*consume_socket;   /* of consumers; NULL: socket with SL_SOCKET_CONSUME behind it */
	uint32_t socket_mode;	   /* permission bits of the sockets of publishers; 0: 0666 */
	uint32_t consume_mode;	   /* 0: 0600, or with consumers 0666 */
	const uint32_t *consumers; /* uids besides root and the agent's own */
	size_t consumer_count;	   /* that may SUBSCRIBE and ask for STATUS */
	const char *host;	   /* the directory's label host; NULL: gethostname() */

	uint64_t grace_ns;	      /* how long final values stay readable */
	bool grace_zero;	      /* grace_ns 0 means 0; else 0: 30 s */
	uint64_t lease_ns;	      /* 0: 1 s */
	uint32_t max_regions;	      /* 0: 4096 */
	uint64_t max_region_size;     /* 0: 16 MiB */
	uint64_t max_memory;	      /* 0: 1 GiB; all regions until they are freed */
	uint32_t max_regions_per_uid; /* 0: half of max_regions; unlimited for root and own uid */

	const char *rest;   /* "unix:/PATH" or "HOST:PORT"; NULL: no REST */
	bool rest_optional; /* an address in use is only a warning */
	const char *rest_token_file, *web_config, *roles_file; /* by TCP: http.h */
	bool insecure;
	struct http_front *rest_front; /* http_opts.front */
	uint64_t rest_idle_ns;	       /* closes a microservice that stops posting; 0: 5 min */

	bool rdma;
	const char *fabric_provider; /* of libfabric: at rdma_address; NULL: RDMA */
	const char *rdma_device;     /* NULL or "": by address */
	const char *rdma_address;
	uint16_t rdma_port;
	int rdma_gid; /* -1: by address */
	int rdma_ib_port;
	uint32_t rdma_queues;
	uint64_t rdma_settle_ns; /* regions this old are registered together; 0: 2 s */
	const void *rdma_secret; /* that remote collectors prove; NULL: none is asked for */
	size_t rdma_secret_bytes;
	uint64_t rdma_key_lifetime_ns; /* 0: keys do not change for their age */

	/* Kernel tables: "flows", "layers", "cpu", "net", separated by commas; NULL: none. */
	const char *tcp;
	uint32_t tcp_flows;	    /* connections; 0: 16384 */
	uint64_t tcp_quarantine_ns; /* how long a closed connection stays readable; 0: 5 s */
	const struct tcp_filter *tcp_filter; /* NULL: all connections */
	const char **tcp_devices;	     /* devices of "net"; none: those with hardware */
	size_t tcp_device_count;
	bool unconfined; /* the loader of eBPF programs keeps all privileges */
};

/*
 * Binds the socket and creates the directory; admits nothing yet. NULL with errno and one line in
 * error: EADDRINUSE (another agent answers on the socket), EINVAL (bad option), ...
 */
struct agent *agent_new(const struct agent_opts *opts, char *error, size_t error_bytes);

/* Serves until stop_fd is readable. 0 or -errno. */
int agent_run(struct agent *a, int stop_fd);

/* Marks the directory closed, removes the socket's file and releases everything. */
void agent_free(struct agent *a);

/*
 * Checks a listening address for REST: 1 this host only, 0 reachable from other hosts, -EACCES TCP
 * without a token, -EINVAL malformed; an error leaves one line in error.
 */
int agent_rest_check(const char *listen, bool proves, char *error, size_t error_bytes);
/* Checks .tcp and .tcp_filter on this host. 0, or -EINVAL with one line in error. */
int agent_tcp_check(const struct agent_opts *opts, char *error, size_t error_bytes);

const char *agent_socket(const struct agent *a);
const char *agent_consume_socket(const struct agent *a);
const char *agent_rest(const struct agent *a); /* the bound address, or NULL */
const char *agent_rdma(const struct agent *a); /* "DEVICE:PORT", or NULL */
/*
 * Opens the RDMA device, if there is one to open; before agent_run(), and after any change of
 * credentials: Linux refuses requests on what was opened before it (ib_safe_file_access()), and
 * librdmacm keeps a device open for good. 0, or -errno with one line in error.
 */
int agent_rdma_start(struct agent *a, char *error, size_t error_bytes);

/* The STATUS of a socket's agent: JSON to be freed, or NULL with errno and one line in error. */
char *agent_ask_status(const char *socket, char *error, size_t error_bytes);

#endif
