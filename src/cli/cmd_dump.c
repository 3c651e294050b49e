// SPDX-License-Identifier: Apache-2.0
/* cmd_dump.c - sidelight dump: finds regions in files, processes and agents. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sidelight/attach.h>

#include "base/base.h"
#include "cli/common/common.h"
#include "cli/dump/dump.h"
#include "cli/common/remote.h"

static struct {
	bool raw_lines, check, all;
	const char *socket, *kind, *secret;
	struct cli_dump_remote_opts remote;
} settings = {.remote.fabric = {.gid_index = -1, .ib_port = 1}};

static int report_failure(const char *source, const char *what)
{
	return base_failure(&cli_cmd_dump, "%s: %s", source, what);
}

/* Dumps one region. Takes over fd. keep: receives the contents; may be NULL. */
static int dump_one(const char *source, int fd, struct cli_dump *keep)
{
	static struct cli_dump one; /* too large for the stack */
	struct cli_dump *d = keep ?: &one;
	bool good = cli_dump_read(d, source, fd);
	char fault[256];

	close(fd);
	if (settings.check)
		cli_dump_print_check(d);
	else if (settings.remote.json)
		cli_dump_print_json(d, settings.raw_lines);
	else
		cli_dump_print_text(d, settings.raw_lines);
	/* Standard output has the details; this line explains the exit status. */
	if (!good && !settings.check)
		report_failure(source, cli_dump_fault(d, fault, sizeof(fault)));
	if (!keep)
		cli_dump_free(d);
	return good ? BASE_EXIT_OK : BASE_EXIT_FAILURE;
}

/* Files */

static int dump_file(const char *path)
{
	/* O_NONBLOCK: opening a FIFO must not block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return report_failure(path, errno == ENXIO ? "is a socket; use --socket PATH"
							   : strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return report_failure(path, "not a regular file");
	}
	return dump_one(path, fd, NULL);
}

/* Processes: each memfd of a process that holds a region */

static int dump_process(const char *pid)
{
	char path[64], target[256], source[64];
	int status = BASE_EXIT_OK;
	unsigned int found = 0;
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return report_failure(pid, errno == ENOENT ? "no such process" : strerror(errno));
	while ((e = readdir(dir))) {
		uint8_t magic[8];
		ssize_t n;
		int fd;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = 0;
		if (strncmp(target, "/memfd:", 7))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			status = report_failure(path, strerror(errno));
			continue;
		}
		if (pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		    memcmp(magic, SL_REGION_MAGIC, sizeof(magic))) {
			close(fd);
			continue;
		}
		snprintf(source, sizeof(source), "pid %.20s fd %.20s", pid, e->d_name);
		if (found++ && !settings.remote.json && !settings.check)
			putchar('\n');
		if (dump_one(source, fd, NULL))
			status = BASE_EXIT_FAILURE;
	}
	closedir(dir);
	if (!found && !status)
		return report_failure(pid, "contains no region");
	return status;
}

/* Agents */

static int dump_id(int s, const char *path, uint64_t id)
{
	struct sl_msg_id ask = {id};
	char why[320], source[64];
	int fd = cli_agent_ask(s, SL_MSG_OPEN, &ask, sizeof(ask), SL_MSG_REGION, why, sizeof(why));

	snprintf(source, sizeof(source), "id %" PRIu64, id);
	if (fd < 0)
		return base_failure(&cli_cmd_dump, "%s: %s: %s", path, source, why);
	/* A BPF map rather than a memory file: kernel tables are READ through a mapping. */
	if (fcntl(fd, F_GET_SEALS) < 0) {
		struct cli_dump_remote_opts o = settings.remote;

		close(fd);
		o.target = path;
		o.id = id;
		if (!settings.check)
			return cli_dump_remote(&cli_cmd_dump, &o);
		printf("%s: kernel table, not checked\n", source);
		return BASE_EXIT_OK;
	}
	return dump_one(source, fd, NULL);
}

/* Dumps the regions that the options select. s is connected to the agent's socket `path`. */
static int dump_from(int s, const char *path)
{
	static struct cli_dump directory;
	char why[320];
	int fd = cli_agent_ask(s, SL_MSG_SUBSCRIBE, NULL, 0, SL_MSG_WELCOME, why, sizeof(why));
	int status;

	if (fd < 0)
		return report_failure(path, why);
	if (settings.remote.id) {
		close(fd);
		return dump_id(s, path, settings.remote.id);
	}
	status = dump_one("directory", fd, &directory);
	for (uint32_t i = 0;
	     settings.all && directory.entries && i < directory.directory.entries_used; i++) {
		const struct region_entry *e = &directory.entries[i].parsed;

		if (directory.entries[i].fault || e->state == SL_STATE_FREE ||
		    e->state == SL_STATE_RETIRED)
			continue;
		if (!settings.remote.json && !settings.check)
			putchar('\n');
		if (dump_id(s, path, e->id))
			status = BASE_EXIT_FAILURE;
	}
	cli_dump_free(&directory);
	return status;
}

static int dump_agent(const char *path)
{
	int s = cli_agent_connect(path), status;

	if (s < 0)
		return report_failure(path, strerror(errno));
	status = dump_from(s, path);
	close(s);
	return status;
}

/* Command line */

static bool all_digits(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s);
}

static const struct base_option table[] = {
	BASE_FLAG("json", 'j', &settings.remote.json, "print JSON, one object per line and region"),
	BASE_FLAG("raw-lines", 'r', &settings.raw_lines,
		  "also print every line with its check word"),
	BASE_FLAG("check", 'c', &settings.check,
		  "print only whether the region is well-formed; exit 1 if not"),
	BASE_STRING("socket", 's', &settings.socket, "PATH",
		    "query the agent at this socket for its directory, or with --id or --all, for "
		    "regions"),
	BASE_UINT("id", 'i', &settings.remote.id, 1, INT64_MAX, "N",
		  "show the region of this directory entry"),
	BASE_STRING("agent", 0, &settings.remote.target, "TARGET",
		    "read the kernel tables of an agent's host: HOST[:PORT] over RDMA, or the "
		    "PATH of a socket"),
	BASE_STRING("kind", 0, &settings.kind, "KIND",
		    "with --agent: show only flows, layers or tasks"),
	BASE_STRING("dev", 0, &settings.remote.fabric.device, "DEVICE",
		    "with --agent: use this RDMA device (default: by route)"),
	CLI_OPTION_RDMA_SECRET(&settings.secret, "any host can impersonate the agent"),
	CLI_OPTIONS_RDMA_PORT(&settings.remote.fabric.gid_index, &settings.remote.fabric.ib_port,
			      "by route"),
	BASE_FLAG("all", 'a', &settings.all, "show the directory and every region in it"),
	{0},
};

static int dump_kernel(const struct base_command *self)
{
	static const char *const kinds[] = {"flows", "layers", "tasks", NULL};
	static const uint32_t of_kind[] = {SL_REGION_FLOWS, SL_REGION_LAYERS, SL_REGION_TASKS};
	int kind = settings.kind ? cli_choice(settings.kind, kinds) : -1, code;

	if (settings.socket || settings.all || settings.check || settings.raw_lines)
		return base_usage(self,
				  "--agent can only be combined with --kind, --id and --json");
	if (settings.kind && kind < 0)
		return base_usage(self, "--kind '%s' is not one of flows, layers, tasks",
				  settings.kind);
	code = cli_shared_secret(self, "rdma-secret", settings.secret,
				 &settings.remote.fabric.secret,
				 &settings.remote.fabric.secret_bytes);
	if (code)
		return code;
	settings.remote.kind = kind < 0 ? 0 : of_kind[kind];
	return cli_dump_remote(&cli_cmd_dump, &settings.remote);
}

static int dump_operand(const struct base_command *self, const char *operand)
{
	const char *path = settings.socket ? settings.socket : getenv(SL_SOCKET_ENV);
	bool agent = settings.socket || settings.remote.id || settings.all;

	if (settings.kind || settings.remote.fabric.device || settings.secret)
		return base_usage(self, "--kind, --dev and --rdma-secret require --agent");
	if (settings.remote.id && settings.all)
		return base_usage(self, "--id and --all are mutually exclusive");
	if (settings.check && (settings.remote.json || settings.raw_lines))
		return base_usage(self, "--check cannot be combined with --json or --raw-lines");
	if (agent && operand)
		return base_usage(self,
				  "FILE or PID cannot be combined with --socket, --id or --all");
	if (!agent && !operand)
		return base_usage(self, "specify one FILE, one PID or --socket PATH");
	if (agent)
		return dump_agent(path && *path ? path : SL_SOCKET_DEFAULT);
	return all_digits(operand) ? dump_process(operand) : dump_file(operand);
}

static int dump_main(const struct base_command *self, int argc, char **argv)
{
	int code, arg = base_options_parse(self, table, argc, argv, &code);

	if (arg < 0)
		return code;
	if (argc - arg > 1)
		return base_usage(self, "specify only one FILE or PID");
	if (settings.remote.target && arg < argc)
		return base_usage(self, "--agent cannot be combined with a FILE or PID");
	code = settings.remote.target ? dump_kernel(self) : dump_operand(self, argv[arg]);
	return cli_output_end(self, code);
}

const struct base_command cli_cmd_dump = {
	.name = "dump",
	.synopsis = "[OPTION]... FILE|PID|--socket PATH|--agent TARGET",
	.summary = "Show a region or the directory: header, schema, values, lines",
	.run = dump_main,
};
