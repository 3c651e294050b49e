/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h - connections to the unix socket. */
#ifndef SL_AGENT_CONN_H
#define SL_AGENT_CONN_H

#include <sidelight/attach.h>

#include "agent/internal.h"

struct agent_packet { /* an answer waiting to be sent */
	struct sl_msg msg;
	int fd;
	/* size of the longest payload */
	_Alignas(8) uint8_t payload[sizeof(struct sl_msg_refused)];
};

enum agent_role { ROLE_NEW, ROLE_PUBLISHER, ROLE_CONSUMER, ROLE_STATUS };

struct agent_conn {
	struct agent_source source;
	int fd; /* descriptor of the socket; -1 means closed, or created by a test */
	enum agent_role role;
	bool publish_only; /* the connection was accepted on a socket for publishers only */
	bool gone;	   /* the struct is freed at the end of the batch of events */
	bool hang_up;	   /* close the connection once all answers are sent */
	bool paused;	   /* the connection is not being read, see agent_closer_may_take() */
	struct agent_peer *peer;
	unsigned int regions;
	unsigned int refusals; /* number of refusals since refused_ns */
	uint64_t refused_ns;
	struct agent_timer timer; /* timer in queue TIMER_SILENT or TIMER_BLOCKED */
	/* answer that waits until the peer reads it; nothing else is read or sent until then */
	struct agent_packet *out;
	uint32_t events; /* events registered with epoll */
	TAILQ_ENTRY(agent_conn) link;
};

struct agent_conn *agent_conn_new(struct agent *a, int fd, struct agent_peer *peer,
				  bool publish_only);
void agent_conn_close(struct agent *a, struct agent_conn *c);
void agent_conn_event(struct agent *a, struct agent_conn *c, uint32_t events);
void agent_conn_accept(struct agent *a, const struct agent_listener *l);
void agent_conn_timer(struct agent *a, struct agent_timer *t);
void agent_conn_resume(struct agent *a); /* resumes reading from paused connections */
/*
 * Reads the packets waiting in the socket; closes the connection if the peer has hung up. Returns
 * false if some are left because the tenant's time in this turn is used up.
 */
bool agent_conn_drain(struct agent *a, struct agent_conn *c);
/*
 * Handles one packet and takes ownership of fd (-1 means none). extra: more than one descriptor
 * came.
 */
void agent_conn_packet(struct agent *a, struct agent_conn *c, const void *data, size_t bytes,
		       int fd, bool extra);
/* Sends an unsolicited message. Returns 0, or -errno if it cannot be sent immediately. */
int agent_conn_notify(struct agent_conn *c, uint16_t type, const void *payload, size_t bytes);

#endif
