/* Sends random messages between all processes and checks each byte, each status and the order: run it under any MPI.
 *
 * usage: random ROUNDS SEED
 *
 * All processes draw the same plan of a round (who sends what to whom) and each draws how it receives its part: by exact source and
 * tag, by wildcards, by probing, before or after the messages arrive. Ends with status 0 and a line "ok" if all was right. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, HEAD = 24, TAGS = 4 };

struct message { int from, to, tag, sequence, is_synchronous; size_t len; };

static int rank, size;
static long checked_bytes, checked_messages;

static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void fail(const char *what, long a, long b) {
    fprintf(stderr, "rank %d: %s (%ld, %ld)\n", rank, what, a, b);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static size_t length(uint64_t *state) {
    switch (next(state) % 10) {
    case 0: return 0;
    case 1: return next(state) % 9;
    case 2: case 3: return next(state) % 100;
    case 4: return 16384 - 30 + next(state) % 60;
    case 5: return next(state) % 20000;
    case 6: return next(state) % 200000;
    case 7: return next(state) % 12 == 0 ? next(state) % (4 << 20) + 1 : 4096;
    default: return next(state) % 4000;
    }
}

/* The bytes of a message: a head that says which it is, as far as it reaches, and numbers made from it. */
static unsigned char byte_of(const struct message *m, size_t at) {
    uint32_t head[6] = {(uint32_t)m->from, (uint32_t)m->to, (uint32_t)m->tag, (uint32_t)m->sequence, (uint32_t)m->len, 0x746c6669};
    if (at < HEAD) return ((unsigned char *)head)[at];
    uint64_t x = (uint64_t)m->from * 1000003 + (uint64_t)m->sequence * 7919 + at / 8;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
    return (unsigned char)(x >> (8 * (at % 8)));
}

static unsigned char *make(const struct message *m) {
    unsigned char *bytes = malloc(m->len + 1);
    for (size_t at = 0; at < m->len; at++) bytes[at] = byte_of(m, at);
    bytes[m->len] = 0xee;
    return bytes;
}

static void check(const struct message *m, const unsigned char *bytes, const MPI_Status *status) {
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (status->MPI_SOURCE != m->from) fail("wrong source", status->MPI_SOURCE, m->from);
    if (status->MPI_TAG != m->tag) fail("wrong tag", status->MPI_TAG, m->tag);
    if ((size_t)count != m->len) fail("wrong length", count, (long)m->len);
    for (size_t at = 0; at < m->len; at++)
        if (bytes[at] != byte_of(m, at)) fail("wrong byte at", (long)at, bytes[at]);
    if (bytes[m->len] != 0xdd) fail("written beyond the end", (long)m->len, bytes[m->len]);
    checked_bytes += (long)m->len;
    checked_messages++;
}

/* The first message of those for this process that is not taken yet and that such a receive may get. */
static struct message *expected(struct message **mine, int count, int source, int tag) {
    for (int i = 0; i < count; i++)
        if (mine[i] && (source == MPI_ANY_SOURCE || mine[i]->from == source) && (tag == MPI_ANY_TAG || mine[i]->tag == tag)) {
            struct message *m = mine[i];
            mine[i] = NULL;
            return m;
        }
    fail("a message too many from", source, tag);
    return NULL;
}

static void round_of(uint64_t *plan, uint64_t *own) {
    struct message messages[MOST];
    struct message *mine[MOST];
    int count = 1 + (int)(next(plan) % MOST), for_me = 0;
    size_t longest = 0;
    for (int i = 0; i < count; i++) {
        struct message *m = &messages[i];
        m->from = (int)(next(plan) % (uint64_t)size);
        m->to = (int)(next(plan) % (uint64_t)size);
        m->tag = (int)(next(plan) % TAGS);
        m->sequence = i;
        m->is_synchronous = m->from != m->to && next(plan) % 8 == 0;
        m->len = length(plan);
        if (m->to == rank) { mine[for_me++] = m; if (m->len > longest) longest = m->len; }
    }
    int mode = (int)(next(own) % 5), receives_first = (int)(next(own) % 2);
    if (mode != 0 && longest > 300000) mode = 4;
    if (mode == 4) receives_first = 0;
    MPI_Request requests[2 * MOST];
    unsigned char *sent[MOST], *received[MOST];
    struct message order[MOST];
    int posted = 0, sends = 0;
    for (int part = 0; part < 2; part++) {
        if (part == receives_first) {
            for (int i = 0; i < count; i++) {
                struct message *m = &messages[i];
                if (m->from != rank) continue;
                sent[sends] = make(m);
                (m->is_synchronous ? MPI_Issend : MPI_Isend)(sent[sends], (int)m->len, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, &requests[MOST + sends]);
                sends++;
            }
            continue;
        }
        if (mode == 4 && next(own) % 2) usleep((unsigned)(next(own) % 300));
        for (int i = 0; i < for_me; i++) {
            int source = MPI_ANY_SOURCE, tag = MPI_ANY_TAG;
            size_t room = longest;
            if (mode == 0) {
                /* Exact, in a random order of the pairs of source and tag; of a pair in the order of sending. */
                int which = (int)(next(own) % (uint64_t)for_me);
                while (!mine[which]) which = (which + 1) % for_me;
                order[i] = *expected(mine, for_me, mine[which]->from, mine[which]->tag);
                source = order[i].from, tag = order[i].tag, room = order[i].len;
            } else if (mode == 2) {
                source = mine[i]->from;
            } else if (mode == 3) {
                tag = mine[i]->tag;
            } else if (mode == 4) {
                MPI_Status probed;
                MPI_Message handle;
                int is_matched = next(own) % 2 == 0, len;
                MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &probed);
                MPI_Get_count(&probed, MPI_BYTE, &len);
                room = (size_t)len, source = probed.MPI_SOURCE, tag = probed.MPI_TAG;
                /* Open MPI 4.1.4 over libfabric never ends a synchronous send that MPI_Mrecv takes (ompi_mtl_ofi_mrecv_callback). */
                order[i] = *expected(mine, for_me, source, tag);
                is_matched &= !order[i].is_synchronous;
                if (is_matched) MPI_Mprobe(source, tag, MPI_COMM_WORLD, &handle, &probed);
                received[i] = malloc(room + 1);
                memset(received[i], 0xdd, room + 1);
                if (is_matched) MPI_Imrecv(received[i], len, MPI_BYTE, &handle, &requests[posted++]);
                else MPI_Irecv(received[i], len, MPI_BYTE, source, tag, MPI_COMM_WORLD, &requests[posted++]);
                continue;
            }
            received[i] = malloc(room + 1);
            memset(received[i], 0xdd, room + 1);
            MPI_Irecv(received[i], (int)room, MPI_BYTE, source, tag, MPI_COMM_WORLD, &requests[posted++]);
        }
    }
    MPI_Status statuses[MOST];
    /* Only in order of posting is it known which message each receive gets. */
    MPI_Waitall(posted, requests, statuses);
    for (int i = 0; i < for_me; i++) {
        if (mode != 0 && mode != 4)
            order[i] = *expected(mine, for_me, statuses[i].MPI_SOURCE, mode == 3 ? statuses[i].MPI_TAG : MPI_ANY_TAG);
        check(&order[i], received[i], &statuses[i]);
        free(received[i]);
    }
    MPI_Waitall(sends, requests + MOST, MPI_STATUSES_IGNORE);
    for (int i = 0; i < sends; i++) free(sent[i]);
}

static void corner_cases(void) {
    int peer = rank ^ 1;
    if (peer < size) {
        /* Too little room is an error of the receive alone, expected or not, short or long. */
        for (int turn = 0; turn < 4; turn++) {
            int len = turn & 1 ? 1 << 20 : 100, is_late = turn & 2, error = 0;
            unsigned char *out = calloc(1, (size_t)len), *in = malloc((size_t)len);
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Status status;
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            memset(in, 0xdd, (size_t)len);
            if (!is_late) MPI_Irecv(in, len / 2, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &request);
            MPI_Request send;
            MPI_Isend(out, len, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &send);
            if (is_late) {
                int flag = 0;
                while (!flag) MPI_Iprobe(peer, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
                MPI_Irecv(in, len / 2, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &request);
            }
            error = MPI_Wait(&request, &status);
            MPI_Error_class(error, &error);
            if (error != MPI_ERR_TRUNCATE) fail("no error of too little room", error, turn);
            /* Open MPI 4.1.4 itself writes on over shared memory (ob1, vader): RANDOM_LENIENT leaves this out. */
            if (in[len / 2] != 0xdd && !getenv("RANDOM_LENIENT")) fail("written beyond the room", turn, in[len / 2]);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
            free(out), free(in);
        }
    }
    MPI_Request request;
    MPI_Status status;
    int flag, word = 0;
    MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    if (!flag) fail("not cancelled", 0, 0);
    MPI_Datatype strided;
    MPI_Type_vector(1000, 3, 7, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    int *out = calloc(7000, sizeof(int)), *in = calloc(7000, sizeof(int)), next_rank = (rank + 1) % size;
    for (int i = 0; i < 7000; i++) out[i] = rank * 10000 + i;
    MPI_Sendrecv(out, 1, strided, next_rank, 6, in, 1, strided, (rank + size - 1) % size, 6, MPI_COMM_WORLD, &status);
    for (int i = 0; i < 6996; i++)
        if (in[i] != (i % 7 < 3 ? (rank + size - 1) % size * 10000 + i : 0)) fail("wrong word of a strided type", i, in[i]);
    MPI_Type_free(&strided), free(out), free(in);
    long sum = 0, one = rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (long)size * (size + 1) / 2) fail("wrong sum", sum, size);
    int n = 50000, *a = malloc((size_t)(n * size) * sizeof(int)), *b = malloc((size_t)(n * size) * sizeof(int));
    for (int i = 0; i < n * size; i++) a[i] = rank * 7 + i;
    MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            if (b[r * n + i] != r * 7 + rank * n + i) fail("wrong word of all to all", r, i);
    MPI_Bcast(a, n * size, MPI_INT, size - 1, MPI_COMM_WORLD);
    for (int i = 0; i < n * size; i++)
        if (a[i] != (size - 1) * 7 + i) fail("wrong word of a broadcast", i, a[i]);
    free(a), free(b);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    uint64_t plan = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, own = plan * 31 + (uint64_t)rank + 1;
    corner_cases();
    for (int i = 0; i < rounds; i++) {
        round_of(&plan, &own);
        /* A wildcard of a process that is ahead must not take what belongs to the next round. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    long mine[2] = {checked_messages, checked_bytes}, all[2];
    MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("ok: %d processes, %d rounds, %ld messages, %ld bytes, each checked\n", size, rounds, all[0], all[1]);
    MPI_Finalize();
    return 0;
}
