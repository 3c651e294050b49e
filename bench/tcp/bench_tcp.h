/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tcp.h - of the benchmarks of this folder: the programs that are measured, and results. */
#ifndef SL_BENCH_TCP_H
#define SL_BENCH_TCP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define WINDOWS_MAX 200 /* of cost.c */
#define BLOCKS_MAX  2000

extern const struct programs {
	const char *name;
	void (*open)(void); /* loads and attaches them */
	void (*close)(void);
} flow_programs, layer_programs;

/* Ends the program, with the reason. */
void give_up(const char *what) __attribute__((noreturn));

/* Prints one line; takes conditions. peer NULL: there is none, and peer_value does not count. */
void result(const char *name, double value, const char *unit, const char *peer, double peer_value,
	    double ratio, json_t *conditions);

/* turns.c: tcp.rr.NAME and tcp.rr.NAME.floor; tcp.bulk. */
void bench_rr(const struct programs *p, size_t blocks);
void bench_hooks(const struct programs *p, size_t blocks); /* ... of each hook alone */
void bench_bulk(size_t blocks);

/* cost.c: tcp.event of both kinds of programs, and tcp.bcc. */
void bench_events(int windows);

#endif
