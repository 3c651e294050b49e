/* SPDX-License-Identifier: Apache-2.0 */
/* demo.h - the interface between the files of 'sidelight demo'; see cmd_demo.c. */
#ifndef SL_CLI_DEMO_DEMO_H
#define SL_CLI_DEMO_DEMO_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/base.h"

#define DEMO_SECOND	 1000000000ull
#define DEMO_CONNECTIONS 4 /* number of connections of the load generator */
#define DEMO_ARGS_MAX	 32

/* The parts in the order of their start; they stop in reverse order. */
enum cli_demo_part_id {
	DEMO_AGENT,
	DEMO_COLLECT,
	DEMO_REPORT,
	DEMO_TRANSLATE,
	DEMO_SWITCH,
	DEMO_SHOP,
	DEMO_QUEUE,
	DEMO_LOAD,
	DEMO_PARTS
};

struct cli_demo_part {
	const char *name;
	const char *pod; /* label of the pod; NULL: publishes nothing */
	const char *argv[DEMO_ARGS_MAX];
	unsigned int args;
	bool wanted, late;
	pid_t pid; /* process ID; 0: not running */
	uint64_t started_ns;
	uint64_t restart_ns; /* time of the restart; 0: none */
	unsigned int quick_deaths;
	char log[PATH_MAX]; /* file with the standard output and error */
};

enum cli_demo_fault_step {
	DEMO_FAULT_LEARNING,
	DEMO_FAULT_INJECTED,
	DEMO_FAULT_FOUND,
	DEMO_FAULT_OVER,
};

struct cli_demo {
	struct cli_demo_part part[DEMO_PARTS];
	char self[PATH_MAX], examples[PATH_MAX - 64];
	char dir[PATH_MAX - 64]; /* folder of the demo; "": not created yet */
	int lock;		 /* lock on a file in dir, held until this process exits */
	char socket[PATH_MAX], script[PATH_MAX];
	char shop[PATH_MAX], queue[PATH_MAX];
	char listen[300], shop_listen[300], shop_url[330];
	struct {
		const char *kind; /* kind of the fault; NULL: no fault */
		unsigned int seconds;
		enum cli_demo_fault_step step;
		int64_t above; /* anomalies up to this ID are older than the fault */
		uint64_t at_ns, next_ns;
	} fault;
	char no_tcp[256];     /* reason why connections are not shown; "": they are shown */
	char no_reports[256]; /* reason why reports are not shown; "": they are shown */
	bool with_switch;
	/* reason why the switch's flows are not shown; "": they are shown */
	char no_switch[PATH_MAX + 64];
	char switch_script[PATH_MAX], switch_dir[PATH_MAX];
	char stores[PATH_MAX], dta[PATH_MAX], report_to[64];
	char warm_up[32];
	uint64_t period_ns;
	char period[32];
	int stop;
};

/* folder.c: files of the demo; each function returns an exit code */

/* Creates the folder, and removes the folders of killed demos. */
int cli_demo_folder_make(struct cli_demo *d);
void cli_demo_folder_remove(struct cli_demo *d);
/* Writes formatted text to a file. */
int cli_demo_write(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_demo_write_script(const struct cli_demo *d, uint32_t rate);

/* net.c */

/* Finds a free address: the address wish, or another port on the same host. */
int cli_demo_free_address(const char *option, const char *wish, char *out, size_t bytes);
/*
 * Sends a GET request, or a POST request with a body. Returns the response, to be freed, or NULL
 * unless the status is 200.
 */
char *cli_demo_http(const char *address, const char *path, const char *body);
/* Gets a JSON document. Returns NULL on failure. */
json_t *cli_demo_fetch(const char *address, const char *path);

/* fault.c */

/* Parses "KIND[@SECONDS]". Returns an exit code. */
int cli_demo_fault_parse(struct cli_demo *d, const char *wish);
/*
 * Injects the fault once the shop's behaviour is learned, and prints later anomalies. Call often.
 */
void cli_demo_fault_poll(struct cli_demo *d);

/* reports.c */

/*
 * Sets up the parts that report flows, or sets d->no_reports and d->no_switch. Returns an exit
 * code.
 */
int cli_demo_reports_set(struct cli_demo *d);

/* switch.c */

extern const char cli_demo_switch_stores[];
/* Returns true if a switch can be started here; otherwise sets d->no_switch. */
bool cli_demo_switch_can(struct cli_demo *d);
void cli_demo_switch_set(struct cli_demo *d);

/* parts.c */

/* Sets the command line of a part; the arguments end with NULL. Borrows the strings. */
void cli_demo_part_set(struct cli_demo *d, enum cli_demo_part_id id, const char *name, ...);
/*
 * Starts the parts. late: start the parts that wait for the choice of the period. Returns an exit
 * code.
 */
int cli_demo_start_all(struct cli_demo *d, bool late);
/* Returns true if a program is on the PATH. */
bool cli_demo_runs(const char *program);
/* Restarts one part with its current arguments. Returns an exit code. */
int cli_demo_restart(struct cli_demo *d, enum cli_demo_part_id id);
/* Stops all parts in reverse order; sends SIGKILL after STOP_MS. */
void cli_demo_stop_all(struct cli_demo *d);
/* Reports and restarts dead parts. Returns BASE_EXIT_OK unless a part keeps dying. */
int cli_demo_look_after(struct cli_demo *d);

#endif
