/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_attack.h - the commands of rdma_attack.c that have the secret. Exit codes. */
#ifndef SL_TEST_RDMA_ATTACK_H
#define SL_TEST_RDMA_ATTACK_H

/* Waits until keys changed, and READs by the old ones. */
int rdma_rotated(const char *host, const char *port, const char *secret);
/* Waits until a dead region is freed, and READs it by its last key. */
int rdma_revoked(const char *host, const char *port, const char *secret);
/* READs on a connection for verdicts, and the verdict board on one for READs. */
int rdma_insider(const char *host, const char *port, const char *secret);

#endif
