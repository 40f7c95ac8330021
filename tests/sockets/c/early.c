/* Calls before any constructor of a library has run, and from within malloc. */
#include "say.h"

static char said_early[4096];
static int early_length;

static void note(const char *what, long result)
{
    early_length += snprintf(said_early + early_length, sizeof said_early - (size_t)early_length, "%s %ld %d\n", what,
                             result, result < 0 ? errno : 0);
}

static void first(void)
{
    char byte;
    int ends[2], tube[2];
    note("pipe", pipe(tube));
    note("write", write(tube[1], "x", 1));
    note("read", read(tube[0], &byte, 1));
    note("close", close(-1));
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    note("send", send(ends[0], "x", 1, 0));
    note("recv", recv(ends[1], &byte, 1, 0));
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    note("wait", waitpid(child, NULL, 0) == child);
    closefrom(3);
}
__attribute__((section(".preinit_array"), used)) static void (*before_all)(void) = first;

static void last(void)
{
    char byte;
    int ends[2];
    tcp(ends);
    SAY(send(ends[0], "x", 1, 0));
    SAY(recv(ends[1], &byte, 1, 0));
}
__attribute__((destructor)) static void after_all(void)
{
    last();
}

int main(void)
{
    say("%s", said_early);
    void *rooms[64];
    for (int at = 0; at < 64; at++)
        rooms[at] = malloc(100 + (size_t)at * 1000);
    for (int at = 0; at < 64; at++)
        free(rooms[at]);
    last();
    return 0;
}
