/* Message queues of tieline: messages matched by source and tag, between end points named by node and port.
 *
 * Link with -ltieline_mq (pkg-config: tieline-mq). docs/messages.md has a whole program.
 *
 * Every function returns TIELINE_MQ_OK or another code of `enum tieline_mq_code`; tieline_mq_error() then says
 * what failed, why, and what to do next. Time limits are in milliseconds: 0 does not wait, a negative one waits
 * without end.
 *
 * Memory that is given to an operation belongs to it until the operation has ended: do not read, write or free
 * it before.
 *
 * No function is a cancellation point of pthread_cancel(). A thread that can be cancelled at any time is cancelled
 * when its call returns.
 */
#ifndef TIELINE_MQ_H
#define TIELINE_MQ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tieline_mq_code {
    TIELINE_MQ_OK = 0,
    TIELINE_MQ_INVALID = 1,         /* an argument is wrong */
    TIELINE_MQ_TRUNCATED = 2,       /* the message was longer than the receive, which has its beginning */
    TIELINE_MQ_PEER_GONE = 3,       /* the peer has ended or closed its queue */
    TIELINE_MQ_PEER_WRONG = 4,      /* the peer broke the protocol; nothing more is exchanged with it */
    TIELINE_MQ_NO_SUCH_PEER = 5,    /* no number that tieline_mq_peer() has returned */
    TIELINE_MQ_CANCELLED = 6,       /* the receive was cancelled before a message came */
    TIELINE_MQ_NO_SUCH_REQUEST = 7, /* no such request, message, operation or group, or its end was returned before */
    TIELINE_MQ_TIMED_OUT = 8,       /* not within the time limit; what was begun by an i-call goes on */
    TIELINE_MQ_NO_RESOURCES = 9,    /* memory, descriptors or threads are missing */
    TIELINE_MQ_NO_MANAGER = 10,     /* no node manager can be reached */
    TIELINE_MQ_PORT_IN_USE = 11,
    TIELINE_MQ_NOT_FOUND = 12,      /* no queue at that port of that node */
    TIELINE_MQ_OTHER_HOST = 13,     /* the node is on another host, and no link for data leads there */
    TIELINE_MQ_DENIED = 14,         /* the queue belongs to another user */
    TIELINE_MQ_BUSY = 15,           /* two threads at once in a queue that was not opened for that */
    TIELINE_MQ_SYSTEM = 16,         /* anything else */
    TIELINE_MQ_GROUP_BROKEN = 17,   /* a call of the group failed, here or at another member */
    TIELINE_MQ_MISMATCH = 18        /* another member of the group made another call */
};

/* An end point. Without `threads` (see the options) one thread at a time may use it. In a child of fork() every call
 * returns TIELINE_MQ_INVALID, and tieline_mq_close() leaves the parent's queue alone; the child may open its own. */
typedef struct tieline_mq tieline_mq;

/* An operation that has begun. Its end is returned once, by test, wait, wait_any or wait_all. */
typedef uint64_t tieline_mq_request;

/* A message that was set aside by tieline_mq_mprobe(). */
typedef uint64_t tieline_mq_message;

/* An operation that can be started again and again. */
typedef uint64_t tieline_mq_persistent;

/* As source: any peer. */
#define TIELINE_MQ_ANY_SOURCE UINT32_MAX
/* As ignored bits: any tag. */
#define TIELINE_MQ_ANY_TAG UINT64_MAX

/* How messages that are longer than eager_max_bytes come: */
#define TIELINE_MQ_FETCH_MEASURED 0 /* in the way of the two below that was found to be faster */
#define TIELINE_MQ_FETCH_READ 1     /* the receiver copies them out of the sender's memory (cross-memory attach) */
#define TIELINE_MQ_FETCH_IN_PARTS 2 /* through the ring: the sender copies in while the receiver copies out */

/* 0 means the default everywhere but in `size` and `port`; TIELINE_MQ_EAGER_MAX_BYTES, TIELINE_MQ_RING_BYTES and
 * TIELINE_MQ_FETCH in the environment change the defaults (of `fetch` also where it is TIELINE_MQ_FETCH_MEASURED,
 * which is 0). A variable that is not understood is an error of tieline_mq_open: TIELINE_MQ_INVALID. */
typedef struct tieline_mq_options {
    size_t size;                    /* sizeof(tieline_mq_options) */
    uint32_t node;                  /* a node of this host; default: the only one, or what TIELINE_NODE says */
    uint32_t port;                  /* unique on its node */
    uint32_t threads;               /* not 0: several threads use the queue at once; calls take a lock */
    uint32_t fetch;                 /* how long messages come: TIELINE_MQ_FETCH_... */
    size_t ring_bytes;              /* memory of the ring of one direction between two queues: 4 KiB to 1 GiB */
    size_t eager_max_bytes;         /* longest message that is sent before its receiver asks for it; default: 8 KiB,
                                     * and longer ones that fit half of the ring where that is measured to cost less */
    size_t cut_bytes;               /* longest part of such a message in one record of the ring */
    size_t unexpected_messages;     /* messages that are kept before they are received, of all peers */
    size_t unexpected_bytes;        /* their bytes */
    size_t peer_unexpected_messages; /* the same of one peer: beyond, it waits */
    size_t peer_unexpected_bytes;
} tieline_mq_options;

#define TIELINE_MQ_OPTIONS_INIT {sizeof(tieline_mq_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* How an operation has ended. */
typedef struct tieline_mq_status {
    uint32_t code;   /* enum tieline_mq_code */
    uint32_t source; /* of a receive and a probe: the sender */
    uint64_t tag;    /* its tag */
    uint64_t length; /* the length of the whole message in bytes, also where it was truncated */
} tieline_mq_status;

/* How often each path was taken. */
typedef struct tieline_mq_counters {
    size_t size;            /* sizeof(tieline_mq_counters), set by the caller */
    uint64_t eager;         /* sent at once */
    uint64_t offered;       /* offered to the receiver (rendezvous) */
    uint64_t read;          /* received by cross-memory attach */
    uint64_t in_parts;      /* offered messages received through the ring */
    uint64_t unexpected;    /* messages that came before their receives */
    uint64_t left;          /* times that messages were left in a ring because a limit was reached */
    uint64_t kept_messages; /* unexpected messages that are kept now */
    uint64_t kept_bytes;
} tieline_mq_counters;

/* What the last call of this thread that failed says; valid until its next call that fails. */
const char *tieline_mq_error(void);
/* A code in words. */
const char *tieline_mq_code_text(int code);

int tieline_mq_open(const tieline_mq_options *options, tieline_mq **queue);
/* Lets sends end and tells the peers, for that time at most (TIELINE_MQ_TIMED_OUT); then closes in any case.
 * Memory of sends that have not ended may still be read by peers. */
int tieline_mq_close(tieline_mq *queue, int64_t timeout_ms);
int tieline_mq_address(tieline_mq *queue, uint32_t *node, uint32_t *port);
/* The number of the queue at a port of a node, which may be on another host. Waits until it is there. */
int tieline_mq_peer(tieline_mq *queue, uint32_t node, uint32_t port, int64_t timeout_ms, uint32_t *peer);

/* Returns when the memory may be used again, however long that takes: a peer that stops holds it up, and two that send
 * long messages to each other first wait for ever. Use isend and wait for a time limit. */
int tieline_mq_send(tieline_mq *queue, uint32_t peer, uint64_t tag, const void *bytes, size_t length);
/* Receives, or gives up after that time; then the memory is the caller's. `ignore`: bits of the tag that do not
 * count. `status` may be NULL. */
int tieline_mq_recv(tieline_mq *queue, uint32_t source, uint64_t tag, uint64_t ignore, void *bytes,
                    size_t length, int64_t timeout_ms, tieline_mq_status *status);

int tieline_mq_isend(tieline_mq *queue, uint32_t peer, uint64_t tag, const void *bytes, size_t length,
                     tieline_mq_request *request);
/* The request ends when the receive has begun; then the memory may be used again, too. */
int tieline_mq_issend(tieline_mq *queue, uint32_t peer, uint64_t tag, const void *bytes, size_t length,
                      tieline_mq_request *request);
int tieline_mq_isendv(tieline_mq *queue, uint32_t peer, uint64_t tag, const struct iovec *pieces, size_t count,
                      tieline_mq_request *request);
int tieline_mq_irecv(tieline_mq *queue, uint32_t source, uint64_t tag, uint64_t ignore, void *bytes,
                     size_t length, tieline_mq_request *request);
int tieline_mq_irecvv(tieline_mq *queue, uint32_t source, uint64_t tag, uint64_t ignore,
                      const struct iovec *pieces, size_t count, tieline_mq_request *request);

/* These return the code of the operation too, when it has ended. */
int tieline_mq_test(tieline_mq *queue, tieline_mq_request request, int *ended, tieline_mq_status *status);
int tieline_mq_wait(tieline_mq *queue, tieline_mq_request request, int64_t timeout_ms,
                    tieline_mq_status *status);
int tieline_mq_wait_any(tieline_mq *queue, const tieline_mq_request *requests, size_t count,
                        int64_t timeout_ms, size_t *index, tieline_mq_status *status);
/* The first code of an operation that failed; each has its own in `statuses` (`count` of them, or NULL). After
 * TIELINE_MQ_TIMED_OUT, and if a request is in the list twice, the end of none has been returned. */
int tieline_mq_wait_all(tieline_mq *queue, const tieline_mq_request *requests, size_t count,
                        int64_t timeout_ms, tieline_mq_status *statuses);
/* Gives up a receive that has no message yet; of a send, and where it is too late, nothing happens. The end is
 * returned by test or wait in any case, and says which it was. */
int tieline_mq_cancel(tieline_mq *queue, tieline_mq_request request);
/* Lets everything go on that can; test and wait do so too. */
int tieline_mq_progress(tieline_mq *queue);

/* What the message says of itself that a receive would get now. */
int tieline_mq_probe(tieline_mq *queue, uint32_t source, uint64_t tag, uint64_t ignore, int64_t timeout_ms,
                     tieline_mq_status *status);
/* The same, and sets it aside: only tieline_mq_imrecv() gets it. */
int tieline_mq_mprobe(tieline_mq *queue, uint32_t source, uint64_t tag, uint64_t ignore, int64_t timeout_ms,
                      tieline_mq_message *message, tieline_mq_status *status);
int tieline_mq_imrecv(tieline_mq *queue, tieline_mq_message message, void *bytes, size_t length,
                      tieline_mq_request *request);

int tieline_mq_send_init(tieline_mq *queue, uint32_t peer, uint64_t tag, const void *bytes, size_t length,
                         tieline_mq_persistent *operation);
int tieline_mq_recv_init(tieline_mq *queue, uint32_t source, uint64_t tag, uint64_t ignore, void *bytes,
                         size_t length, tieline_mq_persistent *operation);
int tieline_mq_start(tieline_mq *queue, tieline_mq_persistent operation);
int tieline_mq_complete(tieline_mq *queue, tieline_mq_persistent operation, int64_t timeout_ms,
                        tieline_mq_status *status);
/* Gives up a receive that is under way and has no message yet. complete returns its end in any case. */
int tieline_mq_stop(tieline_mq *queue, tieline_mq_persistent operation);
/* Not while it is under way (TIELINE_MQ_BUSY). */
int tieline_mq_free(tieline_mq *queue, tieline_mq_persistent operation);

int tieline_mq_get_counters(tieline_mq *queue, tieline_mq_counters *counters);

/* Collective operations. All members of a group make the same calls in the same order, each with its own queue,
 * with the same lengths, types and roots. Each call ends by its own time limit; a difference is noticed by members
 * that exchange a message. After a call that failed (but for a wrong pointer, type or operation), the group is
 * unusable for all: make a new one with another context. No receive of the program gets a group's message. Not in
 * queues that were opened with `threads`. */
typedef uint64_t tieline_mq_group;

enum tieline_mq_type {
    TIELINE_MQ_INT32 = 0,
    TIELINE_MQ_INT64 = 1,
    TIELINE_MQ_UINT32 = 2,
    TIELINE_MQ_UINT64 = 3,
    TIELINE_MQ_FLOAT = 4,
    TIELINE_MQ_DOUBLE = 5
};

/* Sums and products of integers wrap around. The last three are of integers only. */
enum tieline_mq_operation {
    TIELINE_MQ_SUM = 0,
    TIELINE_MQ_PRODUCT = 1,
    TIELINE_MQ_MIN = 2,
    TIELINE_MQ_MAX = 3,
    TIELINE_MQ_AND = 4,
    TIELINE_MQ_OR = 5,
    TIELINE_MQ_XOR = 6
};

/* A group of these peers, in the order of their ranks, this queue among them (by tieline_mq_peer() of its own
 * address). Groups that have two members in common have different contexts. Nothing is sent. */
int tieline_mq_group_create(tieline_mq *queue, const uint32_t *peers, size_t count, uint32_t context,
                            tieline_mq_group *group);
int tieline_mq_group_free(tieline_mq *queue, tieline_mq_group group);
/* Returns when all members have called it. */
int tieline_mq_barrier(tieline_mq *queue, tieline_mq_group group, int64_t timeout_ms);
/* Copies the root's bytes to all members. */
int tieline_mq_broadcast(tieline_mq *queue, tieline_mq_group group, size_t root, void *bytes, size_t length,
                         int64_t timeout_ms);
/* Combines the values of all members, place by place; the result is at the root, the values of others stay. */
int tieline_mq_reduce(tieline_mq *queue, tieline_mq_group group, size_t root, void *values, size_t count,
                      uint32_t type, uint32_t operation, int64_t timeout_ms);
/* The same; the result is at all members, with the same bits. */
int tieline_mq_allreduce(tieline_mq *queue, tieline_mq_group group, void *values, size_t count, uint32_t type,
                         uint32_t operation, int64_t timeout_ms);
/* Gathers `length` bytes of each member at all members: `all` has room for that times the members. */
int tieline_mq_allgather(tieline_mq *queue, tieline_mq_group group, const void *mine, size_t length, void *all,
                         int64_t timeout_ms);
/* `length` bytes from each member to each: block i of `to` goes to rank i, block i of `from` comes from it. */
int tieline_mq_alltoall(tieline_mq *queue, tieline_mq_group group, const void *to, void *from, size_t length,
                        int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
