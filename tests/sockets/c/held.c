// What a program has the kernel hold back is held back until it says otherwise, both ends in one thread: held.c
#include "say.h"
#include <netinet/tcp.h>

#define FAIL(...) do { say(__VA_ARGS__); _exit(1); } while (0)

static int here, there;

static void corks(int is_on)
{
    if (setsockopt(here, IPPROTO_TCP, TCP_CORK, &is_on, sizeof is_on)) FAIL("cork: %s\n", strerrorname_np(errno));
}

static void sends(const char *bytes, int flags)
{
    size_t length = strlen(bytes);
    if (send(here, bytes, length, flags) != (ssize_t)length) FAIL("send: %s\n", strerrorname_np(errno));
}

static void gets(const char *wanted)
{
    char got[100] = "";
    size_t length = strlen(wanted);
    if (recv(there, got, length, MSG_WAITALL) != (ssize_t)length || memcmp(got, wanted, length)) FAIL("`%s` came, not `%s`\n", got, wanted);
}

static int has_come(int wait)
{
    struct pollfd one = { there, POLLIN, 0 };
    return poll(&one, 1, wait) == 1;
}

static void talks(int rounds)
{
    char line[33];
    for (int round = 0; round < rounds; round++) {
        snprintf(line, sizeof line, "%032d", round);
        sends(line, 0);
        gets(line);
    }
}

enum ways { CORK, CORK_OVER_BYTES, MORE, MORE_OVER_BYTES };

// Whether the first byte was held back until the second one came. The kernel's timer lets it go after a fifth of a second, which a busy machine may take for
// the next line.
static int holds(enum ways way)
{
    int corked = way == CORK || way == CORK_OVER_BYTES, over = way == CORK_OVER_BYTES || way == MORE_OVER_BYTES;
    if (over) sends("before", 0);
    if (corked) corks(1);
    // What was written before comes at once.
    if (over && !has_come(10000)) FAIL("what came before was held back, too\n");
    if (over) gets("before");
    sends("a", corked ? 0 : MSG_MORE);
    int held = !has_come(0);
    sends("b", 0);
    if (corked) corks(0);
    gets("ab");
    talks(20);
    return held;
}

static void tries(const char *name, enum ways way)
{
    int held = 0;
    for (int try = 0; try < 50 && !held; try++) held = holds(way);
    say("%s: %s\n", name, held ? "held back" : "not held back");
}

int main(void)
{
    int pair[2];
    tcp(pair);
    here = pair[0], there = pair[1];
    // From its first byte.
    tries("cork at the beginning", CORK);
    talks(20);
    tries("cork", CORK);
    tries("cork over bytes", CORK_OVER_BYTES);
    tries("more", MORE);
    tries("more over bytes", MORE_OVER_BYTES);
    close(here), close(there);
    tcp(pair);
    here = pair[0], there = pair[1];
    tries("more at the beginning", MORE);
    talks(2000);
    say("every byte came\n");
    return 0;
}
