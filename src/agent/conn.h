/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h - a connection to the unix socket. */
#ifndef SL_AGENT_CONN_H
#define SL_AGENT_CONN_H

#include <sidelight/attach.h>

#include "agent/internal.h"

struct agent_packet { /* an answer that waits to be sent */
	struct sl_msg msg;
	int fd;
	_Alignas(8) uint8_t payload[sizeof(struct sl_msg_refused)]; /* the longest */
};
#define OUT_MAX 4

enum agent_role { ROLE_NEW, ROLE_PUBLISHER, ROLE_CONSUMER, ROLE_STATUS };

struct agent_conn {
	struct agent_source source;
	int fd; /* -1: closed, or a test's */
	enum agent_role role;
	bool publish_only; /* not accepted on --consume-socket */
	bool gone;	   /* freed at the end of the batch */
	bool hang_up;	   /* close once the answers are sent */
	bool paused;	   /* not read from: agent_closer_may_take() */
	struct agent_peer *peer;
	unsigned int regions, refusals;
	struct agent_timer timer; /* SILENT or BLOCKED */
	struct agent_packet *out[OUT_MAX];
	unsigned int out_count;
	uint32_t events; /* as registered with epoll */
	TAILQ_ENTRY(agent_conn) link;
};

struct agent_conn *agent_conn_new(struct agent *a, int fd, struct agent_peer *peer,
				  bool publish_only);
void agent_conn_close(struct agent *a, struct agent_conn *c);
void agent_conn_event(struct agent *a, struct agent_conn *c, uint32_t events);
void agent_conn_accept(struct agent *a, const struct agent_listener *l);
void agent_conn_timer(struct agent *a, struct agent_timer *t);
void agent_conn_resume(struct agent *a); /* reads paused connections that may be read again */
/* Reads what waits in the socket; closes the connection when the peer has hung up. */
void agent_conn_drain(struct agent *a, struct agent_conn *c);
/* Handles one packet. Takes fd over (-1: none); extra: more than one descriptor came. */
void agent_conn_packet(struct agent *a, struct agent_conn *c, const void *data, size_t bytes,
		       int fd, bool extra);
/* Sends an unsolicited message if it can be sent at once; else -errno. */
int agent_conn_notify(struct agent_conn *c, uint16_t type, const void *payload, size_t bytes);

#endif
