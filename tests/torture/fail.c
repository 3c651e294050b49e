// SPDX-License-Identifier: Apache-2.0
/*
 * fail.c - a preload library that makes one allocation or system call fail.
 *
 * A point is a function and the place from which the program calls it: a hash of the nearest return
 * addresses, relative to their modules, so that it is the same in every run and every thread.
 *
 *   FAIL_TRACE=FILE    write a line per point reached, and at the exit what is still allocated
 *   FAIL_AT=POINT[:N]  the N-th call at this point fails (default 1)
 *   FAIL_ERRNO=NUMBER  with this error instead of the function's usual one
 *   FAIL_MODULE=NAME   the program is this library, not the executable
 *   FAIL_CLOCK=FILE    CLOCK_REALTIME and CLOCK_BOOTTIME are off by as many seconds as the file's
 * first 8 bytes say
 *
 * Both files are mapped at the start, because a confined process can't open them, and a loader of
 * eBPF programs closes the descriptors that it inherits. A fork shares the trace.
 *
 * Calls of the dynamic linker, and those that libc makes of itself inside a call listed here, do
 * not count. close(), free() and munmap() do not fail on Linux.
 */
#undef _FILE_OFFSET_BITS /* open() and open64() are both here */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define EXPORT	__attribute__((visibility("default")))
#define FRAMES	32
#define NEAREST 3 /* number of the program's frames that identify a point */
#define POINTS	(1u << 14)
#define BLOCKS	(1u << 18)

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static struct {
	uintptr_t begin, end; /* the program's code */
	uintptr_t ld_begin, ld_end;
	struct trace *trace;
	uint64_t at;
	long nth;
	int error;
	const char *module;
	const _Atomic int64_t *clock;
	bool on;
} fail;

#define TRACE_BYTES (16u << 20) /* sparse */

/* The contents of a trace file. */
struct trace {
	_Atomic uint64_t used;	  /* bytes of text */
	_Atomic uint64_t reached; /* number of calls at the failing point, in all processes */
	char text[TRACE_BYTES - 16];
};

static _Thread_local int depth __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t points[POINTS];
static _Atomic uint32_t calls[POINTS];

/* ---- points ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

static bool of_program(uintptr_t at)
{
	return at >= fail.begin && at < fail.end;
}

/* Returns the point of this call, or 0 if the program did not make the call. */
static uint64_t point_of(const char *name, void **frames, int n, bool *outside)
{
	uint64_t h = 1;
	int own = 0, foreign = 0;

	for (const char *c = name; *c; c++)
		h = mix(h, (unsigned char)*c);
	for (int i = 0; i < n && own < NEAREST; i++) {
		uintptr_t at = (uintptr_t)frames[i];

		if (!foreign && !own && at >= fail.ld_begin && at < fail.ld_end)
			return 0;
		if (of_program(at)) {
			h = mix(h, at - fail.begin);
			own++;
		} else if (!own && foreign < 2) {
			/* Modules have the same offset within a page in every run. */
			h = mix(h, at & 4095);
			foreign++;
		}
	}
	*outside = !own;
	return h ? h : 1;
}

static size_t slot_of(uint64_t point, bool *fresh)
{
	for (size_t i = point % POINTS;; i = (i + 1) % POINTS) {
		uint64_t seen = atomic_load(&points[i]);

		*fresh = !seen && atomic_compare_exchange_strong(&points[i], &seen, point);
		if (*fresh || seen == point)
			return i;
	}
}

static void put(const char *line, size_t bytes)
{
	uint64_t at = atomic_fetch_add(&fail.trace->used, bytes);

	if (at + bytes <= sizeof(fail.trace->text))
		memcpy(fail.trace->text + at, line, bytes);
}

static void tell(const char *what, uint64_t point, const char *name, void **frames, int n,
		 bool outside)
{
	char line[1024];
	int used = snprintf(line, sizeof(line), "%s %016llx %s %s", what, (unsigned long long)point,
			    name, outside ? "outside" : "inside");

	for (int i = 0, own = 0; i < n && own < NEAREST + 3 && used < 900; i++) {
		const char *base;
		Dl_info info;

		if (!dladdr(frames[i], &info) || !info.dli_fname)
			continue;
		own += of_program((uintptr_t)frames[i]);
		base = strrchr(info.dli_fname, '/');
		used += snprintf(line + used, sizeof(line) - (size_t)used, " %s+%lx",
				 base ? base + 1 : info.dli_fname,
				 (unsigned long)((uintptr_t)frames[i] - (uintptr_t)info.dli_fbase));
	}
	line[used++] = '\n';
	put(line, (size_t)used);
}

/* ---- what is allocated ---- */

#define BUCKETS (1u << 14)

struct block {
	struct block *next;
	void *at;
	uint64_t point;
};
static struct block *bucket[BUCKETS], *vacant;
static struct block *blocks; /* has BLOCKS elements, blocks_used of which are in use */
static size_t blocks_used;
static atomic_flag blocks_lock = ATOMIC_FLAG_INIT;

static struct block **bucket_of(void *p)
{
	return &bucket[((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ull >> 50];
}

static void remember(void *p, uint64_t point)
{
	struct block **first = bucket_of(p), *b = NULL;

	if (!p || !blocks || !point)
		return;
	while (atomic_flag_test_and_set(&blocks_lock))
		;
	if (vacant) {
		b = vacant;
		vacant = b->next;
	} else if (blocks_used < BLOCKS) {
		b = &blocks[blocks_used++];
	}
	if (b) {
		*b = (struct block){*first, p, point};
		*first = b;
	}
	atomic_flag_clear(&blocks_lock);
}

static void forget(void *p)
{
	struct block **at = bucket_of(p), *b;

	if (!p || !blocks)
		return;
	while (atomic_flag_test_and_set(&blocks_lock))
		;
	while ((b = *at) && b->at != p)
		at = &b->next;
	if (b) {
		*at = b->next;
		*b = (struct block){.next = vacant};
		vacant = b;
	}
	atomic_flag_clear(&blocks_lock);
}

/* ---- the decision ---- */

static uint64_t last_point(uint64_t set)
{
	static _Thread_local uint64_t point __attribute__((tls_model("initial-exec")));
	uint64_t was = point;

	point = set;
	return was;
}

/* Returns whether this call fails; then errno is set. */
static __attribute__((noinline)) bool fails(const char *name, int error)
{
	void *frames[FRAMES];
	bool fresh, outside;
	uint64_t point;
	int n, saved = errno;

	last_point(0);
	if (!fail.on || depth)
		return false;
	depth++;
	n = backtrace(frames, FRAMES) - 2; /* not counting this function and its caller here */
	point = n > 0 ? point_of(name, frames + 2, n, &outside) : 0;
	errno = saved;
	if (point) {
		size_t i = slot_of(point, &fresh);

		atomic_fetch_add(&calls[i], 1);
		if (fresh && fail.trace)
			tell("point", point, name, frames + 2, n, outside);
		if (!outside)
			last_point(point);
	}
	depth--;
	if (!point || point != fail.at ||
	    atomic_fetch_add(&fail.trace->reached, 1) + 1 != (uint64_t)fail.nth)
		return false;
	if (fail.trace)
		tell("failed", point, name, frames + 2, n, outside);
	last_point(0);
	errno = fail.error ? fail.error : error;
	return true;
}

/* ---- calls ---- */

#define REAL(name)                                       \
	({                                               \
		static void *real_;                      \
		if (!real_)                              \
			real_ = dlsym(RTLD_NEXT, #name); \
		(__typeof__(&name))real_;                \
	})

#define CALL(name, type, bad, error, parameters, ...) \
	EXPORT type name parameters                   \
	{                                             \
		type result_;                         \
		if (fails(#name, error))              \
			return bad;                   \
		depth++;                              \
		result_ = REAL(name)(__VA_ARGS__);    \
		depth--;                              \
		return result_;                       \
	}
/* The functions of pthread return the error. */
#define PTHREAD(name, error, parameters, ...)      \
	EXPORT int name parameters                 \
	{                                          \
		int result_;                       \
		if (fails(#name, error))           \
			return errno;              \
		depth++;                           \
		result_ = REAL(name)(__VA_ARGS__); \
		depth--;                           \
		return result_;                    \
	}
/* A function that allocates its result. */
#define GIVES(name, parameters, how)                      \
	EXPORT void *name parameters                      \
	{                                                 \
		void *result_;                            \
		if (fails(#name, ENOMEM))                 \
			return NULL;                      \
		result_ = how;                            \
		if (!depth)                               \
			remember(result_, last_point(0)); \
		return result_;                           \
	}

GIVES(malloc, (size_t n), __libc_malloc(n))
GIVES(calloc, (size_t n, size_t m), __libc_calloc(n, m))
GIVES(aligned_alloc, (size_t align, size_t n), __libc_memalign(align, n))
GIVES(memalign, (size_t align, size_t n), __libc_memalign(align, n))

static void *grown(void *p, size_t n)
{
	uint64_t point = last_point(0);
	void *q;

	forget(p); /* before another thread may get the same address */
	q = __libc_realloc(p, n);
	remember(q ? q : n ? p : NULL, point);
	return q;
}

EXPORT void *realloc(void *p, size_t n)
{
	return fails("realloc", ENOMEM) ? NULL : grown(p, n);
}

EXPORT void *reallocarray(void *p, size_t n, size_t m)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, m, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return fails("reallocarray", ENOMEM) ? NULL : grown(p, bytes);
}

EXPORT int posix_memalign(void **to, size_t align, size_t n)
{
	if (fails("posix_memalign", ENOMEM))
		return ENOMEM;
	*to = __libc_memalign(align, n);
	remember(*to, last_point(0));
	return *to ? 0 : ENOMEM;
}

EXPORT void free(void *p)
{
	forget(p);
	__libc_free(p);
}

EXPORT char *strndup(const char *s, size_t n)
{
	size_t bytes = strnlen(s, n);
	char *copy;

	if (fails("strndup", ENOMEM))
		return NULL;
	copy = __libc_malloc(bytes + 1);
	if (copy) {
		memcpy(copy, s, bytes);
		copy[bytes] = 0;
	}
	remember(copy, last_point(0));
	return copy;
}

EXPORT char *strdup(const char *s)
{
	size_t bytes = strlen(s) + 1;
	char *copy;

	if (fails("strdup", ENOMEM))
		return NULL;
	copy = __libc_malloc(bytes);
	if (copy)
		memcpy(copy, s, bytes);
	remember(copy, last_point(0));
	return copy;
}

EXPORT int vasprintf(char **to, const char *fmt, va_list ap)
{
	int n;

	if (fails("vasprintf", ENOMEM)) {
		*to = NULL;
		return -1;
	}
	depth++;
	n = REAL(vasprintf)(to, fmt, ap);
	depth--;
	if (n >= 0)
		remember(*to, last_point(0));
	return n;
}

EXPORT int asprintf(char **to, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (fails("asprintf", ENOMEM)) {
		*to = NULL;
		return -1;
	}
	depth++;
	va_start(ap, fmt);
	n = REAL(vasprintf)(to, fmt, ap);
	va_end(ap);
	depth--;
	if (n >= 0)
		remember(*to, last_point(0));
	return n;
}

CALL(open_memstream, FILE *, NULL, ENOMEM, (char **to, size_t *bytes), to, bytes)
CALL(fopen, FILE *, NULL, EMFILE, (const char *path, const char *mode), path, mode)
CALL(fopen64, FILE *, NULL, EMFILE, (const char *path, const char *mode), path, mode)
CALL(fdopen, FILE *, NULL, ENOMEM, (int fd, const char *mode), fd, mode)
CALL(fflush, int, EOF, ENOSPC, (FILE * f), f)
CALL(opendir, DIR *, NULL, EMFILE, (const char *path), path)
CALL(fdopendir, DIR *, NULL, ENOMEM, (int fd), fd)
CALL(getifaddrs, int, -1, ENOMEM, (struct ifaddrs * *to), to)
CALL(memfd_create, int, -1, EMFILE, (const char *s, unsigned int f), s, f)
CALL(ftruncate64, int, -1, EFBIG, (int fd, off64_t n), fd, n)
CALL(fallocate64, int, -1, ENOSPC, (int fd, int m, off64_t at, off64_t n), fd, m, at, n)
CALL(posix_fallocate64, int, ENOSPC, 0, (int fd, off64_t at, off64_t n), fd, at, n)
CALL(fchmod, int, -1, EPERM, (int fd, mode_t m), fd, m)
CALL(chmod, int, -1, EPERM, (const char *path, mode_t m), path, m)
CALL(mkdir, int, -1, ENOSPC, (const char *path, mode_t m), path, m)
CALL(unlink, int, -1, EPERM, (const char *path), path)
CALL(rename, int, -1, ENOSPC, (const char *a, const char *b), a, b)
CALL(readlink, ssize_t, -1, EACCES, (const char *path, char *to, size_t n), path, to, n)
CALL(access, int, -1, EACCES, (const char *path, int mode), path, mode)
CALL(fstat64, int, -1, ENOMEM, (int fd, struct stat64 *st), fd, st)
CALL(stat64, int, -1, ENOMEM, (const char *path, struct stat64 *st), path, st)
CALL(lstat64, int, -1, ENOMEM, (const char *path, struct stat64 *st), path, st)
CALL(fstatat64, int, -1, ENOMEM, (int d, const char *path, struct stat64 *st, int f), d, path, st,
     f)
CALL(fsync, int, -1, EIO, (int fd), fd)
CALL(lseek64, off64_t, -1, EIO, (int fd, off64_t at, int how), fd, at, how)
CALL(mmap, void *, MAP_FAILED, ENOMEM, (void *a, size_t n, int p, int f, int fd, off_t o), a, n, p,
     f, fd, o)
CALL(mmap64, void *, MAP_FAILED, ENOMEM, (void *a, size_t n, int p, int f, int fd, off64_t o), a, n,
     p, f, fd, o)
CALL(madvise, int, -1, EAGAIN, (void *a, size_t n, int what), a, n, what)
CALL(read, ssize_t, -1, EIO, (int fd, void *to, size_t n), fd, to, n)
CALL(write, ssize_t, -1, ENOSPC, (int fd, const void *from, size_t n), fd, from, n)
CALL(pread64, ssize_t, -1, EIO, (int fd, void *to, size_t n, off64_t at), fd, to, n, at)
CALL(pwrite64, ssize_t, -1, ENOSPC, (int fd, const void *from, size_t n, off64_t at), fd, from, n,
     at)
CALL(socket, int, -1, EMFILE, (int d, int t, int p), d, t, p)
CALL(socketpair, int, -1, EMFILE, (int d, int t, int p, int fd[2]), d, t, p, fd)
CALL(bind, int, -1, EADDRINUSE, (int fd, const struct sockaddr *a, socklen_t n), fd, a, n)
CALL(listen, int, -1, EADDRINUSE, (int fd, int n), fd, n)
CALL(connect, int, -1, ECONNREFUSED, (int fd, const struct sockaddr *a, socklen_t n), fd, a, n)
CALL(accept4, int, -1, EMFILE, (int fd, struct sockaddr *a, socklen_t *n, int f), fd, a, n, f)
CALL(accept, int, -1, EMFILE, (int fd, struct sockaddr *a, socklen_t *n), fd, a, n)
CALL(getsockname, int, -1, ENOBUFS, (int fd, struct sockaddr *a, socklen_t *n), fd, a, n)
CALL(getpeername, int, -1, ENOTCONN, (int fd, struct sockaddr *a, socklen_t *n), fd, a, n)
CALL(getsockopt, int, -1, ENOMEM, (int fd, int l, int o, void *v, socklen_t *n), fd, l, o, v, n)
CALL(setsockopt, int, -1, ENOMEM, (int fd, int l, int o, const void *v, socklen_t n), fd, l, o, v,
     n)
CALL(shutdown, int, -1, ENOTCONN, (int fd, int how), fd, how)
CALL(send, ssize_t, -1, ENOBUFS, (int fd, const void *m, size_t n, int f), fd, m, n, f)
CALL(sendto, ssize_t, -1, ENOBUFS,
     (int fd, const void *m, size_t n, int f, const struct sockaddr *a, socklen_t l), fd, m, n, f,
     a, l)
CALL(sendmsg, ssize_t, -1, ENOBUFS, (int fd, const struct msghdr *m, int f), fd, m, f)
CALL(sendmmsg, int, -1, ENOBUFS, (int fd, struct mmsghdr *m, unsigned int n, int f), fd, m, n, f)
CALL(recv, ssize_t, -1, ENOMEM, (int fd, void *m, size_t n, int f), fd, m, n, f)
CALL(recvfrom, ssize_t, -1, ENOMEM,
     (int fd, void *m, size_t n, int f, struct sockaddr *a, socklen_t *l), fd, m, n, f, a, l)
CALL(recvmsg, ssize_t, -1, ENOMEM, (int fd, struct msghdr *m, int f), fd, m, f)
CALL(recvmmsg, int, -1, ENOMEM,
     (int fd, struct mmsghdr *m, unsigned int n, int f, struct timespec *t), fd, m, n, f, t)
CALL(poll, int, -1, EINTR, (struct pollfd * p, nfds_t n, int ms), p, n, ms)
CALL(epoll_create1, int, -1, EMFILE, (int f), f)
CALL(epoll_ctl, int, -1, ENOSPC, (int e, int op, int fd, struct epoll_event *v), e, op, fd, v)
CALL(epoll_wait, int, -1, EINTR, (int e, struct epoll_event *v, int n, int ms), e, v, n, ms)
CALL(eventfd, int, -1, EMFILE, (unsigned int n, int f), n, f)
CALL(timerfd_create, int, -1, EMFILE, (clockid_t c, int f), c, f)
CALL(timerfd_settime, int, -1, EINVAL,
     (int fd, int f, const struct itimerspec *v, struct itimerspec *old), fd, f, v, old)
CALL(signalfd, int, -1, EMFILE, (int fd, const sigset_t *s, int f), fd, s, f)
CALL(pipe2, int, -1, EMFILE, (int fd[2], int f), fd, f)
CALL(dup, int, -1, EMFILE, (int fd), fd)
CALL(dup2, int, -1, EMFILE, (int fd, int to), fd, to)
CALL(flock, int, -1, ENOLCK, (int fd, int what), fd, what)
CALL(fork, pid_t, -1, EAGAIN, (void))
CALL(getrandom, ssize_t, -1, ENOSYS, (void *to, size_t n, unsigned int f), to, n, f)
CALL(gethostname, int, -1, ENAMETOOLONG, (char *to, size_t n), to, n)
CALL(getrlimit64, int, -1, EPERM, (__rlimit_resource_t what, struct rlimit64 *to), what, to)
CALL(setrlimit64, int, -1, EPERM, (__rlimit_resource_t what, const struct rlimit64 *to), what, to)
CALL(clock_nanosleep, int, EINTR, 0,
     (clockid_t c, int f, const struct timespec *t, struct timespec *left), c, f, t, left)
CALL(nanosleep, int, -1, EINTR, (const struct timespec *t, struct timespec *left), t, left)
CALL(usleep, int, -1, EINTR, (useconds_t us), us)
CALL(getaddrinfo, int, EAI_MEMORY, 0,
     (const char *h, const char *s, const struct addrinfo *hints, struct addrinfo **to), h, s,
     hints, to)
PTHREAD(pthread_create, EAGAIN,
	(pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *arg), t, a, f, arg)
PTHREAD(pthread_attr_init, ENOMEM, (pthread_attr_t * a), a)
PTHREAD(pthread_attr_setstacksize, EINVAL, (pthread_attr_t * a, size_t n), a, n)
PTHREAD(pthread_key_create, EAGAIN, (pthread_key_t * k, void (*f)(void *)), k, f)
PTHREAD(pthread_setspecific, ENOMEM, (pthread_key_t k, const void *v), k, v)
PTHREAD(pthread_cond_init, ENOMEM, (pthread_cond_t * c, const pthread_condattr_t *a), c, a)
PTHREAD(pthread_mutex_init, ENOMEM, (pthread_mutex_t * m, const pthread_mutexattr_t *a), m, a)
PTHREAD(pthread_setaffinity_np, EINVAL, (pthread_t t, size_t n, const cpu_set_t *s), t, n, s)

/* A function with one optional argument that fits in a register. */
#define VARIADIC(name, error, parameters, last, ...)      \
	EXPORT int name parameters                        \
	{                                                 \
		va_list ap_;                              \
		long more_;                               \
		int result_;                              \
		va_start(ap_, last);                      \
		more_ = va_arg(ap_, long);                \
		va_end(ap_);                              \
		if (fails(#name, error))                  \
			return -1;                        \
		depth++;                                  \
		result_ = REAL(name)(__VA_ARGS__, more_); \
		depth--;                                  \
		return result_;                           \
	}
VARIADIC(open, EMFILE, (const char *path, int f, ...), f, path, f)
VARIADIC(open64, EMFILE, (const char *path, int f, ...), f, path, f)
VARIADIC(openat64, EMFILE, (int d, const char *path, int f, ...), f, d, path, f)
VARIADIC(fcntl64, EINVAL, (int fd, int what, ...), what, fd, what)
VARIADIC(ioctl, ENOTTY, (int fd, unsigned long what, ...), what, fd, what)

EXPORT long syscall(long number, ...)
{
	long a[6], result;
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	/* A futex and the thread's number are not calls that fail. */
	if (number != SYS_futex && number != SYS_gettid && fails("syscall", ENOSYS))
		return -1;
	depth++;
	result = REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	depth--;
	return result;
}

/* ---- the clock ---- */

EXPORT int clock_gettime(clockid_t clock, struct timespec *t)
{
	int err = (int)REAL(clock_gettime)(clock, t);

	if (!err && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME) && fail.clock)
		t->tv_sec += atomic_load(fail.clock);
	return err;
}

/* ---- start and end ---- */

static int look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	bool *first = arg;
	uintptr_t begin = UINTPTR_MAX, end = 0;
	bool main_program = *first, linker = strstr(info->dlpi_name, "/ld-linux") != NULL;

	(void)bytes;
	*first = false;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (info->dlpi_addr + p->p_vaddr < begin)
			begin = info->dlpi_addr + p->p_vaddr;
		if (info->dlpi_addr + p->p_vaddr + p->p_memsz > end)
			end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	if (fail.module ? strstr(info->dlpi_name, fail.module) != NULL : main_program) {
		fail.begin = begin;
		fail.end = end;
	} else if (linker) {
		fail.ld_begin = begin;
		fail.ld_end = end;
	}
	return 0;
}

static void in_child(void)
{
	atomic_flag_clear(&blocks_lock);
}

/* Maps a file that this process shares with the test; calls abort() if it is missing. */
static void *mapped(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, (off_t)bytes))
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		abort();
	close(fd);
	return at;
}

static __attribute__((constructor)) void begin(void)
{
	const char *trace = getenv("FAIL_TRACE"), *at = getenv("FAIL_AT"),
		   *error = getenv("FAIL_ERRNO"), *clock = getenv("FAIL_CLOCK");
	void *frames[2];
	bool first = true;
	char *end;

	fail.module = getenv("FAIL_MODULE");
	dl_iterate_phdr(look, &first);
	backtrace(frames, 2); /* loads the unwinder */
	if (trace) {
		fail.trace = mapped(trace, sizeof(*fail.trace));
		blocks = mmap(NULL, BLOCKS * sizeof(*blocks), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (blocks == MAP_FAILED)
			blocks = NULL;
	}
	if (clock)
		fail.clock = mapped(clock, sizeof(*fail.clock));
	if (at) {
		fail.at = strtoull(at, &end, 16);
		fail.nth = *end == ':' ? atol(end + 1) : 1;
	}
	fail.error = error ? atoi(error) : 0;
	/* Only this process; but "sidelight" executes the intended program. */
	if (strcmp(program_invocation_short_name, "sidelight"))
		unsetenv("LD_PRELOAD");
	pthread_atfork(NULL, NULL, in_child);
	fail.on = fail.trace;
}

/* Writes the remaining blocks, by the point that allocated them, and the remaining descriptors. */
static __attribute__((destructor)) void end(void)
{
	char line[64];
	int n;

	if (!fail.trace)
		return;
	fail.on = false;
	for (int fd = 0; fd < 1000; fd++) {
		char path[32], to[32];

		if ((int)REAL(fcntl64)(fd, F_GETFD, 0) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = (int)REAL(readlink)(path, to, sizeof(to));
		n = snprintf(line, sizeof(line), "file %d %.*s\n", fd, n < 0 ? 0 : n, to);
		put(line, (size_t)n);
	}
	for (size_t i = 0; i < blocks_used; i++) {
		if (!blocks[i].at)
			continue;
		n = snprintf(line, sizeof(line), "left %016llx\n",
			     (unsigned long long)blocks[i].point);
		put(line, (size_t)n);
	}
	for (size_t i = 0; i < POINTS; i++) {
		if (!points[i])
			continue;
		n = snprintf(line, sizeof(line), "calls %016llx %u\n",
			     (unsigned long long)points[i], calls[i]);
		put(line, (size_t)n);
	}
}
