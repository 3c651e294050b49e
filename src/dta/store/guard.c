// SPDX-License-Identifier: Apache-2.0
/*
 * guard.c - a SIGBUS handler that maps private memory over pages that have disappeared. It looks up
 * mappings in an array of atomics and calls only mmap(2) and write(2).
 */
#include "dta/store/guard.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#define GUARDS_MAX 8192u

struct guard {
	_Atomic uintptr_t from; /* 0 means unused. Set last and cleared first */
	_Atomic uintptr_t to, page;
	_Atomic int wake;
	_Atomic uint64_t faults;
};

static struct guard guards[GUARDS_MAX];
static atomic_uint used; /* number of entries that may be in use */
static _Atomic uint64_t total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* serialises additions */
static struct sigaction before;
static bool handles;

static struct guard *guard_of(uintptr_t at)
{
	const unsigned n = atomic_load_explicit(&used, memory_order_acquire);

	for (unsigned i = 0; i < n; i++) {
		/*
		 * Pairs with the release in dta_guard_add(), after which the other fields are set.
		 */
		const uintptr_t from = atomic_load_explicit(&guards[i].from, memory_order_acquire);

		if (from && at >= from && at < atomic_load(&guards[i].to))
			return &guards[i];
	}
	return NULL;
}

/*
 * Covers everything from the faulting page onwards with one mapping, because a truncated file is
 * lost up to its end.
 */
static bool cover_pages(struct guard *g, uintptr_t at)
{
	const uintptr_t from = at & ~(atomic_load(&g->page) - 1), to = atomic_load(&g->to);

	return mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	struct guard *g = guard_of((uintptr_t)info->si_addr);
	const int err = errno, wake = g ? atomic_load(&g->wake) : -1;
	const uint64_t one = 1;

	if (g && cover_pages(g, (uintptr_t)info->si_addr)) {
		atomic_fetch_add(&g->faults, 1);
		atomic_fetch_add(&total, 1);
		if (wake >= 0 && write(wake, &one, sizeof(one)) < 0)
			errno = err; /* the eventfd is already readable */
		errno = err;
	} else if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(signal, info, context);
	} else {
		sigaction(signal, &before, NULL); /* return and let the fault occur again */
	}
}

static int install_handler(void)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO | SA_RESTART};

	if (handles)
		return 0;
	act.sa_sigaction = on_bus_error;
	sigemptyset(&act.sa_mask);
	if (sigaction(SIGBUS, &act, &before))
		return -errno;
	handles = true;
	return 0;
}

int dta_guard_add(void *at, size_t bytes, int fd, int wake)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct statfs st;
	struct guard *g = NULL;
	unsigned n;
	int err;

	if (!fstatfs(fd, &st) && st.f_type == HUGETLBFS_MAGIC)
		page = (uintptr_t)st.f_bsize;
	pthread_mutex_lock(&lock);
	err = install_handler();
	n = atomic_load(&used);
	for (unsigned i = 0; i < GUARDS_MAX && !g; i++)
		if (i >= n || !atomic_load(&guards[i].from))
			g = &guards[i];
	if (!err && !g)
		err = -ENOSPC;
	if (!err) {
		atomic_store(&g->to, ((uintptr_t)at + bytes + page - 1) & ~(page - 1));
		atomic_store(&g->page, page);
		atomic_store(&g->wake, wake);
		atomic_store(&g->faults, 0);
		atomic_store_explicit(&g->from, (uintptr_t)at, memory_order_release);
		if (g >= guards + n)
			atomic_store_explicit(&used, n + 1, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void dta_guard_remove(const void *at)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < atomic_load(&used); i++)
		if (atomic_load(&guards[i].from) == (uintptr_t)at)
			atomic_store(&guards[i].from, 0);
	pthread_mutex_unlock(&lock);
}

uint64_t dta_guard_faults(const void *at)
{
	const struct guard *g = guard_of((uintptr_t)at);

	return g ? atomic_load(&g->faults) : 0;
}

uint64_t dta_guard_total(void)
{
	return atomic_load(&total);
}
