/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_demo.c - all of Sidelight at work on this machine, until Ctrl-C: an agent, a collector, the
 * two example services and a load on one of them. Every part is a child in a process group of its
 * own, so that Ctrl-C comes here only and they stop in order; each dies with this process however
 * it ends. What they write goes into one temporary directory, which is removed at the end.
 */
#include "base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND		 1000000000ull
#define ARGS_MAX	 24
#define READY_MS	 20000 /* a part has so long to come up */
#define STOP_MS		 5000  /* and so long to stop, before SIGKILL */
#define RESTART_S	 10    /* so long a dead service stays to be seen as dead */
#define QUICK_DEATHS_MAX 3     /* a part that dies so often right after its start has a fault */
#define SLICE		 "20"  /* seconds: the load comes in runs of so long */
#define CONNECTIONS	 4     /* of the load */
#define ANSWER_MAX	 (1u << 20)

/* In the order in which they start; they stop in the reverse one. */
enum part_id { AGENT, COLLECT, SHOP, QUEUE, LOAD, PARTS };

struct part {
	const char *name;
	const char *argv[ARGS_MAX];
	unsigned int args;
	bool wanted;
	pid_t pid; /* 0: not running */
	uint64_t started_ns;
	uint64_t restart_ns; /* when to start it again; 0: not to be */
	unsigned int quick_deaths;
	char log[PATH_MAX]; /* both of its outputs */
};

struct demo {
	const struct sl_command *cmd;
	struct part part[PARTS];
	char self[PATH_MAX], dir[PATH_MAX - 64];
	char examples[PATH_MAX - 64];
	char socket[PATH_MAX], script[PATH_MAX];
	char shop[PATH_MAX], queue[PATH_MAX];
	char listen[300], shop_listen[300], shop_url[330];
	int stop;
};

__attribute__((format(printf, 2, 3))) static int complain(const struct demo *d, const char *fmt,
							  ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "sidelight %s: ", d->cmd->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return SL_EXIT_FAILURE;
}

/* ---- files ------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	remove(path);
	return 0;
}

static void remove_directory(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Requests as a shop has them; delay() keeps the rate, as wrk itself knows none. */
static int write_script(const struct demo *d, uint32_t rate)
{
	FILE *f = fopen(d->script, "we");

	if (!f)
		return -errno;
	fprintf(f,
		"local n = 0\n"
		"function delay() return %u end\n"
		"function request()\n"
		"  n = n + 1\n"
		"  local k = n %% 50\n"
		"  if k == 49 then return wrk.format('GET', '/no-such-page') end\n"
		"  if k %% 10 == 3 then\n"
		"    return wrk.format('POST', '/orders', nil, 'product=' .. (n / 10 %% 4 - n / 10 %% "
		"1))\n"
		"  end\n"
		"  if k %% 5 == 1 then return wrk.format('GET', '/products/' .. (n %% 4)) end\n"
		"  return wrk.format('GET', '/products')\n"
		"end\n",
		CONNECTIONS * 1000 / rate ? CONNECTIONS * 1000 / rate : 1);
	return fclose(f) ? -errno : 0;
}

static void show_tail(const struct part *p)
{
	char text[2048];
	int fd = open(p->log, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd < 0)
		return;
	if (lseek(fd, -(off_t)(sizeof(text) - 1), SEEK_END) < 0)
		lseek(fd, 0, SEEK_SET);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return;
	text[n] = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		fprintf(stderr, "  %s: %s\n", p->name, line);
}

static bool log_has_ready(const struct part *p)
{
	char line[1024];
	FILE *f = fopen(p->log, "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "ready", 5);
	if (f)
		fclose(f);
	return found;
}

/* ---- addresses --------------------------------------------------------------------------------- */

/* Splits "HOST:PORT" and looks whether it is free; if not, puts a port there that is. */
static int free_address(const struct demo *d, const char *option, const char *wish, char *out,
			size_t bytes)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *at = NULL;
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	char host[256], service[8];
	int fd = -1, one = 1, err;
	uint16_t port;

	if (sl_parse_address(wish, host, sizeof(host), &port))
		return sl_usage(d->cmd, "--%s: '%s' is not ADDR:PORT", option, wish);
	if (!*host)
		strcpy(host, "127.0.0.1");
	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &at);
	if (err)
		return complain(d, "--%s: %s: %s", option, host, gai_strerror(err));
	for (int try = 0; try < 2; try++) {
		fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		/* Only listen() tells another listener that has set SO_REUSEADDR too. */
		err = fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 1) ? errno : 0;
		if (!err || err != EADDRINUSE)
			break;
		if (fd >= 0)
			close(fd);
		fd = -1;
		if (at->ai_family == AF_INET6)
			((struct sockaddr_in6 *)at->ai_addr)->sin6_port = 0;
		else
			((struct sockaddr_in *)at->ai_addr)->sin_port = 0;
		if (port)
			printf("%s is in use; taking a free port\n", wish);
	}
	if (!err && getsockname(fd, (struct sockaddr *)&bound, &length))
		err = errno;
	if (!err)
		port = ntohs(bound.ss_family == AF_INET6
				     ? ((struct sockaddr_in6 *)&bound)->sin6_port
				     : ((struct sockaddr_in *)&bound)->sin_port);
	if (fd >= 0)
		close(fd);
	freeaddrinfo(at);
	if (err)
		return complain(d, "--%s: %s: %s", option, wish, strerror(err));
	snprintf(out, bytes, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return SL_EXIT_OK;
}

/* GET of path; the answer with its head in text, ended by NUL. 0 or -errno. */
static int fetch(const char *address, const char *path, char *text, size_t bytes)
{
	struct timeval limit = {.tv_sec = 3};
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *at = NULL;
	char host[256], service[8], request[600];
	int fd, err = -EIO, length;
	size_t got = 0;
	uint16_t port;

	if (sl_parse_address(address, host, sizeof(host), &port))
		return -EINVAL;
	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &at))
		return -EHOSTUNREACH;
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
	    connect(fd, at->ai_addr, at->ai_addrlen)) {
		err = -errno;
		goto out;
	}
	length = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path,
			  address);
	if (send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
		goto out;
	while (got < bytes - 1) {
		ssize_t n = recv(fd, text + got, bytes - 1 - got, 0);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	text[got] = 0;
	if (!strncmp(text, "HTTP/1.", 7) && strstr(text, " 200 "))
		err = 0;
out:
	if (fd >= 0)
		close(fd);
	freeaddrinfo(at);
	return err;
}

/* ---- the parts --------------------------------------------------------------------------------- */

static void arguments(struct demo *d, enum part_id id, const char *name, ...)
{
	struct part *p = &d->part[id];
	const char *s;
	va_list ap;

	p->name = name;
	p->wanted = true;
	snprintf(p->log, sizeof(p->log), "%s/%s.log", d->dir, name);
	va_start(ap, name);
	while ((s = va_arg(ap, const char *)) && p->args < ARGS_MAX - 1)
		p->argv[p->args++] = s;
	va_end(ap);
}

static int spawn(struct demo *d, struct part *p)
{
	const pid_t self = getpid();
	pid_t pid = fork();

	if (pid < 0)
		return complain(d, "%s: %s", p->name, strerror(errno));
	if (!pid) {
		int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		int out = open(p->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		sigset_t none;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGINT, SIG_DFL); /* a shell's background job ignores it */
		if (getppid() != self || in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 ||
		    dup2(out, 2) < 0)
			_exit(127);
		execvp(p->argv[0], (char *const *)p->argv);
		dprintf(2, "can't run %s: %s\n", p->argv[0], strerror(errno));
		_exit(127);
	}
	setpgid(pid, pid); /* whoever of the two comes first */
	p->pid = pid;
	p->started_ns = sl_now_ns();
	p->restart_ns = 0;
	return SL_EXIT_OK;
}

static void describe(int status, char *out, size_t bytes)
{
	if (WIFSIGNALED(status))
		snprintf(out, bytes, "was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(out, bytes, "ended with exit code %d", WEXITSTATUS(status));
}

/* True, once, for a part that has ended since the last time. */
static bool reap(struct part *p, int *status)
{
	if (!p->pid || waitpid(p->pid, status, WNOHANG) != p->pid)
		return false;
	kill(-p->pid, SIGKILL); /* what it may have left of its group */
	p->pid = 0;
	return true;
}

static int wait_until_ready(struct demo *d, struct part *p)
{
	const uint64_t end = sl_now_ns() + READY_MS * 1000000ull;
	int status;

	while (!log_has_ready(p)) {
		if (reap(p, &status)) {
			char what[128];

			describe(status, what, sizeof(what));
			complain(d, "%s %s before it was ready", p->name, what);
			show_tail(p);
			return SL_EXIT_FAILURE;
		}
		if (sl_now_ns() > end) {
			complain(d, "%s is not ready after %d s", p->name, READY_MS / 1000);
			show_tail(p);
			return SL_EXIT_FAILURE;
		}
		if (sl_stop_wait(d->stop, 20))
			return SL_EXIT_OK; /* the caller sees it again */
	}
	return SL_EXIT_OK;
}

/* One part after the other, in reverse order; each gets its time, then SIGKILL. */
static void stop_all(struct demo *d)
{
	for (int i = PARTS - 1; i >= 0; i--) {
		struct part *p = &d->part[i];
		const uint64_t end = sl_now_ns() + STOP_MS * 1000000ull;
		int status;

		if (!p->pid)
			continue;
		/* wrk ends at once by SIGTERM; the queue tells its workers by itself. */
		kill(p->pid, SIGTERM);
		while (p->pid && !reap(p, &status)) {
			if (sl_now_ns() > end) {
				complain(d, "%s did not stop within %d s; killed", p->name,
					 STOP_MS / 1000);
				kill(-p->pid, SIGKILL);
				waitpid(p->pid, &status, 0);
				p->pid = 0;
			}
			usleep(5000);
		}
	}
}

/* Looks after the parts: tells who died, and starts it again. Not 0: one keeps dying. */
static int look_after(struct demo *d)
{
	for (int i = 0; i < PARTS; i++) {
		struct part *p = &d->part[i];
		pid_t pid = p->pid;
		char what[128];
		int status;

		if (p->wanted && !p->pid && p->restart_ns && sl_now_ns() >= p->restart_ns) {
			if (spawn(d, p))
				return SL_EXIT_FAILURE;
			if (i != LOAD) {
				printf("%s runs again, pid %d\n", p->name, (int)p->pid);
				fflush(stdout);
			}
		}
		if (!reap(p, &status))
			continue;
		if (i == LOAD && WIFEXITED(status) && !WEXITSTATUS(status)) {
			p->restart_ns = sl_now_ns(); /* the next slice */
			p->quick_deaths = 0;
			continue;
		}
		describe(status, what, sizeof(what));
		if (i == LOAD && !d->part[SHOP].pid) {
			p->restart_ns = sl_now_ns() + (RESTART_S + 1) * SECOND;
			continue; /* no wonder */
		}
		complain(d, "%s (pid %d) %s", p->name, (int)pid, what);
		if (!WIFSIGNALED(status))
			show_tail(p);
		if (sl_now_ns() - p->started_ns > 5 * SECOND)
			p->quick_deaths = 0;
		if (++p->quick_deaths >= QUICK_DEATHS_MAX)
			return complain(d, "%s keeps dying; giving up", p->name);
		p->restart_ns = sl_now_ns() + (i == AGENT || i == COLLECT ? 2 : RESTART_S) * SECOND;
		printf("%s starts again in %d s%s\n", p->name,
		       i == AGENT || i == COLLECT ? 2 : RESTART_S,
		       i == SHOP || i == QUEUE ? "; until then the page shows it as dead, with its "
						 "last values"
					       : "");
		fflush(stdout);
	}
	return SL_EXIT_OK;
}

/* ---- what the newcomer sees -------------------------------------------------------------------- */

static void sample_lines(const struct demo *d)
{
	static const char *const wanted[] = {"http_requests_total{", "shop_revenue_euros_total{",
					     "queue_jobs_done_total{", "shop_stock{"};
	char *text = malloc(ANSWER_MAX);

	if (!text || fetch(d->listen, "/metrics", text, ANSWER_MAX)) {
		free(text);
		return;
	}
	puts("Some of its lines now:");
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		unsigned int shown = 0;

		for (char *line = text; line && shown < 2; line = strchr(line, '\n')) {
			int length;

			if (*line == '\n')
				line++;
			if (strncmp(line, wanted[i], strlen(wanted[i])))
				continue;
			length = (int)strcspn(line, "\n");
			/* A zero says little. */
			if (length > 2 && !strncmp(line + length - 2, " 0", 2))
				continue;
			printf("  %.*s\n", length, line);
			shown++;
		}
	}
	putchar('\n');
	free(text);
}

static void banner(const struct demo *d, uint64_t period)
{
	printf("\nSidelight is at work. The two services count in their own memory; the collector\n"
	       "reads it every %g ms, and neither the services nor the agent do anything for it.\n\n",
	       (double)period / 1e6);
	printf("  live page     http://%s/\n", d->listen);
	printf("  exposition    http://%s/metrics\n", d->listen);
	printf("  the shop      %s   (pid %d%s)\n", d->shop_url, (int)d->part[SHOP].pid,
	       d->part[LOAD].pid ? ", under load" : "");
	printf("  the queue     prefork workers   (pid %d)\n", (int)d->part[QUEUE].pid);
	printf("  agent         pid %d, socket %s\n", (int)d->part[AGENT].pid, d->socket);
	printf("  collector     pid %d\n\n", (int)d->part[COLLECT].pid);
	sample_lines(d);
	printf("What to try, from another terminal:\n"
	       "  kill -9 %-7d the shop dies; its last values stay, marked dead, then expire\n"
	       "  kill -9 %-7d the agent dies; no count is lost, the services attach again\n",
	       (int)d->part[SHOP].pid, (int)d->part[AGENT].pid);
	printf("  curl -s %s/products\n", d->shop_url);
	printf("  %s generate metrics --socket %s --pods 50 --hold 30s\n", d->self, d->socket);
	puts("Ctrl-C stops everything and leaves nothing behind.\n");
	/* Scripts wait for this line. */
	sl_ready("page=http://%s/ metrics=http://%s/metrics shop=%s shop_pid=%d agent_pid=%d",
		 d->listen, d->listen, d->shop_url, (int)d->part[SHOP].pid,
		 (int)d->part[AGENT].pid);
}

/* ---- the command ------------------------------------------------------------------------------- */

static bool runs(const char *program)
{
	const char *path = getenv("PATH");
	char full[PATH_MAX];

	for (path = path ? path : "/usr/bin:/bin"; *path;) {
		size_t n = strcspn(path, ":");

		snprintf(full, sizeof(full), "%.*s/%s", (int)n, path, program);
		if (!access(full, X_OK))
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

/* Beside the program as it is built, or where make install puts it. */
static int find_examples(struct demo *d, const char *given)
{
	char beside[PATH_MAX], installed[PATH_MAX], program[PATH_MAX + 8];
	const char *const where[] = {given, beside, installed};
	ssize_t n = readlink("/proc/self/exe", d->self, sizeof(d->self) - 1);

	if (n <= 0)
		return complain(d, "/proc/self/exe: %s", strerror(errno));
	d->self[n] = 0;
	snprintf(beside, sizeof(beside), "%.*s/examples", (int)(strrchr(d->self, '/') - d->self),
		 d->self);
	snprintf(installed, sizeof(installed), "%.*s/../libexec/sidelight",
		 (int)(strrchr(d->self, '/') - d->self), d->self);
	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		if (!where[i])
			continue;
		snprintf(program, sizeof(program), "%s/shop", where[i]);
		if (!access(program, X_OK)) {
			snprintf(d->examples, sizeof(d->examples), "%s", where[i]);
			return SL_EXIT_OK;
		}
		if (given)
			break;
	}
	return complain(d, "the example services are not in %s; name their folder by --examples",
			given ? given : beside);
}

static int make_directory(struct demo *d)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(d->dir, sizeof(d->dir), "%s/sidelight-demo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(d->dir)) {
		complain(d, "%s: %s", d->dir, strerror(errno));
		d->dir[0] = 0;
		return SL_EXIT_FAILURE;
	}
	snprintf(d->socket, sizeof(d->socket), "%s/agent.sock", d->dir);
	snprintf(d->script, sizeof(d->script), "%s/load.lua", d->dir);
	if (strlen(d->socket) > 107)
		return complain(d, "TMPDIR is too long a path for a unix socket");
	return SL_EXIT_OK;
}

static int start_all(struct demo *d)
{
	for (int i = 0; i < PARTS; i++) {
		if (!d->part[i].wanted)
			continue;
		if (spawn(d, &d->part[i]))
			return SL_EXIT_FAILURE;
		if (i != LOAD && wait_until_ready(d, &d->part[i]))
			return SL_EXIT_FAILURE;
		if (sl_stop_wait(d->stop, 0))
			break;
	}
	return SL_EXIT_OK;
}

static int run(const struct sl_command *cmd, int argc, char **argv)
{
	const char *listen_wish = "127.0.0.1:9464", *shop_wish = "127.0.0.1:8080", *examples = NULL;
	uint64_t period = 1000000, duration = 0, began;
	uint32_t load = 200;
	const struct sl_option table[] = {
		{"listen", 'l', SL_OPT_STRING, &listen_wish, "ADDR:PORT",
		 "of the page and /metrics; another port if this one is in use", 0, 0},
		{"shop-listen", 0, SL_OPT_STRING, &shop_wish, "ADDR:PORT",
		 "of the example shop; another port if this one is in use", 0, 0},
		{"period", 'p', SL_OPT_DURATION, &period, "DURATION", "between two reads", 1e5,
		 1e11},
		{"load", 0, SL_OPT_U32, &load, "N", "requests a second to the shop; 0: none", 0,
		 CONNECTIONS * 1000},
		{"duration", 'd', SL_OPT_DURATION, &duration, "DURATION",
		 "stop by itself after so long; 0: at Ctrl-C (default)", 0, 0},
		{"examples", 0, SL_OPT_STRING, &examples, "DIR",
		 "where the programs shop and queue are", 0, 0},
		{0},
	};
	static struct demo d; /* large */
	char period_text[32];
	int result, first = sl_options_parse(cmd, table, argc, argv);

	if (first < 0)
		return first == SL_HELP_SHOWN ? SL_EXIT_OK : SL_EXIT_USAGE;
	if (first < argc)
		return sl_usage(cmd, "unexpected '%s'", argv[first]);
	d.cmd = cmd;
	if (find_examples(&d, examples))
		return SL_EXIT_FAILURE;
	if (load && !runs("wrk"))
		return complain(&d, "wrk, which makes the load, is not installed: apt-get install "
				    "wrk, or --load 0");
	result = free_address(&d, "listen", listen_wish, d.listen, sizeof(d.listen));
	if (!result)
		result = free_address(&d, "shop-listen", shop_wish, d.shop_listen,
				      sizeof(d.shop_listen));
	if (result)
		return result;
	d.stop = sl_stop_fd();
	if (d.stop < 0)
		return complain(&d, "signalfd: %s", strerror(-d.stop));
	result = make_directory(&d);
	if (result)
		goto out;
	result = load ? write_script(&d, load) : 0;
	if (result) {
		result = complain(&d, "%s: %s", d.script, strerror(-result));
		goto out;
	}
	snprintf(d.shop_url, sizeof(d.shop_url), "http://%s", d.shop_listen);
	snprintf(d.shop, sizeof(d.shop), "%s/shop", d.examples);
	snprintf(d.queue, sizeof(d.queue), "%s/queue", d.examples);
	snprintf(period_text, sizeof(period_text), "%lluns", (unsigned long long)period);
	arguments(&d, AGENT, "agent", d.self, "agent", "--socket", d.socket, "--no-rest", NULL);
	arguments(&d, COLLECT, "collect", d.self, "collect", "--agent", d.socket, "--listen",
		  d.listen, "--period", period_text, NULL);
	arguments(&d, SHOP, "shop", d.shop, "--listen", d.shop_listen, "--socket", d.socket,
		  "--pod", "shop-0", NULL);
	arguments(&d, QUEUE, "queue", d.queue, "--socket", d.socket, "--pod", "queue-0", "--rate",
		  "50", NULL);
	if (load)
		arguments(&d, LOAD, "wrk", "wrk", "-t1", "-c4", "-d" SLICE "s", "-s", d.script,
			  d.shop_url, NULL);

	result = start_all(&d);
	/* A moment, so that the first values are there to be shown. */
	if (!result && !sl_stop_wait(d.stop, 1500)) {
		banner(&d, period);
		began = sl_now_ns();
		while (!result && !sl_stop_wait(d.stop, 200) &&
		       !(duration && sl_now_ns() - began >= duration))
			result = look_after(&d);
	}
	if (!result)
		puts("\nstopping");
	fflush(stdout);
	stop_all(&d);
out:
	if (d.dir[0])
		remove_directory(d.dir);
	close(d.stop);
	return result;
}

const struct sl_command sl_cmd_demo = {
	.name = "demo",
	.synopsis = "[OPTION]...",
	.summary = "show all of it at work on this machine until Ctrl-C",
	.run = run,
};
