// SPDX-License-Identifier: Apache-2.0
/*
 * path.c - connects two network namespaces by a path of known delay, losses, order, rate and MTU,
 * on any kernel: each has a TUN device, and this process moves packets between them.
 *
 *   path PID_A PID_B [-A OPTION...] [-B OPTION...]    options of the direction from A, and from B
 *     -d MS     delay
 *     -l SHARE  share of packets that are lost, 0 to 1
 *     -r SHARE  share that is late by -x MS, so that others overtake
 *     -R MBIT   rate in Mbit/s, with a queue of -q BYTES
 *     -m BYTES  longer packets are lost
 *
 * The namespaces are those of the processes; A has 10.98.1.1, B 10.98.1.2. Prints "ready". SIGUSR1
 * cuts the path or restores it; SIGTERM ends the process, which then prints "late MS": how much
 * later than it should it delivered packets, at most. Without enough CPU time it is another path.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define ROOM	  8192 /* packets on one way */
#define OVERTAKEN 64   /* maximum number of packets that overtake one */
#define SECOND	  1000000000ll

struct packet {
	int64_t due; /* ns */
	ssize_t bytes;
	bool sent;
	char data[1600];
};

/* One direction. Its packets are packet[i % ROOM] for i from first to last - 1. */
struct way {
	int tun; /* TUN device where this direction begins */
	double lost, late, bits_per_ns;
	int64_t delay, lateness, busy_until;
	ssize_t queue, queued, mtu;
	uint64_t first, last;
	struct packet *packet;
};

static volatile sig_atomic_t cut, stopped;
static int64_t latest; /* maximum lateness of a packet, ns */

static void on_signal(int number)
{
	if (number == SIGUSR1)
		cut = !cut;
	else
		stopped = 1;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static void give_up(const char *what)
{
	fprintf(stderr, "path: %s: %s\n", what, strerror(errno));
	exit(errno == ENOENT || errno == ENODEV ? 77 : 1);
}

/* Makes a TUN device in the namespace of a process. */
static int make_tun(const char *pid, int host)
{
	struct ifreq r = {.ifr_name = "path", .ifr_flags = IFF_TUN | IFF_NO_PI};
	char text[256];
	int tun, ns;

	snprintf(text, sizeof(text), "/proc/%s/ns/net", pid);
	ns = open(text, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		give_up(text);
	close(ns);
	tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tun < 0)
		give_up("/dev/net/tun");
	if (ioctl(tun, TUNSETIFF, &r))
		give_up("TUNSETIFF");
	snprintf(text, sizeof(text),
		 "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && "
		 "ip addr add 10.98.1.%d/24 dev path && ip link set path mtu 1500 up",
		 host);
	if (system(text))
		exit(1);
	return tun;
}

/* Queues a packet that has just arrived, or drops it. */
static void admit(struct way *w, struct packet *p)
{
	int64_t now = now_ns(), begin = w->busy_until > now ? w->busy_until : now;

	if (cut || drand48() < w->lost || p->bytes > w->mtu ||
	    (w->bits_per_ns > 0 && w->queued + p->bytes > w->queue))
		return;
	if (w->bits_per_ns > 0) {
		begin += (int64_t)((double)p->bytes * 8 / w->bits_per_ns);
		w->busy_until = begin;
		w->queued += p->bytes;
	} else {
		begin = now;
	}
	p->due = begin + w->delay + (drand48() < w->late ? w->lateness : 0);
	p->sent = false;
	w->last++;
}

static void take_packets(struct way *w)
{
	while (w->last - w->first < ROOM) {
		struct packet *p = &w->packet[w->last % ROOM];

		p->bytes = read(w->tun, p->data, sizeof(p->data));
		if (p->bytes <= 0)
			return;
		admit(w, p);
	}
}

/* Delivers packets that are due. Returns the time at which the next one is due. */
static int64_t deliver(struct way *w, int to)
{
	int64_t now = now_ns(), next = now + SECOND;
	uint64_t waiting = 0;

	for (uint64_t i = w->first; i != w->last && waiting <= (w->late > 0 ? OVERTAKEN : 0); i++) {
		struct packet *p = &w->packet[i % ROOM];

		if (!p->sent && p->due > now) {
			next = p->due < next ? p->due : next;
			waiting++;
			continue;
		}
		if (!p->sent && now - p->due > latest)
			latest = now - p->due;
		if (!p->sent && write(to, p->data, (size_t)p->bytes) < 0)
			fprintf(stderr, "path: a packet is lost: %s\n", strerror(errno));
		w->queued -= !p->sent && w->bits_per_ns > 0 ? p->bytes : 0;
		p->sent = true;
		if (i == w->first)
			w->first++;
	}
	return next;
}

static void read_options(int argc, char **argv, struct way way[2])
{
	struct way *w = way;

	for (int option; (option = getopt(argc, argv, "ABd:l:r:x:R:q:m:")) != -1;)
		switch (option) {
		case 'A':
		case 'B':
			w = &way[option - 'A'];
			break;
		case 'd':
			w->delay = (int64_t)(atof(optarg) * 1e6);
			break;
		case 'l':
			w->lost = atof(optarg);
			break;
		case 'r':
			w->late = atof(optarg);
			break;
		case 'x':
			w->lateness = (int64_t)(atof(optarg) * 1e6);
			break;
		case 'R':
			w->bits_per_ns = atof(optarg) / 1e3;
			break;
		case 'q':
			w->queue = atol(optarg);
			break;
		case 'm':
			w->mtu = atol(optarg);
			break;
		default:
			exit(2);
		}
}

int main(int argc, char **argv)
{
	static struct way way[2] = {{.mtu = 1600, .queue = 1 << 20},
				    {.mtu = 1600, .queue = 1 << 20}};
	struct sigaction act = {.sa_handler = on_signal};

	if (argc < 3)
		return 2;
	read_options(argc - 2, argv + 2, way);
	for (int i = 0; i < 2; i++) {
		way[i].packet = calloc(ROOM, sizeof(*way[i].packet));
		if (!way[i].packet)
			give_up("calloc");
		way[i].tun = make_tun(argv[1 + i], 1 + i);
	}
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	puts("ready");
	fflush(stdout);
	while (!stopped) {
		struct pollfd p[2] = {{way[0].tun, POLLIN, 0}, {way[1].tun, POLLIN, 0}};
		int64_t next = now_ns() + SECOND;

		for (int i = 0; i < 2; i++) {
			int64_t due;

			take_packets(&way[i]);
			due = deliver(&way[i], way[!i].tun);
			next = due < next ? due : next;
		}
		next -= now_ns();
		next = next > 0 ? next : 0;
		ppoll(p, 2, &(struct timespec){next / SECOND, next % SECOND}, NULL);
	}
	printf("late %.1f\n", (double)latest / 1e6);
	return 0;
}
