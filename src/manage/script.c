// SPDX-License-Identifier: Apache-2.0
/* script.c - runs a script by sh, on this machine or by ssh on another; and what scripts are made
 * of. */
#include "manage/manage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#define OUTPUT_MAX (1u << 20)
#define SSH_FIXED  6

extern char **environ;

bool manage_text_open(struct manage_text *t)
{
	t->text = NULL;
	t->f = open_memstream(&t->text, &t->bytes);
	return t->f;
}

char *manage_text_close(struct manage_text *t)
{
	bool bad = ferror(t->f);

	if (fclose(t->f) || bad) {
		free(t->text);
		return NULL;
	}
	return t->text;
}

void manage_quote(FILE *f, const char *word)
{
	fputs(" '", f);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", f);
		else
			fputc(*word, f);
	fputc('\'', f);
}

/* What part's ready line says of key: up to the next blank. */
static const char *said(const struct manage_part *p, const char *key, size_t bytes,
			size_t *value_bytes)
{
	const char *at = p->ready;

	while (at && (at = strchr(at, ' '))) {
		at++;
		if (!strncmp(at, key, bytes) && at[bytes] == '=') {
			*value_bytes = strcspn(at + bytes + 1, " \n");
			return at + bytes + 1;
		}
	}
	return NULL;
}

bool manage_quote_filled(FILE *f, const struct manage *m, const char *word, char *error,
			 size_t error_bytes)
{
	struct manage_text t;
	const char *open, *close, *dot, *value;
	bool fine = true;
	char *filled;
	size_t n;

	if (!manage_text_open(&t)) {
		snprintf(error, error_bytes, "out of memory");
		return false;
	}
	while (fine && (open = strstr(word, "${"))) {
		fwrite(word, 1, (size_t)(open - word), t.f);
		close = strchr(open, '}');
		dot = strchr(open, '.');
		value = NULL;
		if (close && (size_t)(close - open) == strlen("${directory") &&
		    !strncmp(open, "${directory", strlen("${directory"))) {
			value = m->directory;
			n = strlen(value);
		} else if (close && dot && dot < close) {
			for (size_t i = 0; !value && i < m->parts; i++)
				if (!strncmp(m->part[i].name, open + 2, (size_t)(dot - open - 2)) &&
				    !m->part[i].name[dot - open - 2])
					value = said(&m->part[i], dot + 1,
						     (size_t)(close - dot - 1), &n);
		}
		if (!value && (!close || !dot || dot > close)) {
			/* A variable of the shell's. */
			fputs("${", t.f);
			word = open + 2;
			continue;
		}
		if (!value) {
			snprintf(
				error, error_bytes,
				"nothing is known of '%.*s}': no part that is up says so in its line 'ready'",
				(int)strcspn(open, "}"), open);
			fine = false;
			break;
		}
		fwrite(value, 1, n, t.f);
		word = close + 1;
	}
	fputs(word, t.f);
	filled = manage_text_close(&t);
	if (fine && filled)
		manage_quote(f, filled);
	else if (fine)
		snprintf(error, error_bytes, "out of memory");
	fine = fine && filled;
	free(filled);
	return fine;
}

static int script_file(const char *script)
{
	int fd = memfd_create("script", MFD_CLOEXEC);
	size_t n = strlen(script), done = 0;
	ssize_t w;

	if (fd < 0)
		return -1;
	while (done < n) {
		w = write(fd, script + done, n - done);
		if (w <= 0) {
			close(fd);
			return -1;
		}
		done += (size_t)w;
	}
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Starts it in a process group of its own. The pid, or -errno. */
static pid_t start(const struct manage_host *host, int in, int out, int err)
{
	static const char *const here[] = {"sh", "-s", NULL};
	/* Nobody is there to answer a question; a host that is gone must not hold us up. */
	static const char *const fixed[SSH_FIXED] = {"ssh",	      "-T", "-o",
						     "BatchMode=yes", "-o", "ConnectTimeout=10"};
	const char *const *args = here;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	const char **all = NULL;
	sigset_t none;
	size_t n = 0;
	pid_t pid;
	int e;

	if (host->ssh) {
		while (host->ssh[n])
			n++;
		all = calloc(n + SSH_FIXED + 3, sizeof(*all));
		if (!all)
			return -ENOMEM;
		memcpy(all, fixed, sizeof(fixed));
		memcpy(all + SSH_FIXED, host->ssh, n * sizeof(*all));
		all[SSH_FIXED + n] = "sh";
		all[SSH_FIXED + n + 1] = "-s";
		args = all;
	}
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, err, 2);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	e = posix_spawnp(&pid, args[0], &actions, &attr, (char *const *)args, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	free(all);
	return e ? -e : pid;
}

/* Reads what there is. False at the end. */
static bool gather(int fd, FILE *to, size_t *bytes, bool *cut)
{
	char buf[65536];
	ssize_t n = read(fd, buf, sizeof(buf));
	size_t room = OUTPUT_MAX - *bytes;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if ((size_t)n > room)
		*cut = true;
	room = (size_t)n < room ? (size_t)n : room;
	fwrite(buf, 1, room, to);
	*bytes += room;
	return n > 0;
}

/* Until both ends are closed. Returns why not, or NULL. */
static const char *listen_to(int fd[2], FILE *to[2], uint64_t end_ns, int stop_fd, bool *cut)
{
	struct pollfd p[3] = {{.fd = fd[0], .events = POLLIN},
			      {.fd = fd[1], .events = POLLIN},
			      {.fd = stop_fd, .events = POLLIN}};
	size_t bytes[2] = {0, 0};

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		uint64_t now = base_now_ns();

		if (now >= end_ns)
			return "it took too long";
		if (poll(p, 3, (int)((end_ns - now) / 1000000 + 1)) < 0 && errno != EINTR)
			return "it can't be listened to";
		if (p[2].revents)
			return "interrupted";
		for (int i = 0; i < 2; i++)
			if (p[i].fd >= 0 && p[i].revents && !gather(p[i].fd, to[i], &bytes[i], cut))
				p[i].fd = -1;
	}
	return NULL;
}

void manage_script(const struct manage_host *host, const char *script, uint64_t timeout_ns,
		   int stop_fd, struct manage_result *r)
{
	struct manage_text text[2];
	uint64_t begin = base_now_ns();
	int fds[2][2] = {{-1, -1}, {-1, -1}}, ends[2], in, status;
	const char *why = NULL;
	FILE *to[2];
	pid_t pid;

	*r = (struct manage_result){.code = -1};
	in = script_file(script);
	if (in < 0 || pipe2(fds[0], O_CLOEXEC) || pipe2(fds[1], O_CLOEXEC) ||
	    !manage_text_open(&text[0]) || !manage_text_open(&text[1])) {
		snprintf(r->why, sizeof(r->why), "%s", strerror(errno));
		goto close;
	}
	pid = start(host, in, fds[0][1], fds[1][1]);
	for (int i = 0; i < 2; i++) {
		close(fds[i][1]);
		fds[i][1] = -1;
		ends[i] = fds[i][0];
		to[i] = text[i].f;
	}
	if (pid < 0) {
		snprintf(r->why, sizeof(r->why), "%s can't be run: %s", host->ssh ? "ssh" : "sh",
			 strerror(-pid));
	} else {
		why = listen_to(ends, to, begin + timeout_ns, stop_fd, &r->cut);
		if (why)
			kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (why)
			snprintf(r->why, sizeof(r->why), "%s", why);
		else if (WIFEXITED(status))
			r->code = WEXITSTATUS(status);
		else
			snprintf(r->why, sizeof(r->why), "killed by signal %d", WTERMSIG(status));
	}
	r->out = manage_text_close(&text[0]);
	r->err = manage_text_close(&text[1]);
	if (!r->out || !r->err) {
		r->code = -1;
		snprintf(r->why, sizeof(r->why), "out of memory");
	}
close:
	for (int i = 0; i < 4; i++)
		if (fds[i / 2][i % 2] >= 0)
			close(fds[i / 2][i % 2]);
	if (in >= 0)
		close(in);
	r->seconds = (double)(base_now_ns() - begin) / 1e9;
}

void manage_result_free(struct manage_result *r)
{
	free(r->out);
	free(r->err);
	r->out = r->err = NULL;
}
