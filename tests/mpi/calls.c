// SPDX-License-Identifier: Apache-2.0
/*
 * calls.c - calls [END]: makes the calls that test_mpi.py knows, as each of four ranks. Prints a
 * line per rank of what it received, and "counted"; then waits until the file END exists.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RANKS	4
#define THREADS 4
#define MANY	40 /* more requests than the library keeps on the stack */

static int rank, left, right;
static long sum; /* sum of everything received */

static void add_ints(const int *in, int n)
{
	for (int i = 0; i < n; i++)
		sum += in[i];
}

static void send_and_receive(void)
{
	static double out[1000], in[2000];
	int one[100], other[100] = {0}, n = 100;
	char text[64] = "letters";
	MPI_Status status;

	for (int i = 0; i < 1000; i++)
		out[i] = rank;
	for (int i = 0; i < 10; i++) {
		MPI_Request r[2];

		MPI_Irecv(in, 2000, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(out, 1000, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		sum += (long)in[999];
	}
	for (int i = 0; i < n; i++)
		one[i] = rank + i;
	for (int i = 0; i < 3; i++)
		MPI_Sendrecv(one, n, MPI_INT, right, 2, other, n, MPI_INT, left, 2, MPI_COMM_WORLD,
			     i ? MPI_STATUS_IGNORE : &status);
	add_ints(other, n);
	MPI_Sendrecv_replace(one, 5, MPI_INT, right, 3, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	add_ints(one, 5);
	for (int i = 0; i < 5; i++) {
		if (rank % 2)
			MPI_Recv(text, sizeof(text), MPI_CHAR, left, 4, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		else
			MPI_Send(text, 7, MPI_CHAR, right, 4, MPI_COMM_WORLD);
	}
	MPI_Send(one, 100, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD);
}

static void complete_each_way(void)
{
	int out[MANY] = {1, 2, 3}, in[MANY] = {0}, more[16] = {0}, index, flag = 0, done = 0;
	MPI_Request r[2 * MANY];
	MPI_Status status[4];
	int indices[4];

	for (int i = 0; i < 2; i++) { /* Waitany */
		MPI_Irecv(in, MANY, MPI_INT, left, 6, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(out, 11, MPI_INT, right, 6, MPI_COMM_WORLD, &r[1]);
		MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE);
		MPI_Waitany(2, r, &index, &status[0]);
	}
	MPI_Irecv(in, 16, MPI_INT, left, 7, MPI_COMM_WORLD, &r[0]); /* Test */
	MPI_Send(out, 13, MPI_INT, right, 7, MPI_COMM_WORLD);
	while (!flag)
		MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
	for (int i = 0; i < MANY; i++) { /* Waitall of many */
		MPI_Irecv(&in[i], 1, MPI_INT, left, 8, MPI_COMM_WORLD, &r[i]);
		MPI_Isend(&out[i], 1, MPI_INT, right, 8, MPI_COMM_WORLD, &r[MANY + i]);
	}
	MPI_Waitall(2 * MANY, r, MPI_STATUSES_IGNORE);
	add_ints(in, MANY);
	for (int i = 0; i < 4; i++) /* Waitsome */
		MPI_Irecv(&more[i * 4], 4, MPI_INT, left, 9, MPI_COMM_WORLD, &r[i]);
	for (int i = 0; i < 4; i++)
		MPI_Send(out, 2, MPI_INT, right, 9, MPI_COMM_WORLD);
	while (done < 4) {
		int n = 0;

		MPI_Waitsome(4, r, &n, indices, status);
		done += n;
	}
	add_ints(more, 16);
	MPI_Irecv(in, 16, MPI_INT, left, 10, MPI_COMM_WORLD, &r[0]);
	MPI_Cancel(&r[0]);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
}

static void *send_to_itself(void *tag)
{
	int out[3] = {1, 2, 3}, in[8];
	MPI_Request r[2];

	for (int i = 0; i < 500; i++) {
		MPI_Irecv(in, 8, MPI_INT, rank, (int)(intptr_t)tag, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(out, 3, MPI_INT, rank, (int)(intptr_t)tag, MPI_COMM_WORLD, &r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	}
	return NULL;
}

static void call_from_threads(int provided)
{
	pthread_t thread[THREADS];

	for (intptr_t i = 0; i < THREADS; i++) {
		if (provided < MPI_THREAD_MULTIPLE)
			send_to_itself((void *)(100 + i));
		else if (pthread_create(&thread[i], NULL, send_to_itself, (void *)(100 + i)))
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int i = 0; i < THREADS && provided >= MPI_THREAD_MULTIPLE; i++)
		pthread_join(thread[i], NULL);
}

/* The receiver of a late message waits, but does not compute. */
static void wait_for_a_late_message(void)
{
	int word = 0;

	if (rank == 0) {
		usleep(1000000);
		MPI_Send(&word, 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
	} else if (rank == 1) {
		MPI_Recv(&word, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void call_collectives(void)
{
	int in[64] = {0}, out[64], n[RANKS] = {1, 2, 3, 4}, at[RANKS] = {0, 1, 3, 6};
	int ones[RANKS] = {1, 1, 1, 1}, each[RANKS] = {0, 1, 2, 3};
	double many[64] = {1}, all[64] = {0};
	MPI_Request r;

	for (int i = 0; i < 64; i++)
		out[i] = rank + i;
	for (int i = 0; i < 20; i++)
		MPI_Allreduce(out, in, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, in, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	add_ints(in, 3);
	MPI_Bcast(many, 50, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	MPI_Reduce(many, all, 4, MPI_DOUBLE, MPI_SUM, 2, MPI_COMM_WORLD);
	sum += (long)all[0];
	MPI_Gather(out, 2, MPI_INT, in, 2, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Gather(rank ? out : MPI_IN_PLACE, 2, MPI_INT, in, 2, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Gatherv(out, rank + 1, MPI_INT, in, n, at, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Scatter(out, 6, MPI_INT, in, 6, MPI_INT, 3, MPI_COMM_WORLD);
	MPI_Allgather(out, 5, MPI_INT, in, 5, MPI_INT, MPI_COMM_WORLD);
	MPI_Allgatherv(out, rank + 1, MPI_INT, in, n, at, MPI_INT, MPI_COMM_WORLD);
	add_ints(in, 10);
	MPI_Alltoall(out, 2, MPI_INT, in, 2, MPI_INT, MPI_COMM_WORLD);
	MPI_Alltoallv(out, ones, each, MPI_INT, in, ones, each, MPI_INT, MPI_COMM_WORLD);
	add_ints(in, 4);
	MPI_Reduce_scatter(out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Scan(many, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	sum += (long)all[0];
	MPI_Iallreduce(many, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	wait_for_a_late_message();
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Visible for loader.c. */
__attribute__((visibility("default"))) int main(int argc, char **argv)
{
	int provided, class = 0, error, length = 0;
	char text[MPI_MAX_ERROR_STRING];

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	left = (rank + RANKS - 1) % RANKS;
	right = (rank + 1) % RANKS;
	send_and_receive();
	complete_each_way();
	call_from_threads(provided);
	call_collectives();
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	error = MPI_Send(&rank, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
	MPI_Error_class(error, &class);
	MPI_Error_string(error, text, &length);
	/* One write, because ranks share the output, and MPICH does not buffer it. */
	printf("rank %d sum %ld, rank 99: %s\ncounted\n", rank, sum,
	       class == MPI_ERR_RANK && length ? "refused" : "not refused");
	fflush(stdout);
	while (argc > 1 && access(argv[1], F_OK))
		usleep(10000);
	MPI_Finalize();
	return 0;
}
