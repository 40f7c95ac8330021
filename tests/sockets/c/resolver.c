/*
 * A function whose address is asked of a resolver, which opens and closes files: the loader calls it while it relocates, before
 * preloaded libraries are. In three parts: RESOLVER (the library with the function), BETWEEN (one that uses it), and the program.
 */
#ifdef RESOLVER
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static int opened(void) { return 1; }
static int not_opened(void) { return 2; }

static void *resolve(void)
{
    char byte;
    int file = open("/dev/null", O_RDONLY), wrong = open("/no/such/file", O_RDONLY), copy = dup(file), socket_ = socket(AF_INET, SOCK_STREAM, 0);
    int good = file >= 0 && wrong < 0 && copy > file && socket_ > copy && read(file, &byte, 1) == 0 && write(file, "x", 1) < 0;
    good = close(file) == 0 && close(copy) == 0 && close(socket_) == 0 && close(socket_) < 0 && good;
    return good ? (void *)opened : (void *)not_opened;
}

int chosen(void) __attribute__((ifunc("resolve")));
#elif defined BETWEEN
int chosen(void);
int (*pointer)(void) = chosen;
int twice(void) { return pointer() * 10 + chosen(); }
#else
#include "say.h"

int twice(void);

int main(void)
{
    int pair[2];
    char room[4];
    say("chosen: %d\n", twice());
    tcp(pair);
    SAY(write(pair[0], "abc", 3));
    SAY(read(pair[1], room, 4));
    descriptors("at the end");
    return 0;
}
#endif
