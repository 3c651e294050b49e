/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer.h - one window per reporter, across all workers and inputs of a translator. The worker that
 * first receives a reporter's packets owns its window until it forgets the reporter. Other workers
 * hand the reporter's packets over to the owner. The kernel steers all packets from one address and
 * port to one worker, so this only happens for reporters that changed either and for packets
 * replayed by another sender.
 *
 * Any thread may call these functions, except dta_steer_take() and dta_steer_end(), which only
 * worker `self` may call.
 */
#ifndef SL_DTA_TRANSLATE_STEER_H
#define SL_DTA_TRANSLATE_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "dta/io/input.h"
#include "dta/translate/loss.h"

struct dta_steer;

/* Returns NULL with errno. */
struct dta_steer *dta_steer_new(uint32_t workers);
void dta_steer_free(struct dta_steer *s);

#define DTA_STEER_NONE UINT32_MAX
/*
 * Returns the worker that owns a reporter's window. If there is no owner, `self` becomes the owner
 * if claim is set and memory suffices; otherwise returns DTA_STEER_NONE.
 */
uint32_t dta_steer_owner(struct dta_steer *s, const struct dta_loss_identity *reporter,
			 uint32_t self, bool claim);
/* Makes `self` give up, or decline, ownership of the reporter's window. */
void dta_steer_release(struct dta_steer *s, const struct dta_loss_identity *reporter,
		       uint32_t self);

/*
 * Hands a copy of a packet over to a worker. Counts it as dropped if the worker has no room or has
 * stopped.
 */
void dta_steer_hand(struct dta_steer *s, uint32_t to, const struct dta_datagram *d, uint32_t input);
/*
 * Returns the next packet handed over, valid until the next call. Returns false if none is waiting.
 */
bool dta_steer_take(struct dta_steer *s, uint32_t self, struct dta_datagram *d, uint32_t *input);
/* Returns a descriptor for poll(2) that is readable while packets are waiting. */
int dta_steer_fd(const struct dta_steer *s, uint32_t self);
/* Returns the number of packets for this worker that were dropped. */
uint64_t dta_steer_drops(struct dta_steer *s, uint32_t self);
/*
 * Notes that the worker has emptied its inputs for good. Returns whether all workers have, so that
 * none will hand over packets any more.
 */
bool dta_steer_drained(struct dta_steer *s, uint32_t self);
/* Stops accepting packets for the worker. Returns the number still waiting. */
uint64_t dta_steer_end(struct dta_steer *s, uint32_t self);

#endif
