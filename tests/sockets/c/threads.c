/* Threads that open, use, replace and close descriptors at the same time, some of the same number. Every byte is checked. */
#include "say.h"

enum { THREADS = 4, ROUNDS = 300 };

static void *talk(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    long wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int ends[2];
        char out[256], in[256];
        tcp(ends);
        size_t length = 1 + (size_t)(rand_r(&random) % 255);
        memset(out, rand_r(&random), length);
        int copy = rand_r(&random) % 2 ? dup(ends[0]) : ends[0];
        wrong += send(copy, out, length, 0) != (ssize_t)length;
        wrong += recv(ends[1], in, length, MSG_WAITALL) != (ssize_t)length;
        wrong += memcmp(in, out, length) != 0;
        if (copy != ends[0])
            close(copy);
        close(ends[0]);
        wrong += read(ends[1], in, 1) != 0;
        close(ends[1]);
    }
    return (void *)wrong;
}

/* Replaces one number over and over, while others use it: each use meets one of the two. */
static int shared;
static volatile int done;
static void *replace(void *files)
{
    int *two = files;
    for (int round = 0; round < 20000; round++)
        dup2(two[round & 1], shared);
    done = 1;
    return NULL;
}

static void *use(void *unused)
{
    long wrong = 0;
    (void)unused;
    while (!done)
        wrong += write(shared, "x", 1) != 1;
    return (void *)wrong;
}

static void *fork_often(void *unused)
{
    long wrong = 0;
    (void)unused;
    for (int round = 0; round < 50; round++) {
        int status;
        pid_t child = round % 2 ? fork() : vfork();
        if (child == 0) {
            close(shared);
            _exit(7);
        }
        wrong += waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7;
    }
    return (void *)wrong;
}

static long all(pthread_t *threads, int count)
{
    long wrong = 0;
    for (int at = 0; at < count; at++) {
        void *result;
        pthread_join(threads[at], &result);
        wrong += (long)result;
    }
    return wrong;
}

int main(void)
{
    pthread_t threads[THREADS + 1];
    int two[2] = {open("/dev/null", O_WRONLY), open("/dev/zero", O_WRONLY)};
    shared = dup(two[0]);
    for (int at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, talk, (void *)(uintptr_t)(at + 1));
    pthread_create(&threads[THREADS], NULL, fork_often, NULL);
    say("wrong: %ld\n", all(threads, THREADS + 1));
    pthread_create(&threads[0], NULL, replace, two);
    pthread_create(&threads[1], NULL, use, NULL);
    pthread_create(&threads[2], NULL, use, NULL);
    say("wrong: %ld\n", all(threads, 3));
    closefrom(3);
    descriptors("at the end");
    return 0;
}
