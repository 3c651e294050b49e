// SPDX-License-Identifier: Apache-2.0
/* fault.c - injects a fault into the shop and prints the findings of the analysis. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/common.h"
#include "cli/demo/demo.h"

#define SHOP	"shop-0"
#define LOOK_NS 100000000u
#define WAIT_NS (60 * DEMO_SECOND) /* how long to wait for an anomaly after the end of a fault */

static const char *const kinds[] = {"cpu", "slow", "errors", "leak"};

int cli_demo_fault_parse(struct cli_demo *d, const char *wish)
{
	const char *at = strchr(wish, '@');
	size_t length = at ? (size_t)(at - wish) : strlen(wish);
	char *end = NULL;
	long seconds = at ? strtol(at + 1, &end, 10) : 10;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (length == strlen(kinds[i]) && !strncmp(wish, kinds[i], length))
			d->fault.kind = kinds[i];
	if (!d->fault.kind || seconds < 1 || seconds > 3600 || (at && (end == at + 1 || *end)))
		return base_usage(
			&cli_cmd_demo,
			"--fault '%s' is not KIND[@SECONDS], KIND being one of cpu, slow, "
			"errors, leak",
			wish);
	d->fault.seconds = (unsigned int)seconds;
	return BASE_EXIT_OK;
}

static double seconds_since(uint64_t ns)
{
	return (double)(base_now_ns() - ns) * 1e-9;
}

/* Returns the newest anomaly of the shop with an ID above `above`, as a borrowed reference. */
static const json_t *anomaly_of_shop(const json_t *answer, json_int_t above)
{
	const json_t *all = json_object_get(answer, "anomalies"), *a;
	size_t i;

	json_array_foreach(all, i, a) if (cli_json_is(a, "pod", SHOP) &&
					  cli_json_integer(a, "id") > above) return a;
	return NULL;
}

/* Returns true if the analysis has learned the shop, which may take longer than the warm-up. */
static bool has_learned(const struct cli_demo *d)
{
	json_t *answer = cli_demo_fetch(d->listen, "/api/v1/pods?q=" SHOP);
	const json_t *pod = json_array_get(json_object_get(answer, "pods"), 0);
	const json_t *verdict = json_object_get(pod, "verdict");
	bool known = json_is_false(json_object_get(verdict, "learning"));

	json_decref(answer);
	return known;
}

static void inject_fault(struct cli_demo *d, const json_t *answer)
{
	char path[128], *taken;

	d->fault.above = cli_json_integer(anomaly_of_shop(answer, 0), "id");
	snprintf(path, sizeof(path), "/fault?kind=%s&seconds=%u", d->fault.kind, d->fault.seconds);
	taken = cli_demo_http(d->shop_listen, path, "");
	if (!taken) {
		base_failure(&cli_cmd_demo, "the shop refused the fault");
		return;
	}
	free(taken);
	d->fault.step = DEMO_FAULT_INJECTED;
	d->fault.at_ns = base_now_ns();
	printf("fault %s: injected into the shop for %u s\n", d->fault.kind, d->fault.seconds);
}

static void tell_found(struct cli_demo *d, const json_t *a)
{
	const json_t *blame = json_object_get(a, "blame"), *b;
	size_t i;

	d->fault.step = DEMO_FAULT_FOUND;
	printf("fault %s: found %.2f s later, peak %.1f, to blame:", d->fault.kind,
	       seconds_since(d->fault.at_ns), cli_json_number(a, "peak"));
	json_array_foreach(blame, i, b) printf(" %s (%.0f %%)", cli_json_text(b, "metric"),
					       cli_json_number(b, "share") * 100);
	putchar('\n');
}

void cli_demo_fault_poll(struct cli_demo *d)
{
	const json_t *a;
	json_t *answer;

	if (!d->fault.kind || d->fault.step == DEMO_FAULT_OVER || base_now_ns() < d->fault.next_ns)
		return;
	d->fault.next_ns = base_now_ns() + LOOK_NS;
	answer = cli_demo_fetch(d->listen, "/api/v1/anomalies?limit=100");
	a = anomaly_of_shop(answer, d->fault.above);
	switch (d->fault.step) {
	case DEMO_FAULT_LEARNING:
		/* Learning takes three times as long for pods with one row per second. */
		if (has_learned(d))
			inject_fault(d, answer);
		break;
	case DEMO_FAULT_INJECTED:
		if (a)
			tell_found(d, a);
		else if (seconds_since(d->fault.at_ns) > d->fault.seconds + WAIT_NS * 1e-9) {
			printf("fault %s: not detected\n", d->fault.kind);
			d->fault.step = DEMO_FAULT_OVER;
		}
		break;
	case DEMO_FAULT_FOUND:
		if (!a || json_is_null(json_object_get(a, "end")))
			break;
		printf("fault %s: the shop is back to normal\n", d->fault.kind);
		d->fault.step = DEMO_FAULT_OVER;
		break;
	case DEMO_FAULT_OVER:
		break;
	}
	json_decref(answer);
}
