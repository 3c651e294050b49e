/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kll.h - KLL: quantiles of any numbers by rank, from a few hundred of them.
 *
 * Z. Karnin, K. Lang, E. Liberty, "Optimal quantile approximation in streams", FOCS 2016. An item
 * of level h stands for 2^h; a full level is sorted and every second item, odd or even by a coin,
 * moves up. Levels below the top hold k (2/3)^depth items, at least 8. Compacted is the lowest
 * level that is full, and only when all room is taken, as in Apache DataSketches.
 *
 * Each compaction of level h changes the rank of a value by 0 or +-2^h, with mean zero whatever
 * came before (section 2), so with S, the sum of 4^h over all of them, the inequality of Hoeffding
 * and Azuma bounds the rank error of any one value:
 *
 * 	P(|error| > sqrt(2 S ln(2 / delta))) <= delta.
 *
 * S is kept, and sketch_kll_error() gives the bound.
 *
 * Merge: the bound above holds for both streams together, if their coins are independent: give each
 * sketch a seed of its own. The same stream and seed give the same bits.
 *
 * Not safe for concurrent use of one sketch, queries included. Memory is fixed at creation: about
 * 36 * k + 6,000 bytes.
 */
#ifndef SL_SKETCH_KLL_H
#define SL_SKETCH_KLL_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_KLL_K_MIN 8u
#define SKETCH_KLL_K_MAX 65535u

struct sketch_kll;

/* k in SKETCH_KLL_K_MIN..SKETCH_KLL_K_MAX. NULL: errno EINVAL, ENOMEM. */
struct sketch_kll *sketch_kll_new(uint32_t k, uint64_t seed);
void sketch_kll_free(struct sketch_kll *s);
void sketch_kll_clear(struct sketch_kll *s);

/* -EINVAL for NaN; infinities are values. */
int sketch_kll_add(struct sketch_kll *s, double x);
uint64_t sketch_kll_count(const struct sketch_kll *s);

/*
 * The value of rank q * (count - 1), q in 0..1, counted from 0: q = 0 and 1 are the least and the
 * largest, exactly. NaN of an empty sketch, or for another q.
 */
double sketch_kll_quantile(struct sketch_kll *s, double q);
/* How many values, of all that were added, are below x: an estimate, in values. */
double sketch_kll_rank(const struct sketch_kll *s, double x);
/* The rank error of one value, in values, which is passed with a probability of at most delta. */
double sketch_kll_error(const struct sketch_kll *s, double delta);

/* -EINVAL unless both have the same k; -EOVERFLOW above 2^60 values. */
int sketch_kll_merge(struct sketch_kll *into, const struct sketch_kll *from);

/* As sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_kll_save_bytes(const struct sketch_kll *s);
int64_t sketch_kll_save(const struct sketch_kll *s, void *buf, size_t bytes);
int sketch_kll_load(struct sketch_kll **out, const void *buf, size_t bytes);

#endif
