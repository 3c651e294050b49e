/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what the programs are measured on: two network namespaces joined by a veth pair, an echo
 * server of 128 byte messages in the other one, a client here.
 */
#ifndef SL_BENCH_TCP_WIRE_H
#define SL_BENCH_TCP_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MESSAGE	  128
#define PORT_ONE  7100 /* one connection, blocking reads: request/response */
#define PORT_MANY 7101 /* any number, epoll */
#define SERVER	  "10.97.0.2"

/* Leaves this process in a namespace of its own. NULL, or why it can't be had. The server ends with
 * us. */
const char *wire_up(void);
pid_t wire_server(void);

/* CPU on which each end of PORT_ONE runs: both on the first, or each on one of its own. */
void wire_pin(int apart);

/* A connection to the server with TCP_NODELAY; -1 and errno. */
int wire_connect(uint16_t port);

/* Exchanges for ns; the median time of one, in ns, and how many there were. 0 if the connection
 * broke. */
double wire_exchange(int fd, uint64_t ns, uint64_t *exchanges);

uint64_t now_ns(void);
double median(double *v, size_t n); /* sorts v */

#endif
