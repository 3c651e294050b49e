// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_top.c - 'sidelight top': shows the services of a collector; those that need attention come
 * first.
 */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/common.h"
#include "cli/top/top.h"

static const char *sort, *filter, *token_file;
static struct cli_top top = {
	.cmd = &cli_cmd_top, .interval_ns = 1000000000, .window = 10, .screen.selects = true};

static const struct base_option table[] = {
	BASE_TIME("interval", 'i', &top.interval_ns, 1e8, 3.6e12, "TIME",
		  "time between two updates"),
	BASE_UINT("window", 'w', &top.window, 1, 60, "SECONDS",
		  "show rates and quantiles of the last SECONDS (default 10)"),
	BASE_STRING("sort", 0, &sort, "BY",
		    "sort by attention (default), name, rate, errors, latency, cpu, memory, bytes "
		    "or retransmits"),
	BASE_STRING("filter", 'f', &filter, "TEXT",
		    "show only services whose name or namespace contains TEXT"),
	BASE_FLAG("once", '1', &top.once, "print once and exit"),
	BASE_FLAG("json", 'j', &top.json, "print JSON, one document per line"),
	BASE_STRING("token-file", 0, &token_file, "PATH",
		    "file with the collector's bearer token (default: the token left for the "
		    "collector's own user)"),
	{0},
};

/* Keys */

static void choose_row(struct cli_top *t, size_t row)
{
	if (row >= t->rows)
		return;
	t->selected = row;
	snprintf(t->service, sizeof(t->service), "%s", cli_json_text(t->row[row], "service"));
	snprintf(t->kube_namespace, sizeof(t->kube_namespace), "%s",
		 cli_json_text(t->row[row], "namespace"));
}

/* Returns the row that Page Up, Page Down, Home or End selects. */
static size_t row_of_key(const struct cli_top *t, int key)
{
	size_t page = t->screen.rows > 8 ? t->screen.rows - 8 : 1;
	size_t last = t->rows ? t->rows - 1 : 0;

	switch (key) {
	case CLI_TCP_KEY_PAGE_UP:
		return t->selected - BASE_MIN(page, t->selected);
	case CLI_TCP_KEY_PAGE_DOWN:
		return BASE_MIN(t->selected + page, last);
	case CLI_TCP_KEY_HOME:
		return 0;
	default:
		return last;
	}
}

static const char *const help[] = {
	"up, down      here: select a service; also k, j, Page Up, Page Down, Home, End",
	"Enter         details of the selected service; again, or Esc: back",
	NULL,
};

static bool handle_key(void *context, int key)
{
	struct cli_top *t = context;

	switch (key) {
	case '/':
		return t->details; /* there is nothing to filter */
	case CLI_TCP_KEY_UP:
	case 'k':
		choose_row(t, t->selected ? t->selected - 1 : 0);
		return true;
	case CLI_TCP_KEY_DOWN:
	case 'j':
		choose_row(t, t->selected + 1);
		return true;
	case CLI_TCP_KEY_PAGE_UP:
	case CLI_TCP_KEY_PAGE_DOWN:
	case CLI_TCP_KEY_HOME:
	case CLI_TCP_KEY_END:
		if (t->details)
			return false; /* scrolls the details */
		choose_row(t, row_of_key(t, key));
		return true;
	case '\n':
	case '\r':
		if (!t->details)
			choose_row(t, t->selected);
		t->details = !t->details;
		return true;
	case '\033':
		if (!t->details)
			*t->screen.filter = '\0';
		t->details = false;
		return true;
	default:
		return false;
	}
}

/* Output */

/* Prints the response with only the services that pass the filter, sorted. */
static bool print_json(struct cli_top *t)
{
	json_t *all = json_array(), *whole = json_copy(t->services);

	for (size_t i = 0; i < t->rows; i++)
		json_array_append(all, t->row[i]);
	json_object_set_new(whole, "services", all);
	return cli_json_print(t->out, whole, JSON_COMPACT);
}

static int show_screen(struct cli_top *t, bool ask)
{
	bool got = !ask || cli_top_fetch(t);

	if (!cli_top_arrange(t))
		return base_failure(t->cmd, "out of memory");
	if (!got && (t->once || !t->screen.terminal))
		return base_failure(t->cmd, "%s: %s", t->at, t->why);
	if (t->json) {
		print_json(t);
	} else {
		cli_tcp_screen_begin(&t->screen);
		if (t->details)
			cli_top_detail(t);
		else
			cli_top_overview(t);
		cli_tcp_screen_end(&t->screen);
	}
	fflush(t->out);
	return ferror(t->out) ? base_failure(t->cmd, "standard output: %s", strerror(errno))
			      : BASE_EXIT_OK;
}

/*
 * Redraws after a key without a new request, so that keys respond even if the collector is
 * unreachable.
 */
static int watch_services(struct cli_top *t)
{
	int stop = base_stop_fd(), code;
	uint64_t next, now;

	if (stop < 0)
		return base_failure(t->cmd, "%s", strerror(-stop));
	cli_tcp_screen_open(&t->screen, t->cmd, t->out);
	next = base_now_ns() + t->interval_ns;
	for (code = show_screen(t, true); !code;) {
		bool details = t->details;

		now = base_now_ns();
		if (cli_tcp_screen_wait(&t->screen, stop,
					next > now ? (int)((next - now + 999999) / 1000000) : 0))
			break;
		now = base_now_ns();
		if (t->screen.paused && !t->screen.again)
			next = now + t->interval_ns;
		if ((now >= next && !t->screen.paused) || (t->details && !details)) {
			next = now + t->interval_ns;
			code = show_screen(t, true);
		} else if (t->screen.again) {
			code = show_screen(t, false);
		}
	}
	close(stop);
	cli_tcp_screen_close(&t->screen);
	return code;
}

static int show_once(struct cli_top *t)
{
	t->screen.cmd = t->cmd;
	t->screen.out = t->out;
	return show_screen(t, true);
}

/* Command */

static int top_main(const struct base_command *self, int argc, char **argv)
{
	static char buffer[1 << 16]; /* holds a whole screen, so that each frame is one write */
	int code, first = base_options_parse(self, table, argc, argv, &code);
	char *token = NULL;

	if (first < 0)
		return code;
	if (argc - first > 1)
		return base_usage(self, "only one collector is allowed");
	top.at = cli_address(first < argc ? argv[first] : "127.0.0.1:9464");
	if (!top.at || strchr(top.at, '@') || (strncmp(top.at, "unix:", 5) && strchr(top.at, '/')))
		return base_usage(self, "'%.100s' is not http://HOST:PORT, HOST:PORT or unix:/PATH",
				  argv[first]);
	if (!cli_tcp_screen_sort(&top.screen, self, sort, cli_top_orders))
		return BASE_EXIT_USAGE;
	if (filter && strlen(filter) >= sizeof(top.screen.filter))
		return base_usage(self, "--filter: at most %zu characters are allowed",
				  sizeof(top.screen.filter) - 1);
	if (filter)
		snprintf(top.screen.filter, sizeof(top.screen.filter), "%s", filter);
	token = token_file ? cli_token_read(self, token_file) : cli_token_find(top.at);
	if (token_file && !token)
		return BASE_EXIT_FAILURE;
	setlocale(LC_CTYPE, "");
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	top.out = stdout;
	top.token = token;
	top.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	top.colours = !getenv("NO_COLOR") || !*getenv("NO_COLOR");
	top.screen.typed = handle_key;
	top.screen.context = &top;
	top.screen.plain = top.json;
	top.screen.help = help;
	code = top.once ? show_once(&top) : watch_services(&top);
	json_decref(top.services);
	json_decref(top.map);
	free(top.row);
	free(top.at);
	free(token);
	return code;
}

const struct base_command cli_cmd_top = {
	.name = "top",
	.synopsis = "[OPTION]... [COLLECTOR-URL]",
	.summary = "Show a collector's services, sorted by how much attention they need",
	.run = top_main,
};
