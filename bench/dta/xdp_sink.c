// SPDX-License-Identifier: Apache-2.0
/*
 * xdp_sink.c INTERFACE IP THEIR_MAC THEIR_IP QPN... - the other end of queue pairs, which takes
 * every frame and drops it, in the kernel (xdp_sink.bpf.c), and acknowledges a thousand times per
 * second. The pairs have the numbers SINK_FIRST and so on. Prints one line of JSON when its input
 * ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/base.h"
#include "dta/io/roce.h"
#include "xdp_sink.h"
#include "xdp_sink.skel.h"

static int out(const char *interface, uint8_t mac[6])
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_ifindex = (int)if_nametoindex(interface)};
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	struct ifreq r = {0};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", interface);
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &r) || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		return -1;
	memcpy(mac, r.ifr_hwaddr.sa_data, 6);
	return fd;
}

/* An ACK is a frame that dta_roce_build() does not build: it begins as a WRITE of no bytes. */
static void acknowledge(int fd, struct dta_roce_builder *b, uint32_t psn)
{
	const struct dta_roce_packet p = {
		.opcode = DTA_ROCE_ACK, .psn = psn, .bytes = 4, .payload = "\x1f\0\0\1"};
	uint8_t f[DTA_ROCE_AROUND];
	const size_t bytes = dta_roce_build(b, &p, f);

	dta_roce_seal(b, f, bytes, false);
	if (send(fd, f, bytes, 0) < 0)
		fprintf(stderr, "xdp_sink: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
	struct dta_roce_end ours = {.qpn = SINK_FIRST, .gid = {[10] = 0xff, 0xff}, .mtu = 1024};
	struct dta_roce_end theirs = ours;
	struct dta_roce_builder *builder = calloc(SINK_PAIRS, sizeof(*builder));
	struct xdp_sink_bpf *b = xdp_sink_bpf__open_and_load();
	struct pollfd end = {.fd = 0, .events = POLLIN};
	uint64_t frames = 0, gaps = 0;
	struct sink_pair *pair;
	unsigned mac[6];
	int fd, link;

	if (argc < 6 || !b || !builder) {
		fprintf(stderr, "usage: xdp_sink INTERFACE IP THEIR_MAC THEIR_IP QPN...\n");
		return 2;
	}
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = XDP_FLAGS_DRV_MODE);
	link = bpf_link_create(bpf_program__fd(b->progs.sink), (int)if_nametoindex(argv[1]),
			       BPF_XDP, &o);
	pair = mmap(NULL, SINK_PAIRS * sizeof(*pair), PROT_READ, MAP_SHARED,
		    bpf_map__fd(b->maps.pairs), 0);
	fd = out(argv[1], ours.mac);
	if (link < 0 || fd < 0 || pair == MAP_FAILED ||
	    inet_pton(AF_INET, argv[2], ours.gid + 12) != 1 ||
	    inet_pton(AF_INET, argv[4], theirs.gid + 12) != 1 ||
	    sscanf(argv[3], "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4,
		   mac + 5) != 6) {
		fprintf(stderr, "xdp_sink: %s\n", strerror(errno));
		return 1;
	}
	for (int i = 0; i < 6; i++)
		theirs.mac[i] = (uint8_t)mac[i];
	for (int i = 0; i + 5 < argc; i++) {
		theirs.qpn = (uint32_t)strtoul(argv[i + 5], NULL, 0);
		if (dta_roce_builder(&builder[i], &ours, &theirs, 0xc000))
			return 2;
	}
	printf("ready\n");
	fflush(stdout);
	while (!poll(&end, 1, 1))
		for (int i = 0; i + 5 < argc; i++)
			if (__atomic_load_n(&pair[i].frames, __ATOMIC_RELAXED))
				acknowledge(fd, &builder[i], (pair[i].next - 1) & DTA_ROCE_24);
	for (int i = 0; i + 5 < argc; i++) {
		frames += pair[i].frames;
		gaps += pair[i].gaps;
	}
	printf("{\"frames\":%llu,\"gaps\":%llu}\n", (unsigned long long)frames,
	       (unsigned long long)gaps);
	free(builder);
	return 0;
}
