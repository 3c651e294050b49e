// SPDX-License-Identifier: Apache-2.0
/* agent.c - requests to an agent's socket, as in sidelight-attach(7). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <sidelight/attach.h>

#include "cli/common/common.h"
#include "fabric/fabric.h"

/* generous, because the agent answers in a single thread, and the host may be busy */
#define ANSWER_MS 10000

int cli_agent_connect(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int s;

	if (fabric_agent_address(path, &to)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s >= 0 && connect(s, (struct sockaddr *)&to, sizeof(to))) {
		int error = errno;

		close(s);
		errno = error;
		return -1;
	}
	return s;
}

int cli_agent_ask(int s, uint16_t type, const void *payload, uint32_t bytes, uint16_t wanted,
		  char *why, size_t why_bytes)
{
	static uint32_t serial;
	struct {
		struct sl_msg msg;
		char payload[SL_MSG_MAX - sizeof(struct sl_msg)];
	} packet = {.msg = {SL_MSG_MAGIC, type, 0, bytes, ++serial}};
	struct pollfd p = {.fd = s, .events = POLLIN};
	ssize_t n;
	int fd = -1;

	if (bytes)
		memcpy(packet.payload, payload, bytes);
	if (send(s, &packet, sizeof(packet.msg) + bytes, MSG_NOSIGNAL) < 0) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		return -1;
	}
	if (poll(&p, 1, ANSWER_MS) != 1) {
		snprintf(why, why_bytes, "no response within %d s", ANSWER_MS / 1000);
		return -1;
	}
	n = base_receive_fd(s, &packet, sizeof(packet), 0, &fd);
	if (n < 0 && n != -EPROTO) {
		snprintf(why, why_bytes, "%s", strerror((int)-n));
		return -1;
	}
	if (n < (ssize_t)sizeof(packet.msg) || packet.msg.magic != SL_MSG_MAGIC ||
	    (size_t)n != sizeof(packet.msg) + packet.msg.length || packet.msg.serial != serial) {
		snprintf(why, why_bytes,
			 n ? "the response is malformed" : "it closed the connection");
	} else if (packet.msg.type == SL_MSG_REFUSED &&
		   packet.msg.length == sizeof(struct sl_msg_refused)) {
		struct sl_msg_refused *r = (struct sl_msg_refused *)packet.payload;

		r->reason[sizeof(r->reason) - 1] = 0;
		snprintf(why, why_bytes, "refused: %s", r->reason);
	} else if (packet.msg.type != wanted || fd < 0) {
		snprintf(why, why_bytes, "the response has an unexpected type (%u)",
			 packet.msg.type);
	} else {
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}
