// SPDX-License-Identifier: Apache-2.0
/* parts.c - starts, watches, restarts and stops the child processes of the demo. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/common/common.h"
#include "cli/demo/demo.h"

#define READY_MS	 20000 /* time for a part to become ready */
#define STOP_MS		 5000  /* time for a part to stop before SIGKILL */
#define RESTART_S	 5     /* how long a dead service is shown as dead before its restart */
#define QUICK_DEATHS_MAX 3     /* give up after this many deaths soon after a start */

static void show_tail(const struct cli_demo_part *p)
{
	char text[2048];
	int fd = open(p->log, O_RDONLY | O_CLOEXEC);
	ssize_t n;

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

static bool log_has_ready(const struct cli_demo_part *p)
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

void cli_demo_part_set(struct cli_demo *d, enum cli_demo_part_id id, const char *name, ...)
{
	struct cli_demo_part *p = &d->part[id];
	const char *s;
	va_list ap;

	p->name = name;
	p->wanted = true;
	snprintf(p->log, sizeof(p->log), "%s/%s.log", d->dir, name);
	va_start(ap, name);
	while ((s = va_arg(ap, const char *)) && p->args < DEMO_ARGS_MAX - 1)
		p->argv[p->args++] = s;
	va_end(ap);
}

static int spawn_part(struct cli_demo *d, struct cli_demo_part *p)
{
	const pid_t self = getpid();
	pid_t pid;

	unlink(p->log); /* discard the output of the previous run */
	pid = fork();
	if (pid < 0)
		return base_failure(&cli_cmd_demo, "%s: %s", p->name, strerror(errno));
	if (!pid) {
		int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		int out = open(p->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		sigset_t none;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGINT, SIG_DFL); /* shells ignore SIGINT in background jobs */
		signal(SIGPIPE, SIG_DFL);
		if (getppid() != self || in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 ||
		    dup2(out, 2) < 0)
			_exit(127);
		if (p->pod &&
		    (setenv("SIDELIGHT_SOCKET", d->socket, 1) || setenv("POD_NAME", p->pod, 1)))
			_exit(127);
		execvp(p->argv[0], (char *const *)p->argv);
		dprintf(2, "can't run %s: %s\n", p->argv[0], strerror(errno));
		_exit(127);
	}
	setpgid(pid, pid); /* both parent and child call setpgid(), to avoid a race */
	p->pid = pid;
	p->started_ns = base_now_ns();
	p->restart_ns = 0;
	return BASE_EXIT_OK;
}

static const char *describe_status(int status, char out[128])
{
	if (WIFSIGNALED(status))
		snprintf(out, 128, "was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(out, 128, "ended with exit code %d", WEXITSTATUS(status));
	return out;
}

/* Returns true once for a part that has exited. */
static bool reap_part(struct cli_demo_part *p, int *status)
{
	if (!p->pid || waitpid(p->pid, status, WNOHANG) != p->pid)
		return false;
	kill(-p->pid, SIGKILL); /* the rest of its process group */
	p->pid = 0;
	return true;
}

static int wait_until_ready(struct cli_demo *d, struct cli_demo_part *p)
{
	const uint64_t end = base_now_ns() + READY_MS * 1000000ull;
	int status;

	while (!log_has_ready(p)) {
		bool dead = reap_part(p, &status);
		char what[128];

		if (dead || base_now_ns() > end) {
			if (dead)
				base_failure(&cli_cmd_demo, "%s %s before it was ready", p->name,
					     describe_status(status, what));
			else
				base_failure(&cli_cmd_demo, "%s is not ready after %d s", p->name,
					     READY_MS / 1000);
			show_tail(p);
			return BASE_EXIT_FAILURE;
		}
		if (base_stop_wait(d->stop, 20))
			return BASE_EXIT_OK; /* the caller checks again */
	}
	return BASE_EXIT_OK;
}

static void stop_part(struct cli_demo_part *p)
{
	const uint64_t end = base_now_ns() + STOP_MS * 1000000ull;
	int status;

	if (!p->pid)
		return;
	/* wrk exits on SIGTERM; the queue stops its workers itself. */
	kill(p->pid, SIGTERM);
	while (p->pid && !reap_part(p, &status)) {
		if (base_now_ns() > end) {
			base_failure(&cli_cmd_demo, "%s did not stop within %d s; killed", p->name,
				     STOP_MS / 1000);
			kill(-p->pid, SIGKILL);
			waitpid(p->pid, &status, 0);
			p->pid = 0;
		}
		usleep(5000);
	}
}

void cli_demo_stop_all(struct cli_demo *d)
{
	for (int i = DEMO_PARTS - 1; i >= 0; i--)
		stop_part(&d->part[i]);
}

int cli_demo_restart(struct cli_demo *d, enum cli_demo_part_id id)
{
	struct cli_demo_part *p = &d->part[id];

	stop_part(p);
	return spawn_part(d, p) ? BASE_EXIT_FAILURE : wait_until_ready(d, p);
}

/* Gives up a late part, which is optional: the switch, or the reporter of loopback traffic. */
static void leave_out(struct cli_demo *d, int gone, const char *why)
{
	const bool is_switch = gone == DEMO_SWITCH;

	for (int i = DEMO_PARTS - 1; i >= 0; i--)
		if (d->part[i].late && d->part[i].wanted && (i == DEMO_SWITCH) == is_switch) {
			stop_part(&d->part[i]);
			d->part[i].wanted = false;
		}
	if (is_switch)
		snprintf(d->no_switch, sizeof(d->no_switch), "%s", why);
	else
		snprintf(d->no_reports, sizeof(d->no_reports), "%s", why);
}

int cli_demo_start_all(struct cli_demo *d, bool late)
{
	for (int i = 0; i < DEMO_PARTS; i++) {
		struct cli_demo_part *p = &d->part[i];

		if (!p->wanted || p->late != late)
			continue;
		if (spawn_part(d, p))
			return BASE_EXIT_FAILURE;
		if (i != DEMO_LOAD && wait_until_ready(d, p)) {
			if (!late)
				return BASE_EXIT_FAILURE;
			leave_out(d, i, "a part did not start");
			continue;
		}
		if (base_stop_wait(d->stop, 0))
			break;
	}
	return BASE_EXIT_OK;
}

/*
 * Returns true if the part that part i depends on is running: the reporter provides the
 * translator's address.
 */
static bool may_start(const struct cli_demo *d, int i)
{
	const struct cli_demo_part *needed = i == DEMO_TRANSLATE ? &d->part[DEMO_REPORT]
					     : i == DEMO_LOAD	 ? &d->part[DEMO_SHOP]
								 : NULL;

	return !needed || (needed->pid && log_has_ready(needed));
}

/*
 * Stops the load while the shop is dead: otherwise wrk would open some 10,000 connections per
 * second, each causing a report.
 */
static void pause_load(struct cli_demo *d)
{
	struct cli_demo_part *load = &d->part[DEMO_LOAD];

	if (!load->pid)
		return;
	stop_part(load);
	load->restart_ns = base_now_ns();
	printf("the load is paused until the shop runs again\n");
}

int cli_demo_look_after(struct cli_demo *d)
{
	for (int i = 0; i < DEMO_PARTS; i++) {
		struct cli_demo_part *p = &d->part[i];
		int status, wait_s = i == DEMO_AGENT || i == DEMO_COLLECT ? 2 : RESTART_S;
		pid_t pid = p->pid;
		char what[128];

		if (p->wanted && !p->pid && p->restart_ns && base_now_ns() >= p->restart_ns &&
		    may_start(d, i)) {
			if (spawn_part(d, p))
				return BASE_EXIT_FAILURE;
			if (i != DEMO_LOAD) {
				printf("%s runs again, pid %d\n", p->name, (int)p->pid);
			}
		}
		if (!reap_part(p, &status))
			continue;
		if (i == DEMO_LOAD && WIFEXITED(status) && !WEXITSTATUS(status)) {
			p->restart_ns = base_now_ns();
			p->quick_deaths = 0;
			continue;
		}
		base_failure(&cli_cmd_demo, "%s (pid %d) %s", p->name, (int)pid,
			     describe_status(status, what));
		if (i == DEMO_SHOP)
			pause_load(d);
		if (!WIFSIGNALED(status))
			show_tail(p);
		if (base_now_ns() - p->started_ns > 5 * DEMO_SECOND)
			p->quick_deaths = 0;
		if (++p->quick_deaths >= QUICK_DEATHS_MAX && p->late) {
			base_failure(&cli_cmd_demo, "%s keeps dying; the demo goes on without it",
				     p->name);
			leave_out(d, i, "it kept dying");
			continue;
		}
		if (p->quick_deaths >= QUICK_DEATHS_MAX)
			return base_failure(&cli_cmd_demo, "%s keeps dying; giving up", p->name);
		p->restart_ns = base_now_ns() + (uint64_t)wait_s * DEMO_SECOND;
		printf("%s starts again in %d s%s\n", p->name, wait_s,
		       i == DEMO_SHOP || i == DEMO_QUEUE
			       ? "; until then the page shows it as dead, with its last values"
			       : "");
	}
	return BASE_EXIT_OK;
}
