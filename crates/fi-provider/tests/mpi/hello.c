/* Each process says hello, and a word goes round once. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, word;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        word = 1;
        MPI_Send(&word, 1, MPI_INT, 1 % size, 0, MPI_COMM_WORLD);
    }
    MPI_Recv(&word, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("hello from %d of %d, word %d\n", rank, size, word);
    if (rank != 0) {
        word++;
        MPI_Send(&word, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return word != (rank == 0 ? size : rank + 1);
}
