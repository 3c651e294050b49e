/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - how translators and the owner of stores talk: newline-delimited JSON objects, one
 * message a line of at most 1 MiB, over a unix stream socket (shm: objects come along as
 * descriptors) or TCP (verbs, raw). Nothing here lies on the way of reports. Each side says what it
 * has to say unasked; a message of a type that is not known is passed over.
 *
 * Translator to owner:
 *   {"type":"hello","version":1,"name":"t1","output":"shm"|"verbs"|"raw","nonce":HEX,"called":...}
 *      called: the collector, as this translator names it (hash_ring.h); for those who ask queries.
 *      name: the same after a restart gets the same lane back. Twice at a time: the elder is told
 *      "bye".
 *   {"type":"proof","mac":HEX}            if challenged: HMAC-SHA256(secret, both nonces)
 *   {"type":"rotated","tenant":T,"store":S,"epoch":E}   nothing will be written into older epochs
 *                                                       any more
 *   {"type":"account", ...}               struct dta_translate_account, each second and before the
 *                                         end
 *   {"type":"immediate","number":N,"count":C}   shm: so often did reports wake
 *                                               dta_engine_immediate() = N
 *   {"type":"queue","qpn":N,"psn":N,"gid":HEX,"mac":HEX,"mtu":N}   raw: its end of the queue pair
 *
 * Owner to translator:
 *   {"type":"challenge","nonce":HEX}      TCP with a secret
 *   {"type":"welcome","version":1,"instance":N,"lane":L,"port":N}     port: of RDMA-CM, verbs
 *   {"type":"object","number":N,"bytes":B,"addr":A,"rkey":K}      unix: with the object's
 *                                                                 descriptor
 *   {"type":"store","tenant":T,"store":S,"name":...,"object":N,"epoch":E,"config":HEX (256 bytes),
 *      "next":[...]}                      append: next block of each list in this lane; again when
 *                                         it moves
 *   {"type":"rotate","tenant":T,"store":S,"epoch":E}    to be answered by "rotated" within drain_ms
 *   {"type":"tenant","tenant":T,"rate":R,"burst":B,"keys":[{"reporter":R|-1,"key":HEX}],"required":true}
 *      again when it changes; a key of null takes back the one that there was
 *   {"type":"queue", ...}                 raw: the owner's end
 *   {"type":"ready"}                      all stores were named: reports may be taken
 *   {"type":"error","why":...}, {"type":"bye","why":...}
 *
 * The owner zeroes a bank only when every translator has said "rotated", or has lost its connection
 * and its queue pair has been destroyed (shm: its process is gone, by SO_PEERPIDFD or SO_PEERCRED).
 */
#ifndef SL_DTA_TRANSLATE_CONTROL_H
#define SL_DTA_TRANSLATE_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "dta/engine/engine.h"
#include "dta/translate/loss.h"

#define DTA_CONTROL_LINE_MAX (1u << 20)
#define DTA_CONTROL_VERSION  1

/* A connection's line buffer and descriptors; both sides use it. Non-blocking. */
struct dta_control_line;
struct dta_control_line *dta_control_line_new(int fd); /* owns the socket */
void dta_control_line_free(struct dta_control_line *l);
int dta_control_line_fd(const struct dta_control_line *l);
/*
 * The next whole message, or NULL with errno: EAGAIN none yet, EPIPE the peer has closed, EPROTO no
 * JSON object or too long. passed: a descriptor that came with it, else -1; the caller owns both.
 */
json_t *dta_control_line_read(struct dta_control_line *l, int *passed);
/*
 * Queues a message (steals it) and sends what goes; pass: a descriptor to go along, or -1; it stays
 * the caller's. 0, -EPIPE, -ENOBUFS.
 */
int dta_control_line_write(struct dta_control_line *l, json_t *message, int pass);
/* Wants POLLOUT, and then dta_control_line_flush(). */
int dta_control_line_pending(const struct dta_control_line *l);
int dta_control_line_flush(struct dta_control_line *l); /* 0, -EPIPE */

/*
 * A translator's account, that closes: packets: received = taken + refused by cause + unread;
 * reports:
 *   received = fresh + duplicates + late; fresh = engine.in; engine.in = stored + waiting + dropped
 *   by cause; output: operations = completed + unconfirmed + failed.
 * And with the reporters' numbers: sent = arrived + missing + lost.
 */
struct dta_translate_account {
	uint64_t packets, packets_taken, refused[DTA_REFUSALS], refused_tenant, refused_reporter,
		socket_drops;
	uint64_t unread; /* were in a socket when it ended, and there was no time to take them */
	uint64_t slowed; /* times that credits were cut, as sockets overflowed */
	uint64_t reports, fresh;
	/*
	 * Fresh, but their reporter had sent them before: if another translator took them then and
	 * was gone before it acknowledged them, they are stored twice. At most so many are; the
	 * others were lost on their way.
	 */
	uint64_t maybe_twice;
	struct dta_loss_stats loss;
	struct dta_engine_stats engine;
	struct dta_output_stats output;
};
json_t *dta_account_json(const struct dta_translate_account *a);
/* Unknown or missing fields are 0. */
void dta_account_of_json(const json_t *j, struct dta_translate_account *a);

#endif
