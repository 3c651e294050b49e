// SPDX-License-Identifier: Apache-2.0
/* raw_answers.c - receives and checks the responder's answers to the frames built here */
#include "base/base.h"
#include "dta/io/output_raw.h"

#define ANSWER_BYTES 256u

void dta_raw_answers(struct dta_output *o, struct dta_raw_port *port,
		     const struct dta_roce_end *ours, const struct dta_roce_end *theirs,
		     uint32_t batches, dta_raw_take *take, uint64_t now)
{
	uint8_t came[DTA_RAW_BATCH][ANSWER_BYTES];
	struct dta_raw_frame frame[DTA_RAW_BATCH];
	enum dta_roce_refusal refusal;
	struct dta_roce_answer a;
	int n = DTA_RAW_BATCH;

	while (batches-- && n == DTA_RAW_BATCH) {
		for (uint32_t i = 0; i < DTA_RAW_BATCH; i++)
			frame[i] = (struct dta_raw_frame){came[i], ANSWER_BYTES};
		n = dta_raw_port_receive(port, frame, DTA_RAW_BATCH);
		for (int i = 0; i < n; i++) {
			refusal = dta_roce_parse(frame[i].data, frame[i].bytes, ours, theirs, &a);
			if (refusal == DTA_ROCE_OTHER)
				continue;
			if (refusal != DTA_ROCE_FINE) {
				DTA_OUTPUT_FAILED(o, "ignoring an invalid response: %s",
						  dta_roce_refusal_name(refusal));
				continue;
			}
			if ((a.syndrome & DTA_ROCE_SYNDROME_KIND) != DTA_ROCE_SYNDROME_ACK)
				o->stats.naks++;
			if (!take(o, &a, now))
				return;
		}
	}
}
