// SPDX-License-Identifier: Apache-2.0
/*
 * rdma_attack.c - a stranger with real verbs, for rdma-attack.sh. Each command prints KEY=VALUE and
 * ends with 0 whether its attack succeeds or not.
 *
 *   stranger HOST PORT                      connect and READ the directory
 *   scan HOST PORT ADDR RKEY COUNT          READ 64 bytes at ADDR by RKEY and the keys around it
 *   hold HOST PORT COUNT [NOTIFY]           hold queue pairs until killed
 *   half HOST PORT COUNT                    ask for queue pairs and never finish connecting
 *   verdict HOST PORT ENTRY INSTANCE        WRITE a verdict into the verdict board
 *   odd HOST PORT COUNT                     connect with private data of any length and content
 *   replay HOST PORT SECRET-FILE            what one that has the secret sent, again: by its own
 *                                           queue pair once, then by another, too late, or twice
 *   psn DEVICE SOURCE HOST QPN COUNT ADDR RKEY
 *                                           frames to a queue pair with guessed packet numbers
 *   rotated|revoked|insider HOST PORT SECRET-FILE   see rdma_attack.h
 *
 * FROM: the source address of connections, but of psn and the last three.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/attach.h>
#include <sidelight/region.h>

#include "base/base.h"
#include "base/secret.h"
#include "dta/io/roce.h"
#include "dta/wire/auth.h"
#include "fabric/auth.h"
#include "fabric/host.h"
#include "fabric/rdma.h"
#include "rdma_attack.h"

#define BUFFER_BYTES 65536u
#define WAIT_NS	     3000000000ull
#define READ_REQUEST 0x0c /* IBTA table 38 */

static uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(4096)));

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- connections ---- */

static const char *host, *port;

/* A route to the host, and a queue pair unless bare. NULL: no route. */
static struct rdma_cm_id *route(bool bare)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct rdma_addrinfo *found;
	struct rdma_cm_id *id = NULL;

	if (getenv("FROM") && inet_pton(AF_INET, getenv("FROM"), &from.sin_addr) == 1) {
		hints.ai_src_addr = (struct sockaddr *)&from;
		hints.ai_src_len = sizeof(from);
	}
	if (rdma_getaddrinfo(host, port, &hints, &found)) {
		fprintf(stderr, "rdma_getaddrinfo: %s\n", strerror(errno));
		return NULL;
	}
	if (rdma_create_ep(&id, found, NULL, bare ? NULL : &attr)) {
		fprintf(stderr, "rdma_create_ep: %s\n", strerror(errno));
		id = NULL;
	}
	rdma_freeaddrinfo(found);
	return id;
}

/* Connects like a collector, without a proof. NULL: refused. */
static struct rdma_cm_id *dial(uint32_t flags, struct fabric_host_hello *hello)
{
	const struct fabric_verbs_request request = {
		.magic = FABRIC_VERBS_REQUEST_MAGIC,
		.version = FABRIC_VERBS_VERSION,
		.flags = flags,
	};
	struct rdma_conn_param param = {
		.private_data = &request,
		.private_data_len = sizeof(request),
		.retry_count = 7,
		.rnr_retry_count = 7,
		.initiator_depth = 4,
	};
	struct rdma_cm_id *id = route(false);

	memset(hello, 0, sizeof(*hello));
	if (!id)
		return NULL;
	if (rdma_connect(id, &param)) {
		fprintf(stderr, "rdma_connect: %s\n", strerror(errno));
		rdma_destroy_ep(id);
		return NULL;
	}
	if (id->event && id->event->param.conn.private_data_len >= sizeof(*hello))
		memcpy(hello, id->event->param.conn.private_data, sizeof(*hello));
	return id;
}

static void hang_up(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_disconnect(id);
	rdma_destroy_ep(id);
}

/* One request, and its completion. True: the host obeyed. */
static bool request(struct rdma_cm_id *id, struct ibv_send_wr *wr, uint32_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(id->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	uint64_t end = base_now_ns() + WAIT_NS;
	struct ibv_send_wr *bad;
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = length};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (!mr)
		return false;
	sge.lkey = mr->lkey;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (!ibv_post_send(id->qp, wr, &bad))
		while (!ibv_poll_cq(id->send_cq, 1, &wc) && base_now_ns() < end)
			;
	ibv_dereg_mr(mr);
	return wc.status == IBV_WC_SUCCESS;
}

static bool read_at(struct rdma_cm_id *id, uint64_t addr, uint32_t rkey, uint32_t length)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = {.remote_addr = addr, .rkey = rkey},
	};

	return request(id, &wr, length);
}

/* ---- the attacks ---- */

static int stranger(void)
{
	struct fabric_host_hello h;
	struct rdma_cm_id *id = dial(0, &h);
	uint32_t length = (uint32_t)BASE_MIN(h.directory_length, (uint64_t)BUFFER_BYTES);
	bool got = id && h.directory_rkey &&
		   read_at(id, h.directory_addr, h.directory_rkey, length);

	printf("connected=%d bytes=%u addr=%llu rkey=%u\n", id != NULL, got ? length : 0,
	       (unsigned long long)h.directory_addr, h.directory_rkey);
	hang_up(id);
	return 0;
}

/* A wrong key ends the queue pair, so each guess costs a connection. */
static int scan(uint64_t addr, uint32_t rkey, unsigned int count)
{
	unsigned int connected = 0, bytes = 0;
	struct fabric_host_hello h;

	for (unsigned int i = 0; i < count; i++) {
		struct rdma_cm_id *id = dial(0, &h);

		connected += id != NULL;
		/* The true key first; then what is near, as keys are an index and 8 bits. */
		if (id && read_at(id, addr, rkey + i % 256 + (i / 256 << 8), 64))
			bytes += 64;
		hang_up(id);
	}
	printf("guesses=%u connected=%u bytes=%u\n", count, connected, bytes);
	return 0;
}

static void hold(unsigned int count, uint32_t flags)
{
	unsigned int held = 0, refused = 0;
	struct fabric_host_hello h;

	for (unsigned int i = 0; i < count; i++) {
		bool up = dial(flags, &h) != NULL;

		held += up;
		refused += !up;
	}
	printf("held=%u refused=%u\n", held, refused);
	fflush(stdout);
	for (;;)
		pause();
}

/* Without a queue pair at the identifier, librdmacm leaves the last step to its user. */
static void half(unsigned int count)
{
	const struct fabric_verbs_request request = {
		.magic = FABRIC_VERBS_REQUEST_MAGIC,
		.version = FABRIC_VERBS_VERSION,
	};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	unsigned int answered = 0;

	for (unsigned int i = 0; i < count; i++) {
		struct rdma_cm_id *id = route(true);
		struct rdma_conn_param param = {
			.private_data = &request,
			.private_data_len = sizeof(request),
			.initiator_depth = 4,
		};
		struct ibv_qp *qp;

		if (!id)
			continue;
		attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 2, NULL, NULL, 0);
		qp = ibv_create_qp(ibv_alloc_pd(id->verbs), &attr);
		if (!qp)
			continue;
		param.qp_num = qp->qp_num;
		answered += !rdma_connect(id, &param);
	}
	printf("half=%u\n", answered);
	fflush(stdout);
	for (;;)
		pause();
}

static int verdict(uint32_t entry, uint64_t instance)
{
	const struct sl_msg_verdict v = {.instance = instance,
					 .flags = SL_VERDICT_ANOMALOUS,
					 .ttl_ns = 60000000000ull,
					 .score = 1e6f};
	struct fabric_host_hello h;
	struct rdma_cm_id *id = dial(FABRIC_VERBS_NOTIFY, &h);
	uint64_t line[8] = {0};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(entry),
		.wr.rdma = {.remote_addr = h.board_addr + entry * sizeof(line),
			    .rkey = h.board_rkey},
	};
	bool written = false;

	memcpy(line, &v, sizeof(v));
	line[7] = sl_line_check(line);
	memcpy(buffer, line, sizeof(line));
	if (id && h.board_rkey)
		written = request(id, &wr, sizeof(line));
	printf("connected=%d verdicts=%d\n", id != NULL, written);
	hang_up(id);
	return 0;
}

/* The answer to a request; true: it was accepted. qpn 0: that of a queue pair of its own. */
static bool ask(const void *data, uint8_t bytes, uint32_t qpn, struct fabric_verbs_refusal *said)
{
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = bytes,
		.initiator_depth = 4,
		.qp_num = qpn,
	};
	struct rdma_cm_id *id = route(qpn != 0);
	bool accepted = id && !rdma_connect(id, &param);

	memset(said, 0, sizeof(*said));
	if (id && id->event && id->event->event == RDMA_CM_EVENT_REJECTED &&
	    id->event->param.conn.private_data_len >= sizeof(*said))
		memcpy(said, id->event->param.conn.private_data, sizeof(*said));
	if (id) /* rdma_disconnect() would wait for an answer that a rejected one never gets */
		rdma_destroy_ep(id);
	return accepted;
}

static int odd(unsigned int count)
{
	static const uint8_t lengths[] = {0, 1, 4, 11, 12, 20, 55, 56, 57, 255};
	static const uint32_t flags[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, ~0u};
	unsigned int accepted = 0, told = 0;
	struct fabric_verbs_refusal said;
	uint8_t data[256];

	for (unsigned int i = 0; i < count; i++) {
		struct fabric_verbs_request *r = (void *)data;

		for (size_t k = 0; k < sizeof(data); k++)
			data[k] = (uint8_t)random();
		if (i % 4)
			r->magic = FABRIC_VERBS_REQUEST_MAGIC;
		if (i % 8 > 1)
			r->version = FABRIC_VERBS_VERSION;
		r->flags = flags[i / 10 % 10];
		accepted += ask(data, lengths[i % 10], 0, &said);
		told += said.magic == FABRIC_VERBS_REFUSAL_MAGIC;
	}
	printf("odd=%u accepted=%u told=%u\n", count, accepted, told);
	return 0;
}

/* A request that proves the secret for that queue pair. False: no challenge came. */
static bool prove(const uint8_t *secret, size_t bytes, uint8_t nonce, uint32_t qpn,
		  struct fabric_verbs_proof *p)
{
	struct fabric_verbs_refusal said;

	*p = (struct fabric_verbs_proof){.magic = FABRIC_VERBS_REQUEST_MAGIC,
					 .version = FABRIC_VERBS_VERSION,
					 .flags = FABRIC_VERBS_PROOF,
					 .nonce = {nonce}};
	if (ask(p, sizeof(*p), 0, &said) || said.magic != FABRIC_VERBS_REFUSAL_MAGIC || said.error)
		return false;
	memcpy(p->cookie, said.cookie, sizeof(p->cookie));
	fabric_auth_prove(secret, bytes, p, qpn);
	return true;
}

#define QPN 0x4242u /* a recorded request states it; no queue pair needs to be there */

static int replay(const char *path)
{
	static uint8_t secret[BASE_SHARED_MAX];
	const ssize_t n = base_secret_shared(path, secret);
	struct fabric_verbs_refusal said[4];
	struct fabric_verbs_proof p;
	bool first, again, moved, late;

	if (n < 0 || !prove(secret, (size_t)n, 1, QPN, &p))
		return 1;
	moved = ask(&p, sizeof(p), QPN + 1, &said[0]);
	first = ask(&p, sizeof(p), QPN, &said[1]);
	again = ask(&p, sizeof(p), QPN, &said[2]);
	if (!prove(secret, (size_t)n, 2, QPN, &p))
		return 1;
	pause_ms(FABRIC_COOKIE_NS / 1000000 + 1000);
	late = ask(&p, sizeof(p), QPN, &said[3]);
	printf("first=%d again=%d moved=%d late=%d errors=%d,%d,%d\n", first, again, moved, late,
	       said[2].error, said[0].error, said[3].error);
	return 0;
}

/* ---- frames without a queue pair ---- */

static void end_of(struct dta_roce_end *e, const char *ip, const uint8_t mac[6])
{
	*e = (struct dta_roce_end){.qpn = 2, .mtu = 1024};
	memset(e->gid + 10, 0xff, 2);
	inet_pton(AF_INET, ip, e->gid + 12);
	memcpy(e->mac, mac, 6);
}

/* Builds a frame of that opcode with a guessed number. Returns its length. */
static size_t guess(struct dta_roce_builder *b, uint8_t *frame, int kind, uint64_t addr,
		    uint32_t rkey)
{
	struct dta_roce_packet p = {
		.opcode = kind == 1 ? DTA_ROCE_WRITE_ONLY_IMMEDIATE : DTA_ROCE_WRITE_ONLY,
		.psn = (uint32_t)random() & DTA_ROCE_24,
		.addr = addr,
		.rkey = rkey,
		.length = 64,
		.payload = buffer,
		.bytes = kind ? 64 : 0,
	};
	size_t n = dta_roce_build(b, &p, frame);
	uint32_t icrc;

	dta_roce_seal(b, frame, n, true);
	if (kind)
		return n;
	frame[14 + 20 + 8] = READ_REQUEST;
	icrc = dta_roce_icrc(frame, n);
	memcpy(frame + n - 4, &icrc, 4);
	return n;
}

static int psn(const char *device, const char *source, const char *to, uint32_t qpn,
	       unsigned int count, uint64_t addr, uint32_t rkey)
{
	/* The run script's cards: tests/guest/run. Broadcast would be dropped. */
	const uint8_t mac[2][6] = {{0x52, 0x54, 0, 0x53, 0x4c, 2}, {0x52, 0x54, 0, 0x53, 0x4c, 1}};
	struct sockaddr_ll out = {.sll_family = AF_PACKET,
				  .sll_ifindex = (int)if_nametoindex(device)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
	struct dta_roce_end ours, theirs;
	struct dta_roce_builder b;
	unsigned int sent = 0;
	uint8_t frame[256];

	end_of(&ours, source, mac[0]);
	end_of(&theirs, to, mac[1]);
	theirs.qpn = qpn;
	if (fd < 0 || dta_roce_builder(&b, &ours, &theirs, 0xc000))
		return 1;
	for (unsigned int i = 0; i < count; i++) {
		size_t n = guess(&b, frame, (int)(i % 3), addr, rkey);

		if (sendto(fd, frame, n, 0, (struct sockaddr *)&out, sizeof(out)) == (ssize_t)n)
			sent++;
		if (i % 64 == 63)
			pause_ms(2);
	}
	printf("frames=%u\n", sent);
	return sent ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t n[8] = {0};

	for (int i = 4; i < argc && i < 12; i++)
		n[i - 4] = strtoull(argv[i], NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	srandom((unsigned int)base_now_ns());
	host = argc > 2 ? argv[2] : "";
	port = argc > 3 ? argv[3] : "";
	if (!strcmp(what, "stranger"))
		return stranger();
	if (!strcmp(what, "scan"))
		return scan(n[0], (uint32_t)n[1], (unsigned int)n[2]);
	if (!strcmp(what, "hold"))
		hold((unsigned int)n[0], (uint32_t)n[1]);
	if (!strcmp(what, "half"))
		half((unsigned int)n[0]);
	if (!strcmp(what, "verdict"))
		return verdict((uint32_t)n[0], n[1]);
	if (!strcmp(what, "odd"))
		return odd((unsigned int)n[0]);
	if (!strcmp(what, "replay") && argc > 4)
		return replay(argv[4]);
	if (!strcmp(what, "psn") && argc > 8)
		return psn(argv[2], argv[3], argv[4], (uint32_t)n[1], (unsigned int)n[2], n[3],
			   (uint32_t)n[4]);
	if (!strcmp(what, "rotated") && argc > 4)
		return rdma_rotated(host, port, argv[4]);
	if (!strcmp(what, "revoked") && argc > 4)
		return rdma_revoked(host, port, argv[4]);
	if (!strcmp(what, "insider") && argc > 4)
		return rdma_insider(host, port, argv[4]);
	fprintf(stderr, "see the head of rdma_attack.c\n");
	return 2;
}
