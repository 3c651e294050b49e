/* SPDX-License-Identifier: Apache-2.0 */
/* bench_tcp.h - the programs that this folder measures, and its figures. */
#ifndef SL_BENCH_TCP_H
#define SL_BENCH_TCP_H

#include <stdbool.h>
#include <stddef.h>

#define WINDOWS_MAX 200 /* of cost.c */
#define BLOCKS_MAX  2000

extern const struct programs {
	const char *name;
	void (*open)(void); /* loads and attaches them */
	void (*close)(void);
} flow_programs, layer_programs, agent_programs;

/* Prints what failed and the reason, and exits. */
void give_up(const char *what) __attribute__((noreturn));

/* Appends to text, a buffer of that many bytes; truncates. */
void append(char *text, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* turns.c: tcp.rr.NAME, tcp.rr.hooks, tcp.bulk. */
void bench_rr(const struct programs *p, size_t blocks);
/* tcp.connect.NAME: the same for short connections */
void bench_connect(const struct programs *p, size_t blocks);
void bench_hooks(const struct programs *p, size_t blocks);
void bench_bulk(size_t blocks);

/* cost.c: tcp.event of both kinds of programs, and tcp.bcc. */
void bench_events(int windows);

#endif
