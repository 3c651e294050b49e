/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.h - the vector instructions of this CPU. Each kernel is written once in C over a fixed
 * number of lanes and compiled per level. The folder is compiled without contraction of a * b + c,
 * so all levels give the same bits.
 */
#ifndef SL_SKETCH_LEVEL_H
#define SL_SKETCH_LEVEL_H

enum sketch_vector_level {
	SKETCH_VECTOR_PORTABLE, /* the compiler's default target */
	SKETCH_VECTOR_AVX2,
	SKETCH_VECTOR_AVX512,
	SKETCH_VECTOR_LEVELS
};

/* The highest level that the CPU and the operating system support. */
enum sketch_vector_level sketch_vector_best(void);

#if defined(__x86_64__)
#define SKETCH_TARGET_AVX2 __attribute__((target("avx2")))
#define SKETCH_TARGET_AVX512 \
	__attribute__((target("avx2,avx512f,avx512dq,avx512bw,avx512vl,avx512cd")))
#define SKETCH_HAVE_X86_LEVELS 1
#endif

#endif
