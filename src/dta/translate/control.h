/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * control.h - the control channel between translators and the store server: JSON objects, one per
 * line of at most 1 MiB, over a unix stream socket (shm: objects come with descriptors) or TCP
 * (verbs, raw). It carries no reports. Both sides may send at any time; messages of unknown types
 * are ignored.
 *
 * Translator to store server:
 *   {"type":"hello","version":3,"name":"t1","output":"shm"|"verbs"|"raw","called":...}
 *      name: a name keeps its lane across restarts; a translator is refused if another one with
 *      its name is live. called: this translator's name for the collector (hash_ring.h), as
 *      reported by queries. replicas: the number of collectors to which each report is written.
 *      run: as in "account", by which a translator that reconnects is recognised.
 *      reads: true is sent by another collector, which is not a translator. It receives objects and
 *      "ready", with "complete" (no reports are missing here). Over a unix socket it receives
 *      descriptors; over TCP, which must use TLS, addresses, rkeys and the "port" of RDMA-CM
 *   {"type":"rotated","tenant":T,"store":S,"epoch":E}   older epochs will no longer be written
 *   {"type":"account","run":N, ...}   struct dta_translate_account, every second and at the end;
 *      run: a random number, which changes when the translator restarts and counts from 0 again
 *   {"type":"reporters","reporters":[{...}],"more":N}   the most recently active ones, every
 *      second, to the collector that receives the account of windows; more: number of others
 *   {"type":"exporters","first":true,"last":true,"exporters":[{...}]}   devices of each input
 *      (exporters.h), every second, to the same collector, in pieces of DTA_EXPORTERS_TOLD
 *   {"type":"gap","from":NS,"to":NS,"reports":N}   replicas: the reports that this collector missed
 *      while it was down and that others have (times are CLOCK_REALTIME)
 *   {"type":"immediate","number":N,"count":C}   shm: C immediates of dta_engine_immediate() = N
 *   {"type":"queue","qpn":N,"psn":N,"gid":HEX,"mac":HEX,"mtu":N}   raw: this end of the queue pair
 *
 * Store server to translator:
 *   {"type":"welcome","version":3,"instance":N,"lane":L,"port":N}   verbs: port of RDMA-CM
 *   {"type":"object","number":N,"bytes":B,"addr":A,"rkey":K}   unix: with the object's descriptor
 *   {"type":"store","tenant":T,"store":S,"name":...,"object":N,"epoch":E,"config":HEX (256 bytes),
 *      "next":[...]}   sent again when it moves; append: the next block of each list in this lane
 *   {"type":"rotate","tenant":T,"store":S,"epoch":E}   answered by "rotated" within drain_ms
 *   {"type":"tenant","tenant":T,"rate":R,"burst":B,"keys":[{"reporter":R,"last":R,"until":NS,
 *      "key":HEX}],"required":true}   sent again when it changes. Keys replace all previous ones; a
 *      key without a reporter is for all reporters without a key of their own; until: CLOCK_REALTIME
 *   {"type":"queue", ...}    raw: the store server's end
 *   {"type":"ready"}         all stores are announced
 *   {"type":"error","why":...}, {"type":"bye","why":...}
 *
 * Over TCP with a secret, everything is encrypted by TLS (base/psk.h). Before the welcome, at
 * most DTA_CONTROL_FIRST_MAX bytes of a message are buffered per peer.
 *
 * The store server zeroes a bank only when every translator has sent "rotated", or has lost its
 * connection and its queue pair is destroyed (shm: its process has exited, by SO_PEERCRED, pidfd).
 */
/* clang-format on */
#ifndef SL_DTA_TRANSLATE_CONTROL_H
#define SL_DTA_TRANSLATE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <jansson.h>

#include "dta/device/map.h"
#include "dta/engine/engine.h"
#include "dta/translate/loss.h"

#define DTA_CONTROL_LINE_MAX  (1u << 20)
#define DTA_CONTROL_FIRST_MAX 2048u /* size limit of a message before the welcome */
#define DTA_CONTROL_VERSION   3

/* Where a store server listens. */
struct dta_control_address {
	struct sockaddr_storage to;
	socklen_t bytes;
	char host[256], port[8]; /* over TCP */
};
/* Resolves unix:PATH, a path or HOST:PORT. Returns 0, or -EINVAL with error. */
int dta_control_resolve(const char *where, struct dta_control_address *a, char *error,
			size_t error_bytes);

/* A connection's line buffer and descriptors, for both sides. Non-blocking. */
struct dta_control_line;
struct dta_control_line *dta_control_line_new(int fd); /* takes over the socket */
void dta_control_line_free(struct dta_control_line *l);
int dta_control_line_fd(const struct dta_control_line *l);
/*
 * Uses TLS for all messages, in the role of server or client, with a key derived from the secret.
 * dta_control_line_read() performs the handshake. Returns 0 or -ENOMEM.
 */
int dta_control_line_tls(struct dta_control_line *l, const void *secret, size_t bytes, bool server);
/* Whether the peer has authenticated with the shared secret. */
bool dta_control_line_proved(const struct dta_control_line *l);
/*
 * Returns the next message, or NULL with errno: EAGAIN if there is none yet; EPIPE if closed;
 * EPROTO if it is not a JSON object or not TLS; EMSGSIZE if too long; EACCES if the peer has a
 * different secret; EPROTONOSUPPORT if only one side uses TLS, in which case the line continues
 * without it. passed: the descriptor sent along, or -1. The caller owns both.
 */
json_t *dta_control_line_read(struct dta_control_line *l, int *passed);
/* Sets the maximum size of a received message; initially DTA_CONTROL_LINE_MAX. */
void dta_control_line_limit(struct dta_control_line *l, size_t bytes);
/*
 * Queues a message (takes over its reference) and sends as much as possible. pass: a descriptor to
 * send along, or -1; the caller keeps it. Returns 0, -EPIPE or -ENOBUFS.
 */
int dta_control_line_write(struct dta_control_line *l, json_t *message, int pass);
/* Returns a number of a message, or 0 if it is missing or negative. */
uint64_t dta_control_number(const json_t *message, const char *key);
/* Copies the untrusted reason from an "error" or "bye" message as printable ASCII. */
void dta_control_why(const json_t *message, char *to, size_t bytes);
/* Whether to wait for POLLOUT and then call dta_control_line_flush(). */
int dta_control_line_pending(const struct dta_control_line *l);
int dta_control_line_flush(struct dta_control_line *l); /* returns 0 or -EPIPE */

/* Datagrams that devices sent to one kind of input, and the reports derived from them. */
struct dta_device_account {
	struct dta_device_stats decoder;
	struct dta_map_stats map;
	/* reports refused because their tenant requires MACs, which devices don't send */
	uint64_t unproven;
};

/*
 * A translator's account. Its counters satisfy:
 * - packets: received = taken + refused by cause + unread. Device packets count as taken; if they
 *   are refused, they are in the account of their input;
 * - reports: received = fresh + duplicates + late; fresh = engine.in = stored + waiting + dropped.
 *   With n replicas, in the worker's own account: n * fresh = engine.in + unreplicated, except for
 *   superseded reports and those above the tenant's rate;
 * - output: operations = completed + unconfirmed + failed;
 * - sequence numbers: sent = arrived + missing + lost.
 */
struct dta_translate_account {
	uint64_t packets, packets_taken, refused[DTA_REFUSALS], refused_tenant, refused_reporter,
		socket_drops;
	uint64_t refused_source; /* the sender is in none of the allowed networks */
	uint64_t handover_drops; /* packets dropped between workers for lack of room */
	uint64_t unread;	 /* packets left in sockets at the end because time ran out */
	/* number of times that credits were cut because sockets overflowed */
	uint64_t slowed;
	uint64_t reports, fresh;
	/*
	 * Number of retransmitted reports that this translator had not stored. Usually the first
	 * transmission was lost, but another translator may have stored the report and crashed
	 * before acknowledging it. This is therefore an upper bound on reports stored twice.
	 */
	uint64_t maybe_twice;
	uint64_t unreplicated; /* copies not written because too few collectors were up */
	uint64_t held_back;    /* answers withheld from addresses that had not sent enough bytes */
	struct dta_device_account device[DTA_DEVICES];
	struct dta_loss_stats loss;
	struct dta_engine_stats engine;
	struct dta_output_stats output;
};
/* Returns NULL if out of memory. */
json_t *dta_account_json(const struct dta_translate_account *a);
/*
 * Converts a list of reporters to JSON. dta_reporters_checked() takes a list received from a peer
 * and rebuilds it from its valid parts.
 */
#define DTA_REPORTERS_TOLD 128u /* reporters per message, about 40 KiB */
json_t *dta_reporters_json(const struct dta_loss_about *a, uint32_t n);
json_t *dta_reporters_checked(const json_t *said);
/* Adds every counter. If from has a last_error, it replaces the last_error of to. */
void dta_account_add(struct dta_translate_account *to, const struct dta_translate_account *from);
/* Reads an account; missing fields are 0. */
void dta_account_of_json(const json_t *j, struct dta_translate_account *a);

#endif
