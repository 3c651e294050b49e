// SPDX-License-Identifier: Apache-2.0
/* metrics.c - starts the pods of pods.h, waits for them, and reports their updates. */
#include "cli/generate/generate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/relaxed.h"
#include "cli/common/common.h"
#include "cli/generate/pods.h"

/* Parent process */

struct parent {
	const struct base_command *cmd;
	const struct cli_generate_settings *s;
	struct cli_generate_shared sh;
	uint32_t started;
	int stop, status[2], go[2];
};

static int report_error(const struct parent *p, const char *what, int err)
{
	return base_failure(p->cmd, "%s: %s", what, strerror(err));
}

static int start_pods(struct parent *p)
{
	const pid_t self = getpid();

	for (uint32_t i = 0; i < cli_generate_processes(p->s); i++) {
		struct cli_generate_child c = {.s = p->s,
					       .sh = &p->sh,
					       .self = &p->sh.process[i],
					       .status = p->status[1],
					       .go = p->go[0]};
		pid_t pid = fork();

		if (pid < 0)
			return report_error(p, "fork", errno);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != self)
				_exit(BASE_EXIT_FAILURE);
			close(p->go[1]);
			close(p->status[0]);
			cli_generate_child(&c, i);
		}
		p->sh.process[i].pid = pid;
		p->started++;
	}
	return BASE_EXIT_OK;
}

/*
 * Returns the number of processes that reached step, or -1 after printing an error if one failed or
 * died.
 */
static int look_at(struct parent *p, enum cli_generate_step step)
{
	int there = 0;

	for (uint32_t i = 0; i < p->started; i++) {
		struct cli_generate_process *child = &p->sh.process[i];
		char at;

		if (!child->gone && waitpid(child->pid, NULL, WNOHANG) == child->pid)
			child->gone = true;
		at = __atomic_load_n(&child->step, __ATOMIC_ACQUIRE);
		if (at == CLI_FAILED) {
			base_failure(p->cmd, "%s", child->error);
			return -1;
		}
		there += at == CLI_DONE || (at == CLI_ATTACHED && step == CLI_ATTACHED);
		if (child->gone) {
			base_failure(p->cmd, "process %d of pod %s-%u died", (int)child->pid,
				     p->s->service, i * p->s->pods_per_process);
			return -1;
		}
	}
	return there;
}

/*
 * Waits until all processes reach step. After a signal, returns 1 if or_stopped is set; otherwise
 * tells the pods to stop and continues to wait. Returns 0 or 1, or -1 after printing an error.
 */
static int wait_for(struct parent *p, enum cli_generate_step step, bool or_stopped)
{
	bool stopped = false;

	for (;;) {
		struct pollfd fds[2] = {{.fd = p->status[0], .events = POLLIN},
					{.fd = p->stop, .events = POLLIN}};
		char bytes[512];
		int there = look_at(p, step);

		if (there < 0)
			return -1;
		if ((uint32_t)there == p->started)
			return stopped;
		/* The timeout detects a child that died silently. */
		poll(fds, stopped ? 1 : 2, 100);
		if (fds[0].revents && read(p->status[0], bytes, sizeof(bytes)) < 0 &&
		    errno != EINTR)
			return report_error(p, "read", errno), -1;
		if (!stopped && fds[1].revents) {
			stopped = true;
			relaxed_store(*p->sh.stop, true);
			if (or_stopped)
				return 1;
		}
	}
}

static void end_of_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void finish_pods(struct parent *p)
{
	for (uint32_t i = 0; i < p->started; i++)
		if (!p->sh.process[i].gone)
			kill(p->sh.process[i].pid, SIGKILL);
	for (uint32_t i = 0; i < p->started; i++)
		if (!p->sh.process[i].gone)
			waitpid(p->sh.process[i].pid, NULL, 0);
}

/* Report */

struct metrics_outcome {
	uint64_t of_kind[CLI_KINDS], sum, all, cpu_ns, elapsed_ns;
	bool complete;
};

static uint64_t pod_total(const struct parent *p, uint32_t pod)
{
	const struct cli_generate_thread_total *t = &p->sh.total[(size_t)pod * p->s->threads];
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->s->threads; i++)
		for (int k = 0; k < CLI_KINDS; k++)
			n += relaxed_load(t[i].done[k]);
	return n;
}

static struct metrics_outcome add_up(const struct parent *p, uint64_t elapsed_ns)
{
	const struct cli_generate_settings *s = p->s;
	struct metrics_outcome o = {.elapsed_ns = elapsed_ns};

	for (size_t i = 0; i < (size_t)s->pods * s->threads; i++) {
		struct cli_generate_thread_total *t = &p->sh.total[i];

		for (int k = 0; k < CLI_KINDS; k++) {
			o.of_kind[k] += relaxed_load(t->done[k]);
			o.all += relaxed_load(t->done[k]);
		}
		o.sum += relaxed_load(t->sum);
		o.cpu_ns += relaxed_load(t->cpu_ns);
	}
	o.complete = o.all == (uint64_t)s->pods * s->metrics * s->threads * s->updates;
	return o;
}

static void report_json(const struct parent *p, const struct metrics_outcome *o)
{
	static const char *const names[CLI_KINDS] = {"generated_updates_total", "generated_level",
						     "generated_size_bytes_count"};
	const struct cli_generate_settings *s = p->s;
	json_t *expect = json_object(), *pods = json_array();

	for (int k = 0; k < CLI_KINDS; k++)
		if (s->of_kind[k])
			json_object_set_new(expect, names[k], json_integer(CLI_INT(o->of_kind[k])));
	if (s->of_kind[CLI_HISTOGRAM])
		json_object_set_new(expect, "generated_size_bytes_sum",
				    json_integer(CLI_INT(o->sum)));
	for (uint32_t i = 0; i < s->pods; i++)
		json_array_append_new(pods,
				      json_pack("{s:o, s:i, s:I}", "pod",
						json_sprintf("%s-%u", s->service, i), "pid",
						(int)p->sh.process[i / s->pods_per_process].pid,
						"total", CLI_INT(pod_total(p, i))));
	cli_json_print(stdout,
		       json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:I, s:o, s:f, s:f, s:o}",
				 "service", s->service, "pods", CLI_INT(s->pods), "metrics",
				 CLI_INT(s->metrics), "threads", CLI_INT(s->threads), "updates",
				 CLI_INT(s->updates), "complete", o->complete, "per_metric_total",
				 o->complete ? json_integer(CLI_INT(s->threads * s->updates))
					     : json_null(),
				 "grand_total", CLI_INT(o->all), "expect", expect,
				 "elapsed_seconds", (double)o->elapsed_ns / 1e9, "ns_per_update",
				 o->all ? (double)o->cpu_ns / (double)o->all : 0.0, "per_pod",
				 pods),
		       JSON_COMPACT | JSON_REAL_PRECISION(6));
}

static int report_outcome(const struct parent *p, const struct metrics_outcome *o)
{
	const struct cli_generate_settings *s = p->s;

	if (s->json) {
		report_json(p, o);
	} else {
		printf("%u pods x %u metrics x %u threads x %" PRIu64 " updates%s\n", s->pods,
		       s->metrics, s->threads, s->updates,
		       o->complete ? "" : ", stopped before the end");
		if (o->complete)
			printf("each metric's total     %" PRIu64 "\n", s->threads * s->updates);
		for (int k = 0; k < CLI_KINDS; k++)
			if (s->of_kind[k])
				printf("%-23s %" PRIu64 " over all pods\n", cli_generate_family[k],
				       o->of_kind[k]);
		if (s->of_kind[CLI_HISTOGRAM])
			printf("sum of the sizes        %" PRIu64 "\n", o->sum);
		printf("elapsed                 %.3f s\n", (double)o->elapsed_ns / 1e9);
		if (o->all)
			printf("CPU time per update     %.2f ns\n",
			       (double)o->cpu_ns / (double)o->all);
	}
	return cli_output_end(p->cmd, BASE_EXIT_OK);
}

/* Command */

static int parse_kinds(const struct base_command *cmd, struct cli_generate_settings *s)
{
	static const char *const names[] = {"counter", "gauge", "histogram", NULL};
	uint32_t list[CLI_GENERATE_KINDS], n = 0;
	int err = cli_generate_kinds(cmd, s->kinds, names, "counter, gauge, histogram", 0, list,
				     &n);

	for (uint32_t i = 0; !err && i < s->metrics; i++)
		s->of_kind[list[i % n]]++;
	return err;
}

/*
 * Sleeps until the time is over or a signal arrives. Does not poll, because benchmarks measure the
 * cost that reading causes for idle pods.
 */
static int hold_pods(struct parent *p, uint64_t began)
{
	sigset_t died;
	int fd, code = BASE_EXIT_OK;

	sigemptyset(&died);
	sigaddset(&died, SIGCHLD);
	sigprocmask(SIG_BLOCK, &died, NULL);
	fd = signalfd(-1, &died, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return report_error(p, "signalfd", errno);
	/* SIGCHLD of an earlier death may be lost: check first. */
	for (uint64_t held = 0; held < p->s->hold; held = base_now_ns() - began) {
		uint64_t left = (p->s->hold - held) / 1000000 + 1;
		struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
					{.fd = p->stop, .events = POLLIN}};
		struct signalfd_siginfo info;

		if (look_at(p, CLI_DONE) < 0) {
			code = BASE_EXIT_FAILURE;
			break;
		}
		poll(fds, 2, left < INT_MAX ? (int)left : INT_MAX);
		if (fds[1].revents)
			break;
		while (read(fd, &info, sizeof(info)) > 0)
			;
	}
	close(fd);
	return code;
}

static int run_pods(struct parent *p)
{
	const struct cli_generate_settings *s = p->s;
	struct metrics_outcome o;
	uint64_t began, elapsed = 0;
	int waited;

	if (start_pods(p) != BASE_EXIT_OK)
		return BASE_EXIT_FAILURE;
	waited = wait_for(p, CLI_ATTACHED, true);
	began = base_now_ns();
	if (!waited) {
		fprintf(stderr, "ready pods=%u metrics=%u threads=%u processes=%u\n", s->pods,
			s->metrics, s->threads, p->started);
		end_of_file(&p->go[1]);
		waited = wait_for(p, CLI_DONE, false);
		elapsed = base_now_ns() - began;
	}
	if (waited < 0)
		return BASE_EXIT_FAILURE;
	o = add_up(p, elapsed);
	if (report_outcome(p, &o) != BASE_EXIT_OK)
		return BASE_EXIT_FAILURE;
	return waited ? BASE_EXIT_OK : hold_pods(p, base_now_ns());
}

static struct cli_generate_settings set = {
	.pods = 1,
	.metrics = 64,
	.threads = 1,
	.updates = 1000,
	.pods_per_process = 1,
	.seed = 1,
	.wait = 10000000000,
	.kinds = "counter",
	.service = "generate",
};

static const struct base_option table[] = {
	BASE_UINT("pods", 'n', &set.pods, 1, 100000, "N",
		  "number of pods, each of which is a "
		  "publisher"),
	BASE_UINT("metrics", 'm', &set.metrics, 1, 1000000, "N", "metrics per pod"),
	BASE_UINT("threads", 't', &set.threads, 1, 1024, "N", "threads per pod"),
	BASE_UINT("updates", 'u', &set.updates, 0, 1e15, "N",
		  "updates of each metric by each thread; 0 means pods stay idle (--hold)"),
	BASE_UINT("rate", 'r', &set.rate, 0, 1e9, "N",
		  "updates per second and thread; 0 means as fast as possible (default)"),
	BASE_STRING(
		"socket", 's', &set.socket, "PATH",
		"socket of the agent (default $SIDELIGHT_SOCKET, or /run/sidelight/agent.sock)"),
	BASE_STRING("kinds", 'k', &set.kinds, "LIST",
		    "alternate between these kinds of metrics: counter, gauge, histogram"),
	BASE_STRING("service", 0, &set.service, "NAME",
		    "value of the label service; pod N is "
		    "called NAME-N"),
	BASE_STRING("namespace", 0, &set.kube_namespace, "NAME", "label namespace"),
	BASE_UINT("pods-per-process", 0, &set.pods_per_process, 1, PODS_A_PROCESS_MAX, "N",
		  "number of pods that share a process"),
	BASE_TIME(
		"wait", 0, &set.wait, 0, 0, "DURATION",
		"fail if the agent has not admitted all pods after this time; 0 means update at once, "
		"attached or not"),
	BASE_TIME(
		"hold", 0, &set.hold, 0, 0, "DURATION",
		"keep the pods alive for this long after the last update; 0 means exit at once (default)"),
	BASE_UINT("seed", 0, &set.seed, 0, 0, "N", "seed of the sizes that histograms observe"),
	BASE_FLAG("json", 'j', &set.json, "print the totals as JSON"),
	{0},
};

static int run_metrics(const struct base_command *cmd, int argc, char **argv)
{
	struct parent p = {.cmd = cmd, .s = &set, .status = {-1, -1}, .go = {-1, -1}};
	unsigned __int128 all;
	int result, err;

	if (!base_options_only(cmd, table, argc, argv, &result))
		return result;
	if (strlen(set.service) > 255)
		return base_usage(cmd, "--service must not be longer than 255 bytes");
	all = (unsigned __int128)set.pods * set.metrics * set.threads * set.updates;
	if (all > INT64_MAX)
		return base_usage(cmd, "more than 2^63 updates in total");
	if ((uint64_t)set.pods * set.threads > 1u << 20)
		return base_usage(cmd, "more than %u threads in total", 1u << 20);
	err = parse_kinds(cmd, &set);
	if (err)
		return err;

	err = cli_generate_share(&set, &p.sh);
	if (err)
		return report_error(&p, "memory", -err);
	p.stop = base_stop_fd();
	if (p.stop < 0) {
		result = report_error(&p, "signalfd", -p.stop);
		goto unmap;
	}
	if (pipe2(p.status, O_CLOEXEC) || pipe2(p.go, O_CLOEXEC)) {
		result = report_error(&p, "pipe", errno);
		goto close_pipes;
	}
	signal(SIGPIPE, SIG_IGN); /* make write() return EPIPE; children inherit this */
	result = run_pods(&p);
	finish_pods(&p);
close_pipes:
	for (int i = 0; i < 2; i++) {
		end_of_file(&p.go[i]);
		end_of_file(&p.status[i]);
	}
	close(p.stop);
unmap:
	munmap(p.sh.memory, p.sh.bytes);
	return result;
}

const struct base_command cli_generate_metrics = {
	.name = "generate metrics",
	.synopsis = "[OPTION]...",
	.summary = "Run pods that update their metrics at an exact rate",
	.run = run_metrics,
};
