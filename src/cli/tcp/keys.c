// SPDX-License-Identifier: Apache-2.0
/* keys.c - the keys that all live tables have in common: help, filter, sort, scroll and pause. */
#include <ctype.h>
#include <string.h>

#include "base/base.h"
#include "cli/tcp/tcp.h"

static const char *const help[] = {
	"? or h        show this help; any key closes it",
	"/             filter: show only lines with this text; Enter confirms, Esc clears",
	"< and >       sort by another column",
	"up, down      scroll; also Page Up, Page Down, Home and End",
	"p or space    pause and continue",
	"q             quit",
};
#define HELP (sizeof(help) / sizeof(*help))

const char *cli_tcp_key_help(const struct cli_tcp_screen *s, size_t line)
{
	if (line < HELP)
		return help[line];
	for (size_t i = 0; s->help && s->help[i]; i++)
		if (line - HELP == i)
			return s->help[i];
	return NULL;
}

void cli_tcp_key_title(const struct cli_tcp_screen *s, char *out, size_t bytes)
{
	char filter[CLI_TCP_FILTER];

	cli_tcp_safe(filter, sizeof(filter), s->filter);
	if (s->typing) {
		snprintf(out, bytes, "filter: %s_   (Enter confirms, Esc clears)", filter);
		return;
	}
	snprintf(out, bytes, "sidelight %s%s%s; %s%s%s%s? for help, q quits", s->cmd->name,
		 s->orders ? ", by " : "", s->orders ? s->orders[s->order] : "",
		 s->paused ? "PAUSED, " : "", *filter ? "filter " : "", filter,
		 *filter ? ", " : "");
}

int cli_tcp_key_at(const char *c, ssize_t n, ssize_t *i)
{
	static const struct {
		char last, number; /* number: the parameter of a sequence that ends in ~ */
		int key;
	} keys[] = {{'A', 0, CLI_TCP_KEY_UP},	     {'B', 0, CLI_TCP_KEY_DOWN},
		    {'H', 0, CLI_TCP_KEY_HOME},	     {'F', 0, CLI_TCP_KEY_END},
		    {'~', '1', CLI_TCP_KEY_HOME},    {'~', '4', CLI_TCP_KEY_END},
		    {'~', '5', CLI_TCP_KEY_PAGE_UP}, {'~', '6', CLI_TCP_KEY_PAGE_DOWN}};
	ssize_t at = *i, first = at + 2;

	if (c[at] != '\033' || at + 2 >= n || (c[at + 1] != '[' && c[at + 1] != 'O'))
		return (unsigned char)c[at];
	/* ECMA-48, 5.4: the final byte of a sequence is in the range '@' to '~'. */
	for (at = first; at + 1 < n && (c[at] < '@' || c[at] > '~'); at++)
		;
	*i = at;
	for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
		if (c[at] == keys[k].last &&
		    (!keys[k].number || (at == first + 1 && c[first] == keys[k].number)))
			return keys[k].key;
	return CLI_TCP_KEY_OTHER;
}

static void edit_filter(struct cli_tcp_screen *s, int key)
{
	size_t n = strlen(s->filter);

	if (key == '\n' || key == '\r' || key == '\033') {
		s->typing = false;
		if (key == '\033')
			*s->filter = '\0';
	} else if (key == '\b' || key == 0x7f) {
		while (n && (s->filter[--n] & 0xc0) == 0x80)
			;
		s->filter[n] = '\0';
	} else if (key < 0x100 && !iscntrl(key) && n + 1 < sizeof(s->filter)) {
		s->filter[n] = (char)key;
		s->filter[n + 1] = '\0';
	}
}

/* The end of the frame is found when it is drawn. */
static void scroll_by(struct cli_tcp_screen *s, int key)
{
	size_t page = s->rows > 4 ? s->rows - 4 : 1;

	switch (key) {
	case CLI_TCP_KEY_UP:
		s->scroll -= s->scroll > 0;
		break;
	case CLI_TCP_KEY_DOWN:
		s->scroll++;
		break;
	case CLI_TCP_KEY_PAGE_UP:
		s->scroll -= BASE_MIN(page, s->scroll);
		break;
	case CLI_TCP_KEY_PAGE_DOWN:
		s->scroll += page;
		break;
	default:
		s->scroll = key == CLI_TCP_KEY_HOME ? 0 : s->lines;
	}
}

static enum cli_tcp_todo sort_by_next(struct cli_tcp_screen *s, bool forward)
{
	unsigned int n = 0;

	while (s->orders && s->orders[n])
		n++;
	if (!n)
		return CLI_TCP_NOTHING;
	s->order = (s->order + (forward ? 1 : n - 1)) % n;
	return CLI_TCP_AGAIN;
}

enum cli_tcp_todo cli_tcp_key_typed(struct cli_tcp_screen *s, int key)
{
	enum cli_tcp_todo filtered = s->selects ? CLI_TCP_AGAIN : CLI_TCP_DRAW;

	if (s->typing) {
		edit_filter(s, key);
		return filtered;
	}
	if (s->helping) {
		s->helping = false;
		return CLI_TCP_DRAW;
	}
	if (s->typed && s->typed(s->context, key))
		return CLI_TCP_AGAIN;
	switch (key) {
	case 'q':
	case 'Q':
		return CLI_TCP_QUIT;
	case '<':
	case '>':
		return sort_by_next(s, key == '>');
	case '?':
	case 'h':
		s->helping = true;
		return CLI_TCP_DRAW;
	case '/':
		s->typing = true;
		return CLI_TCP_DRAW;
	case '\033':
		*s->filter = '\0';
		return filtered;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		return s->paused ? CLI_TCP_DRAW : CLI_TCP_AGAIN;
	default:
		if (key < CLI_TCP_KEY_UP || key >= CLI_TCP_KEY_OTHER)
			return CLI_TCP_NOTHING;
		scroll_by(s, key);
		return CLI_TCP_DRAW;
	}
}
