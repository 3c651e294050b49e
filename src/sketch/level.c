// SPDX-License-Identifier: Apache-2.0
#include "sketch/level.h"

enum sl_vector_level sl_vector_best(void)
{
#ifdef SL_HAVE_X86_LEVELS
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512cd"))
		return SL_VECTOR_AVX512;
	if (__builtin_cpu_supports("avx2"))
		return SL_VECTOR_AVX2;
#endif
	return SL_VECTOR_PORTABLE;
}
