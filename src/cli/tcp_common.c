// SPDX-License-Identifier: Apache-2.0
#include "cli/tcp.h"

#include <errno.h>
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

FILE *tcp_output(const struct sl_command *cmd)
{
	FILE *out;

	if (!tcp_common.output)
		return stdout;
	out = fopen(tcp_common.output, "we");
	if (!out)
		fprintf(stderr, "sidelight %s: %s: %s\n", cmd->name, tcp_common.output,
			strerror(errno));
	return out;
}

int tcp_output_end(const struct sl_command *cmd, FILE *out)
{
	bool bad = tcp_flush(cmd, out) != SL_EXIT_OK;

	if (out != stdout && fclose(out)) {
		tcp_common.output_error = errno;
		bad = true;
	}
	if (!bad)
		return SL_EXIT_OK;
	fprintf(stderr, "sidelight %s: %s: %s\n", cmd->name,
		tcp_common.output ? tcp_common.output : "standard output",
		tcp_common.output_error ? strerror(tcp_common.output_error)
					: "could not be written");
	return SL_EXIT_FAILURE;
}

int tcp_flush(const struct sl_command *cmd, FILE *out)
{
	if (fflush(out) && errno != EAGAIN)
		tcp_common.output_error = errno;
	(void)cmd;
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
