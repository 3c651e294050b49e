// SPDX-License-Identifier: Apache-2.0
/*
 * input_load.c HOST PORT FILE COUNT RATE - sends COUNT datagrams of a file repeatedly, at RATE per
 * second in groups of 32, as an exporter would; each has the next sequence number. The file begins
 * with { u16 offset of the number, u16 its increment per datagram }; a datagram is { u16 length,
 * bytes }. The first datagram, which has templates, is sent once and not counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "dta/wire/endian.h"

#define GROUP 32u
#define MOST  65536u

static struct iovec datagram[MOST];

static void fail(const char *what)
{
	fprintf(stderr, "input_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint32_t read_file(const char *path, uint32_t *at, uint32_t *step)
{
	FILE *f = fopen(path, "re");
	uint8_t head[4];
	uint32_t n = 0;

	if (!f || fread(head, 4, 1, f) != 1)
		fail(path);
	*at = dta_get16(head);
	*step = dta_get16(head + 2);
	for (; n < MOST && fread(head, 2, 1, f) == 1; n++) {
		datagram[n] = (struct iovec){malloc(dta_get16(head)), dta_get16(head)};
		if (!datagram[n].iov_base ||
		    fread(datagram[n].iov_base, datagram[n].iov_len, 1, f) != 1)
			fail(path);
	}
	fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct mmsghdr m[GROUP] = {0};
	uint64_t count, rate, begun, sent = 0;
	uint32_t n, at, step, number = 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (argc != 6 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 ||
	    base_parse_u64(argv[4], 1, UINT32_MAX, &count) ||
	    base_parse_u64(argv[5], 1, UINT32_MAX, &rate)) {
		fprintf(stderr, "usage: input_load HOST PORT FILE COUNT RATE\n");
		return 2;
	}
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	n = read_file(argv[3], &at, &step);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) || n < 2)
		fail("socket");
	if (send(fd, datagram[0].iov_base, datagram[0].iov_len, 0) < 0)
		fail("send");
	begun = base_now_ns();
	while (sent < count) {
		uint32_t group = 0;

		/* A group has no datagram twice, because the number is stored in the datagram. */
		for (; group < GROUP && group < n - 1 && sent + group < count; group++) {
			struct iovec *v = &datagram[1 + (sent + group) % (n - 1)];

			dta_put32((uint8_t *)v->iov_base + at, number);
			number += step;
			m[group].msg_hdr = (struct msghdr){.msg_iov = v, .msg_iovlen = 1};
		}
		while (base_now_ns() - begun < sent * 1000000000 / rate)
			;
		for (uint32_t i = 0; i < group;) {
			const int done = sendmmsg(fd, m + i, group - i, 0);

			if (done < 0 && errno != ECONNREFUSED && errno != EINTR)
				fail("sendmmsg");
			i += done > 0 ? (uint32_t)done : 0;
		}
		sent += group;
	}
	printf("{\"sent\": %llu, \"seconds\": %.3f}\n", (unsigned long long)sent,
	       (double)(base_now_ns() - begun) * 1e-9);
	return 0;
}
