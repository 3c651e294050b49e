// SPDX-License-Identifier: Apache-2.0
/*
 * steps.c - steps END SLOW SLOW_RANK: ranks that work for the same time, exchange a message with
 * their neighbours and meet in a collective, until the file END exists. While the file SLOW exists,
 * SLOW_RANK works four times as long. Work is sleep, so that more ranks than cores do not slow down
 * each other; what SLOW_RANK works in addition uses the CPU.
 */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORK_US 20000

static long cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void compute(long us)
{
	long end = cpu_us() + us;

	while (cpu_us() < end)
		;
}

int main(int argc, char **argv)
{
	int rank, ranks, left, ended = 0;

	MPI_Init(&argc, &argv);
	if (argc != 4)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	while (!ended) {
		int slow = rank == atoi(argv[3]) && !access(argv[2], F_OK);

		usleep(WORK_US);
		if (slow)
			compute(3 * WORK_US);
		MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &left, 1, MPI_INT,
			     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		ended = !access(argv[1], F_OK);
		MPI_Allreduce(MPI_IN_PLACE, &ended, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
