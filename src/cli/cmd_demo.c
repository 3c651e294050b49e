// SPDX-License-Identifier: Apache-2.0
/* cmd_demo.c - 'sidelight demo': parses the options and executes src/manage/demo.py. */
#include "base/base.h"
#include "cli/commands.h"
#include "cli/common/common.h"

static struct {
	const char *listen, *shop, *examples, *fault;
	uint64_t period, duration, warm_up;
	uint32_t load;
	bool with_switch;
} set = {.listen = "127.0.0.1:9464", .shop = "127.0.0.1:8080", .warm_up = 60000000000, .load = 200};

static const struct base_option table[] = {
	BASE_STRING("listen", 'l', &set.listen, "ADDR:PORT",
		    "address of the page and /metrics; if its port is in use, another one is "
		    "chosen"),
	BASE_STRING("shop-listen", 0, &set.shop, "ADDR:PORT",
		    "address of the example shop; if its port is in use, another one is chosen"),
	BASE_TIME("period", 'p', &set.period, 1e5, 1e11, "DURATION",
		  "time between two rounds (default: the shortest of 1, 2, 5 and 10 ms that this "
		  "machine can sustain)"),
	BASE_UINT("load", 0, &set.load, 0, 4000, "N",
		  "requests per second to the shop; 0 means no load"),
	BASE_TIME("duration", 'd', &set.duration, 0, 0, "DURATION",
		  "exit after this time; 0 means when interrupted (default)"),
	BASE_TIME("warm-up", 0, &set.warm_up, 1e9, 3600e9, "DURATION",
		  "learn normal behaviour for this long"),
	BASE_STRING("fault", 0, &set.fault, "KIND[@SECONDS]",
		    "after the warm-up, break the shop for SECONDS, or 10 s: cpu, slow, errors or "
		    "leak"),
	BASE_FLAG("switch", 0, &set.with_switch,
		  "also show the flows of a real switch: Open vSwitch in network namespaces"),
	BASE_STRING("examples", 0, &set.examples, "DIR",
		    "directory of the programs shop and queue"),
	{0},
};

static int run(const struct base_command *self, int argc, char **argv)
{
	char **options;
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	options = base_options_print(table);
	if (!options)
		return base_failure(self, "out of memory");
	return cli_exec_script(self, "demo.py", options + 1);
}

const struct base_command cli_cmd_demo = {
	.name = "demo",
	.synopsis = "[OPTION]...",
	.summary = CLI_SUMMARY_DEMO,
	.run = run,
};
