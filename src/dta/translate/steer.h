/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer.h - one window per authenticated reporter, over all workers and inputs of a translator: the
 * worker that hears a reporter first keeps its window until it forgets it, and the others hand the
 * reporter's packets over. The kernel gives a reporter's packets to one worker, so that only those
 * of a reporter that moved, or that are sent again by someone else, are handed over.
 *
 * Any thread, but dta_steer_take() and dta_steer_end(), which are for worker `self`.
 */
#ifndef SL_DTA_TRANSLATE_STEER_H
#define SL_DTA_TRANSLATE_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "dta/io/input.h"

struct dta_steer;

/* NULL with errno. */
struct dta_steer *dta_steer_new(uint32_t workers);
void dta_steer_free(struct dta_steer *s);

#define DTA_STEER_NONE UINT32_MAX
/*
 * The worker that keeps a reporter's window. If there is none: `self` with claim, unless memory is
 * short; otherwise DTA_STEER_NONE.
 */
uint32_t dta_steer_owner(struct dta_steer *s, uint16_t tenant, uint32_t reporter, uint32_t self,
			 bool claim);
/* `self` keeps no window of it, or no longer. */
void dta_steer_release(struct dta_steer *s, uint16_t tenant, uint32_t reporter, uint32_t self);

/* Hands a copy of a packet over, or counts it as dropped: the worker has no room, or has ended. */
void dta_steer_hand(struct dta_steer *s, uint32_t to, const struct dta_datagram *d, uint32_t input);
/* The next packet handed over, valid until the next call; false: none waits. */
bool dta_steer_take(struct dta_steer *s, uint32_t self, struct dta_datagram *d, uint32_t *input);
/* For poll(2): readable when packets wait. */
int dta_steer_fd(const struct dta_steer *s, uint32_t self);
/* Packets for this worker that were dropped. */
uint64_t dta_steer_drops(struct dta_steer *s, uint32_t self);
/* Takes no packet any more. Returns how many still waited. */
uint64_t dta_steer_end(struct dta_steer *s, uint32_t self);

#endif
