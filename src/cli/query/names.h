/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - translates addresses and numbers in answers about the network to names: addresses from
 * a hosts file or reverse DNS; devices, interfaces and AS from a names file; ports from the
 * system's list of services.
 */
#ifndef SL_CLI_QUERY_NAMES_H
#define SL_CLI_QUERY_NAMES_H

#include <jansson.h>

#include "base/base.h"

#define CLI_NAME       300
#define CLI_NAMES_FLOW (5 * CLI_NAME)

struct cli_names_settings {
	const char *hosts; /* file in the format of hosts(5), or NULL */
	/* file of lines "device DEVICE NAME", "interface DEVICE NUMBER NAME", "as NUMBER NAME" */
	const char *names;
	bool resolve, numeric; /* resolve: use reverse DNS; numeric: leave ports as numbers */
};

/* Reads the files. Returns an exit code; prints an error on failure. */
int cli_names_read(const struct base_command *self, const struct cli_names_settings *set);

/* Stores the name that a device gave to an interface; a name from the file takes precedence. */
void cli_names_learn(const char *device, json_int_t number, const char *name);

/* Each function writes the name, or the number itself if it has no name. */
void cli_names_address(const char *address, char out[CLI_NAME]);
void cli_names_device(const json_t *device, char out[CLI_NAME]); /* an address or a number */
void cli_names_interface(const json_t *device, json_int_t number, char out[CLI_NAME]);
void cli_names_as(json_int_t number, char out[CLI_NAME]);
void cli_names_port(unsigned int port, unsigned int protocol, char out[CLI_NAME]);
/* Formats "flow:..." as "A:PORT > B:PORT PROTOCOL". */
void cli_names_flow(const char *flow, char out[CLI_NAMES_FLOW]);

/*
 * Replaces the names in DEVICE[/INTERFACE] by the device's address or number and the interface's
 * number.
 */
void cli_names_place(const char *place, char out[CLI_NAME]);

#endif
