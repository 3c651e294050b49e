/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - arithmetic over eight lanes of f64 in the registers of a level: one of AVX-512, two of
 * AVX2, four of SSE2 or NEON. Sums over the lanes are taken in one order, so all levels give the
 * same bits.
 *
 * A template: to be included once a level, after defining
 *
 *	SL_W		f64 a register: 8, 4 or 2
 *	SL_NAME(x)	x with the level's suffix
 *	SL_TARGET	the attribute that lets a function use these registers, or nothing
 *
 * Macros and named members, as a function that takes such vectors would have another ABI at each
 * level, and an array of them would live in memory.
 */
#undef SL_EACH
#undef SL_SUM
#undef SL_EIGHT
#undef SL_FN
#undef SL_WIDENED
#undef SL_NARROWED

#ifndef SL_LANES
#define SL_LANES 8u
#endif

typedef double SL_NAME(sl_f64s) __attribute__((vector_size(SL_W * 8)));
typedef float SL_NAME(sl_f32s) __attribute__((vector_size(SL_W * 4)));
/* As they lie in memory: unaligned, and whatever the object is declared as. */
typedef double SL_NAME(sl_f64s_at) __attribute__((vector_size(SL_W * 8), aligned(8), may_alias));
typedef float SL_NAME(sl_f32s_at) __attribute__((vector_size(SL_W * 4), aligned(4), may_alias));
#define SL_EIGHT struct SL_NAME(sl_eight)
#define SL_FN	 static inline __attribute__((always_inline)) SL_TARGET

#if SL_W == 8
/* gcc 12 makes four instructions of this conversion. */
#include <immintrin.h>
#define SL_WIDENED(v)  ((SL_NAME(sl_f64s))_mm512_cvtps_pd((__m256)(v)))
#define SL_NARROWED(v) ((SL_NAME(sl_f32s))_mm512_cvtpd_ps((__m512d)(v)))
#else
#define SL_WIDENED(v)  __builtin_convertvector(v, SL_NAME(sl_f64s))
#define SL_NARROWED(v) __builtin_convertvector(v, SL_NAME(sl_f32s))
#endif

#if SL_W == 8
SL_EIGHT
{
	SL_NAME(sl_f64s) a;
};
typedef double SL_NAME(sl_f64x4) __attribute__((vector_size(32)));
typedef double SL_NAME(sl_f64x2) __attribute__((vector_size(16)));
#define SL_EACH(op, ...)                                                                           \
	do {                                                                                       \
		op(a, 0, __VA_ARGS__);                                                             \
	} while (0)
#define SL_SUM(s, x)                                                                               \
	do {                                                                                       \
		SL_NAME(sl_f64x4)                                                                  \
		four_ = __builtin_shufflevector((x).a, (x).a, 0, 1, 2, 3) +                        \
			__builtin_shufflevector((x).a, (x).a, 4, 5, 6, 7);                         \
		SL_NAME(sl_f64x2)                                                                  \
		two_ = __builtin_shufflevector(four_, four_, 0, 1) +                               \
		       __builtin_shufflevector(four_, four_, 2, 3);                                \
		(s) = two_[0] + two_[1];                                                           \
	} while (0)
#elif SL_W == 4
SL_EIGHT
{
	SL_NAME(sl_f64s) a, b;
};
typedef double SL_NAME(sl_f64x2) __attribute__((vector_size(16)));
#define SL_EACH(op, ...)                                                                           \
	do {                                                                                       \
		op(a, 0, __VA_ARGS__);                                                             \
		op(b, 4, __VA_ARGS__);                                                             \
	} while (0)
#define SL_SUM(s, x)                                                                               \
	do {                                                                                       \
		SL_NAME(sl_f64s) four_ = (x).a + (x).b;                                            \
		SL_NAME(sl_f64x2)                                                                  \
		two_ = __builtin_shufflevector(four_, four_, 0, 1) +                               \
		       __builtin_shufflevector(four_, four_, 2, 3);                                \
		(s) = two_[0] + two_[1];                                                           \
	} while (0)
#else
SL_EIGHT
{
	SL_NAME(sl_f64s) a, b, c, d;
};
#define SL_EACH(op, ...)                                                                           \
	do {                                                                                       \
		op(a, 0, __VA_ARGS__);                                                             \
		op(b, 2, __VA_ARGS__);                                                             \
		op(c, 4, __VA_ARGS__);                                                             \
		op(d, 6, __VA_ARGS__);                                                             \
	} while (0)
#define SL_SUM(s, x)                                                                               \
	do {                                                                                       \
		SL_NAME(sl_f64s) two_ = ((x).a + (x).c) + ((x).b + (x).d);                         \
		(s) = two_[0] + two_[1];                                                           \
	} while (0)
#endif

#ifndef SL_LOAD_F64
/* x = the eight f64 at p; the eight f32 at p, widened; and back. */
#define SL_LOAD_F64_1(m, i, x, p)  ((x).m = *(const SL_NAME(sl_f64s_at) *)((p) + (i)))
#define SL_LOAD_F32_1(m, i, x, p)                                                                  \
	((x).m = SL_WIDENED(*(const SL_NAME(sl_f32s_at) *)((p) + (i))))
#define SL_STORE_F64_1(m, i, p, x) (*(SL_NAME(sl_f64s_at) *)((p) + (i)) = (x).m)
#define SL_STORE_F32_1(m, i, p, x)                                                                 \
	(*(SL_NAME(sl_f32s_at) *)((p) + (i)) = SL_NARROWED((x).m))
#define SL_LOAD_F64(x, p)  SL_EACH(SL_LOAD_F64_1, x, p)
#define SL_LOAD_F32(x, p)  SL_EACH(SL_LOAD_F32_1, x, p)
#define SL_STORE_F64(p, x) SL_EACH(SL_STORE_F64_1, p, x)
#define SL_STORE_F32(p, x) SL_EACH(SL_STORE_F32_1, p, x)
/* s = s + x * y, lane by lane; y may be a scalar. */
#define SL_ADD_MUL_1(m, i, s, x, y)	((s).m = (s).m + (x).m * (y).m)
#define SL_ADD_SCALED_1(m, i, s, x, f)	((s).m = (s).m + (x).m * (f))
#define SL_SUB_SCALED_1(m, i, s, x, f)	((s).m = (s).m - (x).m * (f))
#define SL_ADD_MUL(s, x, y)		SL_EACH(SL_ADD_MUL_1, s, x, y)
#define SL_ADD_SCALED(s, x, f)		SL_EACH(SL_ADD_SCALED_1, s, x, f)
#define SL_SUB_SCALED(s, x, f)		SL_EACH(SL_SUB_SCALED_1, s, x, f)
#define SL_SCALE_1(m, i, x, f)		((x).m = (x).m * (f))
#define SL_SCALE(x, f)			SL_EACH(SL_SCALE_1, x, f)
#endif

/* y = y + f * x, n doubles, a multiple of SL_LANES. */
SL_FN void SL_NAME(sl_axpy)(double *y, const double *x, double f, size_t n)
{
	for (size_t c = 0; c < n; c += SL_LANES) {
		SL_EIGHT vx, vy;

		SL_LOAD_F64(vx, x + c);
		SL_LOAD_F64(vy, y + c);
		SL_ADD_SCALED(vy, vx, f);
		SL_STORE_F64(y + c, vy);
	}
}

SL_FN double SL_NAME(sl_dot)(const double *x, const double *y, size_t n)
{
	SL_EIGHT sum = {0}, vx, vy;
	double s;

	for (size_t c = 0; c < n; c += SL_LANES) {
		SL_LOAD_F64(vx, x + c);
		SL_LOAD_F64(vy, y + c);
		SL_ADD_MUL(sum, vx, vy);
	}
	SL_SUM(s, sum);
	return s;
}
