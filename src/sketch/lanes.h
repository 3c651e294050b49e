/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - arithmetic over eight f64 lanes in the registers of a level: one AVX-512 register, two
 * AVX2 registers, or four SSE2 or NEON registers. Sums over lanes have a fixed order, so all levels
 * give the same bits.
 *
 * This is a template, included once per level after defining
 *
 * 	SKETCH_W		f64 per register: 8, 4 or 2
 * 	SKETCH_NAME(x)	x with the level's suffix
 * 	SKETCH_TARGET	the attribute that enables these registers, or nothing
 *
 * It uses macros and named members, because functions with vector parameters would have a different
 * ABI at each level, and an array of vectors would be stored in memory.
 */
#undef SKETCH_EACH
#undef SKETCH_SUM
#undef SKETCH_EIGHT
#undef SKETCH_FN
#undef SKETCH_WIDENED
#undef SKETCH_NARROWED

#ifndef SKETCH_LANES
#define SKETCH_LANES 8u
#endif

typedef double SKETCH_NAME(sketch_f64s) __attribute__((vector_size(SKETCH_W * 8)));
typedef float SKETCH_NAME(sketch_f32s) __attribute__((vector_size(SKETCH_W * 4)));
/* Vectors in memory, which may be unaligned and may alias any type. */
typedef double SKETCH_NAME(sketch_f64s_at)
	__attribute__((vector_size(SKETCH_W * 8), aligned(8), may_alias));
typedef float SKETCH_NAME(sketch_f32s_at)
	__attribute__((vector_size(SKETCH_W * 4), aligned(4), may_alias));
#define SKETCH_EIGHT struct SKETCH_NAME(sketch_eight)
#define SKETCH_FN    static inline __attribute__((always_inline)) SKETCH_TARGET

#if SKETCH_W == 8
/* gcc 12 compiles __builtin_convertvector() to four instructions here. */
#include <immintrin.h>
#define SKETCH_WIDENED(v)  ((SKETCH_NAME(sketch_f64s))_mm512_cvtps_pd((__m256)(v)))
#define SKETCH_NARROWED(v) ((SKETCH_NAME(sketch_f32s))_mm512_cvtpd_ps((__m512d)(v)))
#else
#define SKETCH_WIDENED(v)  __builtin_convertvector(v, SKETCH_NAME(sketch_f64s))
#define SKETCH_NARROWED(v) __builtin_convertvector(v, SKETCH_NAME(sketch_f32s))
#endif

#if SKETCH_W == 8
SKETCH_EIGHT
{
	SKETCH_NAME(sketch_f64s) a;
};
typedef double SKETCH_NAME(sketch_f64x4) __attribute__((vector_size(32)));
typedef double SKETCH_NAME(sketch_f64x2) __attribute__((vector_size(16)));
#define SKETCH_EACH(op, ...)           \
	do {                           \
		op(a, 0, __VA_ARGS__); \
	} while (0)
#define SKETCH_SUM(s, x)                                                    \
	do {                                                                \
		SKETCH_NAME(sketch_f64x4)                                   \
		four_ = __builtin_shufflevector((x).a, (x).a, 0, 1, 2, 3) + \
			__builtin_shufflevector((x).a, (x).a, 4, 5, 6, 7);  \
		SKETCH_NAME(sketch_f64x2)                                   \
		two_ = __builtin_shufflevector(four_, four_, 0, 1) +        \
		       __builtin_shufflevector(four_, four_, 2, 3);         \
		(s) = two_[0] + two_[1];                                    \
	} while (0)
#elif SKETCH_W == 4
SKETCH_EIGHT
{
	SKETCH_NAME(sketch_f64s) a, b;
};
typedef double SKETCH_NAME(sketch_f64x2) __attribute__((vector_size(16)));
#define SKETCH_EACH(op, ...)           \
	do {                           \
		op(a, 0, __VA_ARGS__); \
		op(b, 4, __VA_ARGS__); \
	} while (0)
#define SKETCH_SUM(s, x)                                             \
	do {                                                         \
		SKETCH_NAME(sketch_f64s) four_ = (x).a + (x).b;      \
		SKETCH_NAME(sketch_f64x2)                            \
		two_ = __builtin_shufflevector(four_, four_, 0, 1) + \
		       __builtin_shufflevector(four_, four_, 2, 3);  \
		(s) = two_[0] + two_[1];                             \
	} while (0)
#else
SKETCH_EIGHT
{
	SKETCH_NAME(sketch_f64s) a, b, c, d;
};
#define SKETCH_EACH(op, ...)           \
	do {                           \
		op(a, 0, __VA_ARGS__); \
		op(b, 2, __VA_ARGS__); \
		op(c, 4, __VA_ARGS__); \
		op(d, 6, __VA_ARGS__); \
	} while (0)
#define SKETCH_SUM(s, x)                                                           \
	do {                                                                       \
		SKETCH_NAME(sketch_f64s) two_ = ((x).a + (x).c) + ((x).b + (x).d); \
		(s) = two_[0] + two_[1];                                           \
	} while (0)
#endif

#ifndef SKETCH_LOAD_F64
/* Load eight doubles, load eight floats widened to double, and the matching stores. */
#define SKETCH_LOAD_F64_1(m, i, x, p) ((x).m = *(const SKETCH_NAME(sketch_f64s_at) *)((p) + (i)))
#define SKETCH_LOAD_F32_1(m, i, x, p) \
	((x).m = SKETCH_WIDENED(*(const SKETCH_NAME(sketch_f32s_at) *)((p) + (i))))
#define SKETCH_STORE_F64_1(m, i, p, x) (*(SKETCH_NAME(sketch_f64s_at) *)((p) + (i)) = (x).m)
#define SKETCH_STORE_F32_1(m, i, p, x) \
	(*(SKETCH_NAME(sketch_f32s_at) *)((p) + (i)) = SKETCH_NARROWED((x).m))
#define SKETCH_LOAD_F64(x, p)  SKETCH_EACH(SKETCH_LOAD_F64_1, x, p)
#define SKETCH_LOAD_F32(x, p)  SKETCH_EACH(SKETCH_LOAD_F32_1, x, p)
#define SKETCH_STORE_F64(p, x) SKETCH_EACH(SKETCH_STORE_F64_1, p, x)
#define SKETCH_STORE_F32(p, x) SKETCH_EACH(SKETCH_STORE_F32_1, p, x)
/* Adds x * y to s, per lane; y may be a scalar. */
#define SKETCH_ADD_MUL_1(m, i, s, x, y)	   ((s).m = (s).m + (x).m * (y).m)
#define SKETCH_ADD_SCALED_1(m, i, s, x, f) ((s).m = (s).m + (x).m * (f))
#define SKETCH_SUB_SCALED_1(m, i, s, x, f) ((s).m = (s).m - (x).m * (f))
#define SKETCH_ADD_MUL(s, x, y)		   SKETCH_EACH(SKETCH_ADD_MUL_1, s, x, y)
#define SKETCH_ADD_SCALED(s, x, f)	   SKETCH_EACH(SKETCH_ADD_SCALED_1, s, x, f)
#define SKETCH_SUB_SCALED(s, x, f)	   SKETCH_EACH(SKETCH_SUB_SCALED_1, s, x, f)
#define SKETCH_SCALE_1(m, i, x, f)	   ((x).m = (x).m * (f))
#define SKETCH_SCALE(x, f)		   SKETCH_EACH(SKETCH_SCALE_1, x, f)
#endif

/* Adds f * x to y for n doubles, where n is a multiple of SKETCH_LANES. */
SKETCH_FN void SKETCH_NAME(sketch_axpy)(double *y, const double *x, double f, size_t n)
{
	for (size_t c = 0; c < n; c += SKETCH_LANES) {
		SKETCH_EIGHT vx, vy;

		SKETCH_LOAD_F64(vx, x + c);
		SKETCH_LOAD_F64(vy, y + c);
		SKETCH_ADD_SCALED(vy, vx, f);
		SKETCH_STORE_F64(y + c, vy);
	}
}

SKETCH_FN double SKETCH_NAME(sketch_dot)(const double *x, const double *y, size_t n)
{
	SKETCH_EIGHT sum = {0}, vx, vy;
	double s;

	for (size_t c = 0; c < n; c += SKETCH_LANES) {
		SKETCH_LOAD_F64(vx, x + c);
		SKETCH_LOAD_F64(vy, y + c);
		SKETCH_ADD_MUL(sum, vx, vy);
	}
	SKETCH_SUM(s, sum);
	return s;
}
