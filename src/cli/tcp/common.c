// SPDX-License-Identifier: Apache-2.0
#include "cli/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

struct cli_tcp_common cli_tcp_common = {.interval_ns = 1000000000};

struct tcp_opts cli_tcp_opts(void)
{
	return (struct tcp_opts){
		.flows = cli_tcp_common.flows,
		.existing = true,
		.filter = cli_tcp_common.filter,
	};
}

#if HAVE_TCP
bool cli_tcp_avoid(const struct base_command *cmd, uint32_t *types)
{
	enum tcp_hook_type type;

	*types = 0;
	for (size_t i = 0; i < cli_tcp_common.avoid.n; i++) {
		if (tcp_hook_type_of(cli_tcp_common.avoid.v[i], &type))
			return !base_usage(
				cmd,
				"--avoid '%s' is not one of tp_btf, fentry, kprobe, netfilter, "
				"cgroup_skb, iter",
				cli_tcp_common.avoid.v[i]);
		*types |= 1u << type;
	}
	return true;
}

int cli_tcp_open(const struct base_command *cmd, const struct tcp_opts *opts, struct tcp **tcp)
{
	char why[256];
	int err = tcp_open(opts, tcp, why, sizeof(why)) ?: tcp_attach(*tcp, why, sizeof(why));

	return err ? cli_tcp_not_opened(cmd, err, why) : BASE_EXIT_OK;
}
#endif

int cli_tcp_not_opened(const struct base_command *cmd, int err, const char *why)
{
	return err == -EINVAL ? base_usage(cmd, "%s", why) : base_failure(cmd, "%s", why);
}

bool cli_tcp_format(const struct base_command *cmd, const char *format)
{
	struct cli_tcp_common *c = &cli_tcp_common;

	c->microbpf = format && !strcmp(format, "microbpf");
	if (format && !c->microbpf && strcmp(format, "text"))
		return !base_usage(cmd, "--format '%s' is not text or microbpf", format);
	if (c->json + c->csv + c->microbpf > 1)
		return !base_usage(cmd, "%s are mutually exclusive",
				   format ? "--json, --csv and --format microbpf"
					  : "--json and --csv");
	return true;
}

uint64_t cli_tcp_end_ns(void)
{
	return cli_tcp_common.duration_ns ? base_now_ns() + cli_tcp_common.duration_ns : UINT64_MAX;
}

static const char *output_name(void)
{
	return cli_tcp_common.output ? cli_tcp_common.output : "standard output";
}

/*
 * The write function of a stdio stream. It keeps the errno of a failed write, which stdio loses
 * when it flushes a full buffer. cookie: points to the file descriptor.
 */
static ssize_t write_cookie(void *cookie, const char *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = write(*(int *)cookie, data + done, bytes - done);

		if (n > 0) {
			done += (size_t)n;
			/* another process made the pipe non-blocking */
		} else if (n < 0 && errno == EAGAIN) {
			poll(&(struct pollfd){*(int *)cookie, POLLOUT, 0}, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			cli_tcp_common.output_error = errno;
			return 0;
		}
	}
	return (ssize_t)bytes;
}

static int close_cookie(void *cookie)
{
	int fd = *(int *)cookie;

	if (fd == STDOUT_FILENO || !close(fd))
		return 0;
	cli_tcp_common.output_error = errno;
	return -1;
}

FILE *cli_tcp_output(const struct base_command *cmd)
{
	static int fd = STDOUT_FILENO;
	FILE *out = NULL;

	if (!cli_tcp_common.output && isatty(STDOUT_FILENO))
		return stdout;
	if (cli_tcp_common.output)
		fd = open(cli_tcp_common.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd >= 0)
		out = fopencookie(
			&fd, "w",
			(cookie_io_functions_t){.write = write_cookie, .close = close_cookie});
	if (!out)
		base_failure(cmd, "%s: %s", output_name(), strerror(errno));
	return out;
}

int cli_tcp_output_end(const struct base_command *cmd, FILE *out, int code)
{
	bool bad = cli_tcp_flush(out) != BASE_EXIT_OK;

	if (out != stdout && fclose(out))
		bad = true;
	if (bad)
		base_failure(cmd, "%s: %s", output_name(),
			     strerror(cli_tcp_common.output_error ?: EIO));
	return code ?: bad ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

int cli_tcp_flush(FILE *out)
{
	if (fflush(out) && out == stdout && errno != EAGAIN)
		cli_tcp_common.output_error = errno;
	return ferror(out) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

bool cli_tcp_first(void)
{
	static bool called;
	bool first = !called;

	called = true;
	return first;
}

bool cli_tcp_is_filtered(void)
{
	return cli_tcp_filter_selects(&cli_tcp_common.filter);
}

void cli_tcp_ready(const char *fmt, ...)
{
	int stop = base_stop_fd(); /* blocks the signals; a signal that arrives now stays pending */
	char text[128];
	va_list args;

	if (stop >= 0)
		close(stop);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "ready %s\n", text);
}

void cli_tcp_nothing_seen(const struct base_command *cmd)
{
	base_failure(cmd, cli_tcp_is_filtered() ? "no connection matched the filter"
						: "no connection was seen");
}

int cli_tcp_repeat(const struct base_command *cmd, struct cli_tcp_screen *screen, FILE *out,
		   uint32_t slots, int (*show)(void *context, bool last), void *context)
{
	int stop = base_stop_fd(), code = BASE_EXIT_OK;
	uint64_t next, end;
	bool last = false;

	if (stop < 0)
		return base_failure(cmd, "%s", strerror(-stop));
	cli_tcp_screen_open(screen, cmd, out);
	if (!screen->terminal)
		cli_tcp_ready("slots=%u", slots);
	next = base_now_ns() + cli_tcp_common.interval_ns;
	end = cli_tcp_end_ns();
	while (!code && !last) {
		uint64_t now = base_now_ns();

		next = BASE_MIN(next, end);
		last = cli_tcp_screen_wait(screen, stop,
					   next > now ? (int)((next - now + 999999) / 1000000) : 0);
		now = base_now_ns();
		last |= now >= end;
		if (screen->paused && !screen->again)
			next = now + cli_tcp_common.interval_ns;
		if (!last && !screen->again && (now < next || screen->paused))
			continue; /* The key needs no new values. */
		code = show(context, last);
		next = (screen->again ? now : next) + cli_tcp_common.interval_ns;
	}
	close(stop);
	cli_tcp_screen_close(screen);
	return code;
}
