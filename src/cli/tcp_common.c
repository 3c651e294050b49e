// SPDX-License-Identifier: Apache-2.0
#include "cli/tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
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
	bool bad = ferror(out) | fflush(out);

	if (out != stdout)
		bad |= fclose(out) != 0;
	return bad ? tcp_failed(cmd, "the output could not be written") : SL_EXIT_OK;
}

void tcp_screen_open(struct tcp_screen *s, FILE *out)
{
	*s = (struct tcp_screen){.out = out, .terminal = isatty(fileno(out))};
}

void tcp_screen_begin(struct tcp_screen *s)
{
	struct winsize size;

	s->used = 0;
	s->rows = s->columns = 0;
	if (!s->terminal)
		return;
	if (!ioctl(fileno(s->out), TIOCGWINSZ, &size)) {
		s->rows = size.ws_row;
		s->columns = size.ws_col;
	}
	fputs("\033[H", s->out); /* home: drawn over, so that nothing flickers */
}

void tcp_screen_line(struct tcp_screen *s, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (s->rows && s->used + 1 >= s->rows)
		return;
	s->used++;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (s->columns && s->columns < sizeof(line))
		line[s->columns] = 0;
	fprintf(s->out, "%s%s\n", line, s->terminal ? "\033[K" : "");
}

void tcp_screen_end(struct tcp_screen *s)
{
	if (s->terminal)
		fputs("\033[J", s->out);
	fflush(s->out);
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

int tcp_repeat(const struct sl_command *cmd, int (*show)(void *context, bool last), void *context)
{
	uint64_t start = sl_now_ns(), next = start;
	uint64_t end = tcp_common.duration_ns ? start + tcp_common.duration_ns : UINT64_MAX;
	int stop = sl_stop_fd(), code = SL_EXIT_OK;
	bool last = false;

	if (stop < 0)
		return tcp_failed(cmd, strerror(-stop));
	while (!code && !last) {
		uint64_t now;

		next += tcp_common.interval_ns;
		if (next > end)
			next = end;
		now = sl_now_ns();
		last = sl_stop_wait(stop, next > now ? (int)((next - now + 999999) / 1000000) : 0);
		last |= sl_now_ns() >= end;
		code = show(context, last);
	}
	close(stop);
	return code;
}
