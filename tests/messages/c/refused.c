/* Long messages where the kernel refuses a system call, as containers do:
 *
 *   refused NODE PORT PEER_NODE PEER_PORT send
 *   refused NODE PORT PEER_NODE PEER_PORT process_vm_readv|futex_waitv
 *
 * The second one receives, and is not allowed this call. It prints how the messages came. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <tieline_mq.h>

#define LENGTH 300000
#define MESSAGES 5
#define FUTEX_WAITV 449

static void must(int code, const char *what) {
    if (code != TIELINE_MQ_OK) {
        fprintf(stderr, "refused: %s: %s\n", what, tieline_mq_error());
        exit(1);
    }
}

/* From now on the call returns EPERM. */
static int refuse(uint32_t call) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static unsigned char byte_of(int message, size_t at) {
    return (unsigned char)(at * 31 + (at >> 8) + (size_t)message);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        return 2;
    }
    int sends = strcmp(argv[5], "send") == 0;
    if (!sends && refuse(strcmp(argv[5], "futex_waitv") == 0 ? FUTEX_WAITV : (uint32_t)SYS_process_vm_readv)) {
        perror("refused: seccomp");
        return 3;
    }
    tieline_mq_options options = TIELINE_MQ_OPTIONS_INIT;
    options.node = (uint32_t)atoi(argv[1]);
    options.port = (uint32_t)atoi(argv[2]);
    options.fetch = TIELINE_MQ_FETCH_READ;
    tieline_mq *queue;
    uint32_t peer;
    must(tieline_mq_open(&options, &queue), "open");
    must(tieline_mq_peer(queue, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), 10000, &peer), "peer");
    unsigned char *bytes = malloc(LENGTH);
    if (bytes == NULL) {
        return 1;
    }
    for (int message = 0; message < MESSAGES; message++) {
        if (sends) {
            for (size_t at = 0; at < LENGTH; at++) {
                bytes[at] = byte_of(message, at);
            }
            must(tieline_mq_send(queue, peer, 1, bytes, LENGTH), "send");
            continue;
        }
        memset(bytes, 0, LENGTH);
        must(tieline_mq_recv(queue, peer, 1, 0, bytes, LENGTH, 20000, NULL), "recv");
        for (size_t at = 0; at < LENGTH; at++) {
            if (bytes[at] != byte_of(message, at)) {
                fprintf(stderr, "refused: message %d has a wrong byte at %zu\n", message, at);
                return 1;
            }
        }
    }
    tieline_mq_counters counters = {.size = sizeof counters};
    must(tieline_mq_get_counters(queue, &counters), "counters");
    if (!sends) {
        printf("read %llu, in parts %llu\n", (unsigned long long)counters.read, (unsigned long long)counters.in_parts);
    }
    must(tieline_mq_close(queue, 10000), "close");
    free(bytes);
    return 0;
}
