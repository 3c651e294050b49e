/* SPDX-License-Identifier: Apache-2.0 */
/* netlink.h - requests to the kernel's network stack, rtnetlink(7). */
#ifndef SL_SOURCE_REPORT_NETLINK_H
#define SL_SOURCE_REPORT_NETLINK_H

#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request under construction. */
union report_request {
	struct nlmsghdr h;
	char bytes[1024];
};

void report_request_begin(union report_request *r, uint16_t type, uint16_t flags, const void *body,
			  size_t bytes);
/* Appends an attribute and returns it. Attributes may be nested: see report_request_end(). */
struct rtattr *report_request_put(union report_request *r, uint16_t type, const void *data,
				  size_t bytes);
/* Ends an attribute that contains those appended since. */
void report_request_end(union report_request *r, struct rtattr *nest);

/* Opens a socket for requests. Returns a descriptor or -errno. */
int report_netlink_open(void);
/*
 * Sends a request by fd, or by a socket of its own if fd is -1. Calls each(), which may be NULL,
 * for each message of the answer. Returns 0 or -errno.
 */
int report_netlink_ask(int fd, const union report_request *r,
		       void (*each)(void *context, const struct nlmsghdr *h), void *context);

/*
 * Finds the interface through which packets with these addresses leave (of 4 bytes, or 16 if v6 is
 * set). fd: see report_netlink_ask(). Returns 0 or -errno.
 */
int report_route_interface(int fd, bool v6, const void *from, const void *to, uint32_t *index);
/*
 * Reads the backlog of the interface's root queueing discipline, as shown by tc(8); 0 if there is
 * none. Returns 0 or -errno.
 */
int report_queue_read(int fd, unsigned int interface, uint64_t *packets, uint64_t *bytes);

#endif
