/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - state shared by send.c and families.c */
#ifndef SL_COLLECT_SEND_INTERNAL_H
#define SL_COLLECT_SEND_INTERNAL_H

#include <pthread.h>

#include "base/thread.h"
#include "collect/send/send.h"

struct collect_send {
	struct collect_send *next; /* the next shard of this receiver, or the next receiver */
	struct collect_send_opts o;
	struct collect_relabel *relabel;
	struct export_remote_write *writer;
	struct collect_sender *sender;
	struct base_thread thread;
	pthread_mutex_t lock; /* protects the anomalies that the thread has not seen yet */
	struct act_anomaly *anomaly;
	size_t anomalies, anomaly_room;
};

extern const struct collect_part collect_send_part; /* families.c */

#endif
