/* A thread writes messages to a number, short and long ones, while another one closes the number and makes another connection, which gets it. Each message
   goes to one connection, whole, and every message of which the writer was told that it was written arrives. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 150000, SHORT = 24 };

struct message {
    uint64_t number;
    uint32_t length;
    char bytes[LONG];
};

static struct sockaddr_in address = {.sin_family = AF_INET};
static atomic_int over;
/* Messages that have arrived, in memory that both processes have. */
static atomic_ulong *arrived;
static unsigned long written;

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(1);
    }
}

static uint32_t length_of(uint64_t number)
{
    return number % 7 == 3 ? LONG : number % 7 == 5 ? 20000 : SHORT;
}

static void fill(struct message *message, uint64_t number)
{
    message->number = number;
    message->length = length_of(number);
    for (uint32_t at = 0; at < message->length; at++)
        message->bytes[at] = (char)(at * 31 + number);
}

/* Whether so many bytes came; none at an end. */
static int came(int fd, char *to, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(fd, to + done, length - done);
        if (got == 0 && done == 0)
            return 0;
        must(got > 0, "an end within a message");
        done += got;
    }
    return 1;
}

static void *reads(void *which)
{
    int fd = (int)(intptr_t)which;
    struct message *message = malloc(sizeof *message), *wanted = malloc(sizeof *wanted);
    const size_t head = offsetof(struct message, bytes);
    while (came(fd, (char *)message, head)) {
        must(message->length == length_of(message->number), "no message begins here");
        must(came(fd, message->bytes, message->length), "a message without its bytes");
        fill(wanted, message->number);
        must(memcmp(wanted->bytes, message->bytes, message->length) == 0, "bytes of another message");
        atomic_fetch_add(arrived, 1);
        if (message->number % 11 == 0) {
            struct timespec moment = {0, 300000};
            nanosleep(&moment, NULL);
        }
    }
    close(fd);
    free(message);
    free(wanted);
    return NULL;
}

static void accepts(int listener, int connections)
{
    pthread_t threads[connections];
    for (int at = 0; at < connections; at++) {
        int fd = accept(listener, NULL, NULL);
        must(fd >= 0, "accept");
        must(pthread_create(&threads[at], NULL, reads, (void *)(intptr_t)fd) == 0, "pthread_create");
    }
    for (int at = 0; at < connections; at++)
        pthread_join(threads[at], NULL);
    _exit(0);
}

static void *writes(void *which)
{
    int fd = (int)(intptr_t)which;
    struct message *message = malloc(sizeof *message);
    for (uint64_t number = 0; !atomic_load(&over); number++) {
        fill(message, number);
        size_t length = offsetof(struct message, bytes) + message->length;
        ssize_t sent = send(fd, message, length, MSG_NOSIGNAL);
        if (sent == (ssize_t)length)
            written++;
        else
            must(sent < 0 && (errno == EBADF || errno == ENOTCONN || errno == EPIPE), "a part of a message");
    }
    free(message);
    return NULL;
}

int main(int argc, char **argv)
{
    int connections = argc > 1 ? atoi(argv[1]) : 200;
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 99) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    arrived = mmap(NULL, sizeof *arrived, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(arrived != MAP_FAILED, "mmap");
    pid_t child = fork();
    if (child == 0)
        accepts(listener, connections);
    close(listener);
    pthread_t writer;
    int number = -1;
    for (int at = 0; at < connections; at++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        must(fd >= 0, "socket");
        if (number < 0)
            number = fd;
        if (fd != number) {
            must(dup2(fd, number) == number && close(fd) == 0, "dup2");
            fd = number;
        }
        must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        if (at == 0)
            must(pthread_create(&writer, NULL, writes, (void *)(intptr_t)fd) == 0, "pthread_create");
        struct timespec moment = {0, at % 16 * 200000};
        nanosleep(&moment, NULL);
        close(fd);
    }
    atomic_store(&over, 1);
    pthread_join(writer, NULL);
    int said;
    must(waitpid(child, &said, 0) == child, "waitpid");
    if (said != 0)
        return 1;
    if (atomic_load(arrived) != written) {
        printf("%lu messages were written, %lu arrived\n", written, atomic_load(arrived));
        return 1;
    }
    printf("each of %s messages arrived whole\n", written > 100 ? "some hundred" : "a few");
    return 0;
}
