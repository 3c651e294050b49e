// SPDX-License-Identifier: Apache-2.0
#include "cli/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

struct tcp_common tcp_common = {.interval_ns = 1000000000};

struct sl_tcp_options tcp_options(void)
{
	return (struct sl_tcp_options){
		.sz = sizeof(struct sl_tcp_options),
		.flows = tcp_common.flows,
		.existing = true,
		.wanted = tcp_common.wanted,
	};
}

bool tcp_avoid(const struct sl_command *cmd, uint32_t *types)
{
	enum sl_hook_type type;

	*types = 0;
	for (size_t i = 0; i < tcp_common.avoid.n; i++) {
		if (sl_hook_type_of(tcp_common.avoid.v[i], &type)) {
			sl_usage(
				cmd,
				"--avoid tp_btf, fentry, kprobe, netfilter, cgroup_skb or iter, not '%s'",
				tcp_common.avoid.v[i]);
			return false;
		}
		*types |= 1u << type;
	}
	return true;
}

int tcp_not_opened(const struct sl_command *cmd, int err, const char *why)
{
	return err == -EINVAL ? sl_usage(cmd, "%s", why) : tcp_failed(cmd, why);
}

int tcp_failed(const struct sl_command *cmd, const char *what)
{
	fprintf(stderr, "sidelight %s: %s\n", cmd->name, what);
	return SL_EXIT_FAILURE;
}

static const char *output_name(void)
{
	return tcp_common.output ? tcp_common.output : "standard output";
}

/*
 * stdio writes by itself when its buffer is full, and then nobody learns why it failed: so the descriptor is
 * written to here. cookie: the descriptor.
 */
static ssize_t put(void *cookie, const char *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = write(*(int *)cookie, data + done, bytes - done);

		if (n > 0) {
			done += (size_t)n;
		} else if (n < 0 && errno == EAGAIN) { /* of a pipe that somebody else has set so */
			poll(&(struct pollfd){*(int *)cookie, POLLOUT, 0}, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			tcp_common.output_error = errno;
			return 0;
		}
	}
	return (ssize_t)bytes;
}

static int end(void *cookie)
{
	int fd = *(int *)cookie;

	if (fd == STDOUT_FILENO || !close(fd))
		return 0;
	tcp_common.output_error = errno;
	return -1;
}

FILE *tcp_output(const struct sl_command *cmd)
{
	static int fd = STDOUT_FILENO;
	FILE *out = NULL;

	if (!tcp_common.output && isatty(STDOUT_FILENO))
		return stdout;
	if (tcp_common.output)
		fd = open(tcp_common.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd >= 0)
		out = fopencookie(&fd, "w", (cookie_io_functions_t){.write = put, .close = end});
	if (!out)
		fprintf(stderr, "sidelight %s: %s: %s\n", cmd->name, output_name(),
			strerror(errno));
	return out;
}

int tcp_output_end(const struct sl_command *cmd, FILE *out)
{
	bool bad = tcp_flush(out) != SL_EXIT_OK;

	if (out != stdout && fclose(out))
		bad = true;
	if (!bad)
		return SL_EXIT_OK;
	fprintf(stderr, "sidelight %s: %s: %s\n", cmd->name, output_name(),
		strerror(tcp_common.output_error ? tcp_common.output_error : EIO));
	return SL_EXIT_FAILURE;
}

int tcp_flush(FILE *out)
{
	if (fflush(out) && out == stdout && errno != EAGAIN)
		tcp_common.output_error = errno;
	return ferror(out) ? SL_EXIT_FAILURE : SL_EXIT_OK;
}

bool tcp_is_filtered(void)
{
	const struct sl_tcp_wanted *w = &tcp_common.wanted;

	return w->ports.n || w->cidrs.n || w->cgroups.n || w->netns || w->pid || w->sample;
}

void tcp_ready(const char *fmt, ...)
{
	int stop =
		sl_stop_fd(); /* blocks the signals; what comes now is pending for the next one */
	char text[128];
	va_list args;

	if (stop >= 0)
		close(stop);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "ready %s\n", text);
}

void tcp_nothing_seen(const struct sl_command *cmd)
{
	fprintf(stderr, "sidelight %s: %s\n", cmd->name,
		tcp_is_filtered() ? "no connection passed the filter" : "no connection was seen");
}

int tcp_repeat(const struct sl_command *cmd, struct tcp_screen *screen,
	       int (*show)(void *context, bool last), void *context)
{
	uint64_t start = sl_now_ns(), next = start + tcp_common.interval_ns;
	uint64_t end = tcp_common.duration_ns ? start + tcp_common.duration_ns : UINT64_MAX;
	int stop = sl_stop_fd(), code = SL_EXIT_OK;
	bool last = false;

	if (stop < 0)
		return tcp_failed(cmd, strerror(-stop));
	while (!code && !last) {
		uint64_t now = sl_now_ns();

		next = next < end ? next : end;
		last = tcp_screen_wait(screen, stop,
				       next > now ? (int)((next - now + 999999) / 1000000) : 0);
		now = sl_now_ns();
		last |= now >= end;
		if (!last && !screen->again && now < next)
			continue; /* a key that means nothing */
		code = show(context, last);
		next = (screen->again ? now : next) + tcp_common.interval_ns;
	}
	close(stop);
	return code;
}
