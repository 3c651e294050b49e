// SPDX-License-Identifier: Apache-2.0
/*
 * test_collector.c NAME - runs one test of the collector, or all. The name of a test is its
 * promise.
 */
#include <string.h>

#include "fixture.h"

void pod_make(struct pod *p, uint64_t instance, const char *labels, size_t bytes)
{
	make_metrics(&p->m, 64, 3, 1 << 16, labels, bytes);
	p->instance = p->m.header->instance = instance;
	make_header_check(&p->m);
}

uint32_t counter(struct pod *p, const char *name, const char *key, const char *value)
{
	return make_metric(&p->m, &(struct make_metric){.kind = SL_KIND_COUNTER,
							.name = name,
							.help = "help",
							.labels = {key, value, NULL}});
}

uint32_t metric_of(struct pod *p, uint16_t kind, const char *name)
{
	return make_metric(&p->m, &(struct make_metric){.kind = kind, .name = name});
}

void put(struct mock_host *h, uint32_t index, uint64_t id, struct pod *p, uint32_t state)
{
	mock_put(h, index, id, p->m.mem, p->m.size, state, p->instance);
}

void set(struct mock_host *h, struct pod *p, uint32_t stripe, uint32_t cell, uint64_t v)
{
	pthread_mutex_lock(&h->lock);
	make_cell_set(&p->m, stripe, cell, v);
	pthread_mutex_unlock(&h->lock);
}

struct collect_collector *start_tables(struct collect_collector_opts *o,
				       const struct collect_tables_opts *tables)
{
	static const char *const one[] = {"one"};
	char error[256] = "";
	struct collect_collector *c;

	if (!o->agents) {
		o->agents = one;
		o->agent_count = 1;
	}
	c = collect_collector_new(o, error, sizeof(error));
	if (!c)
		fail_msg("%s", error);
	if (tables)
		assert_int_equal(collect_tables_attach(c, tables), 0);
	assert_int_equal(collect_collector_start(c), 0);
	return c;
}

struct collect_collector *start(struct collect_collector_opts *o)
{
	return start_tables(o, NULL);
}

char *scrape_as(struct collect_collector *c, enum export_format format, bool utf8, size_t *bytes)
{
	struct export_source source = collect_collector_source(c);
	struct export_render *r = export_render_new(&source, format, utf8);
	size_t used = 0, room = 1 << 16;
	char *text = malloc(room);
	ssize_t n;

	while ((n = export_render_read(r, text + used, room - used - 1)) > 0) {
		used += (size_t)n;
		if (room - used < 4096)
			text = realloc(text, room *= 2);
	}
	assert_int_equal(n, 0);
	text[used] = '\0';
	export_render_free(r);
	*bytes = used;
	return text;
}

char *scrape(struct collect_collector *c)
{
	size_t bytes;

	return scrape_as(c, EXPORT_FORMAT_TEXT, true, &bytes);
}

bool has(struct collect_collector *c, const char *line)
{
	char *text = scrape(c), *at = text;
	size_t n = strlen(line);
	bool found = false;

	for (; !found && at; at = strchr(at, '\n')) {
		at += *at == '\n';
		found = !strncmp(at, line, n) && (at[n] == '\n' || !at[n]);
		if (!*at)
			break;
	}
	free(text);
	return found;
}

bool mentions(struct collect_collector *c, const char *what)
{
	char *text = scrape(c);
	bool found = strstr(text, what);

	free(text);
	return found;
}

double self_value(struct collect_collector *c, const char *name, const char *labels)
{
	char *text = scrape(c), *at = text;
	size_t n = strlen(name);
	double sum = -1;

	while ((at = strstr(at, name))) {
		char *end = strchr(at, '\n'), *value;

		if ((at == text || at[-1] == '\n') && (at[n] == '{' || at[n] == ' ')) {
			*end = '\0';
			value = strrchr(at, ' ');
			if (!labels || strstr(at, labels))
				sum = (sum < 0 ? 0 : sum) + strtod(value, NULL);
			*end = '\n';
		}
		at = end;
	}
	free(text);
	return sum;
}

double faults(struct collect_collector *c, const char *cause)
{
	char label[64];

	snprintf(label, sizeof(label), "cause=\"%s\"", cause);
	return self_value(c, "sidelight_collector_region_faults_total", label);
}

__thread struct collect_worker_view seen[16];

void see_worker(const struct collect_worker_view *v, void *arg)
{
	(void)arg;
	seen[v->worker] = *v;
}

uint64_t rounds_of(struct collect_collector *c, unsigned int worker)
{
	collect_collector_workers(c, see_worker, NULL);
	return seen[worker].rounds;
}

int reset(void **state)
{
	(void)state;
	mock_reset();
	return 0;
}

uint64_t reads_of(struct mock_host *h, uint64_t id)
{
	uint64_t n;

	pthread_mutex_lock(&h->lock);
	n = h->region[id].reads;
	pthread_mutex_unlock(&h->lock);
	return n;
}

uint64_t reads_until_rest(struct mock_host *h, uint64_t id, uint64_t before)
{
	uint64_t n = before, last;

	do {
		last = n;
		usleep(700000);
		n = reads_of(h, id);
	} while (n != last);
	return n - before;
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest *const files[] = {
		values_tests, clashes_tests, exemplars_tests, fetches_tests, taps_tests,
		parts_tests,  hostile_tests, lives_tests,     flows_tests,   layers_tests,
		nets_tests,   removal_tests, tenants_tests,   pairs_tests};
	int failed = 0;

	base_log_level = BASE_ERROR;
	for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++)
		for (const struct CMUnitTest *t = files[f]; t->name; t++) {
			if (argc > 1 && strcmp(t->name, argv[1]))
				continue;
			failed += _cmocka_run_group_tests(t->name, t, 1, NULL, NULL);
			if (argc > 1)
				return failed;
		}
	return argc > 1 ? 2 : failed;
}
