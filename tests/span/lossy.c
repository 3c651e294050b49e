// SPDX-License-Identifier: Apache-2.0
/*
 * lossy SOCKET burst TRACES          a ring that holds 512 lines, and far more written to it at
 *                                    once: 30 quick roots, and when SIGUSR1 comes, TRACES that take
 *                                    a second, with two children each, two lines per span
 * lossy SOCKET child NAME TRACEPARENT  a pod of that name, with one span of that trace
 * lossy SOCKET root                  a root that ends, and fails, when SIGUSR1 comes
 * lossy SOCKET liar                  a head that claims more spans than it has lines
 *
 * Says "ready", with the traceparent of its last span, and holds still until it is killed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/span.h>

#include "rings.h"

#define QUICK 30 /* number of quick requests that a slow one is compared with */

static struct sl_publisher *open_pod(const char *name, const char *socket)
{
	struct sl_publisher_opts o = SL_OPTS(sl_publisher_opts, .service = name, .pod = name,
					     .socket = socket, .max_threads = 2,
					     .span_bytes = 512 * SL_LINE_SIZE);

	return sl_publisher_open(&o);
}

static void ready(const struct sl_span *s)
{
	char header[SL_TRACEPARENT_LENGTH + 1];

	sl_traceparent_format(&s->context, header);
	printf("ready traceparent=%s\n", header);
	fflush(stdout);
}

static void set_duration(struct sl_span *s, uint64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	sl_span_set_start(s, (uint64_t)t.tv_sec * 1000000000u);
	sl_span_set_end(s, (uint64_t)t.tv_sec * 1000000000u + ns);
}

/*
 * Finds its own region where the library has mapped it, as only a hostile program would: after an
 * agent has sealed the region, it cannot be mapped for writing again.
 */
static int lie(void)
{
	static struct sl_region_header copy;
	uintptr_t from = 0, to = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct region_info info;
	char line[512];
	uint64_t *head;

	while (maps && !from && fgets(line, sizeof(line), maps))
		if (!strstr(line, " rw-s ") || !strstr(line, "/memfd:sidelight") ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2)
			from = 0;
	if (maps)
		fclose(maps);
	if (!from)
		return -1;
	memcpy(&copy, (void *)from, sizeof(copy));
	if (region_info_parse(&copy, to - from, &info))
		return -1;
	head = (uint64_t *)(from + region_span_head_at(&info, 1));
	head[SL_SPAN_HEAD_LINES] = 1ull << 40;
	head[SL_SPAN_HEAD_SPANS] = 1ull << 60;
	head[7] = sl_line_check(head);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	struct sl_publisher *p = open_pod(strcmp(what, "child") || argc < 4 ? what : argv[3],
					  argc > 1 ? argv[1] : "");
	struct sl_span_name name = sl_span_name_create(p, "work");
	struct sl_span span, child;
	sigset_t signals;
	int got;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (!p)
		return 1;
	if (!strcmp(what, "burst") && argc > 3) {
		struct sl_span_key key;

		/* Not before the ring is being read, and with a key that was not read before. */
		for (int i = 0; i < QUICK; i++) {
			sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
			set_duration(&span, 1000000);
			sl_span_end(&span);
		}
		ready(&span);
		sigwait(&signals, &got);
		key = sl_span_key_create(p, "key");
		for (unsigned long n = strtoul(argv[3], NULL, 10); n; n--) {
			sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
			for (int i = 0; i < 2; i++) {
				sl_span_start(&child, name, SL_SPAN_INTERNAL, &span.context);
				sl_span_set_i64(&child, key, i);
				sl_span_end(&child);
			}
			sl_span_set_i64(&span, key, (int64_t)n);
			set_duration(&span, 1000000000);
			sl_span_end(&span);
		}
	} else if (!strcmp(what, "child") && argc > 4) {
		struct sl_trace_context c;

		if (sl_traceparent_parse(argv[4], strlen(argv[4]), &c))
			return 2;
		sl_span_start(&span, name, SL_SPAN_SERVER, &c);
		sl_span_end(&span);
		ready(&span);
	} else if (!strcmp(what, "root")) {
		sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
		ready(&span);
		sigwait(&signals, &got);
		sl_span_set_status(&span, SL_SPAN_ERROR, NULL);
		sl_span_end(&span);
	} else if (!strcmp(what, "liar")) {
		sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
		sl_span_end(&span);
		if (lie())
			return 3;
		ready(&span);
	} else {
		return 2;
	}
	for (;;)
		pause();
}
