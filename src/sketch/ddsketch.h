/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddsketch.h - DDSketch: quantiles with relative error alpha for any distribution.
 *
 * C. Masson, J. E. Rim, H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
 * relative-error guarantees", PVLDB 12 (2019). With gamma = (1 + alpha) / (1 - alpha), bin i counts
 * the values in [gamma^i, gamma^(i+1)), and its representative gamma^i (1 + alpha) is within alpha
 * of each (lemma 2; bins are closed below here, so that truncation finds them).
 *
 * SKETCH_DDSKETCH_LOG maps by the logarithm itself and needs the fewest bins. SKETCH_DDSKETCH_CUBIC
 * takes the exponent's bits and, within an octave, the cubic polynomial of the mantissa whose slope
 * deviates least from the logarithm's (CubicallyInterpolatedMapping of the authors' sketches-java):
 * 1 % more bins, no call of libm, and the same bits on every machine.
 *
 * At most `bins` bins are kept per sign (paper, section 3.3). If the values span more, the bins of
 * the smallest magnitudes are collapsed into one, and only quantiles from
 * sketch_ddsketch_exact_from() on keep the guarantee. 2,048 bins at alpha = 1 % span 17 decades.
 *
 * A merged sketch equals the sketch of both streams, bit for bit, collapsed or not.
 *
 * A sketch is not thread-safe. Memory, 8 * bins bytes per sign, is allocated at creation.
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
	SKETCH_DDSKETCH_SIGNED = 2, /* with bins for negative values */
};

struct sketch_ddsketch;

/*
 * alpha in SKETCH_DDSKETCH_ALPHA_MIN..MAX; bins a power of two in SKETCH_DDSKETCH_BINS_MIN..MAX.
 * NULL: errno EINVAL or ENOMEM.
 */
struct sketch_ddsketch *sketch_ddsketch_new(double alpha, uint32_t bins, unsigned int flags);
void sketch_ddsketch_free(struct sketch_ddsketch *s);
void sketch_ddsketch_clear(struct sketch_ddsketch *s);

/*
 * Adds x, n times. Magnitudes below 2^-1022 count as 0. -EINVAL: NaN, an infinity, or negative
 * without SKETCH_DDSKETCH_SIGNED; -EOVERFLOW: more than 2^64 - 1 values. An error changes nothing.
 */
int sketch_ddsketch_add(struct sketch_ddsketch *s, double x, uint64_t n);

uint64_t sketch_ddsketch_count(const struct sketch_ddsketch *s);
/*
 * The value of rank floor(q * (count - 1)), counted from 0, within alpha; exact for q = 0 and 1.
 * NaN if the sketch is empty or q is not in 0..1.
 */
double sketch_ddsketch_quantile(const struct sketch_ddsketch *s, double q);
/* The smallest magnitude for which the guarantee holds; 0 unless bins were collapsed. */
double sketch_ddsketch_exact_from(const struct sketch_ddsketch *s);

/* -EINVAL unless both have the same alpha, bins and flags; -EOVERFLOW. */
int sketch_ddsketch_merge(struct sketch_ddsketch *into, const struct sketch_ddsketch *from);

/* See sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_ddsketch_save_bytes(const struct sketch_ddsketch *s);
int64_t sketch_ddsketch_save(const struct sketch_ddsketch *s, void *buf, size_t bytes);
int sketch_ddsketch_load(struct sketch_ddsketch **out, const void *buf, size_t bytes);

#endif
