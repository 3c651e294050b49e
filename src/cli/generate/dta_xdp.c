// SPDX-License-Identifier: Apache-2.0
/*
 * dta_xdp.c - sends packets that bypass the network stack: the kernel allocates frames and a BPF
 * program fills them (Documentation/bpf/bpf_prog_run.rst, "Running XDP programs in live frame
 * mode"; Linux 5.18). Supports IPv4 to a neighbour. Answers arrive at the sockets, whose ports the
 * packets carry.
 */
#include "cli/generate/dta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cli/generate/dta_xdp.h"
#include "dta/io/checksum.h"
#include "generate_dta_xdp.skel.h"

#define HEADERS	   42u /* size of the Ethernet, IPv4 and UDP headers */
#define RESOLVE_MS 2000
/*
 * Memory for the frames of one run. A run takes milliseconds to begin and end, because the kernel
 * waits for a grace period on all cores (bpf_dispatcher_change_prog()).
 */
#define ROOM_BYTES (32u << 20)
#define DISCARD	   9 /* the discard port (RFC 863), which never answers */

struct cli_dta_xdp {
	struct generate_dta_xdp_bpf *program;
	/* mapped frames of the program: struct cli_dta_xdp_frame, stride bytes each */
	uint8_t *frames;
	uint32_t stride, room, count, longest;
	/* headers common to all frames, without lengths, ports and checksums */
	uint8_t head[HEADERS];
	uint64_t pseudo; /* unfolded checksum of the addresses */
};

static uint16_t finish_checksum(uint64_t sum)
{
	return (uint16_t)~dta_sum_fold(sum);
}

static void put16(uint8_t *at, uint16_t network)
{
	memcpy(at, &network, 2);
}

/* Finds the link address of a neighbour. Resolves the address first if it is unknown. */
static int resolve_neighbour(const char *interface, const struct sockaddr_in *to, uint8_t mac[6])
{
	struct sockaddr_in discard = *to;
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? -errno : -EHOSTUNREACH;

	discard.sin_port = htons(DISCARD);
	for (int ms = 0; err == -EHOSTUNREACH && ms < RESOLVE_MS; ms += 10) {
		struct arpreq r = {0};

		memcpy(&r.arp_pa, to, sizeof(*to));
		snprintf(r.arp_dev, sizeof(r.arp_dev), "%s", interface);
		if (!ioctl(fd, SIOCGARP, &r) && r.arp_flags & ATF_COM) {
			memcpy(mac, r.arp_ha.sa_data, 6);
			err = 0;
			break;
		}
		if (!ms)
			sendto(fd, NULL, 0, 0, (struct sockaddr *)&discard, sizeof(discard));
		poll(NULL, 0, 10);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static int make_head(struct cli_dta_xdp *x, const char *interface, int fd, char *error,
		     size_t bytes)
{
	struct sockaddr_in from, to;
	socklen_t n = sizeof(from), m = sizeof(to);
	struct ifreq r = {0};
	uint8_t *ip = x->head + 14;
	int err;

	if (getsockname(fd, (struct sockaddr *)&from, &n) ||
	    getpeername(fd, (struct sockaddr *)&to, &m) || from.sin_family != AF_INET)
		return base_fail(error, bytes, -EAFNOSUPPORT, "--xdp supports only IPv4");
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", interface);
	if (strlen(interface) >= sizeof(r.ifr_name) || ioctl(fd, SIOCGIFHWADDR, &r))
		return base_fail(error, bytes, -ENODEV, "--xdp: %s: no such interface", interface);
	memcpy(x->head + 6, r.ifr_hwaddr.sa_data, 6);
	err = resolve_neighbour(interface, &to, x->head);
	if (err)
		return base_fail(error, bytes, err,
				 "--xdp: %s: the translator is not a neighbour on this interface",
				 interface);
	x->head[12] = 0x08;
	ip[0] = 0x45;
	ip[6] = 0x40; /* don't fragment */
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &from.sin_addr, 4);
	memcpy(ip + 16, &to.sin_addr, 4);
	put16(ip + 22, to.sin_port);
	x->pseudo = dta_sum_of(ip + 12, 8) + htons(IPPROTO_UDP);
	return 0;
}

static int drop_log(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static struct cli_dta_xdp_frame *frame_at(const struct cli_dta_xdp *x, uint32_t i)
{
	return (struct cli_dta_xdp_frame *)(void *)(x->frames + (size_t)i * x->stride);
}

static int load_program(struct cli_dta_xdp *x, const char *interface)
{
	const uint32_t out = if_nametoindex(interface);
	const uint32_t longest = x->stride - (uint32_t)sizeof(struct cli_dta_xdp_frame);
	libbpf_print_fn_t before = libbpf_set_print(drop_log);
	int err = 0;

	x->program = generate_dta_xdp_bpf__open();
	if (!x->program) {
		err = -errno;
	} else {
		/* The program reads these values as constants. */
		memcpy((void *)&x->program->rodata->out, &out, sizeof(out));
		memcpy((void *)&x->program->rodata->longest, &longest, sizeof(longest));
		err = bpf_map__set_value_size(x->program->maps.frames, x->stride);
		if (!err)
			err = bpf_map__set_max_entries(x->program->maps.frames, x->room);
		if (!err)
			err = generate_dta_xdp_bpf__load(x->program);
	}
	libbpf_set_print(before);
	if (err)
		return err;
	x->frames = mmap(NULL, (size_t)x->room * x->stride, PROT_READ | PROT_WRITE, MAP_SHARED,
			 bpf_map__fd(x->program->maps.frames), 0);
	if (x->frames == MAP_FAILED) {
		x->frames = NULL;
		return -errno;
	}
	/* Probe the kernel with an empty frame, which is dropped. */
	x->count = 1;
	x->longest = HEADERS;
	return cli_dta_xdp_flush(x);
}

struct cli_dta_xdp *cli_dta_xdp_open(const char *interface, int fd, uint32_t longest, char *error,
				     size_t error_bytes)
{
	struct cli_dta_xdp *x = calloc(1, sizeof(*x));
	int err;

	if (!x)
		return NULL;
	x->stride = (uint32_t)(sizeof(struct cli_dta_xdp_frame) + HEADERS + longest + 63) & ~63u;
	x->room = ROOM_BYTES / x->stride;
	err = make_head(x, interface, fd, error, error_bytes);
	if (!err) {
		err = load_program(x, interface);
		if (!err)
			return x;
		snprintf(error, error_bytes, "--xdp: %s: %s%s", interface, strerror(-err),
			 err == -EPERM	  ? " (it needs CAP_NET_ADMIN and CAP_BPF)"
			 : err == -EINVAL ? " (it needs Linux 5.18)"
					  : "");
	}
	cli_dta_xdp_close(x);
	errno = -err;
	return NULL;
}

int cli_dta_xdp_put(struct cli_dta_xdp *x, uint16_t port, const void *packet, uint32_t bytes)
{
	struct cli_dta_xdp_frame *f;
	uint8_t *ip, *udp;
	int err = x->count == x->room ? cli_dta_xdp_flush(x) : 0;

	if (bytes > x->stride - sizeof(*f) - HEADERS)
		return -EMSGSIZE;
	if (err)
		return err;
	f = frame_at(x, x->count++);
	f->bytes = HEADERS + bytes;
	if (f->bytes > x->longest)
		x->longest = f->bytes;
	memcpy(f->data, x->head, HEADERS);
	ip = f->data + 14;
	udp = ip + 20;
	put16(ip + 2, htons((uint16_t)(28 + bytes)));
	put16(ip + 10, finish_checksum(dta_sum_of(ip, 20)));
	put16(udp, htons(port));
	put16(udp + 4, htons((uint16_t)(8 + bytes)));
	memcpy(udp + 8, packet, bytes);
	const uint16_t sum = finish_checksum(x->pseudo + htons((uint16_t)(8 + bytes)) +
					     dta_sum_of(udp, 8 + bytes));

	put16(udp + 6, sum ? sum : 0xffff);
	return 0;
}

int cli_dta_xdp_flush(struct cli_dta_xdp *x)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame_at(x, 0)->data,
		    .data_size_in = x->longest, .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	int err = 0;

	x->program->bss->next = 0;
	while (!err && x->program->bss->next < x->count) {
		o.repeat = (int)(x->count - x->program->bss->next);
		err = bpf_prog_test_run_opts(bpf_program__fd(x->program->progs.send), &o);
		if (err == -EINTR) /* interrupted: continue */
			err = 0;
	}
	x->count = x->longest = 0;
	return err;
}

void cli_dta_xdp_close(struct cli_dta_xdp *x)
{
	if (!x)
		return;
	if (x->frames)
		munmap(x->frames, (size_t)x->room * x->stride);
	generate_dta_xdp_bpf__destroy(x->program);
	free(x);
}
