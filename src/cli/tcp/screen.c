// SPDX-License-Identifier: Apache-2.0
/* screen.c - a table that is redrawn in place on a terminal, with keyboard control. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/grow.h"
#include "cli/tcp/tcp.h"

/* Signals */

/* The original terminal settings. Only one screen is open at a time. */
static struct termios terminal_was;
static const int leaving[] = {SIGTSTP, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

static void set_handlers(void (*handler)(int))
{
	/* SA_RESETHAND restores the default action, so the handler can raise the signal again. */
	const struct sigaction a = {.sa_handler = handler,
				    .sa_flags = (int)SA_RESETHAND | SA_NODEFER};

	for (size_t i = 0; i < sizeof(leaving) / sizeof(*leaving); i++)
		sigaction(leaving[i], &a, NULL);
}

static void restore_and_raise(int signal)
{
	int err = errno;

	tcsetattr(STDIN_FILENO, TCSANOW, &terminal_was);
	raise(signal);
	errno = err;
}

static void handle_resize(int signal)
{
	(void)signal; /* the signal only interrupts poll() */
}

static void find_size(struct cli_tcp_screen *s)
{
	struct winsize size;

	if (ioctl(fileno(s->out), TIOCGWINSZ, &size))
		return;
	s->rows = size.ws_row;
	s->columns = size.ws_col;
}

/* Input */

/* Switches the terminal to unbuffered input without echo; Ctrl-C and Ctrl-Z still work. */
static void keys_on(struct cli_tcp_screen *s)
{
	struct termios now = s->was;

	/*
	 * tcsetattr() would stop a background process. Called before each wait, because the shell
	 * may have changed the settings.
	 */
	if (!s->keys || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	set_handlers(restore_and_raise); /* reinstall the handlers after a stop */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

void cli_tcp_screen_open(struct cli_tcp_screen *s, const struct base_command *cmd, FILE *out)
{
	s->cmd = cmd;
	s->out = out;
	s->plain |= cli_tcp_common.json || cli_tcp_common.csv || cli_tcp_common.microbpf;
	s->terminal = !s->plain && isatty(fileno(out));
	s->keys = s->terminal && isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &s->was);
	if (s->keys) {
		terminal_was = s->was;
		/* Without SA_RESTART, a frame that is being written would end in an error. */
		sigaction(SIGWINCH,
			  &(struct sigaction){.sa_handler = handle_resize, .sa_flags = SA_RESTART},
			  NULL);
	}
	if (s->terminal)
		fputs("\033[H\033[2J", out);
}

static void clear_frame(struct cli_tcp_screen *s)
{
	while (s->lines)
		free(s->frame[--s->lines].text);
}

void cli_tcp_screen_close(struct cli_tcp_screen *s)
{
	if (s->keys && tcgetpgrp(STDIN_FILENO) == getpgrp())
		tcsetattr(STDIN_FILENO, TCSADRAIN, &s->was);
	if (s->keys)
		set_handlers(SIG_DFL);
	s->keys = false;
	clear_frame(s);
	free(s->frame);
	s->frame = NULL;
	s->room = 0;
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
	return !base_usage(cmd, "--sort: expected %s, not '%s'", all, by);
}

bool cli_tcp_screen_wait(struct cli_tcp_screen *s, int stop, int ms)
{
	struct pollfd p[2] = {{.fd = stop, .events = POLLIN},
			      {.fd = STDIN_FILENO, .events = POLLIN}};
	enum cli_tcp_todo todo = CLI_TCP_NOTHING;
	char c[16];
	ssize_t n;

	s->again = false;
	if (!s->keys)
		return base_stop_wait(stop, ms);
	n = poll(p, 2, ms);
	if (n <= 0) {
		s->again = n < 0 && !s->paused; /* EINTR: resumed after a stop, or resized */
		if (n < 0 && s->paused)
			cli_tcp_screen_draw(s);
		return false;
	}
	if (p[0].revents)
		return true;
	n = read(STDIN_FILENO, c, sizeof(c));
	if (n <= 0)
		s->keys = false; /* the terminal has been closed */
	for (ssize_t i = 0; i < n && todo != CLI_TCP_QUIT; i++)
		todo = BASE_MAX(todo, cli_tcp_key_typed(s, cli_tcp_key_at(c, n, &i)));
	s->again = todo == CLI_TCP_AGAIN;
	if (todo == CLI_TCP_DRAW)
		cli_tcp_screen_draw(s);
	return todo == CLI_TCP_QUIT;
}

void cli_tcp_screen_begin(struct cli_tcp_screen *s)
{
	s->used = 0;
	s->rows = s->columns = 0;
	s->columned = false;
	clear_frame(s);
	if (!s->terminal)
		return;
	keys_on(s);
	find_size(s);
	s->used = s->keys;
}

/* Returns the width of UTF-8 text, at one column per character. */
static size_t width_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* Returns the length in bytes of the text that fits into the columns. */
static size_t cut_at(const char *text, size_t columns)
{
	size_t i = 0, n = 0;

	for (; text[i]; i++)
		if ((text[i] & 0xc0) != 0x80 && n++ == columns)
			break;
	return i;
}

static void add_line(struct cli_tcp_screen *s, char *text, bool head, bool row)
{
	struct cli_tcp_line line = {.style = s->style, .head = head, .row = row};

	s->style = NULL;
	s->used++;
	if (!s->terminal) {
		fprintf(s->out, "%s\n", text);
		return;
	}
	line.text = strdup(text);
	/* if out of memory, drop the line */
	if (line.text && BASE_GROW(s->frame, s->lines, s->room))
		s->frame[s->lines++] = line;
	else
		free(line.text);
}

void cli_tcp_screen_line(struct cli_tcp_screen *s, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	add_line(s, line, !s->columned, false);
}

/* Drawing */

/* Returns whether there is room for another line. */
static bool draw_line(struct cli_tcp_screen *s, unsigned int *used, const char *text,
		      const char *style)
{
	int length = (int)(s->columns ? cut_at(text, s->columns) : strlen(text));

	if (s->rows && *used + 1 >= s->rows)
		return false;
	(*used)++;
	if (style)
		fprintf(s->out, "\033[%sm%.*s\033[0m\033[K\n", style, length, text);
	else
		fprintf(s->out, "%.*s\033[K\n", length, text);
	return true;
}

static bool passes(const struct cli_tcp_screen *s, const struct cli_tcp_line *l)
{
	return s->selects || !l->row || !*s->filter || strcasestr(l->text, s->filter);
}

static void draw_frame(struct cli_tcp_screen *s, unsigned int used)
{
	size_t moving = 0, room, first = 0;

	/* If there are no columns, all lines scroll. */
	for (size_t i = 0; i < s->lines; i++)
		if (s->columned && s->frame[i].head)
			draw_line(s, &used, s->frame[i].text, s->frame[i].style);
		else
			moving += passes(s, &s->frame[i]);
	room = s->rows > used + 1 ? s->rows - used - 1 : s->rows ? 1 : moving;
	s->scroll = BASE_MIN(s->scroll, moving > room ? moving - room : 0);
	for (size_t i = 0; i < s->lines; i++) {
		const struct cli_tcp_line *l = &s->frame[i];

		if ((s->columned && l->head) || !passes(s, l) || first++ < s->scroll)
			continue;
		if (!draw_line(s, &used, l->text, l->style))
			return;
	}
}

void cli_tcp_screen_draw(struct cli_tcp_screen *s)
{
	const char *help;
	char title[256];
	unsigned int used = 0;

	find_size(s);
	fputs("\033[H", s->out); /* move the cursor home without clearing, to avoid flicker */
	if (s->keys) {
		cli_tcp_key_title(s, title, sizeof(title));
		draw_line(s, &used, title, NULL);
	}
	for (size_t i = 0; s->helping && (help = cli_tcp_key_help(s, i)); i++)
		draw_line(s, &used, help, NULL);
	if (!s->helping)
		draw_frame(s, used);
	fputs("\033[J", s->out);
	fflush(s->out);
}

void cli_tcp_screen_end(struct cli_tcp_screen *s)
{
	if (s->terminal)
		cli_tcp_screen_draw(s);
	fflush(s->out);
}

/* Columns */

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
	s->columned = true;
}

void cli_tcp_screen_cell(struct cli_tcp_screen *s, const char *fmt, ...)
{
	const struct cli_tcp_column *c = &s->column[s->next];
	bool shown = s->shown >> s->next & 1, last = ++s->next == s->n;
	size_t at = strlen(s->line), length;
	char cell[sizeof(s->line)], *text = cell;
	int blanks;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cell, sizeof(cell), fmt, ap);
	va_end(ap);
	length = width_of(cell);
	/* Cut long addresses at the start, because they differ at the end. */
	if (s->columns && c->left && length > c->width && c->width > 1 && !last) {
		text += cut_at(cell, length - c->width);
		while ((text[1] & 0xc0) == 0x80) /* skip the rest of a UTF-8 character */
			text++;
		*text = '~';
		length = c->width;
	}
	blanks = length < c->width && !(last && c->left) ? (int)(c->width - length) : 0;
	if (shown)
		snprintf(s->line + at, sizeof(s->line) - at, "%s%*s%s%*s", at ? " " : "",
			 c->left ? 0 : blanks, "", text, c->left ? blanks : 0, "");
	if (!last)
		return;
	add_line(s, s->line, !s->columned, s->columned);
	s->next = 0;
	*s->line = 0;
}
