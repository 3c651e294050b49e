// SPDX-License-Identifier: Apache-2.0
/* confine_calls.c - the system calls that a role may make, by libseccomp. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine_internal.h"

/* Other architectures are untested: no restriction. */
#if HAVE_SECCOMP && (defined(__x86_64__) || defined(__aarch64__))
#include <seccomp.h>

/* Missing in the headers of some distributions; equal on all architectures. */
#define CALL_FUTEX_WAITV  449
#define CALL_MAP_SHADOW	  453
#define CALL_FUTEX_WAKE	  454
#define CALL_FUTEX_WAIT	  455
#define CALL_EPOLL_PWAIT2 441
#define CALL_FACCESSAT2	  439
#define CALL_CLOSE_RANGE  436

/* clang-format off */
/* Calls for libc, threads and event loops: memory, time, signals, this process. */
static const int common[] = {
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_close,
	SYS_fstat, SYS_lseek, SYS_openat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs,
	SYS_faccessat, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_fcntl, SYS_flock, SYS_dup,
	SYS_dup3, SYS_pipe2, SYS_ioctl, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap,
	SYS_madvise, SYS_brk, SYS_mincore, SYS_mlock, SYS_mlock2, SYS_munlock, SYS_msync,
	SYS_membarrier, SYS_memfd_create, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_signalfd4,
	SYS_restart_syscall, SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq,
	SYS_set_tid_address, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity,
	SYS_sched_getscheduler, SYS_sched_getparam, SYS_getcpu, SYS_gettid, SYS_getpid,
	SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid,
	SYS_getresgid, SYS_getgroups, SYS_exit, SYS_exit_group, SYS_clock_gettime,
	SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_times,
	SYS_getrusage, SYS_sysinfo, SYS_uname, SYS_getrandom, SYS_ppoll, SYS_pselect6,
	SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2, SYS_timerfd_create,
	SYS_timerfd_settime, SYS_timerfd_gettime, SYS_prctl, SYS_capget, SYS_sendmsg, SYS_recvmsg,
	SYS_sendto, SYS_recvfrom, SYS_pidfd_open, SYS_waitid, SYS_wait4, CALL_FUTEX_WAITV,
	CALL_MAP_SHADOW, CALL_FUTEX_WAKE, CALL_FUTEX_WAIT, CALL_EPOLL_PWAIT2, CALL_FACCESSAT2,
	CALL_CLOSE_RANGE,
};

/* Calls for roles that open sockets and files themselves. */
static const int networkers[] = {
	SYS_socketpair, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect,
	SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_sendmmsg,
	SYS_recvmmsg, SYS_shutdown, SYS_sendfile, SYS_splice, SYS_tee, SYS_unlinkat, SYS_renameat,
	SYS_renameat2, SYS_mkdirat, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync,
	SYS_sync_file_range, SYS_fchmod, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2,
	SYS_fadvise64, SYS_getitimer,
};

/* Calls for an HTTP server's front, which serves its listener and connections but opens nothing. */
static const int front[] = {
	SYS_read, SYS_write, SYS_writev, SYS_close, SYS_fstat, SYS_lseek, SYS_fcntl, SYS_mmap,
	SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_membarrier,
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
	SYS_restart_syscall, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_sched_yield,
	SYS_sched_getaffinity, SYS_gettid, SYS_getpid, SYS_exit, SYS_exit_group,
	SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getrandom,
	SYS_ppoll, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2, SYS_prctl,
	SYS_sendmsg, SYS_sendto, SYS_recvfrom, SYS_accept, SYS_accept4, SYS_getsockname,
	SYS_getpeername, SYS_getsockopt, SYS_shutdown, CALL_FUTEX_WAITV, CALL_MAP_SHADOW,
	CALL_FUTEX_WAKE, CALL_FUTEX_WAIT, CALL_EPOLL_PWAIT2,
};

/* Additional calls for the spawner, which forks and kills the front. */
static const int spawner[] = {
	SYS_recvmsg, SYS_clone, SYS_dup3, SYS_getppid, SYS_kill, SYS_capget, SYS_capset,
	SYS_seccomp, SYS_set_tid_address,
};

/* Real-time priority of workers, within RLIMIT_RTPRIO, and the timer that bounds it. */
static const int collector[] = {SYS_timer_create, SYS_timer_settime, SYS_timer_delete};

/* Harmless calls that newer architectures lack. */
#if defined(__x86_64__)
static const int common_older[] = {
	SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_dup2, SYS_pipe, SYS_poll,
	SYS_select, SYS_epoll_wait, SYS_epoll_create, SYS_eventfd, SYS_getrlimit, SYS_time,
	SYS_arch_prctl, SYS_getpgrp,
};
static const int networkers_older[] = {
	SYS_unlink, SYS_rename, SYS_mkdir,
};
static const int front_older[] = {
	SYS_poll, SYS_epoll_wait, SYS_epoll_create, SYS_eventfd, SYS_time, SYS_arch_prctl,
};
#else
static const int common_older[] = {SYS_read}, networkers_older[] = {SYS_read};
static const int front_older[] = {SYS_read};
#endif

/* clang-format on */

/* Looks up cgroup names by id. */
static const int loader[] = {SYS_name_to_handle_at, SYS_open_by_handle_at};

/* Reads the state of the clock; setting the clock requires a capability. */
static const int bridge[] = {SYS_adjtimex, SYS_clock_adjtime};

/* Calls that are allowed if one argument equals a value, or has a bit of it set. */
struct with_argument {
	int call;
	unsigned int index;
	uint32_t value;
	bool bit;
};

static const struct with_argument own[] = {
	{SYS_prlimit64, 0, 0, false}, /* argument 0 means this process */
	/* clone3() cannot be filtered by its flags: libc falls back to clone() */
	{SYS_clone, 0, CLONE_THREAD, true},
};

/*
 * Socket options except SO_LINGER, which makes close() wait. Pairs connect the front to the parser.
 */
static const struct with_argument connections[] = {
	{SYS_setsockopt, 1, IPPROTO_TCP, false},
	{SYS_socketpair, 0, AF_UNIX, false},
};

/* Sockets to create before the front starts. */
static const struct with_argument diagnosis[] = {
	{SYS_socket, 0, AF_NETLINK, false},
};

/* Argument 0 means the calling thread. */
static const struct with_argument priority[] = {{SYS_sched_setscheduler, 0, 0, false}};

/* Forbidden because they inject input into the terminal that started the process. */
static const struct with_argument terminals[] = {
	{SYS_ioctl, 1, TIOCSTI, false},
	{SYS_ioctl, 1, TIOCLINUX, false},
};

static const struct with_argument sockets[] = {
	{SYS_socket, 0, AF_UNIX, false},
	{SYS_socket, 0, AF_INET, false},
	{SYS_socket, 0, AF_INET6, false},
	{SYS_socket, 0, AF_NETLINK, false},
};

/* Reads kernel tables of a local agent through the read-only descriptors that it hands out. */
static const struct with_argument reads[] = {
	{SYS_bpf, 0, BPF_MAP_LOOKUP_ELEM, false},
	{SYS_bpf, 0, BPF_MAP_LOOKUP_BATCH, false},
	{SYS_bpf, 0, BPF_OBJ_GET_INFO_BY_FD, false},
};

/* For the loader once its programs are loaded: it cannot load others. */
static const struct with_argument tables[] = {
	{SYS_bpf, 0, BPF_MAP_UPDATE_ELEM, false},  {SYS_bpf, 0, BPF_MAP_DELETE_ELEM, false},
	{SYS_bpf, 0, BPF_MAP_GET_NEXT_KEY, false}, {SYS_bpf, 0, BPF_LINK_CREATE, false},
	{SYS_bpf, 0, BPF_ITER_CREATE, false},	   {SYS_setns, 1, CLONE_NEWNET, false},
};

/*
 * For the reporter once its programs are attached: it runs them, notifies the service manager,
 * attaches the same programs to an interface that was created again, and adds and removes filters
 * through a netlink socket. It must not bind its packet socket, which would then
 * receive frames; only netlink addresses have the length that bind() accepts here.
 */
static const struct with_argument reporter[] = {
	{SYS_bpf, 0, BPF_PROG_TEST_RUN, false},	 {SYS_socket, 0, AF_UNIX, false},
	{SYS_socket, 0, AF_NETLINK, false},	 {SYS_bind, 2, sizeof(struct sockaddr_nl), false},
	{SYS_setsockopt, 1, SOL_NETLINK, false}, {SYS_bpf, 0, BPF_LINK_CREATE, false},
};

/* For a role that opens AF_XDP sockets, which need programs and maps. */
static const struct with_argument packets[] = {
	{SYS_socket, 0, AF_PACKET, false},
	{SYS_socket, 0, 44 /* AF_XDP */, false},
};

/* ---- the filters ---- */

#define ALL_OF(list) list, sizeof(list) / sizeof(*(list))

static int allow_calls(scmp_filter_ctx f, const int *calls, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	return err;
}

/* The kernel uses only the lower 32 bits of these arguments. */
static int add_with(scmp_filter_ctx f, uint32_t action, const struct with_argument *w, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = seccomp_rule_add(f, action, w[i].call, 1,
				       SCMP_CMP(w[i].index, SCMP_CMP_MASKED_EQ,
						w[i].bit ? w[i].value : UINT32_MAX, w[i].value));
	return err;
}

static int allow_front(scmp_filter_ctx f, bool starts)
{
	int err = allow_calls(f, ALL_OF(front));

	err = err ?: allow_calls(f, ALL_OF(front_older));
	err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(connections));
	err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(own));
	if (starts) {
		err = err ?: allow_calls(f, ALL_OF(spawner));
		err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(diagnosis));
	}
	return err;
}

static int allow_role(scmp_filter_ctx f, enum base_role role, bool with_packets)
{
	const struct with_argument signals = {SYS_tgkill, 0, (uint32_t)getpid(), false};
	int err = allow_calls(f, ALL_OF(common));

	err = err ?: allow_calls(f, ALL_OF(common_older));
	err = err ?: add_with(f, SCMP_ACT_ALLOW, &signals, 1);
	err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(own));
	if (role == BASE_ROLE_LOADER) {
		err = err ?: allow_calls(f, ALL_OF(loader));
		err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(tables));
	} else if (role == BASE_ROLE_REPORTER) {
		err = err ?: allow_calls(f, (const int[]){SYS_getsockname}, 1);
		err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(reporter));
	} else {
		err = err ?: allow_calls(f, ALL_OF(networkers));
		err = err ?: allow_calls(f, ALL_OF(networkers_older));
		err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(sockets));
	}
	if (role == BASE_ROLE_BRIDGE)
		err = err ?: allow_calls(f, ALL_OF(bridge));
	if (role == BASE_ROLE_COLLECTOR) {
		err = err ?: allow_calls(f, ALL_OF(collector));
		err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(priority));
	}
	if (with_packets)
		err = err ?: add_with(f, SCMP_ACT_ALLOW, ALL_OF(packets));
	/*
	 * If any bpf(2) is allowed, that includes the reads, and libseccomp refuses rules for them.
	 */
	return err
		       ?: with_packets ? allow_calls(f, (const int[]){SYS_bpf}, 1)
				       : add_with(f, SCMP_ACT_ALLOW, ALL_OF(reads));
}

/* Loads the filter unless err is set, and frees it. TSYNC applies it to all threads or to none. */
static int load_filter(scmp_filter_ctx f, int err)
{
	/* no_new_privs is set. */
	err = err ?: seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, 0);
	err = err ?: seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	err = err ?: seccomp_attr_set(f, SCMP_FLTATR_API_SYSRAWRC, 1);
	err = err ?: seccomp_load(f);
	seccomp_release(f);
	/* libseccomp returns this if the kernel lacks seccomp(2), or under valgrind. */
	return err == -EOPNOTSUPP ? -ENOSYS : err;
}

int base_seccomp_apply(enum base_role role, bool with_packets)
{
	/* These calls are refused even if the other filter allows ioctl(2). */
	scmp_filter_ctx refuse = seccomp_init(SCMP_ACT_ALLOW), allow;
	int err;

	if (!refuse)
		return -ENOMEM;
	err = add_with(refuse, SCMP_ACT_ERRNO(ENOSYS), ALL_OF(terminals));
	err = load_filter(refuse, err);
	if (err)
		return err;
	allow = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!allow)
		return -ENOMEM;
	err = seccomp_attr_set(allow, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
	err = err
		      ?: role == BASE_ROLE_FRONT || role == BASE_ROLE_SPAWNER
			 ? allow_front(allow, role == BASE_ROLE_SPAWNER)
			 : allow_role(allow, role, with_packets);
	return load_filter(allow, err);
}
#else
int base_seccomp_apply(enum base_role role, bool with_packets)
{
	(void)role, (void)with_packets;
	return -ENOSYS;
}
#endif
