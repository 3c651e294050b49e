/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_attack.h - the commands of rdma_attack.c that know the secret. They return exit codes. */
#ifndef SL_TEST_RDMA_ATTACK_H
#define SL_TEST_RDMA_ATTACK_H

/* Waits until the keys have changed, and READs with the old ones. */
int rdma_rotated(const char *host, const char *port, const char *secret);
/* Waits until a dead region is freed, and READs it with its last key. */
int rdma_revoked(const char *host, const char *port, const char *secret);
/* READs on a connection for verdicts, and READs the verdict board on a connection for READs. */
int rdma_insider(const char *host, const char *port, const char *secret);

#endif
