/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.c - SIGTERM, SIGINT and SIGHUP as a descriptor that stays readable: no thread reads it, so
 * any number of threads may poll it.
 */
#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/signalfd.h>
#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

static bool hup_reloads;

static int block_signals(const sigset_t *set)
{
	int fd, err = pthread_sigmask(SIG_BLOCK, set, NULL);

	if (err)
		return -err;
	fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int base_reload_fd(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	fd = block_signals(&set);
	hup_reloads = fd >= 0;
	return fd;
}

int base_stop_fd(void)
{
	struct sigaction hup;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	/* SIGHUP stops, unless it is ignored as under nohup. */
	if (!hup_reloads && !sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	return block_signals(&set);
}

bool base_stop_wait(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t end = base_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
	int left = timeout_ms;

	for (;;) {
		int r = poll(&p, 1, left);
		uint64_t now;

		if (r > 0)
			return true;
		if (r == 0)
			return false;
		if (errno != EINTR)
			return true; /* polling failed: stop instead of spinning */
		now = base_now_ns();
		if (timeout_ms > 0)
			left = now >= end ? 0 : (int)((end - now + 999999u) / 1000000u);
	}
}

void base_ready(const char *fmt, ...)
{
	va_list ap;

	flockfile(stdout);
	fputs("ready ", stdout);
	va_start(ap, fmt);
	vfprintf(stdout, fmt, ap);
	va_end(ap);
	fputc('\n', stdout);
	if (fflush(stdout) || ferror(stdout))
		base_logf(BASE_ERROR, "ready",
			  "cannot write the line that reports readiness to standard output: %m");
	funlockfile(stdout);
	base_notify("READY=1", -1);
}

int base_notify(const char *state, int fd)
{
#if HAVE_SYSTEMD
	return sd_pid_notify_with_fds(0, 0, state, &fd, fd >= 0);
#else
	(void)state, (void)fd;
	return 0;
#endif
}

uint64_t base_alive_ns(void)
{
	uint64_t us = 0;

#if HAVE_SYSTEMD
	if (sd_watchdog_enabled(0, &us) <= 0)
		us = 0;
#endif
	return us * 500;
}

void base_alive(void)
{
	base_notify("WATCHDOG=1", -1);
}
