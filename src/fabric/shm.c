/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - the provider for a host on the same machine: the consumer's side of sidelight/attach.h.
 * Regions arrive as read-only memfds over the agent's unix socket; a READ is a copy and completes
 * at once. The agent is trusted only as far as the kernel confirms its claims: the size of a
 * mapping comes from fstat(), and memory that could shrink, which would raise SIGBUS, is refused
 * (seals cannot be removed, memfd_create(2)). Kernel tables arrive as eBPF arrays, which can be
 * read but not mapped: bpf_array.c.
 *
 * A load from a hole of a memfd allocates a page, charged to the reader: a publisher could exhaust
 * a reader's memory with a region of holes. So a READ only loads from pages known to hold data.
 * Once the publisher cannot write through other descriptors (F_SEAL_FUTURE_WRITE), it cannot punch
 * holes either, and a page found to contain non-zero data keeps it. Other pages, and other memory,
 * are read by pread(2), which allocates nothing. lseek(2) is not used: its search for data waits
 * for the inode's lock, which the publisher can hold indefinitely, by a write() from memory whose
 * page faults it serves itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <sidelight/attach.h>

#include "base/base.h"
#include "base/text.h"
#include "fabric/provider.h"

#define LATER_NS	200000u	 /* with map_later: maximum time to wait for an answer */
#define HANGUP_CHECK_NS 2000000u /* interval of hang-up checks while up */
#define PAGE_SHIFT	12u	 /* on any machine, a hole is at least this large */

/* The mapping of a region; fabric_remote.local points to it. */
struct mapping {
	int fd;			       /* descriptor of the region's memory; -1 for an eBPF array */
	const uint64_t *memory;	       /* mapped memory; NULL means read with pread() */
	uint64_t *known;	       /* bit i is set if page i of memory holds data */
	struct fabric_bpf_array array; /* scratch is NULL if the region is not an eBPF array */
	size_t bytes;
	uint64_t epoch; /* epoch of the mapping's connection */
};

struct fabric_shm {
	struct fabric base;
	struct mapping directory;
	struct sockaddr_un address;
	int sock; /* socket of the agent; -1 while down */
	uint32_t serial;
	uint64_t deadline_ns; /* time limit of the WELCOME while connecting */
	uint64_t check_ns;    /* time of the next hang-up check while up */
	uint64_t asked;	      /* id of the region for which an answer is pending; 0 means none */
	uint64_t asked_ns;
};

/* An answer of the agent: payload according to its type, and its descriptor or -1. */
struct shm_answer {
	struct sl_msg msg;
	union {
		struct sl_msg_welcome welcome;
		struct sl_msg_region region;
		struct sl_msg_refused refused;
		uint8_t bytes[SL_MSG_MAX - sizeof(struct sl_msg)];
	} u;
	int fd;
};
_Static_assert(offsetof(struct shm_answer, u) == sizeof(struct sl_msg), "one packet");

static struct fabric_shm *shm_of(struct fabric *f)
{
	return (struct fabric_shm *)f;
}

/* ---- memory ---- */

/* Opens a kernel table, which is read but never mapped. */
static int mapping_array(struct fabric *f, struct mapping *m, int fd, uint64_t size, uint64_t epoch)
{
	struct fabric_bpf_array array;
	int err = size < SL_HEADER_SIZE || size > SL_REGION_SIZE_MAX
			  ? -EINVAL
			  : fabric_bpf_array_open(&array, fd, size);

	if (err) {
		fabric_failed(
			f,
			err == -EINVAL
				? "%s: the agent sent neither memory sealed against shrinking nor an eBPF array of the announced size"
			: err == -EPERM
				? "%s: this process may not read eBPF maps (before Linux 5.19, it needs CAP_SYS_ADMIN)"
				: "%s: cannot read an eBPF array",
			f->target);
		return err;
	}
	*m = (struct mapping){.fd = -1, .array = array, .bytes = size, .epoch = epoch};
	return 0;
}

static void mapping_drop(struct mapping *m)
{
	if (m->memory)
		munmap((void *)m->memory, m->bytes);
	if (m->array.scratch)
		fabric_bpf_array_close(&m->array);
	if (m->fd >= 0)
		close(m->fd);
	free(m->known);
	*m = (struct mapping){.fd = -1};
}

/* Maps memory that is sealed against hole punching. */
static int map_memory(struct fabric *f, struct mapping *m)
{
	void *memory = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, m->fd, 0);

	if (memory == MAP_FAILED) {
		fabric_failed(f, "%s: mmap: %s", f->target, strerror(errno));
		return -errno;
	}
	m->memory = memory;
	m->known = calloc((m->bytes >> PAGE_SHIFT) / 64 + 1, sizeof(*m->known));
	return m->known ? 0 : -ENOMEM;
}

/* Validates and maps the descriptor sent by the agent. Returns 0 or -errno. */
static int mapping_make(struct fabric *f, struct mapping *m, int fd, uint64_t size, uint64_t epoch)
{
	int seals = fcntl(fd, F_GET_SEALS), err = 0;
	struct stat st;

	if (seals < 0)
		return mapping_array(f, m, fd, size, epoch);
	if (!(seals & F_SEAL_SHRINK)) {
		fabric_failed(f, "%s: the agent sent memory that is not sealed against shrinking",
			      f->target);
		return -EINVAL;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (size < SL_HEADER_SIZE || size > SL_REGION_SIZE_MAX || (uint64_t)st.st_size < size) {
		fabric_failed(f, "%s: the agent announced %llu bytes and sent %llu", f->target,
			      (unsigned long long)size, (unsigned long long)st.st_size);
		return -EINVAL;
	}
	*m = (struct mapping){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), .bytes = size, .epoch = epoch};
	if (m->fd < 0)
		return -errno;
	if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		err = map_memory(f, m);
	if (err)
		mapping_drop(m);
	return err;
}

/*
 * Copies with 8-byte loads that do not tear, so that each cell is a value that was stored; the
 * check word shows which cells belong together. The loads pair with the publisher's stores; no
 * order is implied.
 */
static void copy_words(uint64_t *to, const uint64_t *from, size_t words)
{
	for (; words >= 8; words -= 8, to += 8, from += 8) {
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	while (words--)
		*to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
}

static void copy_from(const struct mapping *m, uint64_t offset, uint32_t length, void *to)
{
	const uint8_t *from = (const uint8_t *)m->memory + offset;

	if (((uintptr_t)from | (uintptr_t)to | length) & 7)
		memcpy(to, from, length);
	else
		copy_words(to, (const uint64_t *)from, length / 8);
}

static bool is_known(const struct mapping *m, uint64_t page)
{
	return m->known[page / 64] >> page % 64 & 1;
}

static int read_by_call(const struct mapping *m, uint64_t offset, uint32_t length, uint8_t *to)
{
	while (length) {
		ssize_t n = pread(m->fd, to, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		offset += (uint64_t)n;
		to += n;
		length -= (uint32_t)n;
	}
	return 0;
}

/* Marks the pages of a range as known if pread() found data in them. */
static void learn_pages(struct mapping *m, uint64_t offset, uint32_t length, const uint8_t *got)
{
	while (length) {
		uint64_t page = offset >> PAGE_SHIFT;
		uint32_t n = (uint32_t)BASE_MIN((uint64_t)length,
						((page + 1) << PAGE_SHIFT) - offset);

		if (*got || memcmp(got, got + 1, n - 1) != 0)
			m->known[page / 64] |= 1ull << page % 64;
		offset += n;
		got += n;
		length -= n;
	}
}

/* Copies a range: loads from pages that are known to hold data, and uses pread() for others. */
static int copy_pages(struct mapping *m, uint64_t offset, uint32_t length, uint8_t *to)
{
	while (length) {
		uint64_t page = offset >> PAGE_SHIFT, next = page + 1, end = offset + length;
		bool known = is_known(m, page);
		uint32_t n;
		int err = 0;

		while (next << PAGE_SHIFT < end && is_known(m, next) == known)
			next++;
		n = (uint32_t)(BASE_MIN(next << PAGE_SHIFT, end) - offset);
		if (known)
			copy_from(m, offset, n, to);
		else
			err = read_by_call(m, offset, n, to);
		if (err)
			return err;
		if (!known)
			learn_pages(m, offset, n, to);
		offset += n;
		to += n;
		length -= n;
	}
	return 0;
}

/*
 * Copies a range; a READ posted after this one completed copies later (fabric.h). Pairs with the
 * release fences of publishers: a reader that saw a hot line also sees the schema covered by it.
 */
static int copy_ordered(struct mapping *m, uint64_t offset, uint32_t length, void *to)
{
	int err;

	if (m->array.scratch)
		err = fabric_bpf_array_read(&m->array, offset, length, to);
	else if (m->memory)
		err = copy_pages(m, offset, length, to);
	else
		err = read_by_call(m, offset, length, to);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return err;
}

/* ---- the socket ---- */

static void hang_up(struct fabric_shm *s, uint64_t now_ns)
{
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
	s->asked = 0;
	mapping_drop(&s->directory);
	fabric_went_down(&s->base, now_ns, 0);
}

static void give_up(struct fabric_shm *s, uint64_t now_ns, const char *why)
{
	fabric_failed(&s->base, "%s: %s", s->base.target, why);
	hang_up(s, now_ns);
}

static int send_request(struct fabric_shm *s, enum sl_msg_type type, const void *payload,
			uint32_t length)
{
	struct sl_msg msg = {
		.magic = SL_MSG_MAGIC,
		.type = type,
		.length = length,
		.serial = ++s->serial,
	};
	const struct iovec parts[] = {{&msg, sizeof(msg)}, {(void *)payload, length}};

	return BASE_MIN(base_send_fds(s->sock, parts, 2, NULL, 0, MSG_DONTWAIT), 0);
}

/*
 * Receives one packet without waiting. Returns 0, -EAGAIN (no packet), -ENOTCONN (hung up), -EPROTO
 * (not an answer to the last request) or -EMFILE (no free descriptor). On 0 the caller owns a->fd.
 */
static int receive_answer(struct fabric_shm *s, struct shm_answer *a)
{
	ssize_t got = base_receive_fd(s->sock, a, sizeof(a->msg) + sizeof(a->u), MSG_DONTWAIT,
				      &a->fd);

	if (got < 0)
		return got == -EAGAIN || got == -EPROTO || got == -EMFILE ? (int)got : -ENOTCONN;
	if (got == 0 && a->fd < 0)
		return -ENOTCONN;
	if ((size_t)got < sizeof(a->msg) || a->msg.magic != SL_MSG_MAGIC ||
	    a->msg.length != (size_t)got - sizeof(a->msg) || a->msg.serial != s->serial) {
		if (a->fd >= 0)
			close(a->fd);
		a->fd = -1;
		return -EPROTO;
	}
	return 0;
}

/* Describes an error of receive_answer() and await_answer(). */
static const char *error_text(int err)
{
	return err == -ENOTCONN ? "the agent closed the connection"
	       : err == -EPROTO ? "invalid answer from the agent"
	       : err == -EMFILE ? "out of file descriptors: raise LimitNOFILE"
				: "the agent did not answer";
}

static void release_answer(struct shm_answer *a)
{
	if (a->fd >= 0)
		close(a->fd);
}

/* Converts a refusal to a negative errno, and stores its reason. */
static int read_refusal(struct fabric *f, struct shm_answer *a)
{
	int error;

	if (a->msg.length < offsetof(struct sl_msg_refused, reason) + 1) {
		fabric_failed(f, "%s: invalid answer from the agent", f->target);
		return -EPROTO;
	}
	a->u.bytes[a->msg.length - 1] = '\0';
	error = a->u.refused.error;
	base_harmless(a->u.refused.reason);
	fabric_failed(f, "%s: refused: %s", f->target, a->u.refused.reason);
	return error > 0 && error < 4096 ? -error : -EPROTO;
}

/* ---- connecting ---- */

static const char *path_of(const char *target)
{
	if (!strncmp(target, "unix:", 5))
		return target + 5;
	return target[0] == '/' ? target : NULL;
}

int fabric_agent_address(const char *path, struct sockaddr_un *to)
{
	size_t n = strlen(path);
	struct stat st;

	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!n || n >= sizeof(to->sun_path))
		return -ENAMETOOLONG;
	memcpy(to->sun_path, path, n);
	if (n + sizeof(SL_SOCKET_CONSUME) > sizeof(to->sun_path))
		return 0;
	memcpy(to->sun_path + n, SL_SOCKET_CONSUME, sizeof(SL_SOCKET_CONSUME));
	if (lstat(to->sun_path, &st) && errno == ENOENT)
		to->sun_path[n] = 0;
	return 0;
}

static void start_connecting(struct fabric_shm *s, uint64_t now_ns)
{
	struct fabric *f = &s->base;
	int err;

	fabric_agent_address(path_of(f->target), &s->address);
	s->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->sock < 0) {
		fabric_failed(f, "%s: socket: %s", f->target, strerror(errno));
		hang_up(s, now_ns);
		return;
	}
	/* On a unix socket this succeeds or fails at once; EAGAIN: the backlog is full. */
	err = connect(s->sock, (struct sockaddr *)&s->address, sizeof(s->address)) ? -errno : 0;
	err = err ?: send_request(s, SL_MSG_SUBSCRIBE, NULL, 0);
	if (err) {
		give_up(s, now_ns, strerror(-err));
		return;
	}
	s->deadline_ns = now_ns + (uint64_t)f->opts.connect_timeout_ms * 1000000u;
	f->state = FABRIC_CONNECTING;
}

static void handle_welcome(struct fabric_shm *s, uint64_t now_ns)
{
	struct fabric *f = &s->base;
	struct shm_answer a;
	bool up = false;
	int err = receive_answer(s, &a);

	if (err == -EAGAIN && now_ns < s->deadline_ns)
		return;
	if (err) {
		give_up(s, now_ns, error_text(err));
		return;
	}
	if (a.msg.type == SL_MSG_REFUSED)
		read_refusal(f, &a);
	else if (a.msg.type != SL_MSG_WELCOME || a.msg.length != sizeof(a.u.welcome) || a.fd < 0)
		fabric_failed(f, "%s: invalid answer from the agent", f->target);
	else
		up = !mapping_make(f, &s->directory, a.fd, a.u.welcome.size, f->epoch + 1);
	release_answer(&a);
	if (!up) {
		hang_up(s, now_ns);
		return;
	}
	s->check_ns = now_ns + HANGUP_CHECK_NS;
	fabric_went_up(
		f, &(struct fabric_remote){.length = s->directory.bytes, .local = &s->directory});
}

static uint64_t answer_deadline(const struct fabric_shm *s)
{
	return s->asked_ns + s->base.opts.answer_timeout_ms * 1000000ull;
}

/*
 * Detects a hang-up while no answer is expected. After an answer's deadline, discards a late
 * answer; if there is none, or after any other packet, closes the connection.
 */
static void look_for_hangup(struct fabric_shm *s, uint64_t now_ns)
{
	struct shm_answer a;
	int err;

	if (now_ns < s->check_ns || (s->asked && now_ns < answer_deadline(s)))
		return;
	s->check_ns = now_ns + HANGUP_CHECK_NS;
	err = receive_answer(s, &a);
	if (err == -EAGAIN && s->asked)
		give_up(s, now_ns, error_text(-ETIMEDOUT));
	if (err == -EAGAIN)
		return;
	release_answer(&a);
	if (!err && s->asked) {
		s->asked = 0;
		return;
	}
	give_up(s, now_ns,
		err == -ENOTCONN ? "the agent closed the connection"
				 : "the agent sent an unsolicited packet");
}

static void shm_drive(struct fabric *f, uint64_t now_ns)
{
	struct fabric_shm *s = shm_of(f);

	switch (f->state) {
	case FABRIC_DOWN:
		if (now_ns >= f->retry_ns)
			start_connecting(s, now_ns);
		break;
	case FABRIC_CONNECTING:
		handle_welcome(s, now_ns);
		break;
	case FABRIC_UP:
		look_for_hangup(s, now_ns);
		break;
	}
}

/* ---- regions ---- */

/*
 * Waits for the answer to the pending request; with map_later only briefly, because other hosts
 * must be read, too. Returns -EAGAIN if the caller must try again later.
 */
static int await_answer(struct fabric_shm *s, struct shm_answer *a)
{
	uint64_t deadline = answer_deadline(s), until = deadline, now;

	if (s->base.opts.map_later)
		until = BASE_MIN(deadline, base_now_ns() + LATER_NS);
	for (;;) {
		struct pollfd p = {.fd = s->sock, .events = POLLIN};
		struct timespec left = {0};
		int err = receive_answer(s, a);

		if (err != -EAGAIN)
			return err;
		now = base_now_ns();
		if (now >= deadline)
			return -ETIMEDOUT;
		if (now >= until)
			return -EAGAIN;
		left.tv_sec = (time_t)((until - now) / 1000000000u);
		left.tv_nsec = (long)((until - now) % 1000000000u);
		ppoll(&p, 1, &left, NULL);
	}
}

/*
 * Requests a region, unless its request is pending, and receives the answer. Returns -EAGAIN if it
 * has not arrived yet.
 */
static int ask_for(struct fabric_shm *s, uint64_t id, struct shm_answer *a)
{
	struct sl_msg_id say = {.id = id};
	int err;

	if (s->asked && s->asked != id) {
		/* The pending answer is for another region, which is no longer needed. */
		err = await_answer(s, a);
		if (err)
			return err;
		release_answer(a);
		s->asked = 0;
	}
	if (!s->asked) {
		if (send_request(s, SL_MSG_OPEN, &say, sizeof(say)))
			return -EPROTO;
		s->asked = id;
		s->asked_ns = base_now_ns();
	}
	err = await_answer(s, a);
	if (err != -EAGAIN)
		s->asked = 0;
	return err;
}

/*
 * An agent answers within microseconds, unless the CPUs are busy. If it does not answer in time,
 * close the connection, so that a late answer is not mistaken for the answer to another request.
 */
static int shm_map(struct fabric *f, struct fabric_remote *remote)
{
	struct fabric_shm *s = shm_of(f);
	struct mapping *m;
	struct shm_answer a;
	int err;

	if (remote->id == 0 || remote->local)
		return -EINVAL;
	err = ask_for(s, remote->id, &a);
	if (err == -EAGAIN)
		return err;
	if (err)
		goto err;
	if (a.msg.type == SL_MSG_REFUSED) {
		err = read_refusal(f, &a);
		err = err == -EAGAIN ? -EBUSY : err;
	} else if (a.msg.type != SL_MSG_REGION || a.msg.length != sizeof(a.u.region) || a.fd < 0 ||
		   a.u.region.id != remote->id) {
		err = -EPROTO;
	} else if (a.u.region.size != remote->length) {
		fabric_failed(f,
			      "%s: region %llu has %llu bytes according to the directory, but "
			      "%llu according to the agent",
			      f->target, (unsigned long long)remote->id,
			      (unsigned long long)remote->length,
			      (unsigned long long)a.u.region.size);
		err = -EINVAL;
	} else {
		m = malloc(sizeof(*m));
		err = m ? mapping_make(f, m, a.fd, remote->length, f->epoch) : -ENOMEM;
		if (!err)
			remote->local = m;
		else
			free(m);
	}
	release_answer(&a);
	if (err != -EPROTO)
		return err;
err:
	fabric_failed(f, "%s: region %llu: %s", f->target, (unsigned long long)remote->id,
		      error_text(err));
	hang_up(s, base_now_ns());
	return -ENOTCONN;
}

static void shm_unmap(struct fabric *f, struct fabric_remote *remote)
{
	struct mapping *m = remote->local;

	if (!m || m == &shm_of(f)->directory)
		return;
	mapping_drop(m);
	free(m);
	remote->local = NULL;
}

static uint32_t shm_post(struct fabric *f, struct fabric_read *reads, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct fabric_read *r = &reads[i];
		struct mapping *m = r->remote->local;

		if (!m || m->epoch != f->epoch) {
			fabric_finish(f, r, -EACCES);
			continue;
		}
		if (r->offset > m->bytes || r->length > m->bytes - r->offset) {
			fabric_finish(f, r, -ERANGE);
			continue;
		}
		f->stats.work_requests++;
		fabric_finish(f, r, copy_ordered(m, r->offset, r->length, r->to));
	}
	f->stats.doorbells++;
	return count;
}

/* Expects no answer: the agent counts the outcome. */
static int shm_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	int err = send_request(shm_of(f), SL_MSG_VERDICT, verdict, sizeof(*verdict));

	(void)entry;
	if (!err || err == -EAGAIN)
		return err;
	give_up(shm_of(f), base_now_ns(), strerror(-err));
	return -ENOTCONN;
}

/* ---- opening ---- */

static bool shm_takes(const char *target)
{
	return path_of(target) != NULL;
}

static int shm_init(struct fabric *f, const char *target)
{
	struct fabric_shm *s = shm_of(f);

	s->sock = s->directory.fd = -1;
	if (fabric_agent_address(path_of(target), &s->address)) {
		fabric_failed(f, "'%s': a socket path must be 1 to %zu bytes long", target,
			      sizeof(s->address.sun_path) - 1);
		return -EINVAL;
	}
	return 0;
}

static void shm_fini(struct fabric *f)
{
	struct fabric_shm *s = shm_of(f);

	mapping_drop(&s->directory);
	if (s->sock >= 0)
		close(s->sock);
}

const struct fabric_ops fabric_provider_shm = {
	.name = "shm",
	.takes = shm_takes,
	.bytes = sizeof(struct fabric_shm),
	.open = shm_init,
	.close = shm_fini,
	.drive = shm_drive,
	.map = shm_map,
	.unmap = shm_unmap,
	.post = shm_post,
	.notify = shm_notify,
};
