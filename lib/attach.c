// SPDX-License-Identifier: Apache-2.0
/*
 * attach.c - the connection to the agent's socket, and the thread that watches it.
 * sl_publisher_open() makes the first attempt itself: connect and PUBLISH do not wait for the
 * agent, so the agent sees even a process that exits at once. The thread makes all later attempts,
 * and sleeps without a timeout while connected.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

#define STACK_BYTES  (128 * 1024)
#define RETRY_MIN_MS 250
/* the listen queue is full: retry soon, as many other processes connect as well */
#define RETRY_FULL_MS	 10
#define RETRY_MAX_MS	 500
#define RETRY_REFUSED_MS 30000
#define RETRY_AGAIN_MAX	 7 /* quick retries after EAGAIN; the delay doubles to 16 s */

static void close_socket(struct sl_publisher *p)
{
	sl__fd_close(&p->sock);
	for (struct sl__region *r = p->regions; r; r = r->next) {
		r->serial = 0;
		r->admitted = false;
	}
	/* Relaxed: see sl_publisher_attached(). */
	atomic_store_explicit(&p->attached, false, memory_order_relaxed);
}

static int send_message(int sock, enum sl_msg_type type, uint32_t serial, const void *payload,
			uint32_t length, int fd)
{
	struct sl_msg head = {SL_MSG_MAGIC, (uint16_t)type, 0, length, serial};
	struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)payload, length}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};

	if (fd >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof(fd));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Sends the region over the existing connection. Caller holds the lock. */
static int send_publish(struct sl__region *r)
{
	struct sl_publisher *p = r->publisher;
	struct sl_msg_publish publish = {r->instance, r->size};
	int error;

	if (!sl__fd_ours(&r->memfd))
		return -EBADF;
	r->admitted = false;
	if (!++p->serial)
		p->serial = 1;
	error = send_message(p->sock.fd, SL_MSG_PUBLISH, p->serial, &publish, sizeof(publish),
			     r->memfd.fd);
	r->serial = error ? 0 : p->serial;
	return error;
}

/* Makes one attempt to connect, without waiting. Caller holds the lock. */
static int attach_once(struct sl_publisher *p)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int error;

	if (!sl__fd_ours(&p->regions->memfd))
		return -EBADF;
	error = sl__fd_take(&p->sock,
			    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (error)
		return error;
	memcpy(to.sun_path, p->socket, strlen(p->socket) + 1);
	if (connect(p->sock.fd, (struct sockaddr *)&to, sizeof(to)))
		error = -errno;
	for (struct sl__region *r = p->regions; r && !error; r = r->next)
		if (!r->orphan)
			error = send_publish(r);
	if (error)
		close_socket(p);
	return error;
}

/* Sends the region, or tries again soon: the agent may be slow to read, or memory short. */
static int offer(struct sl__region *r)
{
	int error = send_publish(r);

	if (error)
		r->publisher->offer_ns = sl__monotonic_ns() + RETRY_MIN_MS * 1000000ull;
	return error;
}

/* Publishes an additional region. Without a connection, the next attach does it. */
void sl__attach_further(struct sl__region *r)
{
	const struct sl_publisher *p = r->publisher;

	/* The thread sleeps without a timeout: wake it. A full pipe has woken it already. */
	if (!r->serial && sl__fd_ours(&p->sock) && offer(r) && sl__fd_ours(&p->wake[0]) &&
	    sl__fd_ours(&p->wake[1]))
		(void)!write(p->wake[1].fd, "", 1);
}

/* If the delay is over, offers the regions again that were refused or could not be sent. */
static void offer_again(struct sl_publisher *p)
{
	struct sl__guard guard;

	if (!p->offer_ns || sl__monotonic_ns() < p->offer_ns)
		return;
	sl__lock(&guard);
	p->offer_ns = 0;
	for (struct sl__region *r = p->regions; r && sl__fd_ours(&p->sock); r = r->next)
		if (!r->orphan && !r->serial)
			offer(r);
	sl__unlock(&guard);
}

static int earlier_timeout(int ms, int other)
{
	return other >= 0 && (ms < 0 || other < ms) ? other : ms;
}

/* Time until the next timer in ms; -1 means no timer is set. */
static int timer_left_ms(const struct sl_publisher *p)
{
	uint64_t now = sl__monotonic_ns();
	int left = -1;

	if (p->offer_ns)
		left = p->offer_ns <= now ? 0 : (int)((p->offer_ns - now) / 1000000 + 1);
	/* the other timer is the expiry of the verdict */
	return earlier_timeout(left, sl__verdict_left_ms(p));
}

/* The region that an answer refers to; NULL if the region has been offered again since. */
static struct sl__region *find_answered(const struct sl_publisher *p, uint32_t serial)
{
	struct sl__region *r;

	for (r = p->regions; r && (!serial || r->serial != serial); r = r->next)
		;
	return r;
}

static void handle_admitted(struct sl_publisher *p, uint32_t serial)
{
	struct sl__region *r;
	struct sl__guard guard;
	bool all = true;

	sl__lock(&guard);
	r = find_answered(p, serial);
	if (r) {
		r->admitted = true;
		r->again = 0;
	}
	for (const struct sl__region *each = p->regions; each; each = each->next)
		all &= each->admitted || each->orphan;
	if (r == p->regions)
		atomic_fetch_add_explicit(&p->attaches, 1, memory_order_relaxed);
	atomic_store_explicit(&p->attached, all, memory_order_relaxed);
	sl__unlock(&guard);
	if (r && r == p->regions)
		sl__log(SL_LOG_INFO, "sidelight: attached to the agent socket=%s", p->socket);
}

/* Returns the same as receive_message(). */
static int handle_refused(struct sl_publisher *p, uint32_t serial, const struct sl_msg_refused *why)
{
	struct sl__guard guard;
	struct sl__region *r;
	bool first, others = false;
	int delay = RETRY_REFUSED_MS;

	sl__lock(&guard);
	r = find_answered(p, serial) ?: p->regions;
	if (why->error == ENODATA && !r->dense) {
		/*
		 * For RDMA, the agent registers the whole region: filling a hole would be charged
		 * to the agent, so fill it here.
		 */
		r->dense = !sl__allocate(r, 0, r->size);
		if (r->dense)
			delay = 0;
	}
	if (why->error == EAGAIN && r->again < RETRY_AGAIN_MAX)
		delay = RETRY_MIN_MS << r->again++;
	r->serial = 0;
	for (const struct sl__region *each = p->regions; each; each = each->next)
		others |= each->serial != 0;
	if (others && delay)
		p->offer_ns = sl__monotonic_ns() + (uint64_t)delay * 1000000;
	if (!others) {
		close_socket(p);
	} else if (!delay) {
		offer(r);
	}
	first = delay == RETRY_REFUSED_MS && !(p->logged & SL__LOGGED_AGENT);
	if (first)
		p->logged |= SL__LOGGED_AGENT;
	sl__unlock(&guard);
	if (first)
		sl__log(SL_LOG_WARN,
			"sidelight: the agent refused the region, retrying in %d s socket=%s "
			"error=%d reason=\"%s\"",
			RETRY_REFUSED_MS / 1000, p->socket, why->error, why->reason);
	return others ? -1 : delay;
}

/*
 * Reads one message, or notices a hang-up. Returns ms until the next attempt; -1 means stay
 * connected.
 */
static int receive_message(struct sl_publisher *p, int sock)
{
	union {
		struct sl_msg head;
		uint8_t bytes[SL_MSG_MAX];
	} m;
	struct sl_msg_refused why;
	struct sl_msg_verdict verdict;
	struct sl__guard guard;
	bool was;
	ssize_t n;

	/* No control buffer: the kernel drops any descriptors that the message carries. */
	n = recv(sock, &m, sizeof(m), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -1;
	if (n >= (ssize_t)sizeof(m.head) && m.head.magic == SL_MSG_MAGIC &&
	    m.head.length == (size_t)n - sizeof(m.head)) {
		if (m.head.type == SL_MSG_ADMITTED) {
			handle_admitted(p, m.head.serial);
			return -1;
		}
		if (m.head.type == SL_MSG_VERDICT && m.head.length == sizeof(verdict)) {
			memcpy(&verdict, m.bytes + sizeof(m.head), sizeof(verdict));
			sl__verdict_take(p, &verdict);
			return -1;
		}
		if (m.head.type == SL_MSG_REFUSED && m.head.length >= sizeof(why)) {
			memcpy(&why, m.bytes + sizeof(m.head), sizeof(why));
			why.reason[sizeof(why.reason) - 1] = '\0';
			return handle_refused(p, m.head.serial, &why);
		}
		return -1; /* ignore messages of later protocol versions */
	}
	sl__lock(&guard);
	was = atomic_load_explicit(&p->attached, memory_order_relaxed);
	close_socket(p);
	sl__unlock(&guard);
	if (was)
		sl__log(SL_LOG_INFO,
			"sidelight: lost the connection to the agent, counting "
			"continues socket=%s",
			p->socket);
	return RETRY_MIN_MS;
}

static void *attach_thread(void *arg)
{
	struct sl_publisher *p = arg;
	int delay = p->sock.fd >= 0 ? -1 : RETRY_FULL_MS, err;
	struct sl__guard guard;
	char byte;

	pthread_setname_np(pthread_self(), "sidelight");
	for (;;) {
		/* Never poll or read descriptors that the application has reused. */
		if (!sl__fd_ours(&p->wake[0]))
			break;
		if (p->sock.fd >= 0 && !sl__fd_ours(&p->sock)) {
			sl__lock(&guard);
			close_socket(p);
			sl__unlock(&guard);
			delay = RETRY_MAX_MS;
		}
		struct pollfd fds[2] = {{.fd = p->wake[0].fd, .events = POLLIN},
					{.fd = p->sock.fd, .events = POLLIN}};
		int wait = earlier_timeout(delay, timer_left_ms(p));
		int n = poll(fds, 2, wait);

		sl__verdict_expire(p);
		offer_again(p);
		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM)
			break;
		if (n > 0 && (fds[0].revents & ~POLLIN))
			break; /* asked to exit, or the application closed the pipe */
		if (n > 0 && fds[0].revents) { /* there is a new offer_ns */
			if (sl__fd_ours(&p->wake[0]))
				(void)!read(p->wake[0].fd, &byte, 1);
			continue;
		}
		if (n > 0 && fds[1].revents) {
			if (sl__fd_ours(&p->sock))
				delay = receive_message(p, fds[1].fd);
			continue;
		}
		if (p->sock.fd >= 0)
			continue;
		if (n <= 0 && wait != delay) {
			delay -= wait; /* another timer expired; keep waiting */
			continue;
		}
		sl__lock(&guard);
		err = attach_once(p);
		if (!err)
			delay = -1;
		else if (err == -EAGAIN)
			delay = RETRY_FULL_MS;
		else
			delay = delay < RETRY_MAX_MS ? delay + RETRY_MIN_MS / 2 : RETRY_MAX_MS;
		sl__unlock(&guard);
	}
	sl__verdict_forget(p); /* only this thread expires verdicts */
	return NULL;
}

/*
 * Caller holds the lock and blocks all signals: the thread inherits the mask, and so never runs a
 * signal handler of the application. Without a thread the region still works, but an agent that
 * starts later does not receive it.
 */
int sl__attach_start(struct sl_publisher *p)
{
	pthread_attr_t attr;
	int error, ends[2];

	if (p->flags & SL_PUBLISHER_DETACHED)
		return 0;
	attach_once(p);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	error = sl__fd_take(&p->wake[0], ends[0]);
	if (error)
		close(ends[1]);
	else
		error = sl__fd_take(&p->wake[1], ends[1]);
	if (error) {
		sl__fd_close(&p->wake[0]);
		return error;
	}
	error = -pthread_attr_init(&attr);
	if (!error) {
		pthread_attr_setstacksize(&attr, STACK_BYTES);
		error = pthread_create(&p->thread, &attr, attach_thread, p);
		pthread_attr_destroy(&attr);
		if (error == EINVAL) /* thread-local storage does not fit on this stack */
			error = pthread_create(&p->thread, NULL, attach_thread, p);
	}
	p->have_thread = !error;
	return error < 0 ? error : -error;
}

/*
 * Stops the thread, then sends CLOSE. Returns false if the thread cannot be woken because the
 * application closed the pipe: the thread then sleeps on, and the publisher must stay in memory.
 */
bool sl__attach_stop(struct sl_publisher *p)
{
	struct sl__guard guard;
	bool ended = true;

	if (p->have_thread) {
		sl__lock(&guard);
		ended = sl__fd_ours(&p->wake[1]);
		sl__fd_close(&p->wake[1]);
		sl__unlock(&guard);
		if (ended)
			pthread_join(p->thread, NULL);
		else
			pthread_detach(p->thread);
		p->have_thread = false;
	}
	sl__lock(&guard);
	if (sl__fd_ours(&p->sock)) {
		char ignored;

		for (const struct sl__region *r = p->regions; r; r = r->next) {
			struct sl_msg_id bye = {r->instance};

			if (r->serial)
				send_message(p->sock.fd, SL_MSG_CLOSE, ++p->serial, &bye,
					     sizeof(bye), -1);
		}
		/*
		 * Closing a socket with unread messages resets the connection, and the agent would
		 * see the reset before CLOSE.
		 */
		shutdown(p->sock.fd, SHUT_RD);
		while (recv(p->sock.fd, &ignored, 1, MSG_DONTWAIT) > 0)
			;
	}
	close_socket(p);
	sl__fd_close(&p->wake[0]);
	sl__fd_close(&p->wake[1]);
	sl__unlock(&guard);
	return ended;
}

/* Runs in the child of fork(): the connection and the thread belong to the parent. */
void sl__attach_forked(struct sl_publisher *p)
{
	close_socket(p);
	sl__fd_close(&p->wake[0]);
	sl__fd_close(&p->wake[1]);
	p->have_thread = false;
	/* The verdict concerns the parent, whose thread may have been writing it during fork(). */
	memset(&p->verdict, 0, sizeof(p->verdict));
}
