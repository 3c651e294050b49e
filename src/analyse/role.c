// SPDX-License-Identifier: Apache-2.0
#include "analyse/role.h"

#include <stdbool.h>
#include <string.h>

#include "analyse/culprit.h"

static bool has_word(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(name, *words))
			return true;
	return false;
}

/* True for HTTP statuses of 500 and above, log levels, and names that mean an error. */
static bool counts_errors(const char *name)
{
	static const char *const words[] = {"error",	       "exception",   "fail",
					    "panic",	       "crash",	      "abort",
					    "timeout",	       "restart",     "oom",
					    "reject",	       "code=\"5",    "status=\"5",
					    "status_code=\"5", "level=\"err", "level=\"fatal",
					    "level=\"crit",    NULL};

	return has_word(name, words);
}

/*
 * True for a gauge in bytes, which is the size of something in memory. In OpenMetrics, names end
 * with the unit.
 */
static bool is_size(const char *name)
{
	static const char unit[] = "_bytes";
	size_t length = strcspn(name, "{"), n = sizeof(unit) - 1;

	return length > n && !strncmp(name + length - n, unit, n);
}

/*
 * True for counters of finished work, including the counts of latency histograms. Labels do not
 * matter, because a failed request is finished, too.
 */
static bool counts_work(const char *labelled)
{
	static const char *const many[] = {"requests", "_jobs", "messages", "handled", NULL};
	static const char *const times[] = {"duration", "latency", "response_time", NULL};
	static const char *const not_these[] = {"error",   "fail",	 "client",
						"timeout", "retr",	 "database",
						"node_",   "container_", NULL};
	size_t n = strcspn(labelled, "{");
	char name[128];

	if (n >= sizeof(name))
		return false;
	memcpy(name, labelled, n);
	name[n] = '\0';
	return !has_word(name, not_these) &&
	       (has_word(name, many) ||
		(n > 6 && !strcmp(name + n - 6, "_count") && has_word(name, times)));
}

static bool begins_with(const char *name, const char *const *words)
{
	while (*words && strncmp(name, *words, strlen(*words)) != 0)
		words++;
	return *words;
}

static bool is_retransmission(const char *name)
{
	return !strncmp(name, "mpi_retransmitted_", 18);
}

/*
 * All ranks of an MPI job wait for its slowest one, so their metrics depend on each other, except
 * the time that a rank works between two collectives, and what its own connections retransmit.
 */
static bool depends_on_other_ranks(const char *name, bool counter)
{
	return !strncmp(name, "mpi_", 4) &&
	       (counter ? !is_retransmission(name) : strncmp(name, "mpi_step_", 9) != 0);
}

/*
 * The names are those of the host's series (docs/host.md). Drivers name their counters as they
 * like: see the Linux kernel's documentation of mlx5 counters, and the drivers of Broadcom and
 * Intel.
 */
enum analyse_port analyse_role_port(const char *name, bool counter)
{
	static const char *const speeds[] = {"node_infiniband_rate_", "node_network_speed_", NULL};
	static const char *const ports[] = {"node_infiniband_", "node_network_", "sidelight_nic_",
					    "sidelight_rdma_hw_", NULL};
	static const char *const losses[] = {"discard",	    "drop",    "errs_total",
					     "port_errors", "out_of_", "seq_err",
					     "ack_timeout", "icrc",    NULL};
	static const char *const pauses[] = {"pause", "pfc", "xoff", NULL};
	static const char *const not_frames[] = {"duration", "transition", NULL};

	if (!counter)
		return begins_with(name, speeds) ? ANALYSE_PORT_SPEED : ANALYSE_PORT_NONE;
	/* XDP programs drop packets on purpose. */
	if (!begins_with(name, ports) || strstr(name, "xdp"))
		return ANALYSE_PORT_NONE;
	if (has_word(name, losses))
		return ANALYSE_PORT_LOSSES;
	name = strstr(name, "counter=\"");
	return name && strstr(name, "rx") && has_word(name, pauses) && !has_word(name, not_frames)
		       ? ANALYSE_PORT_PAUSES
		       : ANALYSE_PORT_NONE;
}

/* Recognises the series of a workload's connections by their names (docs/tcp.md). */
static enum analyse_time find_time(const char *name)
{
	if (!strncmp(name, "sidelight_tcp_layer_seconds_", 28))
		return ANALYSE_TIME_LAYER;
	return !strncmp(name, "sidelight_tcp_request_seconds_", 30) ? ANALYSE_TIME_REQUEST
								    : ANALYSE_TIME_OTHER;
}

bool analyse_role_waits(const char *name, bool counter)
{
	static const char *const words[] = {"in_flight", "inflight", "queue",  "pending",
					    "backlog",	 "waiting",  "active", NULL};
	size_t n = strcspn(name, "{");

	for (size_t i = 0; !counter && words[i]; i++)
		if (memmem(name, n, words[i], strlen(words[i])) &&
		    !memmem(name, n, "_seconds", 8) && !memmem(name, n, "_bytes", 6))
			return true;
	return false;
}

/* The kernel's counters of interfaces also include packets of unknown protocols. */
static bool is_loss(const char *name, struct analyse_role role)
{
	return role.port == ANALYSE_PORT_LOSSES && strncmp(name, "node_network_", 13) != 0;
}

struct analyse_role analyse_role_of(const char *name, bool counter)
{
	static const char *const latency[] = {"latency", "duration", "response_time", "mpi_step",
					      NULL};
	static const char *const client[] = {"client", "upstream", "outgoing", "outbound", NULL};
	static const char *const quantile[ANALYSE_TAILS] = {"p90", "p95", "p99"};
	static const char *const resource[ANALYSE_RESOURCES][5] = {
		[ANALYSE_CPU] = {"cpu", NULL},
		[ANALYSE_MEMORY] = {"memory", "_rss", "heap", NULL},
	};
	static const char *const elsewhere[] = {"node", "host", "limit", "quota", NULL};
	/*
	 * Words in the names of metrics that depend on the requests of others, or belong to all
	 * pods of a node.
	 */
	static const char *const load[] = {"workload", "syscall", "receive",  "transmit",
					   "_rx_",     "_tx_",	  "requests", "bytes_total",
					   "network",  NULL};
	struct analyse_role role = {.port = analyse_role_port(name, counter)};

	if (depends_on_other_ranks(name, counter)) {
		role.kind = ANALYSE_ROLE_OTHERS;
		return role;
	}
	/* cAdvisor's name for page faults, which every new process causes. */
	if (strstr(name, "memory_failures")) {
		role.kind = ANALYSE_ROLE_LOAD;
		return role;
	}
	if (counter && (counts_errors(name) || is_retransmission(name) || is_loss(name, role))) {
		role.kind = ANALYSE_ROLE_ERRORS;
		return role;
	}

	/* These are per layer and port, so they are not quantiles of all requests of a pod. */
	if (!counter && find_time(name)) {
		role.kind = ANALYSE_ROLE_LATENCY;
		role.time = find_time(name);
		return role;
	}
	if (has_word(name, latency) && !counter) {
		role.kind = ANALYSE_ROLE_LATENCY;
		for (uint8_t j = 0; j < ANALYSE_TAILS; j++)
			if (strcasestr(name, quantile[j])) {
				role.kind = has_word(name, client) ? ANALYSE_ROLE_CLIENT
								   : ANALYSE_ROLE_SERVER;
				role.part = j;
			}
		return role;
	}
	if (role.port == ANALYSE_PORT_SPEED || role.port == ANALYSE_PORT_PAUSES)
		return role;
	if (counter && counts_work(name)) {
		role.kind = ANALYSE_ROLE_WORK;
		return role;
	}
	if (has_word(name, latency) || has_word(name, load) || has_word(name, elsewhere))
		role.kind = ANALYSE_ROLE_LOAD;
	else if (!counter && is_size(name))
		role = (struct analyse_role){.kind = ANALYSE_ROLE_RESOURCE, .part = ANALYSE_MEMORY};
	for (uint8_t k = 0; k < ANALYSE_RESOURCES; k++)
		if (has_word(name, resource[k]) && !has_word(name, elsewhere)) {
			role.kind = ANALYSE_ROLE_RESOURCE;
			role.part = k;
		}
	return role;
}
