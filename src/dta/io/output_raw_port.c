// SPDX-License-Identifier: Apache-2.0
/*
 * output_raw_port.c - sends and receives raw frames: on a packet socket of one interface
 * (packet(7)), or to a pcap file (draft-ietf-opsawg-pcap). Frames may be sent through AF_XDP.
 * Answers are few and always arrive on the packet socket, so the interface needs no XDP program.
 */
#include "base/base.h"
#include "base/network.h"
#include "dta/io/output_raw.h"
#include "dta/io/xsk.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RECEIVE_BUFFER (4 << 20)
#define PCAP_MAGIC_NS  0xa1b23c4du
#define PCAP_ETHERNET  1u
#define ETHERNET       14
#define XDP_BYTES      (4 << 20) /* memory for frames in flight */

/* ---- a file ---- */

static int file_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts, char *error,
		     size_t bytes)
{
	const struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t zero[2], most, link;
	} head = {PCAP_MAGIC_NS, 2, 4, {0, 0}, 65535, PCAP_ETHERNET};

	p->file = fopen(opts->file, "wbe");
	if (!p->file || fwrite(&head, sizeof(head), 1, p->file) != 1)
		return base_fail(error, bytes, -errno, "%s: %s", opts->file, strerror(errno));
	/* A documentation address (RFC 5737) and a locally administered MAC address. */
	p->end = (struct dta_roce_end){
		.gid = {[10] = 0xff, 0xff, 192, 0, 2, 1},
		.mac = {2, 0, 0, 0, 0, 1},
		.mtu = DTA_ROCE_MTU_MAX,
	};
	return 0;
}

static int file_write(FILE *file, const struct dta_raw_frame *frames, unsigned count)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	for (unsigned i = 0; i < count; i++) {
		const uint32_t record[4] = {
			(uint32_t)t.tv_sec,
			(uint32_t)t.tv_nsec,
			(uint32_t)frames[i].bytes,
			(uint32_t)frames[i].bytes,
		};

		if (fwrite(record, sizeof(record), 1, file) != 1 ||
		    fwrite(frames[i].data, frames[i].bytes, 1, file) != 1)
			return -EIO;
	}
	return (int)count;
}

/* ---- an interface ---- */

/* Ranks an address as a source: IPv4 first, then global IPv6. */
static int rank_address(const struct sockaddr *a)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->sa_family == AF_INET)
		return 3;
	return IN6_IS_ADDR_LINKLOCAL(six) ? 1 : 2;
}

static int find_address(struct dta_raw_port *p, const char *interface, char *error, size_t bytes)
{
	struct ifaddrs *all, *best = NULL;
	struct in6_addr gid;
	uint16_t port;

	if (getifaddrs(&all))
		return base_fail(error, bytes, -errno, "%s: %s", interface, strerror(errno));
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, interface) ||
		    (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6))
			continue;
		if (!best || rank_address(a->ifa_addr) > rank_address(best->ifa_addr))
			best = a;
	}
	if (best) {
		gid = base_mapped_of(best->ifa_addr, &port);
		memcpy(p->end.gid, &gid, sizeof(gid));
	} else {
		snprintf(error, bytes, "%s has no address", interface);
	}
	freeifaddrs(all);
	return best ? 0 : -EADDRNOTAVAIL;
}

static int find_interface(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			  char *error, size_t bytes)
{
	/* Headers between Ethernet and the payload of a WRITE with immediate. */
	const int around = 40 + 8 + 12 + 16 + 4 + 4;
	struct ifreq req = {0};
	int mtu;

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", opts->interface);
	if (ioctl(p->fd, SIOCGIFHWADDR, &req))
		goto err;
	if (req.ifr_hwaddr.sa_family != 1 /* ARPHRD_ETHER */)
		return base_fail(error, bytes, -EINVAL, "%s is not an Ethernet interface",
				 opts->interface);
	memcpy(p->end.mac, req.ifr_hwaddr.sa_data, 6);
	if (ioctl(p->fd, SIOCGIFMTU, &req))
		goto err;
	mtu = req.ifr_mtu;
	if (ioctl(p->fd, SIOCGIFINDEX, &req))
		goto err;
	p->ifindex = req.ifr_ifindex;
	if (opts->xdp && mtu > (int)DTA_XSK_LONGEST - ETHERNET)
		mtu = (int)DTA_XSK_LONGEST - ETHERNET;
	for (p->end.mtu = DTA_ROCE_MTU_MAX; p->end.mtu > DTA_ROCE_MTU_MIN; p->end.mtu /= 2)
		if (p->end.mtu + around <= mtu)
			break;
	return find_address(p, opts->interface, error, bytes);
err:
	return base_fail(error, bytes, -errno, "%s: %s", opts->interface, strerror(errno));
}

/*
 * Without an RDMA device the kernel would reply to each answer with an ICMP "port unreachable". A
 * bound socket whose filter drops everything prevents that.
 */
static int silencing_socket(void)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {1, &none};
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(DTA_ROCE_PORT)};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
			bind(fd, (struct sockaddr *)&any, sizeof(any)))) {
		/*
		 * soft-RoCE or another translator is bound to the port, which has the same effect
		 */
		close(fd);
		fd = -1;
	}
	return fd;
}

#if HAVE_XDP
/* Uses the first free queue, because each worker needs its own queue. */
static int open_xsk(struct dta_raw_port *p, const char *interface, char *error, size_t bytes)
{
	struct dta_xsk_opts o = {.interface = interface,
				 .send = true,
				 .longest = DTA_ROCE_AROUND + p->end.mtu,
				 .bytes = XDP_BYTES};

	for (int ms = 0; !p->xsk && ms <= DTA_XSK_BUSY_MS; ms += 10) {
		if (ms)
			poll(NULL, 0, 10);
		for (o.queue = 0; !p->xsk && o.queue < dta_xsk_queues(interface); o.queue++) {
			p->xsk = dta_xsk_open(&o, error, bytes);
			if (!p->xsk && errno != EBUSY)
				return -errno;
		}
	}
	return p->xsk ? 0 : -EBUSY;
}

static int send_xsk(struct dta_xsk *x, const struct dta_raw_frame *frames, unsigned count)
{
	struct dta_xsk_frame f[DTA_RAW_BATCH];
	int sent;

	for (unsigned i = 0; i < count; i++)
		f[i] = (struct dta_xsk_frame){frames[i].data, (uint32_t)frames[i].bytes};
	sent = dta_xsk_send(x, f, count);
	return sent ? sent : -EAGAIN;
}
#endif

int dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts, char *error,
		      size_t error_bytes)
{
	int err, yes = 1, room = RECEIVE_BUFFER;

	*p = (struct dta_raw_port){.fd = -1, .silencer = -1};
	if (opts->file)
		return file_open(p, opts, error, error_bytes);
	p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0) {
		err = -errno;
		return base_fail(error, error_bytes, err, "packet socket: %s%s", strerror(-err),
				 err == -EPERM ? " (it needs CAP_NET_RAW)" : "");
	}
	err = find_interface(p, opts, error, error_bytes);
#if HAVE_XDP
	if (!err && opts->xdp)
		err = open_xsk(p, opts->interface, error, error_bytes);
#endif
	if (err) {
		dta_raw_port_close(p);
		return err;
	}
	setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes));
	if (setsockopt(p->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	p->silencer = silencing_socket();
	return 0;
}

int dta_raw_port_renew(struct dta_raw_port *p, const struct dta_output_raw_opts *opts, char *error,
		       size_t error_bytes)
{
	const struct dta_raw_port before = *p;
	int err;

	if (p->file)
		return 0;
	err = find_interface(p, opts, error, error_bytes);
#if HAVE_XDP
	/* The socket belongs to one interface, and its frames have the size of the first MTU. */
	if (!err && opts->xdp &&
	    (!p->xsk || p->ifindex != before.ifindex || p->end.mtu > before.end.mtu)) {
		dta_xsk_close(p->xsk);
		p->xsk = NULL;
		err = open_xsk(p, opts->interface, error, error_bytes);
	}
#endif
	if (err) { /* the next call compares with these */
		p->ifindex = before.ifindex;
		p->end = before.end;
	}
	return err;
}

void dta_raw_port_close(struct dta_raw_port *p)
{
#if HAVE_XDP
	dta_xsk_close(p->xsk);
#endif
	if (p->fd >= 0)
		close(p->fd);
	if (p->silencer >= 0)
		close(p->silencer);
	if (p->file && fclose(p->file))
		base_logf(BASE_ERROR, "translate",
			  "the file of frames is incomplete: %s; make room and translate again",
			  strerror(errno));
	*p = (struct dta_raw_port){.fd = -1, .silencer = -1};
}

int dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours)
{
	bool v4 = !ours->gid[0] && ours->gid[10] == 0xff;
	unsigned ip = 14, udp = ip + (v4 ? 20 : 40), bth = udp + 8;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ip + (v4 ? 9 : 6)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, udp + 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DTA_ROCE_PORT, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, bth + 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, DTA_ROCE_24),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ours->qpn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 2048),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(v4 ? ETH_P_IP : ETH_P_IPV6),
		.sll_ifindex = p->ifindex,
	};
	socklen_t bytes = sizeof(int);
	int error;

	if (p->file)
		return 0;
	/* Forget the error that an interface leaves behind when it goes. */
	getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	if (setsockopt(p->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    bind(p->fd, (struct sockaddr *)&at, sizeof(at)))
		return -errno;
	return 0;
}

int dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames, unsigned count)
{
	struct mmsghdr message[DTA_RAW_BATCH] = {0};
	struct iovec part[DTA_RAW_BATCH];
	int sent;

	if (p->file)
		return file_write(p->file, frames, count);
#if HAVE_XDP
	if (p->xsk)
		return send_xsk(p->xsk, frames, count);
#endif
	for (unsigned i = 0; i < count; i++) {
		part[i] = (struct iovec){frames[i].data, frames[i].bytes};
		message[i].msg_hdr.msg_iov = &part[i];
		message[i].msg_hdr.msg_iovlen = 1;
	}
	sent = sendmmsg(p->fd, message, count, 0);
	return sent < 0 ? -errno : sent;
}

int dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames, unsigned count)
{
	struct mmsghdr message[DTA_RAW_BATCH] = {0};
	struct iovec part[DTA_RAW_BATCH];
	int came;

	if (p->file)
		return 0;
#if HAVE_XDP
	/*
	 * Send frames left over from the previous call. The ring accepts frames even if the
	 * interface is gone.
	 */
	if (p->xsk && dta_xsk_send(p->xsk, NULL, 0) == -ENXIO)
		return -ENXIO;
#endif
	for (unsigned i = 0; i < count; i++) {
		part[i] = (struct iovec){frames[i].data, frames[i].bytes};
		message[i].msg_hdr.msg_iov = &part[i];
		message[i].msg_hdr.msg_iovlen = 1;
	}
	came = recvmmsg(p->fd, message, count, MSG_DONTWAIT, NULL);
	if (came < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (int i = 0; i < came; i++)
		frames[i].bytes = message[i].msg_len;
	return came;
}
