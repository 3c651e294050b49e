// SPDX-License-Identifier: Apache-2.0
/* cmd_report.c - 'sidelight report': sends reports from the command line or standard input. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <sidelight/report.h>
#include <sidelight/store.h>

#include "base/confine.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/common/common.h"
#include "dta/wire/text.h"
#include "source/report/reporter.h"

#define WORDS_MAX  4096
#define LINE_BYTES (64u << 10)

struct report_sender {
	struct sl_reporter *r;
	struct sl_report_dest how; /* default destination of a report */
	uint64_t lines, wrong;
	const char *error; /* message of the last error */
};

/* A report */

enum report_kind { KEYWRITE, APPEND, INCREMENT, POSTCARD, SKETCH, REGISTERS, SKETCH_END };

static const struct primitive {
	const char *name, *words;
	int least, most;
	bool copies, key; /* key: the first word is a key */
	int value;	  /* index of the value's word; 0 means no value */
	size_t value_most;
	int first, numbers; /* range of the words that are 32-bit numbers */
	const char *not_numbers;
} primitives[] = {
	[KEYWRITE] = {"keywrite", "KEY VALUE", 2, 2, .copies = true, .key = true, .value = 1,
		      .value_most = SL_STORE_VALUE_MAX},
	[APPEND] = {"append", "LIST VALUE", 2, 2, .value = 1, .value_most = SL_STORE_VALUE_MAX,
		    .numbers = 1, .not_numbers = "the list is not a number"},
	[INCREMENT] = {"increment", "KEY [N]", 1, 2, .copies = true, .key = true},
	[POSTCARD] = {"postcard", "KEY HOP HOPS DATA", 4, 4, .copies = true, .key = true,
		      .first = 1, .numbers = 3,
		      .not_numbers = "hop, hops and data are not numbers"},
	[SKETCH] = {"sketch", "EPOCH ROW COLUMN CELL...", 4, WORDS_MAX, .numbers = 3,
		    .not_numbers = "epoch, row and column are not numbers"},
	[REGISTERS] = {"registers", "EPOCH COLUMN REGISTERS", 3, 3, .value = 2,
		       .value_most = LINE_BYTES / 2, .numbers = 2,
		       .not_numbers = "epoch and column are not numbers"},
	[SKETCH_END] = {"sketch-end", "EPOCH", 1, 1, .numbers = 1,
			.not_numbers = "the epoch is not a number"},
};
#define PRIMITIVES (sizeof(primitives) / sizeof(*primitives))

static int fail_report(struct report_sender *s, const char *error)
{
	s->error = error;
	return -EINVAL;
}

static int bytes_of(struct report_sender *s, const char *text, uint8_t *out, size_t room)
{
	int n = dta_text(text, out, room);

	return n >= 0 ? n
		      : fail_report(s, n == -ENOSPC
					       ? "too long"
					       : "expected hex digits, text:, u32:, u64: or flow:");
}

/* Parses a cell. Cells of a count-sketch are signed. */
static bool parse_cell(const char *text, uint64_t *cell)
{
	bool negative = *text == '-';

	if (base_parse_u64(text + negative, 0, negative ? 1ull << 63 : UINT64_MAX, cell))
		return false;
	*cell = negative ? -*cell : *cell;
	return true;
}

static int send_report(struct report_sender *s, enum report_kind kind,
		       const struct sl_report_dest *how, char **word, int n)
{
	static uint8_t key[SL_STORE_KEY_MAX], value[LINE_BYTES / 2];
	static uint64_t cell[WORDS_MAX];
	const struct primitive *p = &primitives[kind];
	uint64_t number[3], addend = 1;
	int k = 1, v = 0;

	for (int i = 0; i < p->numbers; i++)
		if (base_parse_u64(word[p->first + i], 0, UINT32_MAX, &number[i]))
			return fail_report(s, p->not_numbers);
	if (kind == INCREMENT && n > 1 && base_parse_u64(word[1], 0, UINT64_MAX, &addend))
		return fail_report(s, "the value to add is not a number");
	for (int i = 3; kind == SKETCH && i < n; i++)
		if (!parse_cell(word[i], &cell[i - 3]))
			return fail_report(s, "a cell is not a number");
	if (p->key)
		k = bytes_of(s, word[0], key, sizeof(key));
	if (p->value && k > 0)
		v = bytes_of(s, word[p->value], value, p->value_most);
	if (k < 0 || v < 0)
		return -EINVAL;
	switch (kind) {
	case KEYWRITE:
		return sl_report_keywrite(s->r, how, key, (size_t)k, value, (size_t)v);
	case APPEND:
		return sl_report_append(s->r, how, (uint32_t)number[0], value, (size_t)v);
	case INCREMENT:
		return sl_report_increment(s->r, how, key, (size_t)k, addend);
	case POSTCARD:
		return sl_report_postcard(s->r, how, key, (size_t)k, (uint32_t)number[0],
					  (uint32_t)number[1], (uint32_t)number[2]);
	case SKETCH:
		return sl_report_sketch(s->r, how, (uint32_t)number[0], (uint32_t)number[1],
					(uint32_t)number[2], cell, (uint32_t)(n - 3));
	case REGISTERS:
		return sl_report_registers(s->r, how, (uint32_t)number[0], (uint32_t)number[1],
					   value, (uint32_t)v);
	default:
		return sl_report_sketch_end(s->r, how, (uint32_t)number[0]);
	}
}

/*
 * Parses a setting such as "store=3" or "copies=2" before the words. Returns 1 if it is a setting,
 * 0 if not, -EINVAL if invalid.
 */
static int parse_setting(struct report_sender *s, struct sl_report_dest *how, const char *word)
{
	uint64_t v;

	if (!strncmp(word, "store=", 6)) {
		if (base_parse_u64(word + 6, 0, UINT16_MAX, &v))
			return fail_report(s, "store= needs a number up to 65535");
		how->store = (uint16_t)v;
		return 1;
	}
	if (!strncmp(word, "copies=", 7)) {
		if (base_parse_u64(word + 7, 1, SL_STORE_COPIES_MAX, &v))
			return fail_report(s, "copies= needs a number from 1 to 8");
		how->copies = (uint8_t)v;
		return 1;
	}
	return 0;
}

/* Sends a report. Returns 0, -EAGAIN if it was dropped, or -EINVAL with a message in s->error. */
static int send_words(struct report_sender *s, char **word, int n)
{
	static char usage[128];
	struct sl_report_dest how = s->how;
	size_t p = 0;
	int err = 0;

	while (p < PRIMITIVES && strcmp(word[0], primitives[p].name))
		p++;
	if (p == PRIMITIVES)
		return fail_report(
			s, "unknown primitive; expected keywrite, append, increment, postcard, "
			   "sketch, "
			   "registers or sketch-end");
	for (word++, n--; n; word++, n--) {
		err = parse_setting(s, &how, word[0]);
		if (err < 0)
			return err;
		if (!err)
			break;
	}
	if (n < primitives[p].least || n > primitives[p].most) {
		snprintf(usage, sizeof(usage), "%s wants: %s", primitives[p].name,
			 primitives[p].words);
		return fail_report(s, usage);
	}
	if (!primitives[p].copies)
		how.copies = 0;
	s->error = "a length or number is out of bounds";
	err = send_report(s, (enum report_kind)p, &how, word, n);
	if (err == -EMSGSIZE)
		s->error = "the report is larger than a packet";
	if (err == -ENOSPC)
		s->error = "sketches of more than 16 stores are unfinished: end one with "
			   "sketch-end first";
	return err;
}

/* Lines of input */

static void report_line(struct report_sender *s)
{
	s->wrong++;
	base_failure(&cli_cmd_report, "line %" PRIu64 ": %s", s->lines, s->error);
}

static void send_line(struct report_sender *s, char *line)
{
	static char *word[WORDS_MAX];
	char *save, *w;
	int n = 0, err;

	for (w = strtok_r(line, " \t\r", &save); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \t\r", &save))
		word[n++] = w;
	if (!n || *word[0] == '#')
		return;
	err = w ? fail_report(s, "the line has too many words") : send_words(s, word, n);
	if (err && err != -EAGAIN)
		report_line(s);
}

/*
 * Sends the complete lines of the buffer, and moves a partial last line to the front. Returns its
 * length.
 */
static size_t send_lines(struct report_sender *s, char *buffer, size_t n, bool end, bool *skip)
{
	char *line = buffer, *newline;

	while ((newline = memchr(line, '\n', n - (size_t)(line - buffer)))) {
		*newline = 0;
		s->lines++;
		if (!*skip && strlen(line) == (size_t)(newline - line)) {
			send_line(s, line);
		} else {
			s->error = "the line is too long, or contains a NUL";
			report_line(s);
		}
		*skip = false;
		line = newline + 1;
	}
	n -= (size_t)(line - buffer);
	memmove(buffer, line, n);
	if (end && n) { /* the last line lacks a newline */
		buffer[n] = '\n';
		return send_lines(s, buffer, n + 1, false, skip);
	}
	return n;
}

/* Sends the lines of standard input until its end, or until a signal arrives at stop. */
static void send_input(struct report_sender *s, int stop)
{
	static char buffer[LINE_BYTES + 1];
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
			      {.fd = stop, .events = POLLIN}};
	struct signalfd_siginfo info;
	bool skip = false;
	size_t n = 0;
	ssize_t got;

	for (;;) {
		/* Even without input, answers arrive and partial packets fall due. */
		if (poll(p, 2, 5) <= 0) {
			sl_reporter_poll(s->r);
			continue;
		}
		if (p[1].revents)
			break;
		got = read(STDIN_FILENO, buffer + n, LINE_BYTES - n);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0) {
			base_failure(&cli_cmd_report, "standard input: %s", strerror(errno));
			s->wrong++;
		}
		if (got <= 0)
			break;
		n = send_lines(s, buffer, n + (size_t)got, false, &skip);
		if (n == LINE_BYTES) {
			skip = true; /* discard the rest of the line */
			n = 0;
		}
		sl_reporter_poll(s->r);
	}
	send_lines(s, buffer, n, true, &skip);
	/* take the signal, because the next one ends the wait for acknowledgements */
	while (read(stop, &info, sizeof(info)) > 0)
		;
}

/* Results */

#define COUNT(field) CLI_COUNT(sl_reporter_stats, field)
static const struct cli_count counts[] = {COUNT(reports),
					  COUNT(refused),
					  COUNT(sent),
					  COUNT(packed),
					  COUNT(unchanged),
					  COUNT(sampled_out),
					  COUNT(dropped_full),
					  COUNT(dropped_credits),
					  COUNT(dropped_error),
					  COUNT(packets),
					  COUNT(bytes),
					  COUNT(again),
					  COUNT(settled),
					  COUNT(dropped_ring),
					  COUNT(waiting),
					  COUNT(waits),
					  COUNT(acks),
					  COUNT(nacks),
					  COUNT(answers_refused),
					  COUNT(failovers),
					  COUNT(heartbeats),
					  COUNT(restored),
					  COUNT(damaged)};

static int print_result(const struct sl_reporter_stats *s, const struct report_sender *sender,
			bool as_json)
{
	const size_t n = sizeof(counts) / sizeof(*counts);
	json_t *o = json_object();

	cli_json_counts(o, s, counts, n);
	json_object_update_new(o, json_pack("{s:I, s:I, s:I}", "wrong_lines",
					    (json_int_t)sender->wrong, "reporter",
					    (json_int_t)s->reporter, "incarnation",
					    (json_int_t)s->incarnation));
	for (size_t i = 0; i < n && !as_json; i++)
		if (cli_count_of(s, &counts[i]))
			printf("%-16s %" PRIu64 "\n", counts[i].name, cli_count_of(s, &counts[i]));
	if (as_json)
		cli_json_print(stdout, o, JSON_INDENT(2));
	else
		json_decref(o);
	return cli_output_end(&cli_cmd_report, BASE_EXIT_OK);
}

static struct report_settings {
	struct sl_reporter_opts o;
	struct sl_report_dest how; /* default destination of a report */
	struct report_kernel_opts kernel;
	const char *legacy, *direction, *subjects;
	uint64_t duration, timeout;
	bool single, immediate, essential, changes, by_key, json, unconfined;
} set = {.o = {.sz = sizeof(set.o),
	       .target = "127.0.0.1",
	       .packet_bytes = 1400,
	       .backup_packets = 128,
	       .flush_ns = 5000000,
	       .refresh_ns = 10000000000ull},
	 .how = {.copies = 1},
	 .direction = "both",
	 .kernel = {.every_ns = 100000000, .bytes = 1 << 20, .flows = 65536},
	 .timeout = 5000000000ull};

static const struct base_option table[] = {
	BASE_STRING("target", 't', &set.o.target, "HOST[:PORT][,...]",
		    "send to these translators (default 127.0.0.1:40040)"),
	BASE_UINT("store", 's', &set.how.store, 0, 65535, "N", "number of the store"),
	BASE_UINT("copies", 'n', &set.how.copies, 1, SL_STORE_COPIES_MAX, "N",
		  "slots or rows to write each key to"),
	BASE_UINT("tenant", 0, &set.o.tenant, 0, 65535, "N",
		  "number of the tenant that owns the store"),
	BASE_UINT("reporter", 0, &set.o.reporter, 0, UINT32_MAX, "N",
		  "number of this reporter; 0 means random"),
	BASE_STRING("key-file", 'k', &set.o.key_file, "FILE",
		    "sign packets with the key in this file, of 32 hexadecimal digits"),
	BASE_STRING(
		"translator", 0, &set.o.translator, "NAME[,...]",
		"with --key-file: names of the translators (default: identify them by address)"),
	BASE_FLAG("immediate", 'i', &set.immediate, "wake the application at the collector"),
	BASE_FLAG("essential", 'e', &set.essential, "resend reports until they are acknowledged"),
	BASE_STRING("backup-file", 0, &set.o.backup_file, "FILE",
		    "with --essential: keep reports in this file, so that they survive a restart"),
	BASE_UINT("backup-packets", 0, &set.o.backup_packets, 1, 65536, "N",
		  "number of packets of essential reports to keep"),
	BASE_TIME("timeout", 0, &set.timeout, 0, 0, "TIME",
		  "wait this long for the last acknowledgement"),
	BASE_FLAG("changes", 'c', &set.changes, "keywrite: report only values that changed"),
	BASE_TIME("refresh", 0, &set.o.refresh_ns, 0, 0, "TIME",
		  "with --changes: report an unchanged value again after this time"),
	BASE_UINT("sample", 0, &set.how.sample, 0, 63, "N",
		  "report one in 2^N at random; with --interface: one flow in 2^N, selected by "
		  "its key"),
	BASE_FLAG("sample-by-key", 0, &set.by_key,
		  "with --sample: sample by key, so that every reporter selects the same keys"),
	BASE_TIME("wait", 0, &set.o.wait_ns, 0, 0, "TIME",
		  "under back-pressure, wait this long before dropping a report"),
	BASE_UINT("packet", 0, &set.o.packet_bytes, 128, 65507, "BYTES", "payload per packet"),
	BASE_TIME("flush", 0, &set.o.flush_ns, 0, 0, "TIME",
		  "send a partial packet after this time"),
	BASE_FLAG("single", '1', &set.single, "send one report per packet"),
	BASE_STRING("legacy", 0, &set.legacy, "FORM",
		    "send packets in form a or b of the original implementation"),
	BASE_STRING("interface", 0, &set.kernel.interface, "NAME",
		    "let the kernel report the flows of this interface; --target :PORT means a "
		    "translator on this host"),
	BASE_STRING("direction", 0, &set.direction, "WHICH",
		    "with --interface: report incoming packets, outgoing packets, or both"),
	BASE_TIME("every", 0, &set.kernel.every_ns, 1e6, 3600e9, "TIME",
		  "with --interface: report a continuing flow at most this often"),
	BASE_SIZE("every-bytes", 0, &set.kernel.bytes, 1, 1e15, "SIZE",
		  "with --interface: report a flow after this many bytes"),
	BASE_UINT("flows", 0, &set.kernel.flows, 16, 1 << 24, "N",
		  "with --interface: track at most this many flows"),
	BASE_STRING("report", 0, &set.subjects, "KIND=STORE[,...]",
		    "with --interface: also report drops, retransmissions, latency or queue"),
	BASE_FLAG("inner", 0, &set.kernel.inner,
		  "with --interface: report the inner flows of VXLAN and Geneve"),
	BASE_TIME("duration", 'd', &set.duration, 0, 0, "TIME",
		  "with --interface: exit after this time; 0 means when interrupted (default)"),
	BASE_FLAG("json", 'j', &set.json, "print the counters as JSON"),
	CLI_OPTION_UNCONFINED(&set.unconfined),
	{0},
};

static const char *why_not_open(const struct report_settings *s, int err)
{
	if (err == EADDRNOTAVAIL)
		return "the host does not exist";
	if (err == EINVAL)
		return s->o.key_file ? "the target is not HOST:PORT, or the key does not have 32 "
				       "hexadecimal digits"
				     : "the target is not HOST:PORT";
	return strerror(err);
}

/* Returns the message for an error in the backup file, or NULL for other errors. */
static const char *why_no_ring(int err)
{
	switch (err) {
	case EBADMSG:
		return "the file is not a ring of reports, or belongs to another reporter or "
		       "tenant, or has another size";
	case EBUSY:
		return "another reporter is using the file";
	case EPERM:
		return "the file belongs to another user, or other users may write to it";
	default:
		return NULL;
	}
}

static int run(const struct base_command *self, const struct report_settings *settings, char **word,
	       int n)
{
	struct report_sender s = {.how = settings->how};
	struct sl_reporter_stats stats = {.sz = sizeof(stats)};
	int code, err, stop = -1;

	if (settings->o.key_file)
		base_secret_warn("report", settings->o.key_file);
	s.r = sl_reporter_open(&settings->o);
	if (!s.r && why_no_ring(errno))
		return base_failure(self, "--backup-file: %s: %s", settings->o.backup_file,
				    why_no_ring(errno));
	if (!s.r)
		return base_failure(self, "%s: %s", settings->o.target,
				    why_not_open(settings, errno));
	if (n) {
		err = send_words(&s, word, n);
		if (err && err != -EAGAIN) {
			sl_reporter_close(s.r);
			return base_usage(self, "%s", s.error);
		}
	} else {
		stop = base_stop_fd();
		sl_reporter_stop_fd(s.r, stop);
		send_input(&s, stop);
	}
	err = sl_reporter_drain(s.r, settings->timeout);
	sl_reporter_stats(s.r, &stats);
	if (err == -ETIMEDOUT)
		base_failure(
			self,
			"not all reports were acknowledged in time%s; is a translator running at "
			"%s?",
			settings->o.backup_file ? ", and the rest is kept in the file" : "",
			settings->o.target);
	if (stats.dropped_ring)
		base_failure(self,
			     "%" PRIu64 " essential reports were dropped because the buffer was "
			     "full: use --wait, or increase --backup-packets",
			     stats.dropped_ring);
	code = print_result(&stats, &s, settings->json);
	sl_reporter_close(s.r);
	if (stop >= 0)
		close(stop);
	if (err || s.wrong || stats.dropped_full || stats.dropped_credits || stats.dropped_error ||
	    stats.dropped_ring)
		code = BASE_EXIT_FAILURE;
	return code;
}

/* Reports from the kernel */

#if HAVE_TCP
#define KERNEL(name, at) CLI_COUNT_AS(name, report_kernel_counts, n[at])
static const struct cli_count kernel_counts[] = {
	KERNEL("packets", RPT_PACKETS),
	KERNEL("others", RPT_OTHERS),
	KERNEL("flows", RPT_NEW),
	KERNEL("reports", RPT_REPORTS),
	KERNEL("sent", RPT_SENT),
	KERNEL("sent_reports", RPT_SENT_REPORTS),
	KERNEL("no_room", RPT_NO_ROOM),
	KERNEL("no_flow", RPT_NO_FLOW),
	KERNEL("not_written", RPT_NOT_WRITTEN),
	KERNEL("idle_carriers", RPT_IDLE),
	KERNEL("left_out", RPT_LEFT_OUT),
	KERNEL("held_back", RPT_HELD_BACK),
	KERNEL("bytes", RPT_BYTES),
	KERNEL("said_bytes", RPT_SAID_BYTES),
	KERNEL("heartbeats", RPT_BEATS),
	KERNEL("no_route", RPT_NO_ROUTE),
	CLI_COUNT(report_kernel_counts, unsaid_bytes),
	CLI_COUNT(report_kernel_counts, evicted),
	CLI_COUNT(report_kernel_counts, evicted_bytes),
	CLI_COUNT(report_kernel_counts, evicted_events),
	CLI_COUNT(report_kernel_counts, answers),
	CLI_COUNT(report_kernel_counts, answers_refused),
	CLI_COUNT(report_kernel_counts, interface_gone),
	CLI_COUNT(report_kernel_counts, route_gone),
};

static void add_drops(void *object, const char *reason, uint64_t frames)
{
	json_object_set_new(object, reason, json_integer((json_int_t)frames));
}

static void print_drops(void *nothing, const char *reason, uint64_t frames)
{
	(void)nothing;
	printf("dropped for %s: %" PRIu64 " frames\n", reason, frames);
}

static int print_kernel(const struct report_kernel *r, const struct report_kernel_counts *c,
			bool json)
{
	if (json) {
		json_t *j = json_object(), *drops = json_object();

		cli_json_counts(j, c, kernel_counts,
				sizeof(kernel_counts) / sizeof(*kernel_counts));
		report_kernel_drops(r, add_drops, drops);
		json_object_set_new(j, "drops", drops);
		cli_json_print(stdout, j, JSON_INDENT(2));
	} else {
		printf("%" PRIu64 " packets of %" PRIu64 " flows seen; %" PRIu64
		       " of them belong to no flow, and %" PRIu64 " to flows outside the sample\n"
		       "%" PRIu64 " reports sent in %" PRIu64 " packets\n"
		       "%" PRIu64 " reports held back for lack of credit; %" PRIu64
		       " answers from the translator\n"
		       "lost here: %" PRIu64 " packets not written, %" PRIu64
		       " packets of flows without room, %" PRIu64 " bytes of %" PRIu64
		       " flows that left the table (--flows), %" PRIu64
		       " drop or retransmission counts that left their table, %" PRIu64
		       " bytes not reported at the end, %" PRIu64 " packets without a route\n"
		       "the interface was gone %" PRIu64 " times, the route %" PRIu64 " times\n",
		       c->n[RPT_PACKETS], c->n[RPT_NEW], c->n[RPT_OTHERS], c->n[RPT_LEFT_OUT],
		       c->n[RPT_SENT_REPORTS], c->n[RPT_SENT], c->n[RPT_HELD_BACK], c->answers,
		       c->n[RPT_NOT_WRITTEN], c->n[RPT_NO_FLOW], c->evicted_bytes, c->evicted,
		       c->evicted_events, c->unsaid_bytes, c->n[RPT_NO_ROUTE], c->interface_gone,
		       c->route_gone);
		report_kernel_drops(r, print_drops, NULL);
	}
	return cli_output_end(&cli_cmd_report, BASE_EXIT_OK);
}

/* Call it once the programs are attached. The process goes on parsing the translator's answers. */
static int confine_reporter(const struct report_kernel *r)
{
	const struct base_confine_opts c = {.role = BASE_ROLE_REPORTER,
					    .capabilities = report_kernel_capabilities(r)};

	return cli_confine("report", &c);
}

/* Runs until stopped or for the duration (0 means unlimited). */
static int let_kernel_report(const struct base_command *self, const struct report_settings *s)
{
	uint64_t flush_ns = s->kernel.flush_ns ?: 10000000, begun, said, alive_ns;
	struct report_kernel_counts c;
	struct report_kernel *r;
	char error[256];
	int stop = base_stop_fd(), code;

	if (stop < 0)
		return BASE_EXIT_FAILURE;
	r = report_kernel_open(&s->kernel, error, sizeof(error));
	if (!r) {
		close(stop);
		return base_failure(self, "%s", error);
	}
	if (!s->unconfined && confine_reporter(r) != BASE_EXIT_OK) {
		report_kernel_close(r);
		close(stop);
		return BASE_EXIT_FAILURE;
	}
	base_ready("target=%s", report_kernel_target(r));
	alive_ns = base_alive_ns();
	begun = said = base_now_ns();
	while (!base_stop_wait(stop, (int)(flush_ns / 1000000 + 1)) &&
	       (!s->duration || base_now_ns() - begun < s->duration)) {
		report_kernel_tick(r);
		if (alive_ns && base_now_ns() - said >= alive_ns) {
			base_alive();
			said = base_now_ns();
		}
	}
	report_kernel_drain(r);
	report_kernel_counts(r, &c);
	code = print_kernel(r, &c, s->json);
	report_kernel_close(r);
	close(stop);
	return code;
}

/* Parses "KIND=STORE,...". Returns false if invalid. */
static bool parse_subjects(const char *text, struct report_kernel_opts *o)
{
	static const char *const names[RPT_SUBJECTS] = {
		[RPT_DROPS] = "drops",
		[RPT_RETRANSMISSIONS] = "retransmissions",
		[RPT_LATENCY] = "latency",
		[RPT_QUEUE] = "queue",
	};
	char copy[256], *save, *word, *store;
	uint64_t number;
	int i;

	if (!text)
		return true;
	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		store = strchr(word, '=');
		if (!store || base_parse_u64(store + 1, 0, UINT16_MAX, &number))
			return false;
		*store = 0;
		for (i = RPT_FLOWS + 1; i < RPT_SUBJECTS && strcmp(names[i], word);)
			i++;
		if (i == RPT_SUBJECTS || o->subjects >> i & 1)
			return false;
		o->subjects |= 1u << i;
		o->subject_store[i] = (uint16_t)number;
	}
	return true;
}

/* Not the process ID, because another host or container may have a reporter with the same one. */
static uint32_t choose_reporter(void)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint32_t)base_realtime_ns();
	return number | 1u << 31;
}
#endif

/* Makes the kernel report. Refuses options that the kernel does not support. */
static int from_interface(const struct base_command *self, struct report_settings *s, int operands)
{
	if (operands)
		return base_usage(self,
				  "--interface takes no PRIMITIVE: the kernel creates the reports");
	if (strcmp(s->direction, "in") && strcmp(s->direction, "out") &&
	    strcmp(s->direction, "both"))
		return base_usage(self, "--direction: '%s' is not one of in, out, both",
				  s->direction);
	if (s->how.sample > 31)
		return base_usage(self, "--sample must be at most 31 with --interface");
	if (s->legacy || s->immediate || s->essential || s->changes || s->o.wait_ns || s->single)
		return base_usage(
			self,
			"--interface cannot be combined with --legacy, --immediate, --essential, --changes, "
			"--wait or --single: the kernel sends plain reports only");
#if HAVE_TCP
	if (!parse_subjects(s->subjects, &s->kernel))
		return base_usage(self,
				  "--report: '%s' is not KIND=STORE,... with each of drops, "
				  "retransmissions, latency, queue at most once",
				  s->subjects);
	if (s->o.key_file)
		base_secret_warn("report", s->o.key_file);
	s->kernel.target = s->o.target;
	s->kernel.ingress = strcmp(s->direction, "out") != 0;
	s->kernel.egress = strcmp(s->direction, "in") != 0;
	s->kernel.reporter = s->o.reporter ? s->o.reporter : choose_reporter();
	s->kernel.tenant = s->o.tenant;
	s->kernel.store = s->how.store;
	s->kernel.copies = s->how.copies;
	s->kernel.sample = s->how.sample;
	s->kernel.flush_ns = s->o.flush_ns;
	s->kernel.key_file = s->o.key_file;
	s->kernel.translator = s->o.translator;
	return let_kernel_report(self, s);
#else
	return base_failure(self, "--interface: this build has no eBPF support");
#endif
}

static int report_main(const struct base_command *self, int argc, char **argv)
{
	int code, first = base_options_parse(self, table, argc, argv, &code);

	if (first < 0)
		return code;
	if (cli_legacy(set.legacy) < 0)
		return base_usage(self, "--legacy must be 'a' or 'b', not '%s'", set.legacy);
	if (set.legacy && (set.o.tenant || set.o.key_file || set.essential))
		return base_usage(self,
				  "--legacy does not support tenants, keys or acknowledgements");
	if (set.kernel.interface)
		return from_interface(self, &set, argc - first);
	set.o.flags = (set.single ? SL_REPORTER_SINGLE : 0) |
		      (set.o.wait_ns ? SL_REPORTER_WAIT : 0);
	if (set.legacy)
		set.o.flags |= *set.legacy == 'a' ? SL_REPORTER_LEGACY_A : SL_REPORTER_LEGACY_B;
	set.o.change_entries = set.changes ? 1 << 16 : 0;
	set.how.flags = (set.immediate ? SL_REPORT_IMMEDIATE : 0) |
			(set.essential ? SL_REPORT_ESSENTIAL : 0) |
			(set.changes ? SL_REPORT_CHANGES : 0) |
			(set.by_key ? SL_REPORT_SAMPLE_BY_KEY : 0);
	return run(self, &set, argv + first, argc - first);
}

const struct base_command cli_cmd_report = {
	.name = "report",
	.synopsis = "[OPTION]... [PRIMITIVE WORD...]\n       sidelight report --interface NAME "
		    "[OPTION]...",
	.summary = CLI_SUMMARY_REPORT,
	.run = report_main,
};
