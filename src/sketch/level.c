// SPDX-License-Identifier: Apache-2.0
#include "sketch/level.h"

enum sketch_vector_level sketch_vector_best(void)
{
#ifdef SKETCH_HAVE_X86_LEVELS
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512cd"))
		return SKETCH_VECTOR_AVX512;
	if (__builtin_cpu_supports("avx2"))
		return SKETCH_VECTOR_AVX2;
#endif
	return SKETCH_VECTOR_PORTABLE;
}
