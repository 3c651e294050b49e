/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tcp.h - of the benchmarks of this folder: the programs that are measured, and results. */
#ifndef SL_BENCH_TCP_H
#define SL_BENCH_TCP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define WINDOWS_MAX 200

extern const struct programs {
	const char *name;
	void (*on)(void);
	void (*empty)(void); /* the same hooks, and nothing behind them: what no program can go below */
	void (*off)(void);
} flow_programs, layer_programs;

/* cost.c: programs that are loaded from now on return at once. */
extern bool programs_empty;

/* Ends the program, with the reason. */
void give_up(const char *what) __attribute__((noreturn));

/* Prints one line; takes conditions. peer NULL: there is none, and peer_value does not count. */
void result(const char *name, double value, const char *unit, const char *peer, double peer_value,
	    double ratio, json_t *conditions);

/* cost.c: tcp.event of both kinds of programs, and tcp.bcc. */
void bench_events(int windows);

#endif
