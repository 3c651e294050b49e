// SPDX-License-Identifier: Apache-2.0
/*
 * steps.c - steps END SLOW SLOW_RANK: ranks that work for the same time and meet in a collective,
 * again and again until the file END exists. While the file SLOW exists, SLOW_RANK works four times
 * as long. Work is mostly sleep, so that more ranks than cores do not slow down each other.
 */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORK_NS 20000000

static void work(long ns)
{
	struct timespec t = {0, ns};

	nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
	int rank, ended = 0;

	MPI_Init(&argc, &argv);
	if (argc != 4)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	while (!ended) {
		int slow = rank == atoi(argv[3]) && !access(argv[2], F_OK);

		work(slow ? 4 * WORK_NS : WORK_NS);
		ended = !access(argv[1], F_OK);
		MPI_Allreduce(MPI_IN_PLACE, &ended, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
