/* Tagged messages between two processes through a provider of libfabric: what an MPI does, and nothing else.
 *
 *   fi PROVIDER CPU0 CPU1 echo BYTES COUNT
 *   fi PROVIDER CPU0 CPU1 stream BYTES COUNT WINDOW TAGS BUFFERS
 *
 * The program starts the second process itself. It prints half the time of a round trip in ns, or the time of all
 * messages in ns until the receiver has confirmed the last one. */
#define _GNU_SOURCE
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAG 17
#define CONFIRMED 16
#define WARM_UP_PART 16
#define WINDOW_MAX 1024
#define NAME_MAX_BYTES 256

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static fi_addr_t peer;
/* One for each operation under way, for providers that keep something there. */
static struct fi_context2 contexts[WINDOW_MAX + 2];

static void must(const char *what, ssize_t result) {
    if (result != 0) {
        fprintf(stderr, "fi: %s: %s\n", what, fi_strerror((int)-result));
        exit(3);
    }
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must("sched_setaffinity", sched_setaffinity(0, sizeof set, &set));
}

static void open_all(const char *provider) {
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
    if (hints == NULL) exit(4);
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
    must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    must("fi_enable", fi_enable(ep));
    fi_freeinfo(hints);
}

static void meet(int fd) {
    char own[NAME_MAX_BYTES] = {0}, other[NAME_MAX_BYTES];
    size_t length = sizeof own;
    must("fi_getname", fi_getname(&ep->fid, own, &length));
    if (write(fd, own, sizeof own) != sizeof own || recv(fd, other, sizeof other, MSG_WAITALL) != sizeof other) {
        must("the other process", -FI_EIO);
    }
    if (fi_av_insert(av, other, 1, &peer, 0, NULL) != 1) must("fi_av_insert", -FI_EINVAL);
}

/* Waits until so many operations have ended. */
static void ended(int count) {
    struct fi_cq_tagged_entry entries[16];
    while (count > 0) {
        ssize_t got = fi_cq_read(cq, entries, count < 16 ? (size_t)count : 16);
        if (got > 0) {
            count -= (int)got;
        } else if (got != -FI_EAGAIN) {
            must("fi_cq_read", got);
        }
    }
}

/* Without room the provider needs a turn of progress: one that returns no completion. */
static void again(const char *what, ssize_t result) {
    if (result != -FI_EAGAIN) must(what, result);
    fi_cq_read(cq, NULL, 0);
}

static void begin_send(void *bytes, size_t length, uint64_t tag, int at) {
    ssize_t sent;
    while ((sent = fi_tsend(ep, bytes, length, NULL, peer, tag, &contexts[at])) != 0) again("fi_tsend", sent);
}

static void begin_receive(void *bytes, size_t length, uint64_t tag, int at) {
    ssize_t begun;
    while ((begun = fi_trecv(ep, bytes, length, NULL, FI_ADDR_UNSPEC, tag, 0, &contexts[at])) != 0) {
        again("fi_trecv", begun);
    }
}

/* Short ones need no completion. */
static void send_one(void *bytes, size_t length, uint64_t tag) {
    ssize_t sent;
    if (length > info->tx_attr->inject_size) {
        begin_send(bytes, length, tag, WINDOW_MAX);
        ended(1);
        return;
    }
    while ((sent = fi_tinject(ep, bytes, length, peer, tag)) != 0) again("fi_tinject", sent);
}

static void receive_one(void *bytes, size_t length, uint64_t tag) {
    begin_receive(bytes, length, tag, WINDOW_MAX + 1);
    ended(1);
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double echo(int rank, char *bytes, size_t length, long rounds) {
    double began = 0;
    long warm_up = rounds / WARM_UP_PART;
    for (long round = 0; round < warm_up + rounds; round++) {
        if (round == warm_up) began = now_ns();
        if (rank == 0) send_one(bytes, length, TAG);
        receive_one(bytes, length, TAG);
        if (rank != 0) send_one(bytes, length, TAG);
    }
    return (now_ns() - began) / (2.0 * (double)rounds);
}

struct stream {
    char *bytes;
    size_t length;
    long count;
    int window, tags, buffers;
};

static void transfer(int rank, const struct stream *stream, long count) {
    char last = 0;
    for (long sent = 0; sent < count; sent += stream->window) {
        int some = count - sent < stream->window ? (int)(count - sent) : stream->window;
        for (int at = 0; at < some; at++) {
            long number = sent + at;
            char *bytes = stream->bytes + (size_t)(number % stream->buffers) * stream->length;
            uint64_t tag = TAG + (uint64_t)(number % stream->tags);
            if (rank == 0) {
                begin_send(bytes, stream->length, tag, at);
            } else {
                begin_receive(bytes, stream->length, tag, at);
            }
        }
        ended(some);
    }
    if (rank == 0) {
        receive_one(&last, 1, CONFIRMED);
    } else {
        send_one(&last, 1, CONFIRMED);
    }
}

static double time_of_stream(int rank, const struct stream *stream) {
    transfer(rank, stream, stream->count / WARM_UP_PART + 1);
    double began = now_ns();
    transfer(rank, stream, stream->count);
    return now_ns() - began;
}

static int argument(int argc, char **argv, int at, int otherwise) {
    return at < argc ? atoi(argv[at]) : otherwise;
}

int main(int argc, char **argv) {
    int fds[2], rank;
    struct stream stream = {
        .length = (size_t)argument(argc, argv, 5, 0),
        .count = argc > 6 ? atol(argv[6]) : 0,
        .window = argument(argc, argv, 7, 1),
        .tags = argument(argc, argv, 8, 1),
        .buffers = argument(argc, argv, 9, 1),
    };
    if (argc < 7 || stream.window < 1 || stream.window > WINDOW_MAX || stream.tags < 1 || stream.buffers < 1 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
        return 2;
    }
    /* libfabric is initialised in each process by itself. */
    pid_t child = fork();
    if (child < 0) return 4;
    rank = child == 0;
    close(fds[!rank]);
    pin(atoi(argv[2 + rank]));
    size_t all = stream.length * (size_t)stream.buffers + 1;
    stream.bytes = malloc(all);
    if (stream.bytes == NULL) return 4;
    memset(stream.bytes, 1, all);
    open_all(argv[1]);
    meet(fds[rank]);
    double ns = strcmp(argv[4], "echo") == 0 ? echo(rank, stream.bytes, stream.length, stream.count)
                                             : time_of_stream(rank, &stream);
    /* Neither ends while the other one may still need it. */
    char word = 0;
    if (write(fds[rank], &word, 1) != 1 || read(fds[rank], &word, 1) != 1) return 5;
    if (rank == 0) printf("%.3f\n", ns);
    fi_close(&ep->fid);
    fi_close(&cq->fid);
    fi_close(&av->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    if (rank == 0) {
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) return 6;
    }
    return 0;
}
