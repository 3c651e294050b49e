/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddsketch.h - DDSketch: quantiles that are right to a share alpha of their value, whatever the
 * distribution.
 *
 * C. Masson, J. E. Rim, H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
 * relative-error guarantees", PVLDB 12 (2019). With gamma = (1 + alpha) / (1 - alpha), bin i counts
 * values of [gamma^i, gamma^(i+1)), and stands for gamma^i (1 + alpha), which is wrong for none of
 * them by more than alpha (lemma 2; our bins are closed below, so that truncation finds them).
 *
 * Mappings:
 *  SKETCH_DDSKETCH_LOG    the logarithm itself; the fewest bins.
 *  SKETCH_DDSKETCH_CUBIC  the exponent's bits, and between powers of two the cubic polynomial of
 *                         the
 *                     mantissa whose slope strays least from the logarithm's (the authors' library
 *                     sketches-java, CubicallyInterpolatedMapping): 1 % more bins, no call, and the
 *                     same bits on every machine.
 *
 * At most `bins` bins are kept a sign (paper, section 3.3): if the values span more, the bins of
 * the smallest magnitudes are collapsed into one, and only quantiles from
 * sketch_ddsketch_exact_from() on keep their guarantee. 2,048 bins at alpha = 1 % span 17 decades.
 *
 * Merge: equal to the sketch of both streams, bit for bit, collapsed or not: what is in which bin
 * does not depend on the order.
 *
 * Not safe for concurrent use of one sketch. Memory, 8 * bins bytes a sign, is fixed at creation.
 */
#ifndef SL_SKETCH_DDSKETCH_H
#define SL_SKETCH_DDSKETCH_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_DDSKETCH_BINS_MIN  16u
#define SKETCH_DDSKETCH_BINS_MAX  1048576u
#define SKETCH_DDSKETCH_ALPHA_MIN 1e-5
#define SKETCH_DDSKETCH_ALPHA_MAX 0.5

enum {
	SKETCH_DDSKETCH_CUBIC = 0,
	SKETCH_DDSKETCH_LOG = 1,
	SKETCH_DDSKETCH_SIGNED = 2, /* negative values, too: bins for those as well */
};

struct sketch_ddsketch;

/*
 * alpha in SKETCH_DDSKETCH_ALPHA_MIN..MAX; bins: a power of two, SKETCH_DDSKETCH_BINS_MIN..MAX.
 * NULL: errno EINVAL, ENOMEM.
 */
struct sketch_ddsketch *sketch_ddsketch_new(double alpha, uint32_t bins, unsigned int flags);
void sketch_ddsketch_free(struct sketch_ddsketch *s);
void sketch_ddsketch_clear(struct sketch_ddsketch *s);

/*
 * Adds x, n times. Magnitudes below 2^-1022 are counted as 0. Nothing is changed by -EINVAL: NaN,
 * an infinity, or negative without SKETCH_DDSKETCH_SIGNED; and by -EOVERFLOW: more than 2^64 - 1
 * values.
 */
int sketch_ddsketch_add(struct sketch_ddsketch *s, double x, uint64_t n);

uint64_t sketch_ddsketch_count(const struct sketch_ddsketch *s);
/*
 * The value of rank floor(q * (count - 1)), counted from 0, q in 0..1, right to alpha; exact for
 * q = 0 and 1. NaN of an empty sketch, or for another q.
 */
double sketch_ddsketch_quantile(const struct sketch_ddsketch *s, double q);
/* The least magnitude that is surely told apart: 0 as long as nothing was collapsed. */
double sketch_ddsketch_exact_from(const struct sketch_ddsketch *s);

/* -EINVAL unless both have the same alpha, bins and flags; -EOVERFLOW. */
int sketch_ddsketch_merge(struct sketch_ddsketch *into, const struct sketch_ddsketch *from);

/* As sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_ddsketch_save_bytes(const struct sketch_ddsketch *s);
int64_t sketch_ddsketch_save(const struct sketch_ddsketch *s, void *buf, size_t bytes);
int sketch_ddsketch_load(struct sketch_ddsketch **out, const void *buf, size_t bytes);

#endif
