/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - the measured connections: two network namespaces joined by a veth pair, with an echo
 * server of 128-byte messages in the other one, and a client here.
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

/*
 * Moves this process to a new namespace. Returns NULL, or the reason of the failure. The server
 * ends with this process.
 */
const char *wire_up(void);
pid_t wire_server(void);

/* Both ends of PORT_ONE run on the first CPU, or each on a CPU of its own. */
void wire_pin(int apart);

/* Connects to the server with TCP_NODELAY. Returns -1 and errno on failure. */
int wire_connect(uint16_t port);

/*
 * Exchanges messages for ns. Returns the median nanoseconds per exchange, and their number; 0: the
 * connection broke.
 */
double wire_exchange(int fd, uint64_t ns, uint64_t *exchanges);
/* The same with a connection for each exchange, from the connect to the close. */
double wire_connections(uint64_t ns, uint64_t *exchanges);

#endif
