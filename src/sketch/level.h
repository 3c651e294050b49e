/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.h - which vector instructions this CPU has. Every kernel exists once in C, over lanes of a
 * fixed number, and is compiled for each level; as this folder is compiled without contraction of
 * a * b + c, all levels give the same bits.
 */
#ifndef SL_SKETCH_LEVEL_H
#define SL_SKETCH_LEVEL_H

enum sketch_vector_level {
	SKETCH_VECTOR_PORTABLE, /* what the compiler was told to build for */
	SKETCH_VECTOR_AVX2,
	SKETCH_VECTOR_AVX512,
	SKETCH_VECTOR_LEVELS
};

/* The highest level that this CPU and system run. */
enum sketch_vector_level sketch_vector_best(void);

#if defined(__x86_64__)
#define SKETCH_TARGET_AVX2 __attribute__((target("avx2")))
#define SKETCH_TARGET_AVX512 \
	__attribute__((target("avx2,avx512f,avx512dq,avx512bw,avx512vl,avx512cd")))
#define SKETCH_HAVE_X86_LEVELS 1
#endif

#endif
