// SPDX-License-Identifier: Apache-2.0
/* screen.c - a table on a terminal, redrawn in place, and its keys. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/tcp/tcp.h"

/* Keys come unbuffered and without echo; Ctrl-C and Ctrl-Z keep their meaning. */
static void keys_on(struct cli_tcp_screen *s)
{
	struct termios now = s->was;

	/*
	 * A background process would be stopped by tcsetattr(). Set each time, as a shell may have
	 * changed it.
	 */
	if (!s->keys || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

void cli_tcp_screen_open(struct cli_tcp_screen *s, const struct base_command *cmd, FILE *out)
{
	s->cmd = cmd;
	s->out = out;
	s->terminal = isatty(fileno(out));
	s->keys = s->terminal && isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &s->was);
	if (s->terminal)
		fputs("\033[H\033[2J", out);
}

void cli_tcp_screen_close(struct cli_tcp_screen *s)
{
	if (s->keys && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetattr(STDIN_FILENO, TCSADRAIN, &s->was);
	s->keys = false;
}

bool cli_tcp_screen_sort(struct cli_tcp_screen *s, const struct base_command *cmd, const char *by,
			 const char *const *orders)
{
	char all[256] = "";

	s->orders = orders;
	for (s->order = 0; orders[s->order]; s->order++) {
		if (!by || !strcmp(orders[s->order], by))
			return true;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *all ? ", " : "",
			 orders[s->order]);
	}
	return !base_usage(cmd, "--sort %s, not '%s'", all, by);
}

static bool key(struct cli_tcp_screen *s, char c)
{
	unsigned int n = 0;

	while (s->orders && s->orders[n])
		n++;
	if (n && (c == '<' || c == '>')) {
		s->order = (s->order + (c == '>' ? 1 : n - 1)) % n;
		s->again = true;
	}
	return c == 'q' || c == 'Q';
}

bool cli_tcp_screen_wait(struct cli_tcp_screen *s, int stop, int ms)
{
	struct pollfd p[2] = {{.fd = stop, .events = POLLIN},
			      {.fd = STDIN_FILENO, .events = POLLIN}};
	char c[16];
	ssize_t n;

	s->again = false;
	if (!s->keys)
		return base_stop_wait(stop, ms);
	if (poll(p, 2, ms) <= 0)
		return false; /* EINTR: continued after a stop, or resized: redraw */
	if (p[0].revents)
		return true;
	n = read(STDIN_FILENO, c, sizeof(c));
	if (n <= 0)
		s->keys = false; /* the terminal is gone */
	for (ssize_t i = 0; i < n; i++)
		if (key(s, c[i]))
			return true;
	return false;
}

void cli_tcp_screen_begin(struct cli_tcp_screen *s)
{
	struct winsize size;

	s->used = 0;
	s->rows = s->columns = 0;
	if (!s->terminal)
		return;
	keys_on(s);
	if (!ioctl(fileno(s->out), TIOCGWINSZ, &size)) {
		s->rows = size.ws_row;
		s->columns = size.ws_col;
	}
	fputs("\033[H", s->out); /* home without clearing: no flicker */
	if (s->keys && s->orders)
		cli_tcp_screen_line(s, "sidelight %s, by %s; < and > sort by another, q ends",
				    s->cmd->name, s->orders[s->order]);
	else if (s->keys)
		cli_tcp_screen_line(s, "sidelight %s; q ends", s->cmd->name);
}

void cli_tcp_screen_line(struct cli_tcp_screen *s, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	if (s->rows && s->used + 1 >= s->rows)
		return;
	s->used++;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (s->columns && s->columns < sizeof(line)) {
		size_t end = s->columns;

		while (end && (line[end] & 0xc0) == 0x80) /* not within a character of UTF-8 */
			end--;
		line[end] = 0;
	}
	fprintf(s->out, "%s%s\n", line, s->terminal ? "\033[K" : "");
}

void cli_tcp_screen_end(struct cli_tcp_screen *s)
{
	if (s->terminal)
		fputs("\033[J", s->out);
	fflush(s->out);
}

/* ---- columns ---- */

void cli_tcp_screen_columns(struct cli_tcp_screen *s, const struct cli_tcp_column *columns,
			    size_t n)
{
	size_t width = 0;

	s->column = columns;
	s->n = n;
	s->shown = (1u << s->n) - 1;
	for (size_t i = 0; i < s->n; i++)
		width += columns[i].width + (i > 0);
	while (s->columns && width > s->columns) {
		size_t least = s->n;

		for (size_t i = 0; i < s->n; i++)
			if (s->shown >> i & 1 && columns[i].drop &&
			    (least == s->n || columns[i].drop > columns[least].drop))
				least = i;
		if (least == s->n)
			break;
		s->shown &= ~(1u << least);
		width -= columns[least].width + 1u;
	}
	for (size_t i = 0; i < s->n; i++)
		cli_tcp_screen_cell(s, "%s", columns[i].name);
}

void cli_tcp_screen_cell(struct cli_tcp_screen *s, const char *fmt, ...)
{
	const struct cli_tcp_column *c = &s->column[s->next];
	bool shown = s->shown >> s->next & 1, last = ++s->next == s->n;
	size_t at = strlen(s->line), length;
	char cell[sizeof(s->line)], *text = cell;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cell, sizeof(cell), fmt, ap);
	va_end(ap);
	length = strlen(cell);
	/* Cut addresses at the start: their ends differ. */
	if (s->columns && c->left && length > c->width && c->width > 1 && !last) {
		text += length - c->width;
		*text = '~';
	}
	if (shown)
		snprintf(s->line + at, sizeof(s->line) - at, "%s%*s", at ? " " : "",
			 !c->left ? (int)c->width
			 : last	  ? 0
				  : -(int)c->width,
			 text);
	if (!last)
		return;
	cli_tcp_screen_line(s, "%s", s->line);
	s->next = 0;
	*s->line = 0;
}
