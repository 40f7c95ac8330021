/* A thread that closes a number and puts another descriptor there, again and again, while another one uses connections for the first time: what it has put there stays there,
   and nobody else writes to it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAIRS = 450 };

static atomic_int over;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(1);
    }
}

static int pairs[PAIRS][2];

static void *uses(void *nothing)
{
    (void)nothing;
    for (int round = 0; round < 40; round++)
        for (int pair = 0; pair < PAIRS; pair++) {
            char byte = 'x';
            int one = pairs[pair][0], other = pairs[pair][1];
            must(write(one, &byte, 1) == 1 && write(other, &byte, 1) == 1, "write");
            must(read(one, &byte, 1) == 1 && read(other, &byte, 1) == 1, "read");
        }
    atomic_store(&over, 1);
    return NULL;
}

int main(void)
{
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 99) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    int file = memfd_create("kept", 0);
    must(file >= 0 && ftruncate(file, 1 << 20) == 0, "memfd_create");
    struct stat kept, found;
    must(fstat(file, &kept) == 0, "fstat");
    pthread_t thread;
    int number = dup(file), rounds = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        pairs[pair][0] = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(pairs[pair][0], (struct sockaddr *)&address, sizeof address) == 0, "connect");
        pairs[pair][1] = accept(listener, NULL, NULL);
        must(pairs[pair][1] >= 0, "accept");
    }
    must(pthread_create(&thread, NULL, uses, NULL) == 0, "pthread_create");
    for (; !atomic_load(&over); rounds++) {
        close(number);
        must(dup2(file, number) == number, "dup2");
        for (volatile int moment = 0; moment < rounds % 64 * 50; moment++)
            ;
        if (fstat(number, &found) != 0 || found.st_ino != kept.st_ino || found.st_size != kept.st_size) {
            printf("after %d rounds the number is something else: %s\n", rounds, strerror(errno));
            return 1;
        }
    }
    pthread_join(thread, NULL);
    static char bytes[1 << 20];
    must(pread(file, bytes, sizeof bytes, 0) == sizeof bytes, "pread");
    for (size_t at = 0; at < sizeof bytes; at++)
        must(bytes[at] == 0, "somebody has written to the file");
    printf("the number was what was put there, %d times\n", rounds);
    return 0;
}
