// SPDX-License-Identifier: Apache-2.0
/* lines_copy.c - see lines_copy.h. */
#include "lines_copy.h"

static void shuffle(struct rng *r, uint16_t *v, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = rng_below(r, i);
		uint16_t t = v[i - 1];

		v[i - 1] = v[j];
		v[j] = t;
	}
}

void make_plan(struct rng *r, struct plan *p, unsigned int lines)
{
	static const uint8_t sizes[] = {8, 8, 8, 8, 8, 4, 4, 2, 1, 1, 0, 0};
	bool everything = rng_below(r, 2);
	size_t line_start = 0;

	p->bytes = sizes[rng_below(r, sizeof(sizes))];
	p->steps = 0;
	for (unsigned int line = 0; line < lines; line++) {
		for (unsigned int at = 0; at < 64;) {
			unsigned int bytes = p->bytes ? p->bytes : 1u << rng_below(r, 4);

			while (at % bytes)
				bytes /= 2;
			p->step[p->steps++] = (uint16_t)(line * 64 + at) |
					      (uint16_t)(p->bytes ? 0 : bytes << 12);
			at += bytes;
		}
		if (!everything)
			shuffle(r, p->step + line_start, p->steps - line_start);
		line_start = p->steps;
	}
	if (everything)
		shuffle(r, p->step, p->steps);
}

#define COPY(type)                                                                            \
	for (unsigned int i = 0; i < p->steps; i++) {                                         \
		unsigned int to = p->step[i];                                                 \
		*(type *)(block + to) = *(const volatile type *)(line[to / 64].at + to % 64); \
	}                                                                                     \
	break

void copy_block(const struct plan *p, const struct line *line, uint8_t *block)
{
	switch (p->bytes) {
	case 8:
		COPY(uint64_t);
	case 4:
		COPY(uint32_t);
	case 2:
		COPY(uint16_t);
	case 1:
		COPY(uint8_t);
	default:
		for (unsigned int i = 0; i < p->steps; i++) {
			unsigned int to = p->step[i] & 0xfff;
			const volatile uint8_t *from = line[to / 64].at + to % 64;

			switch (p->step[i] >> 12) {
			case 8:
				*(uint64_t *)(block + to) = *(const volatile uint64_t *)from;
				break;
			case 4:
				*(uint32_t *)(block + to) = *(const volatile uint32_t *)from;
				break;
			case 2:
				*(uint16_t *)(block + to) = *(const volatile uint16_t *)from;
				break;
			default:
				block[to] = *from;
			}
		}
	}
}
