// SPDX-License-Identifier: Apache-2.0
/* mpi.c - nanoseconds per call of MPI by a single rank, as one line of JSON. */
#include <mpi.h>
#include <stdio.h>

#include "bench.h"

enum { ROUNDS = 11, N = 200000 };

#define MEASURE(NAME, CALLS)                                            \
	do {                                                            \
		double ns[ROUNDS];                                      \
                                                                        \
		for (int turn = 0; turn < ROUNDS; turn++) {             \
			double start = bench_cpu_ns();                  \
                                                                        \
			for (int i = 0; i < N; i++) {                   \
				CALLS;                                  \
			}                                               \
			ns[turn] = (bench_cpu_ns() - start) / N;        \
		}                                                       \
		printf("\"%s\": %g, ", NAME, bench_median(ns, ROUNDS)); \
	} while (0)

int main(int argc, char **argv)
{
	double in = 0, out = 1;
	MPI_Request r[2];

	MPI_Init(&argc, &argv);
	printf("{");
	MEASURE("barrier", MPI_Barrier(MPI_COMM_SELF));
	MEASURE("allreduce", MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF));
	MEASURE("sendrecv", MPI_Sendrecv(&out, 1, MPI_DOUBLE, 0, 0, &in, 1, MPI_DOUBLE, 0, 0,
					 MPI_COMM_SELF, MPI_STATUS_IGNORE));
	/* three calls */
	MEASURE("isend", MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &r[0]);
		MPI_Isend(&out, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
	printf("\"n\": %d}\n", N);
	MPI_Finalize();
	return 0;
}
